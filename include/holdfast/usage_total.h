/*
 * What agents and producers say they used, as one running total of a session
 * (proto/protocol.md#producers). Pure arithmetic: the same reports give the same total, in whatever
 * order they come within one source, and however often a cumulative one is repeated. The total
 * never falls.
 *
 * A report is the data of a `usage` event: a mode, figures (every member that is a number is one),
 * and perhaps a message_id and a model. What a figure says depends on the mode:
 *
 * - `delta`: so much more than before. Always added; only the event's `key` protects from adding a
 *   repeated one twice. With a message_id it is a part of that message.
 * - `cumulative_in_message`: so much for this message up to now. A message counts with its highest
 *   figure (or the sum of its deltas, if that is more), whatever came between and in any source.
 * - `cumulative`: so much since the source began; of this model if it names one, else of all.
 *
 * A source is one life of what counts: an agent process, a producer's run. What it used is the
 * greater of its highest cumulative figure and the sum of its parts (deltas and messages), for each
 * counter. So a producer may change modes, or send parts and at the end a sum of them: nothing
 * counts twice. A cumulative figure without a model is compared with the sum over all models. The
 * total is the sum over the sources.
 *
 * `used` and `size` are no counters but the state of the context window: the newest one that is not
 * 0 stands. `cost {amount, currency}` is a counter for each currency.
 *
 * Bounds: USAGE_MODELS_MAX, USAGE_COUNTERS_MAX, and USAGE_FIGURE_MAX for a figure and for a total
 * are refused beyond. Of more than USAGE_MESSAGES_MAX messages the one that was longest not heard
 * of is settled: it stays counted, and cumulative figures that come for it later change nothing.
 * Beyond USAGE_SETTLED_MAX settled ones no new message is counted by cumulative figures: the total
 * is then a lower bound, and says `partial`.
 */
#ifndef HOLDFAST_USAGE_TOTAL_H
#define HOLDFAST_USAGE_TOTAL_H

#include "holdfast/usage_report.h"

#include <jansson.h>
#include <stdbool.h>

#define USAGE_MODELS_MAX   64
#define USAGE_MESSAGES_MAX 512
#define USAGE_SETTLED_MAX  32768

struct usage_total;

struct usage_total *usage_total_create(void);
struct usage_total *usage_total_copy(const struct usage_total *total);
/** Accepts NULL. */
void usage_total_destroy(struct usage_total *total);
/** Nothing was ever reported: it is as usage_total_create() makes it. */
bool usage_total_is_empty(const struct usage_total *total);
/** Of two of the same history: whether `total` has counted less than `other` in some counter. */
bool usage_total_is_behind(const struct usage_total *total, const struct usage_total *other);

/**
 * Whether the total could take this report: refused where a bound would be passed. Of a figure that
 * would bring its counter above USAGE_FIGURE_MAX if all of it were new, it says so too.
 */
int usage_total_check(const struct usage_total *total, const struct usage_report *report,
	struct refusal *refusal);
/**
 * Adds a report. Returns 1 if what usage_total_json() gives has changed, 0 if not, and -ENOSPC
 * where usage_total_check() refuses; then nothing has changed.
 */
int usage_total_add(struct usage_total *total, const struct usage_report *report);

/**
 * What counts begins again: an agent process was started, a run began. `resumed`: it goes on with a
 * session that an earlier one had, and may count on from there (an agent after session/load) or
 * from 0. Its first cumulative figure that is not 0 tells: it goes on if that is no lower than the
 * last one of the source before.
 */
void usage_total_new_source(struct usage_total *total, bool resumed);

/**
 * The total, for `state`: `{used?, size?, <counters>, cost?, more_costs?, models?, partial?}`;
 * `models` has the counters of each model that was named. A new reference; JSON null if nothing was
 * reported.
 */
json_t *usage_total_json(const struct usage_total *total);

/* Of what usage_total_save() makes; older ones are read, the one before at least. */
#define USAGE_SAVE_VERSION 1
/** Everything, for the session's saved state; a new reference. */
json_t *usage_total_save(const struct usage_total *total);
/** Reads it back; -EBADMSG if it is not what usage_total_save() can have made. */
int usage_total_load(const json_t *saved, struct usage_total **ret_total);

#endif
