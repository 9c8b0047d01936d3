/*
 * Internals of the store above the seam (engine.h): the structs that all engines share. What an
 * engine alone needs of a log or a store is behind `engine_data` and `engine_state`.
 */
#ifndef HOLDFAST_STORE_INTERNAL_H
#define HOLDFAST_STORE_INTERNAL_H

#include "ages.h"
#include "aside.h"
#include "checksum.h"
#include "disk_io.h"
#include "engine.h"
#include "holdfast/metadata.h"
#include "holdfast/log_names.h"
#include "prune.h"

#include "holdfast/buffer.h"
#include "disk.h"
#include "holdfast/hash.h"
#include "holdfast/list.h"
#include "core/base/pool.h"
#include "holdfast/store.h"
#include "holdfast/store_files.h"
#include "holdfast/worker.h"

/** The names of a log. */
struct log_keys {
	uint64_t size; /* bytes of lines that the engine has */
	uint64_t input_names; /* the number of names given by inputs over the session's life */
	struct buffer unwritten; /* lines that it does not have yet */
	struct name_table names; /* all names, or none: they are not in memory */
	void *job; /* of the engine, which reads the names; or NULL */
	int error; /* of the last attempt to read them; 0: it succeeded */
	struct list waits; /* struct names_wait */
	struct buffer found; /* the result of the last lookup */
	bool is_told; /* that some are lost; it counts as damaged */
	bool is_remade; /* the file was damaged, and was made anew */
	uint64_t recovered; /* names whose lines were lost, and that the journal had */
	/* Recovery: the names of inputs that gave events up to this one are in the file, or replayed. */
	uint64_t known_to;
	struct buffer replayed; /* lines of names, until the others are in memory */
	uint64_t doubtful; /* names that may have been in records that are gone */
};

struct session_log {
	struct store *store;
	struct list link; /* store.logs */
	void *owner;
	char *id;
	uint64_t epoch;
	int64_t created_at;
	int64_t updated_at;
	uint64_t snapshot_round; /* the store.snapshot_round of its newest snapshot */
	uint64_t fence; /* grows with each server that takes the session over */
	uint64_t last_record; /* the number of its newest record, from 1 */
	void *engine_data; /* the engine's own part */
	bool rewind; /* see session_log_rewind() */
	bool is_hidden; /* it is not found by its id any more */
	bool is_removed; /* it is in no table or list any more */
	bool is_mirror; /* another server has the session: see session_log_mirror() */
	bool dirty; /* changed since its last checkpoint */

	uint64_t first_seq; /* the first event that is not pruned */
	uint64_t first_at; /* offset of its line in the file */
	int64_t first_ts; /* its ts; 0 if the log is empty */
	uint64_t base_seq; /* of the first line in the file */
	uint64_t last_seq;
	uint64_t size; /* of the log, including unwritten lines */
	uint64_t written; /* bytes that are in the file */
	bool wants_prune; /* prune with its next checkpoint */
	void *facts; /* see store.ops->facts */
	struct log_keys keys;

	/* The hot tail: the newest events, up to last_seq (a ring). */
	struct event **hot;
	size_t hot_capacity;
	size_t hot_head;
	size_t hot_count;
	size_t hot_size; /* bytes of JSON */
	uint64_t hot_offset; /* offset of the line of its first event */

	uint64_t digest; /* of its id, for store.by_id */
	struct session_log *next_in_chain;

	uint64_t damage_from; /* the range that the newest read with damage found; 0: none has */
	uint64_t damage_to;

	char room[40]; /* holds the id if it fits */
};

/** Logs by their ids: a hash table with chains, and the pool that the logs live in. */
struct log_table {
	struct session_log **chains; /* `chain_count` of them, a power of two */
	size_t chain_count;
	size_t count;
	uint64_t seed;
	struct pool pool; /* struct session_log */
};

/** What is written to the data directory: store_room.c. */
struct store_use {
	uint64_t written; /* bytes of groups that the engine has written */
	uint64_t others; /* bytes written by others: store_note_others() */
	struct store_room *room; /* NULL: max_disk is not set */
};

/** How the wall clock was set: store_clock.c. */
struct store_clock {
	struct ages ages;
	bool is_unwritten; /* `ages` has changes that are not in clock.json yet */
	bool is_writing; /* clock.json is being written */
	bool is_unknown; /* clock.json could not be read: it is not overwritten */
};

struct store {
	uv_loop_t *loop;
	const struct limits *limits;
	const struct store_ops *ops;
	void *owner;
	struct metrics *metrics; /* NULL: nothing is counted */
	struct store_use use;
	int dir_fd; /* where the server keeps files; the embedded engine's data directory */
	struct list logs;
	struct log_table by_id;
	struct hash *aside; /* struct aside, by id */
	uv_timer_t *prune_timer;
	unsigned jobs; /* on the thread pool and the renderer's thread, and queued pages */
	struct renderer *renderer;
	struct blobs blobs;
	struct store_clock clock;
	const struct store_engine *engine;
	void *engine_state; /* the same, of the store */
	uint64_t synced_lsn; /* of the newest group that is durable */
	int error; /* negative errno while groups cannot be made durable */
	uint64_t snapshot_round; /* grows when every session needs a new snapshot */
	bool takes_snapshots; /* snapshots may be appended even while inputs are refused */
	bool is_rewinding; /* the engine reads the records for session_log_rewind() */
	bool is_replaying; /* events and names that the owner adds are in the journal already */
	bool takes_older; /* see struct store_place */
	bool journal_is_damaged; /* see store_journal_is_damaged() */
	size_t damaged; /* see store_count_damaged() */
	bool opening; /* recovery is in progress: everything runs on this thread and blocks */
	struct server_life *life;
};

/* store.c */
/** Adds to the number of sessions known to be damaged; `count` may be negative. */
void store_add_damaged(struct store *store, int count);

/* session_log.c */
/** Makes a log, and adds it to the store. Takes over the facts. */
struct session_log *session_log_new(
	struct store *store, const char *id, uint64_t epoch, int64_t created_at, void *facts);
void session_log_free(struct session_log *log);
/** Gets the log with this id and epoch; NULL if it is gone, or another session has the id now. */
struct session_log *session_log_of(struct store *store, const char *id, uint64_t epoch);
/** Removes the log from the table: it is not found by its id any more, and another may have it. */
void session_log_hide(struct session_log *log);
/** Removes the log from all tables and lists, before it is freed. */
void session_log_unlist(struct session_log *log);
/** Adds the next event, which is durable, to the log in memory. */
void session_log_take(struct session_log *log, struct event *event, int64_t ts);
/** Drops the oldest events of the hot tail beyond its limit, except those not in the file yet. */
void session_log_trim(struct session_log *log);
/** Adds the log's newest event to the hot tail; takes a reference of its own. */
void session_log_keep(struct session_log *log, struct event *event);
/** Updates the log's facts, names and numbers for its next event, a line of `len` bytes. */
void session_log_count(struct session_log *log, const struct event_view *view, size_t len);
/** Drops events before `seq`, which are in the file, from the hot tail. */
void session_log_forget_before(struct session_log *log, uint64_t seq);
/** The first seq of the hot tail; last + 1 if it is empty. */
uint64_t session_log_hot_first(const struct session_log *log);
/** The last seq whose line is completely in the file; *ret_end is the offset of its end. */
uint64_t session_log_last_written(const struct session_log *log, uint64_t *ret_end);
/** An event of the hot tail. */
struct event *session_log_hot_at(const struct session_log *log, uint64_t seq);
/** A range of consecutive events that cannot be read. */
struct gap {
	uint64_t from; /* 0: no gap */
	uint64_t to;
	int64_t ts; /* of the event before the gap; else of the one after it; else 0 */
};
/** A read found this gap in the log. The session counts as damaged from then on. */
void session_log_note_damage(struct session_log *log, const struct gap *gap);

/* log_table.c */
void log_table_init(struct log_table *table);
/** The table must be empty. */
void log_table_finish(struct log_table *table);
struct session_log *log_table_get(const struct log_table *table, const char *id, size_t len);
void log_table_put(struct log_table *table, struct session_log *log);
void log_table_remove(struct log_table *table, struct session_log *log);

/* log_keys.c */
/** Adds a name; `log` is a struct session_log. */
void log_keys_add(void *log, const struct log_name *name);
/**
 * Adds the nth name given by inputs, unless the log has it; its input is durable. While the store is
 * opened, also one that the log should have and lacks.
 */
void log_keys_add_input(struct session_log *log, uint64_t nth, const struct log_name *name);
/** Recovery has replayed the inputs up to this event, and so has their names. */
void log_keys_note_replayed(struct session_log *log, uint64_t seq);
/**
 * After a replay that lacks records: the log may have events behind them, whose inputs may have given
 * names. As many names count as lost as there are such events. Returns whether there are some.
 */
bool log_keys_doubt(struct session_log *log);
/** Says, once the store is open, that names are lost: appends that need them are refused. */
void log_keys_tell_missing(struct session_log *log);
/** Before the log is freed: ends the waits for its names. */
void log_keys_finish(struct log_keys *keys);
/** Drops the names from memory; they are read again for the next lookup. */
void log_keys_rest(struct log_keys *keys);

/* store_clock.c */
/** Member of struct store_engine. */
int64_t store_clock_now(struct store *store);
/* What a start says of the journal, and holdfast verify. */
#define RECORD_UNKNOWN \
	"it is not known of which session, as neither a folder nor a record tells its id. What is lost is an input of it, or the whole session"
#define JOURNAL_HEADLESS "has no good header, although batches follow"
/* What a start says of it, and holdfast verify. */
#define CLOCK_DAMAGED "its record of when the clock was set is lost, and it is made anew"
#define CLOCK_UNREAD  "no events are pruned by age until it can be read, or is removed, at a start"
/** Returns 0, -ENOENT if there is no clock.json, -EBADMSG if it is damaged, or another errno. */
int store_clock_read(int dir_fd, struct ages *ret);
/** Reads clock.json; at the start. */
void store_clock_begin(struct store *store);
/** Writes clock.json if it is outdated. Blocks; at the start and before closing. */
void store_clock_write(struct store *store);
/** Whether the wall clock is trusted enough to prune events by age. */
bool store_clock_is_trusted(struct store *store);

/* store_room.c */
/** Called once the store is recovered. Measures the data directory, which blocks. */
void store_room_begin(struct store *store);
void store_room_finish(struct store *store);

#endif
