/*
 * The store: what makes an input durable, and where events stay. This is the one interface; the
 * embedded engine behind it keeps a journal (inputs of all sessions, one fdatasync a batch) and for
 * each session a log (its events, one a line). The formats are in proto/store-format.md.
 *
 *   DIR/lock                         held by the one server that uses DIR
 *   DIR/journal/<number>.journal     inputs, in the order in which they were received
 *   DIR/sessions/<id>/events.jsonl   events, in seq order
 *   DIR/sessions/<id>/metadata.json  epoch, max_seq, created_at, title
 *   DIR/set-aside/, DIR/trash/       damaged sessions; deleted ones until their files are gone
 *
 * Data goes one way: record -> gathered batch -> disk -> synced() -> the session appends the events
 * that the record completed to its log. All functions run on the loop's thread; syncs, cold reads
 * and checkpoints run on libuv's thread pool.
 */
#ifndef HOLDFAST_STORE_H
#define HOLDFAST_STORE_H

#include "holdfast/event.h"
#include "holdfast/limits.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct store;
struct session_log;
struct log_read;

enum record_kind {
	RECORD_CREATE = 1, /* a session; data: {"title": …} */
	RECORD_DELETE = 2,
	RECORD_INPUT = 3, /* an input event */
	RECORD_PROMPT =
		4, /* a prompt of a controller: becomes user_prompt, now or when its turn comes */
	RECORD_FLUSH = 5, /* what a timer decided */
	RECORD_SNAPSHOT = 6, /* a session's whole state: its first record in every segment */
};

/** One journal record; bytes are borrowed. */
struct record {
	enum record_kind kind;
	const char *id; /* session */
	size_t id_len; /* at most 128 */
	uint64_t epoch;
	int64_t ts; /* ms since 1970 */
	const char *data;
	size_t data_len;
};

struct store_ops {
	/** All records up to `lsn` are on disk. */
	void (*synced)(void *owner, uint64_t lsn);
	/**
	 * The journal cannot be written: records after the last synced() are lost, and more are
	 * refused until revived(). The owner takes back what they did: store_rewind().
	 */
	void (*failed)(void *owner, int error);
	/** It is about to be tried again: a negative errno if not all is taken back yet. */
	int (*rewind)(void *owner);
	/** The journal can be written again. */
	void (*revived)(void *owner);
	/** A new segment begins: append a snapshot of every session that is not idle. */
	void (*rotated)(void *owner);

	/* Recovery, inside store_open(). */
	/** A session is on disk. Returns its owner. */
	void *(*found)(void *owner, struct session_log *log);
	/** One event of its log, in order. */
	void (*event)(void *session, const struct event_view *view);
	/** One journal record of it, also by store_rewind(). -EBADMSG sets the session aside. */
	int (*replay)(void *session, const struct record *record);
	/** The session turned out to be damaged and is set aside: forget it. */
	void (*lost)(void *session);
};

enum store_durability {
	DURABILITY_FSYNC, /* synced() means on disk */
	DURABILITY_WRITE, /* synced() means handed to the kernel: survives us, not the machine */
};

/**
 * Opens (and makes) a data directory, takes its lock and recovers what is in it. Blocks. Returns
 * -EBUSY when another server holds the lock, -EBADMSG when the journal is damaged where no crash
 * can damage it, or another negative errno; *ret_store is set before the first of the ops is
 * called; *ret_why (caller frees) says what and what to do.
 */
int store_open(uv_loop_t *loop, const char *dir, enum store_durability durability,
	const struct limits *limits, const struct store_ops *ops, void *owner,
	struct store **ret_store, char **ret_why);
/**
 * Writes and syncs what is gathered, checkpoints, gives the lock back and frees the store with all
 * its logs. Blocks; calls synced() for the last time. No read may be under way. Accepts NULL.
 */
void store_close(struct store *store);

/**
 * Gathers a record for the next batch. Returns its lsn (> 0, growing) or a negative errno once the
 * store has failed.
 */
int64_t store_append(struct store *store, const struct record *record);
/**
 * After failed(), for the sessions that session_log_want_rewind() was called for: gives the owner
 * of each the records again that are on disk, by replay(). A negative errno if they cannot be read.
 */
int store_rewind(struct store *store);
void session_log_want_rewind(struct session_log *log);
/** Starts the sync of what is gathered unless one is in flight. Called once a loop turn. */
void store_kick(struct store *store);
/** All records up to this one are on disk. */
uint64_t store_synced_lsn(const struct store *store);
/** All records up to this one are on disk or on their way. */
uint64_t store_flight_lsn(const struct store *store);
/**
 * Writes and syncs everything gathered, with synced() for it. Blocks; for shutdown. A negative
 * errno if the journal could not be written.
 */
int store_sync(struct store *store);
/** The number of the segment that records go to now: grows when the journal is rotated. */
uint64_t store_segment(const struct store *store);
/** Bytes that wait for the disk. */
size_t store_backlog(const struct store *store);

/**
 * Makes the folder and files of a new session; not yet durable, a RECORD_CREATE makes it so.
 * Returns -EEXIST if there is such a folder.
 */
int store_create_session(struct store *store, const char *id, uint64_t epoch, const char *title,
	int64_t created_at, struct session_log **ret_log);
/**
 * The session's RECORD_CREATE is on disk: from now on its folder says whose it is. Until then it
 * tells nothing that a refused creation could leave behind.
 */
void session_log_confirm(struct session_log *log);
/** Whom replay() is called for. */
void session_log_set_owner(struct session_log *log, void *owner);
/** Takes the session's folder away (after its RECORD_DELETE is synced) and frees the log. */
void store_remove_session(struct session_log *log);

/** For records from now on; session_log_save_epoch() makes it the session's on disk. */
void session_log_set_epoch(struct session_log *log, uint64_t epoch);
/** Blocks. Afterwards the journal's records of another epoch do not count any more. */
int session_log_save_epoch(struct session_log *log);

const char *session_log_id(const struct session_log *log);
uint64_t session_log_epoch(const struct session_log *log);
const char *session_log_title(const struct session_log *log);
int64_t session_log_created_at(const struct session_log *log);
int64_t session_log_updated_at(const struct session_log *log);
/** Seqs of the first and the last event in the log; last is first - 1 when it is empty. */
uint64_t session_log_first_seq(const struct session_log *log);
uint64_t session_log_last_seq(const struct session_log *log);

/** Takes the next event (its seq must be last + 1) with a reference of its own. */
void session_log_append(struct session_log *log, struct event *event, int64_t ts);
/**
 * Writes appended events to events.jsonl. Returns a negative errno if the file could not take them:
 * they stay in memory (and in the journal) and are tried again with the next flush.
 */
int session_log_flush(struct session_log *log);
/** Syncs events.jsonl and writes metadata.json, on the thread pool; at the end of a turn. */
void session_log_checkpoint(struct session_log *log);

/**
 * Up to `count` events from `from` on, no more than about `max_bytes` of them, if all are in
 * memory: puts them with a reference each into `events` and returns how many; 0 if the first one is
 * not in memory.
 */
size_t session_log_get_hot(struct session_log *log, uint64_t from, size_t count, size_t max_bytes,
	struct event **events);
/**
 * The first seq from `from` on with which the events up to `to` are at most about `max_bytes` long.
 */
uint64_t session_log_page_start(
	const struct session_log *log, uint64_t from, uint64_t to, size_t max_bytes);
/**
 * Reads the same from disk, on the thread pool, and then calls `done` with the events (whose
 * references it takes over; the array is freed after it returns) or status < 0. Returns NULL only
 * if `from` is not in the log.
 */
typedef void (*log_read_done)(void *arg, int status, struct event **events, size_t count);
struct log_read *session_log_read(struct session_log *log, uint64_t from, size_t count,
	size_t max_bytes, log_read_done done, void *arg);
/** `done` will not be called. */
void log_read_cancel(struct log_read *read);

#endif
