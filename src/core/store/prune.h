/* Retention: which events of a log may be pruned, for all engines. */
#ifndef HOLDFAST_STORE_PRUNE_H
#define HOLDFAST_STORE_PRUNE_H

#include "ages.h"

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct metadata;
struct session_log;
struct store;

/** Which events of a log may be pruned. Plain data, as the thread pool has no access to logs. */
struct prune {
	bool wanted;
	uint64_t keep_seq; /* events before this one may be pruned, */
	int64_t keep_ts; /* also events older than this (ms since 1970), */
	uint64_t keep_bytes; /* and events before the last `keep_bytes` bytes; 0: no such limit */
	struct ages ages; /* corrects the ages of events */
	int64_t now;
	uint64_t rewrite_size; /* rewrite the file if it has this many bytes of pruned lines */
	bool sweeps; /* delete blobs of pruned events, too */
	struct buffer waiting; /* queued prompts, as JSON, whose blobs must stay; owned */
};
/** The timer that calls store_prune(). */
void prune_init(struct store *store);
void prune_finish(struct store *store);
/** Sets wants_prune of each log that seems to have events to prune, and calls `begin` for it. */
void prune_each_due(struct store *store, void (*begin)(struct session_log *log));
/** Whether pruning a log that wants it may begin now. */
bool prune_may_begin(const struct session_log *log);
/** Determines which events of the log may be pruned. */
void prune_take(struct session_log *log, struct prune *ret);
/** Writes a message about `count` events that were pruned. */
void prune_tell(const struct session_log *log, uint64_t count);

/** The search for the first event to keep. Any thread. */
struct prune_search {
	const struct prune *prune;
	struct metadata *meta; /* first_seq, first_at and first_ts: the start, then the result */
	bool found; /* the result is an event to keep */
	bool may_be_younger; /* its age is unknown: prune it if an event with a later ts follows */
};
/** Looks at the next event, a line of `len` bytes at `offset`. Returns true to end the search. */
bool prune_search_line(
	struct prune_search *search, uint64_t seq, int64_t ts, uint64_t offset, size_t len);

#endif
