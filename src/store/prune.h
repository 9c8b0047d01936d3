/* Retention, for both engines: what of a log may go (prune.c). In files it goes with a checkpoint; pg_prune.c is the database's part. */
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

/** What of a log may go. Plain data: the thread pool has no log. */
struct prune {
	bool wanted;
	uint64_t keep_seq; /* events before it */
	int64_t keep_ts; /* and events older than this, in ms since 1970 */
	uint64_t keep_bytes; /* and events in front of so many bytes; 0: those may be any number */
	struct ages ages; /* by which events may be younger than they tell */
	int64_t now;
	uint64_t rewrite_size; /* so many bytes of pruned lines are worth a new file */
	bool sweeps; /* blobs of pruned events go, too */
	struct buffer waiting; /* prompts that wait, as JSON: their blobs stay. Owned */
};
/** Of struct store_engine. */
void prune_look(struct store *store);
/** The same of another engine: `begin` for each log that has something to be pruned, as it seems, and did not want that yet. */
void prune_each_due(struct store *store, void (*begin)(struct session_log *log));
/** Whether that may begin, of a log that wants it. */
bool prune_may_begin(const struct session_log *log);
/** What is to be pruned of it. */
void prune_take(struct session_log *log, struct prune *ret);
/** Says that it has been. */
void prune_tell(const struct session_log *log, uint64_t count);

/** The search for the first event that stays. Any thread. */
struct prune_search {
	const struct prune *prune;
	struct metadata *meta; /* the first that may go; then the answer */
	bool found; /* meta has the first that stays */
	bool may_be_younger; /* as far as is known: it goes if one with a later ts follows */
};
/** The next event, in a line of `len` bytes at `offset`; true: it stays, and that is enough. */
bool prune_search_line(
	struct prune_search *search, uint64_t seq, int64_t ts, uint64_t offset, size_t len);
void prune_init(struct store *store);
void prune_finish(struct store *store);
/** What is to be pruned of a log that is about to be checkpointed; freezes the log then. */
void prune_begin(struct session_log *log, struct prune *ret);
/**
 * Moves first_seq over what may go: changes `meta` and nothing else. The log's file is open as
 * `fd`. Thread pool.
 */
int prune_find(const struct prune *prune, int fd, struct metadata *meta);
/** Whether the file is worth writing anew. */
bool prune_is_due(const struct prune *prune, const struct metadata *meta);
/** Writes events.jsonl without the pruned lines, and changes `meta`. Thread pool. */
int prune_rewrite(int dir_fd, int fd, struct metadata *meta);
/**
 * The log takes what has been pruned, and is thawed. `meta` NULL: nothing was; has_new_file: there
 * is a new file in place.
 */
void prune_end(struct session_log *log, const struct metadata *meta, bool has_new_file);

#endif
