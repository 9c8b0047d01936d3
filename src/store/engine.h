/*
 * The seam of the store. Above it is what every engine needs: the order of records, what is in
 * memory of a log (its newest events, its names), pages, whoever waits. Below it an engine keeps what
 * is durable: records in groups, each with the events that they complete and the names that they
 * give. The embedded one (embedded.c) has files; tests/support/memory_engine.c has memory.
 *
 * All functions run on the loop's thread, and only those that say so block. Answers come in later
 * turns of the loop. Nothing is told of a log that has been removed.
 */
#ifndef HOLDFAST_ENGINE_H
#define HOLDFAST_ENGINE_H

#include "blobs.h"
#include "names.h"
#include "renderer.h"

#include "holdfast/buffer.h"
#include "holdfast/store.h"

#include <stdatomic.h>

struct log_coming {
	struct event *event; /* with a reference; other threads may read its bytes */
	int64_t ts;
};

/** What the records of a group complete in one log: the log has it when they are durable. */
struct log_part {
	struct list link; /* the engine's */
	struct session_log *log;
	struct log_coming *events;
	size_t count;
	size_t capacity;
	struct buffer names; /* struct coming_name of log_part.c */
	struct buffer name_keys;
};

/** Events that are not in memory, and are asked for. */
struct log_read {
	struct store *store;
	char *id; /* the log may go meanwhile */
	uint64_t epoch;
	struct session_log *
		mirror; /* another server has the log, which is in no table here; until cancelled. NULL: it is ours */
	struct log_page page; /* of what is in memory already, nothing is left in it */
	log_read_done done; /* NULL once cancelled */
	void *arg;
	atomic_bool is_unwanted; /* for other threads: nobody waits any more */
	size_t count; /* events of the page */
	size_t max_bytes; /* of them; one event at least, unless some follow from memory */
	int status; /* from here on the engine's answer */
	struct event **events; /* room for them; with references */
	size_t got;
	size_t bytes; /* of their lines */
	struct event **hot; /* what follows them from memory */
	size_t hot_count;
	struct page_render render;
};

struct store_engine {
	/**
	 * Makes a log of each session that there is, with session_log_new(), and gives the owner
	 * the records that it has of them (store_replay()), then store_recovered(). Blocks.
	 */
	int (*open)(struct store *store, const struct store_place *place, char **ret_why);
	/** Ends all work, see store_close(). Blocks. */
	bool (*close)(struct store *store);
	/** After that, or a failed open(). The logs are gone. */
	void (*free)(struct store *store);

	/**
	 * Gathers a record; its log has a number for it, and a fence. If the fence is old by the
	 * time that the group is to be made durable, another server has the session: nothing of
	 * it changes, and store_fenced() says so. Returns the group's lsn; of a RECORD_CREATE
	 * -EEXIST, if there is a session of this name that cannot be read.
	 */
	int64_t (*append)(struct session_log *log, const struct record *record);
	/** Where what the newest record completes goes. */
	struct log_part *(*part)(struct session_log *log);
	/**
	 * Makes the gathered group durable, if none is on its way. log_part_land() of each part
	 * and store_synced() follow, or store_failed(); an engine whose answer was lost finds out
	 * first. A group is durable as a whole, but for the sessions whose fence is old.
	 */
	void (*launch)(struct store *store);
	/** Blocks until nothing is gathered any more; returns the error, if it cannot be done. */
	int (*sync)(struct store *store);
	/** Bytes that are gathered, or on their way. */
	size_t (*backlog)(const struct store *store);
	/** Gives the owner again the records of the logs that want it: store_rewound() follows. */
	void (*rewind)(struct store *store);

	/** Reads events; log_read_end() follows, not in here. */
	void (*read)(struct session_log *log, struct log_read *read);
	/** Reads the names; log_keys_loaded() follows. `now`: in here, blocks, returns an error. */
	int (*load_names)(struct session_log *log, bool now);

	/** Makes the log and its facts durable by themselves, soon. */
	void (*save)(struct session_log *log);
	/** All of it is in the engine, if it returns 0: it may leave memory. */
	int (*rest)(struct session_log *log);
	/** Deletes the session, when the gathered group is durable, and frees its log. */
	void (*remove)(struct session_log *log);
	/** The log is about to go from memory: nothing is on its way for it any more. */
	void (*drop)(struct session_log *log);
	/** See session_log_change_epoch(). Blocks. */
	int (*change_epoch)(
		struct session_log *log, uint64_t epoch, int64_t ts, const struct buffer *snapshot);
	/** See store_now(), store_prune() and store_is_left_out(). */
	int64_t (*now)(struct store *store);
	void (*prune)(struct store *store);
	bool (*is_left_out)(const struct store *store, const char *id, size_t len);
	/** See store_seek() and store_node_key(); NULL: the engine is never shared. */
	void (*seek)(struct store *store, const char *id, struct place_wait *wait);
	const unsigned char *(*node_key)(const struct store *store);
	/** See store_has_lease(). */
	bool (*has_lease)(const struct store *store);
	/** See store_shelf(); NULL: there is none. */
	const struct shelf *(*shelf)(struct store *store);
	/** See session_log_number(); and what read() needs of a log that another server has, until drop(). */
	uint64_t (*number)(const struct session_log *log);
	void (*mirror)(struct session_log *log, uint64_t number);
	/** See store_hand_over(): all is gathered. */
	void (*hand_over)(struct store *store);
	void (*hand_over_most)(
		struct store *store, bool (*stays)(void *arg, const char *id), void *arg);

	/* Blobs: any thread, while store->jobs counts its work. All of it blocks. */
	/** Adds bytes to the upload of this number. */
	int (*blob_write)(
		struct store *store, uint64_t number, const char *bytes, size_t len, bool is_first);
	/**
	 * The upload is a blob of a session, durably. -ENOENT if the engine does not have that
	 * session, or not yet.
	 */
	int (*blob_keep)(struct store *store, uint64_t number, const struct blob_place *place,
		bool *ret_is_new);
	void (*blob_drop)(struct store *store, uint64_t number);
	/** A descriptor to read it from, or -ENOENT. */
	int (*blob_open)(struct store *store, const struct blob_place *place);
};

/* store.c: what an engine tells */
/** Gives the owner a record that is durable. */
int store_replay(struct session_log *log, const struct record *record);
/** All has been read; snapshots are gathered. */
void store_recovered(struct store *store);
/** Each session in memory appends a snapshot before its next record; those that need it, now. */
void store_take_snapshots(struct store *store);
/** The group is durable, and those before it. */
void store_synced(struct store *store, uint64_t lsn);
/** The group is not, see struct store_ops; rewinding begins. */
void store_failed(struct store *store, int error, uint64_t in_doubt_lsn);
/** It is to be tried again: 0, or a negative errno while sessions are not yet taken back. */
int store_try_again(struct store *store);
/** rewind() is over. */
void store_rewound(struct store *store, int status);
/** Another server has the session: its owner lets go, and the log is freed. */
void store_fenced(struct session_log *log);

/* log_part.c */
/** What was on its way is in the log. */
void log_part_land(struct log_part *part);
/** It is refused. */
void log_part_forget(struct log_part *part);

/* log_keys.c */
/** The names are in memory (names_begin), or status < 0 says why not. */
void log_keys_loaded(struct session_log *log, struct name_table *names, int status);
/** Puts lines of keys.jsonl into a table; -EBADMSG if one of them is damaged. */
int name_lines_take(
	const struct store_facts *facts, struct name_table *names, const char *bytes, size_t len);

/* log_read.c */
/** Forgets what has been read so far. */
void log_read_drop(struct log_read *read);
/** The engine's answer is complete. */
void log_read_end(struct log_read *read);

#endif
