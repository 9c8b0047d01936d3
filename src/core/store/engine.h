/*
 * The seam between the store and its engines. The part above is common to all engines: the order of
 * records, the part of a log that is in memory (its newest events, its names), pages, waiters. An
 * engine keeps the durable part: records in groups, each with the events that they complete and the
 * names that they give. The embedded engine (embedded.c) uses files, tests/support/memory_engine.c
 * memory.
 *
 * All functions run on the loop's thread, and do not block unless noted. Results are reported in
 * later ticks of the loop, and never for a log that has been removed.
 */
#ifndef HOLDFAST_ENGINE_H
#define HOLDFAST_ENGINE_H

#include "blobs.h"
#include "holdfast/log_names.h"
#include "core/store/html/renderer.h"

#include "holdfast/buffer.h"
#include "holdfast/store.h"

#include <stdatomic.h>

struct log_coming {
	struct event *event; /* with a reference; other threads may read its bytes */
	int64_t ts;
};

/** The events and names that a group's records add to one log once the group is durable. */
struct log_part {
	struct list link; /* the engine's */
	struct session_log *log;
	struct log_coming *events;
	size_t count;
	size_t capacity;
	struct buffer names; /* struct coming_name of log_part.c */
	struct buffer name_keys;
};

/** A read of events that are not in memory. */
struct log_read {
	struct store *store;
	char *id; /* not a pointer to the log, which may be freed meanwhile */
	uint64_t epoch;
	/* The log, if it is a mirror, which is in no table; valid until cancelled. Else NULL. */
	struct session_log *mirror;
	struct log_page page; /* without the part that is in memory */
	log_read_done done; /* NULL once cancelled */
	void *arg;
	atomic_bool is_unwanted; /* the same, for other threads */
	size_t count; /* events of the page */
	size_t max_bytes; /* of them; at least one event, unless `hot` has some */
	int status; /* this and all below, up to `bytes`: the engine's result */
	struct event **events; /* room for `count` and those of `hot`; with references */
	size_t got;
	size_t bytes; /* of their lines */
	struct event **hot; /* the events from memory that follow */
	size_t hot_count;
	struct page_render render;
};

struct aside;

/** What an engine does that several servers, the nodes, can share. */
struct engine_nodes_ops {
	/** See store_node_key(). */
	const unsigned char *(*key)(const struct store *store);
	/** See store_seek(). */
	void (*seek)(struct store *store, const char *id, struct place_wait *wait);
	/** See store_has_lease(). */
	bool (*has_lease)(const struct store *store);
	/** See store_shelf(). */
	const struct shelf *(*shelf)(struct store *store);
	/** See session_log_number(). */
	uint64_t (*number)(const struct session_log *log);
	/** Prepares a mirror of the log with this number for read(); drop() releases it. */
	void (*mirror)(struct session_log *log, uint64_t number);
	/** See store_hand_over(); everything has been gathered. */
	void (*hand_over)(struct store *store);
	/** See store_hand_over_most(). */
	void (*hand_over_most)(
		struct store *store, bool (*stays)(void *arg, const char *id), void *arg);
};

/**
 * How an engine keeps images and files of sessions (blobs). Called on any thread while store->jobs
 * counts the work; all of them block.
 */
struct engine_blobs_ops {
	/** Appends bytes to the upload with this number. */
	int (*write)(
		struct store *store, uint64_t number, const char *bytes, size_t len, bool is_first);
	/**
	 * Makes the upload, durably, a blob of a session. Returns -ENOENT if the engine does not
	 * have that session, or not yet.
	 */
	int (*keep)(struct store *store, uint64_t number, const struct blob_place *place,
		bool *ret_is_new);
	void (*drop)(struct store *store, uint64_t number);
	/**
	 * Returns a descriptor to read the blob from, whose bytes have been compared with its name.
	 * -ENOENT if there is none, -EBADMSG if it has other bytes, or another negative errno.
	 */
	int (*open)(struct store *store, const struct blob_place *place);
};

/** An engine. Two tables and two operations are optional: those that may be NULL. */
struct store_engine {
	enum storage_kind storage;
	/**
	 * Makes a log for each session with session_log_new(), gives the owner its records with
	 * store_replay(), and then calls store_recovered(). Blocks.
	 */
	int (*open)(struct store *store, const struct store_place *place, char **ret_why);
	/** Ends all work, see store_close(). Blocks. */
	bool (*close)(struct store *store);
	/** Called after close() or a failed open(), when all logs have been freed. */
	void (*free)(struct store *store);

	/**
	 * Gathers a record. The log has the record's number and the session's fence. If the fence
	 * is outdated when the group is made durable, another server has taken the session over:
	 * nothing of it changes, and store_fenced() is called. Returns the group's lsn, or -EEXIST
	 * for a RECORD_CREATE if a session that cannot be read has this id.
	 */
	int64_t (*append)(struct session_log *log, const struct record *record);
	/** The part for the events and names that the newest record adds to the log. */
	struct log_part *(*part)(struct session_log *log);
	/**
	 * Starts making the gathered group durable, unless another one is in flight. If it
	 * succeeds, log_part_land() for each part and store_synced() follow, else store_failed().
	 * If the result is lost, the engine finds out first which it was. A group is durable as a
	 * whole, except for sessions with an outdated fence.
	 */
	void (*launch)(struct store *store);
	/** Blocks until everything gathered is durable; returns a negative errno if that fails. */
	int (*sync)(struct store *store);
	/** Bytes gathered or in flight. */
	size_t (*backlog)(const struct store *store);
	/** Replays the records of the logs with `rewind` set; store_rewound() follows. */
	void (*rewind)(struct store *store);

	/** Reads events; log_read_end() follows, not inside this call. */
	void (*read)(struct session_log *log, struct log_read *read);
	/**
	 * Reads the names; log_keys_loaded() follows. With `now`, inside this call, which blocks.
	 */
	int (*load_names)(struct session_log *log, bool now);

	/** Starts making the log and its facts durable independently of the records. */
	void (*save)(struct session_log *log);
	/** Returns 0 if the engine has all of the log, so that it can be released from memory. */
	int (*rest)(struct session_log *log);
	/** Deletes the session once the gathered group is durable, and frees its log. */
	void (*remove)(struct session_log *log);
	/**
	 * The log is about to be freed; nothing is in flight for it. Frees engine_data, which is
	 * NULL if the session's RECORD_CREATE was refused.
	 */
	void (*drop)(struct session_log *log);
	/** See session_log_change_epoch(). Blocks. */
	int (*change_epoch)(
		struct session_log *log, uint64_t epoch, int64_t ts, const struct buffer *snapshot);
	/** See store_now() and store_prune(). */
	int64_t (*now)(struct store *store);
	void (*prune)(struct store *store);
	/** Whether a session with this id is STORE_UNREADABLE. */
	bool (*is_left_out)(const struct store *store, const char *id, size_t len);
	/**
	 * Deletes a damaged session, durably. Called on any thread while store->jobs counts the
	 * work; blocks. -EAGAIN: not now.
	 */
	int (*delete_aside)(struct store *store, const struct aside *aside);

	/**
	 * Adds an event that a replayed record completes, and that the log lacks. NULL: a record is
	 * never durable without its events.
	 */
	void (*replayed)(struct session_log *log, struct event *event, int64_t ts);
	/** See session_log_again(); NULL: nobody needs it. */
	void (*again)(struct session_log *log, const struct event_view *view);
	/** NULL: it keeps no blobs, and nobody may send one. */
	const struct engine_blobs_ops *blobs;
	/** NULL: the engine is never shared. */
	const struct engine_nodes_ops *nodes;
};

/** embedded.c: a data directory. */
extern const struct store_engine store_embedded;

/* store.c: called by engines */
/** Gives the owner a record that is durable. */
int store_replay(struct session_log *log, const struct record *record);
/** Recovery has read everything: tells the owner, and gathers snapshots. */
void store_recovered(struct store *store);
/**
 * From now on each session needs a snapshot before its next record. Those that cannot be restored
 * without one append it at once.
 */
void store_take_snapshots(struct store *store);
/** The group with this lsn, and all before it, are durable. */
void store_synced(struct store *store, uint64_t lsn);
/** The group could not be made durable, see struct store_ops; begins the rewind. */
void store_failed(struct store *store, int error, uint64_t in_doubt_lsn);
/** Asks before a new attempt: 0, or a negative errno while sessions are not rewound yet. */
int store_try_again(struct store *store);
/** rewind() is over. */
void store_rewound(struct store *store, int status);
/** Another server has taken the session over: makes its owner release it, and frees the log. */
void store_fenced(struct session_log *log);

/* log_part.c */
/** The group is durable: adds its events and names to the log. */
void log_part_land(struct log_part *part);
/** Drops the part's events and names. */
void log_part_forget(struct log_part *part);

/* log_keys.c */
/** Takes over the names, which have been read; or status < 0 says why they could not be. */
void log_keys_loaded(struct session_log *log, struct name_table *names, int status);

/* log_read.c */
/** Drops the events read so far. */
void log_read_drop(struct log_read *read);
/** The engine has set `status`, and if that is 0 the events. */
void log_read_end(struct log_read *read);

#endif
