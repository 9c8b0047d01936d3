/*
 * The running total of the usage that agents and producers report for a session
 * (proto/protocol.md#producers). Pure arithmetic: the same reports give the same total, in whatever
 * order they come within one source, and however often a cumulative one is repeated. The total
 * never falls.
 *
 * A report is the data of a `usage` event: a mode, figures (every member that is a number), and
 * optionally a message_id and a model. The meaning of a figure depends on the mode:
 *
 * - `delta`: the increase since the last report. Always added: only the event's `key` protects
 *   against adding a repeated one twice. With a message_id it is a part of that message.
 * - `cumulative_in_message`: the amount for this message up to now. A message counts with its
 *   highest figure (or the sum of its deltas, if that is more), across all sources.
 * - `cumulative`: the amount since the source began; of the model if it names one, else of all.
 *
 * A source is one life of whatever counts: an agent process, a producer's run. For each counter, a
 * source has used the greater of its highest cumulative figure and the sum of its parts (deltas and
 * messages). So a producer may change modes, or send parts and finally their sum: nothing counts
 * twice. A cumulative figure without a model is compared with the sum over all models. The total is
 * the sum over the sources.
 *
 * `used` and `size` are not counters: they describe the context window, and the newest value that
 * is not 0 applies. `cost {amount, currency}` is one counter per currency.
 *
 * Limits: reports beyond USAGE_MODELS_MAX, USAGE_COUNTERS_MAX, or USAGE_FIGURE_MAX (for a figure
 * and for a total) are refused. If there are more than USAGE_MESSAGES_MAX messages, the least
 * recently reported one is settled: it remains counted, but later cumulative figures for it have no
 * effect. Beyond USAGE_SETTLED_MAX settled messages, cumulative figures for new messages are not
 * counted; the total is then a lower bound, and marked `partial`.
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
/** Whether nothing was ever reported. */
bool usage_total_is_empty(const struct usage_total *total);
/** For two totals of one history: whether `total` has counted less than `other` in any counter. */
bool usage_total_is_behind(const struct usage_total *total, const struct usage_total *other);

/**
 * Checks whether the total can take this report. Returns 0, or a negative value with `refusal` set
 * if a limit would be exceeded. Assumes the worst: that every figure is added to its counter in
 * full.
 */
int usage_total_check(const struct usage_total *total, const struct usage_report *report,
	struct refusal *refusal);
/**
 * Adds a report. Returns 1 if usage_total_json() has changed, 0 if not, or -ENOSPC, having changed
 * nothing, if usage_total_check() refuses it.
 */
int usage_total_add(struct usage_total *total, const struct usage_report *report);

/**
 * Begins a new source: an agent process was started, a run began. `resumed`: it continues a session
 * of an earlier process, and may count on from there (an agent after session/load) or from 0. Its
 * first cumulative figure that is not 0 decides: it counts on if that is not lower than the last
 * one of the source before.
 */
void usage_total_new_source(struct usage_total *total, bool resumed);

/**
 * The total as clients see it: `{used?, size?, <counters>, cost?, more_costs?, models?, partial?}`;
 * `models` has the counters of each model that was named. Returns a new reference; JSON null if
 * nothing was reported.
 */
json_t *usage_total_json(const struct usage_total *total);

/* The format of usage_total_save(). Older ones must remain readable, at least the one before. */
#define USAGE_SAVE_VERSION 1
/** Everything needed to continue counting, as JSON; a new reference. */
json_t *usage_total_save(const struct usage_total *total);
/** Reads that back; -EBADMSG if usage_total_save() cannot have made it. */
int usage_total_load(const json_t *saved, struct usage_total **ret_total);

#endif
