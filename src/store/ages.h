/*
 * How old events are, although the wall clock that gave them their `ts` may have been wrong. When
 * it is set by more than an hour (against the clock that nobody sets), what it showed before, since
 * the machine was started, was wrong by so much: that is remembered in clock.json
 * (proto/store-format.md), and counts for the age of events from then on.
 *
 * An error is on the side of keeping: where a ts may be of one time or another, it is the later.
 */
#ifndef HOLDFAST_AGES_H
#define HOLDFAST_AGES_H

#include "holdfast/buffer.h"
#include "holdfast/clock.h"

#include <stddef.h>

#define AGES_STEPS_MAX 32

/** Events with a ts from `from` to `to` were received `shift` ms later than that tells. */
struct age_step {
	int64_t from;
	int64_t to;
	int64_t shift; /* below 0: earlier, the clock was ahead */
	bool is_of_boot; /* of this start of the machine: another step changes it again */
};

struct ages {
	char boot_id[CLOCK_BOOT_ID_SIZE];
	int64_t offset; /* the wall clock's time when the machine was started, as it tells now */
	int64_t told_from; /* the first time that it told with this offset */
	int64_t agreed_at; /* clock_elapsed_ms() since which, as far as we know, it was not set */
	struct age_step steps[AGES_STEPS_MAX];
	size_t count;
};

/** Nothing is known of earlier times. */
void ages_init(struct ages *ages, const struct clock *clock);
/**
 * Goes on with what was written: `ages` has been parsed. Returns whether it has changed, and is to
 * be written again.
 */
bool ages_resume(struct ages *ages, const struct clock *clock);
/** Looks at the clocks. Returns by how much the wall clock was set; 0: not, or by an hour at most.
 */
int64_t ages_see(struct ages *ages, int64_t now, int64_t elapsed);
/** When an event was received, at the latest, in ms since 1970 as the wall clock tells it now. */
int64_t ages_true_ts(const struct ages *ages, int64_t ts, int64_t now);

/** The line of clock.json, and back: -EBADMSG if it is damaged, -ENOTSUP of another format. */
void ages_append(const struct ages *ages, struct buffer *out);
int ages_parse(const char *line, size_t len, struct ages *ret);

#endif
