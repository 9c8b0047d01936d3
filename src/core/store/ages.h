/*
 * The age of events, corrected for a wall clock that was wrong when it gave them their `ts`. If the
 * wall clock is set by more than an hour (compared with the boot-time clock, which cannot be set),
 * all times that it showed since the machine was booted were wrong by that amount. The correction
 * is kept in clock.json (proto/store-format.md), and applies to the age of events from then on.
 *
 * In doubt events are kept: if a ts may stand for two times, the later one is assumed.
 */
#ifndef HOLDFAST_AGES_H
#define HOLDFAST_AGES_H

#include "holdfast/buffer.h"
#include "holdfast/clock.h"

#include <stddef.h>

#define AGES_STEPS_MAX 32

/** A correction: events with a ts from `from` to `to` were really received `shift` ms later. */
struct age_step {
	int64_t from;
	int64_t to;
	int64_t shift; /* negative: earlier, as the clock was ahead */
	bool is_of_boot; /* made since the machine was booted: later steps change it again */
};

/** All times in ms. */
struct ages {
	char boot_id[CLOCK_BOOT_ID_SIZE];
	int64_t offset; /* time of the boot, by the wall clock as it is set now */
	int64_t told_from; /* the first time that the wall clock showed with this offset */
	int64_t agreed_at; /* clock_elapsed_ms() since when the wall clock is known not to be set */
	struct age_step steps[AGES_STEPS_MAX];
	size_t count;
};

/** Begins without corrections. */
void ages_init(struct ages *ages, const struct clock *clock);
/**
 * Continues with ages that were parsed from clock.json. Returns whether they have changed and must
 * be written again.
 */
bool ages_resume(struct ages *ages, const struct clock *clock);
/**
 * Compares the wall clock (`now`) with the boot-time clock (`elapsed`). Returns by how much the
 * wall clock was set; 0 if it was not, or by an hour at most.
 */
int64_t ages_see(struct ages *ages, int64_t now, int64_t elapsed);
/** The latest time at which an event with this ts may have been received, by the current clock. */
int64_t ages_true_ts(const struct ages *ages, int64_t ts, int64_t now);

/** Appends the line of clock.json. */
void ages_append(const struct ages *ages, struct buffer *out);
/** Parses it; -EBADMSG if it is damaged, -ENOTSUP if its format is another. */
int ages_parse(const char *line, size_t len, struct ages *ret);

#endif
