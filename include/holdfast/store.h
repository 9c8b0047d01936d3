/*
 * The store: makes inputs durable and keeps the events of all sessions. This is its only interface
 * for the rest of the program; the seam for storage engines is src/core/store/engine.h. The embedded
 * engine keeps one journal (the inputs of all sessions, one fdatasync per batch) and a log for each
 * session (its events, one per line). proto/store-format.md describes the formats.
 *
 *   DIR/lock                         held by the server that uses DIR; only one can
 *   DIR/journal/<number>.journal     inputs, in the order in which they were received
 *   DIR/sessions/<id>/events.jsonl   events, in seq order
 *   DIR/sessions/<id>/events.index   where the line of each event starts
 *   DIR/sessions/<id>/keys.jsonl     names: prompt ids, answered requests, idempotency keys, …
 *   DIR/sessions/<id>/metadata.json  epoch, the owner's facts, how much of the others is durable
 *   DIR/set-aside/, DIR/trash/       damaged sessions; deleted ones until their files are gone
 *
 * Data flows one way: a record and the events that it completes -> gathered batch (of an engine: a
 * group) -> the journal on disk -> the logs, whose files are not synced here -> synced(). An lsn is
 * the number of a batch: all its records share it. All functions run on the loop's thread; the journal is written and
 * synced on a thread of its own, cold reads and checkpoints run on libuv's thread pool.
 */
#ifndef HOLDFAST_STORE_H
#define HOLDFAST_STORE_H

#include "holdfast/clock.h"
#include "holdfast/event.h"
#include "holdfast/key_sum.h"
#include "holdfast/limits.h"
#include "holdfast/list.h"
#include "holdfast/metrics.h"
#include "holdfast/record.h"
#include "holdfast/refusal.h"
#include "holdfast/server_life.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct store;
struct shelf;
struct session_log;
struct log_read;

/**
 * Returns whether this program cannot read a snapshot because of its version, usually that of a
 * later program. Sets *ret_has to that version, and *ret_from and *ret_to to the oldest and the
 * newest version that can be read.
 */
typedef bool snapshot_is_foreign(
	const struct record *snapshot, unsigned *ret_has, unsigned *ret_from, unsigned *ret_to);

struct json_t;
/**
 * Facts: what the owner keeps about each session beside its log, in memory and in metadata.json.
 * For a session that is not in memory, only its facts and a few counters are kept. The store calls
 * these functions to update, write and read the facts, and does not interpret them. Every fact must
 * follow from events, or from records that are durable in the journal.
 */
struct store_facts {
	/** Makes the facts of a log without events from the data of its RECORD_CREATE. */
	void *(*create)(const char *data, size_t len);
	void (*destroy)(void *facts);
	/** Updates the facts with the log's next event. */
	void (*fold)(void *facts, const struct event_view *view);
	/** Whether fold() reads the data of events of this type; else the view may lack it. */
	bool (*needs_data)(enum event_type type);
	/** Appends the facts as members of a JSON object, each preceded by a comma. */
	void (*write)(const void *facts, struct buffer *out);
	/**
	 * Reads the facts of a log that ends with `max_seq`. Returns NULL, and *ret_why (static
	 * text), if members are missing, malformed, or name events beyond that.
	 */
	void *(*read)(const struct json_t *object, uint64_t max_seq, const char **ret_why);

	/** The kinds of names, indexed by their numbers; number 0 is not used. */
	const struct name_kind *name_kinds;
	unsigned name_kind_count;
	/** Visits the names that an event carries; `all`: also those that its input gave. */
	void (*names_of)(const struct event_view *view, bool all, visit_name *visit, void *arg);
	/** Whether names_of(), without `all`, reads the data of events of this type. */
	bool (*names_need_data)(enum event_type type);
};

/**
 * What the store calls. `owner` is the argument of store_open(), `session` the owner of one log
 * (session_log_set_owner()).
 */
struct store_ops {
	const struct store_facts *facts;
	/** All records up to `lsn` are durable. */
	void (*synced)(void *owner, uint64_t lsn);
	/**
	 * The journal cannot be written: records after the last synced() are lost, and new ones are
	 * refused until revived(). The owner undoes the lost ones: session_log_rewind(). If the
	 * server dies before the journal can be written again, records up to `in_doubt_lsn` may
	 * reappear at the next start; 0: none can.
	 */
	void (*failed)(void *owner, int error, uint64_t in_doubt_lsn);
	/**
	 * The journal is about to be tried again. Returns a negative errno if some sessions are not
	 * rewound yet.
	 */
	int (*rewind)(void *owner);
	/** The rewind is over: replay() has had every record, or status < 0. */
	void (*rewound)(void *owner, int status);
	/** The journal can be written again. */
	void (*revived)(void *owner);
	/**
	 * The engine needs a snapshot of a session in memory, as earlier records will go: append
	 * one, unless the session's state follows from its log alone.
	 */
	void (*snapshot)(void *session);

	/** The clock to use. */
	const struct clock *(*clock)(void *owner);
	/** Whether older events of a session in memory may be pruned now. */
	bool (*may_prune)(void *session);
	/** Events have been pruned. The embedded engine does not call it. */
	void (*pruned)(void *session);
	/** Appends the session's queued prompts as JSON: blobs that they refer to are kept. */
	void (*append_waiting)(void *session, struct buffer *out);

	/* Recovery, inside store_open(). */
	/** The journal has records of a session, which must be in memory. Returns its owner. */
	void *(*found)(void *owner, struct session_log *log);
	snapshot_is_foreign *is_foreign;
	/**
	 * Applies one record of the session; also called for session_log_rewind(). -EBADMSG sets
	 * the session aside. Events and names that the owner adds inside this call are in the log
	 * at once.
	 */
	int (*replay)(void *session, const struct record *record);
	/**
	 * After the start: a session that was left out can be read again. found() and replay() have
	 * been called if the journal has records of it.
	 */
	void (*returned)(void *owner, struct session_log *log);
	/** A session that was found is damaged and set aside: forget it. */
	void (*lost)(void *session);
	/**
	 * Another server has taken the session over: release it if it is in memory. Its log is
	 * freed.
	 */
	void (*fenced)(struct session_log *log, void *owner);
	/** The journal has been read. snapshot() follows for each session in memory. */
	void (*recovered)(void *owner);
};

enum store_durability {
	/* synced() means on disk. */
	DURABILITY_FSYNC,
	/*
	 * synced() means given to the kernel: it survives a crash of the server, not of the
	 * machine.
	 */
	DURABILITY_WRITE,
};

/**
 * How `holdfast repair` opens a data directory: damaged sessions are not set aside, and those that
 * were set aside earlier are brought back; each gets everything that its log and the journal have
 * of it. Files do not change until session_log_change_epoch(), which writes the log without the
 * damage.
 */
struct store_repair {
	const char *only; /* id of the session to repair; NULL: all of them */
};

struct store_engine;
/** Where a store is, and how to open it. */
struct store_place {
	struct server_life *life; /* of the server, or command, that opens the store; not NULL */
	const char *dir; /* a data directory */
	const struct store_repair *repair; /* NULL: no repair */
	/*
	 * Accept a database that is an older copy, and give all sessions new epochs; else refuse
	 * it.
	 */
	bool takes_older;
	enum store_durability durability;
	const struct store_engine *engine; /* NULL: the embedded one, in `dir` */
	void *engine_arg; /* for another engine: where its store is */
	/*
	 * Runs the loop until `is_over`, or until the server is to stop: `life` then says so. For a
	 * database that is not ready yet. NULL: the store does not wait for it.
	 */
	void (*wait)(void *wait_arg, bool (*is_over)(void *arg), void *arg);
	void *wait_arg;
	/*
	 * HOST:PORT where other nodes reach this one; NULL: this server does not share its store.
	 */
	const char *node_address;
	/*
	 * Set to the time until which no other node can own a session of this one, in ms of
	 * CLOCK_BOOTTIME. Any thread may read it. May be NULL.
	 */
	atomic_llong *lease_end;
};

/**
 * Opens a store, with the embedded engine a data directory: makes it if need be, takes its lock and
 * recovers it. Blocks. A directory that can be read but not written (the disk is full) is opened
 * too: failed() is called, and revived() once it can be written.
 *
 * Returns 0, -EBUSY if another server holds the lock, -EBADMSG if the journal is damaged in a way
 * that no crash explains, -ENOTSUP if this program does not read one of the formats (nothing has
 * been changed then), -ECANCELED without *ret_why if the server was told to stop while it waited
 * (store_place.wait), or another negative errno. *ret_why (the caller frees it) explains the error
 * and what to do. *ret_store is set before any of the ops is called.
 */
int store_open(uv_loop_t *loop, const struct store_place *place, const struct limits *limits,
	const struct store_ops *ops, void *owner, struct store **ret_store, char **ret_why);
/**
 * Syncs what is gathered, checkpoints, releases the lock and frees the store with all its logs.
 * Blocks; calls synced() a last time. No read may be in progress. Accepts NULL.
 *
 * Returns false if work on the thread pool does not end within limits->stop_wait_ms: everything is
 * synced, but nothing is freed, because that work may still use it. The process should exit.
 */
bool store_close(struct store *store);

/** Sets where the store counts its batches and failures; NULL: nowhere. */
void store_count(struct store *store, struct metrics *metrics);
/** Starts the sync of what is gathered unless one is in flight. Called once a loop tick. */
void store_kick(struct store *store);
/** The newest durable record: all up to this lsn are. */
uint64_t store_synced_lsn(const struct store *store);
/**
 * Writes and syncs everything gathered, and calls synced() for it. Blocks; for shutdown. Returns a
 * negative errno if the journal cannot be written.
 */
int store_sync(struct store *store);
/**
 * The wall clock's time for an input, in ms since 1970. Also notices when that clock has been set:
 * the ages of earlier events are corrected by the difference when events are pruned by age.
 */
int64_t store_now(struct store *store);
/**
 * Begins to prune events beyond the limits keep_events, keep_days and keep_bytes. A timer calls it
 * too.
 */
void store_prune(struct store *store);
/** Whether the data directory has reached the limit max_disk. */
bool store_is_full(const struct store *store);
/** Notes that `bytes` were written to the data directory by other parts of the program. */
void store_note_others(struct store *store, uint64_t bytes);
/** For messages: a data directory is on a disk. */
enum storage_kind store_storage(const struct store *store);
enum storage_kind session_log_storage(const struct session_log *log);
/** Whether groups cannot be made durable at the moment: appends are refused. */
bool store_is_failing(const struct store *store);
/** Bytes gathered or in flight, not yet durable. */
size_t store_backlog(const struct store *store);

/**
 * Creates a session: gathers its RECORD_CREATE, with this data. Its folder is made once that is
 * durable. Returns the record's lsn, -EEXIST if a session that is not STORE_PRESENT has this id, or
 * another negative errno.
 */
int64_t store_create_session(struct store *store, const char *id, uint64_t epoch,
	int64_t created_at, const char *data, size_t len, struct session_log **ret_log);
/** The log of the session with this id, or NULL. */
struct session_log *store_get_session(const struct store *store, const char *id, size_t len);
/** Why a session that exists has no log here. */
enum store_absence {
	STORE_PRESENT, /* it has one, or there is no such session here */
	STORE_UNREADABLE, /* it cannot be read now; the store keeps trying */
	STORE_DAMAGED, /* it is damaged: until it is repaired, or deleted */
};
enum store_absence store_absence(const struct store *store, const char *id, size_t len);
size_t store_count_sessions(const struct store *store);

/* --- several servers (nodes) on one store --- */

/** Where a session is. */
enum session_place {
	PLACE_HERE, /* this node has it: store_get_session() */
	PLACE_ELSEWHERE, /* another node has it */
	PLACE_NOWHERE,
};
/** Embedded in the waiter's struct. */
struct place_wait {
	struct list link;
	/**
	 * Reports the place, as of a moment ago. Called once, on the loop, never inside
	 * store_seek(). `status` < 0: the place cannot be determined now. `address` is HOST:PORT of
	 * the other node (borrowed) for PLACE_ELSEWHERE, else NULL.
	 */
	void (*done)(
		struct place_wait *wait, int status, enum session_place place, const char *address);
};
/** Whether the store is shared: other nodes may own sessions that this one does not. */
bool store_is_shared(const struct store *store);
/**
 * Whether this node's lease is valid, so that its copy of a session is the newest. If not (it was
 * suspended for too long), other nodes may own its sessions, and it is about to drop them.
 */
bool store_has_lease(const struct store *store);
/**
 * Finds out which node has a session that is not here, and takes it over if no living node has it.
 * Only if store_is_shared().
 */
void store_seek(struct store *store, const char *id, struct place_wait *wait);
/** Accepts a wait that is not in use (zeroed, or done). */
void place_wait_cancel(struct place_wait *wait);
/**
 * Deletes a session that is STORE_DAMAGED, durably; `wait` gets the status, and is not used if the
 * result is negative: -ENOENT if there is none, -EBUSY if it is being deleted.
 */
int store_delete_damaged(struct store *store, const char *id, struct place_wait *wait);
/**
 * Before this node stops: makes everything durable and lets other nodes take over its sessions.
 * Inputs are refused from then on; what is in memory can still be read. Blocks for as long as the
 * store does. Does nothing unless store_is_shared().
 */
void store_hand_over(struct store *store);
/**
 * Hands over those sessions for which stays() returns false and drops them here; this node takes
 * over no others from then on. May be called several times, before store_hand_over().
 */
void store_hand_over_most(struct store *store, bool (*stays)(void *arg, const char *id), void *arg);
/** Size of store_node_key() in bytes. */
#define NODE_KEY_SIZE 32
/** The secret with which nodes authenticate to each other; NULL: the store is not shared. */
const unsigned char *store_node_key(const struct store *store);
/** The number of the log in the store that the nodes share; 0: the store is not shared. */
uint64_t session_log_number(const struct session_log *log);
/** The position of a log that another node owns, as that node reports it. */
struct log_place {
	uint64_t number; /* session_log_number() there */
	uint64_t epoch;
	uint64_t first_seq;
	uint64_t max_seq; /* the newest event that it has shown; nothing beyond it is read */
};
/**
 * Makes a mirror: a log for reading a session of another node. Old events come from the store, new
 * ones are added with session_log_mirror_add(). store_get_session() does not find it, and nothing
 * may be appended to it. Returns NULL unless store_is_shared(). Free it with
 * session_log_mirror_free() before the store is closed.
 */
struct session_log *session_log_mirror(
	struct store *store, const char *id, const struct log_place *place, void *owner);
/**
 * Adds the next event; takes a reference of its own. Returns -EBADMSG if its seq is not the next.
 */
int session_log_mirror_add(struct session_log *mirror, struct event *event);
/** Events before `first_seq` have been pruned. Does nothing if the mirror knows already. */
void session_log_mirror_prune(struct session_log *mirror, uint64_t first_seq);
void session_log_mirror_free(struct session_log *mirror);

/**
 * What the servers on this store share beside sessions; NULL: each has it in its data directory.
 */
const struct shelf *store_shelf(struct store *store);

/** Calls `visit` for every session, in no particular order; it must not add or remove sessions. */
void store_each_session(
	struct store *store, void (*visit)(struct session_log *log, void *arg), void *arg);
/** Sets the `session` argument of the store_ops; NULL while the session is not in memory. */
void session_log_set_owner(struct session_log *log, void *owner);
void *session_log_owner(const struct session_log *log);
/**
 * Releases the memory and descriptors that the log does not need while the session is idle. Returns
 * -EBUSY while its files are in use, or if something is in memory only; that is written then.
 */
int session_log_rest(struct session_log *log);
/** Removes the session's folder and frees the log. Its RECORD_DELETE must be durable. */
void store_remove_session(struct session_log *log);

/**
 * Gives the session another epoch, durably: its earlier records no longer count. `snapshot` is its
 * state, written as a record with this `ts`; NULL: its state follows from its log alone. Blocks.
 */
int session_log_change_epoch(
	struct session_log *log, uint64_t epoch, int64_t ts, const struct buffer *snapshot);

/** The state of a session's repair. */
struct store_repaired {
	const char *why; /* what is damaged; static text */
	uint64_t lost; /* events replaced by gaps; set once is_done */
	uint64_t found; /* events recovered from the journal; set once is_done */
	uint64_t unused; /* records of the journal that could not be used */
	bool is_done;
};
/** Returns false if the session is not damaged, or is not to be repaired. */
bool session_log_get_repair(const struct session_log *log, struct store_repaired *ret);
/** Whether the journal is damaged in a way that does not tell which sessions are affected. */
bool store_journal_is_damaged(const struct store *store);
/** Sessions known to be damaged: set aside, or with events that could not be read. */
size_t store_count_damaged(const struct store *store);

const char *session_log_id(const struct session_log *log);
uint64_t session_log_epoch(const struct session_log *log);
int64_t session_log_created_at(const struct session_log *log);
int64_t session_log_updated_at(const struct session_log *log);
/**
 * Seqs of the first and the last event in the log; the last is first - 1 if the log is empty. The
 * first grows when events are pruned (limits keep_events, keep_days, keep_bytes), between two ticks
 * of the loop.
 */
uint64_t session_log_first_seq(const struct session_log *log);
uint64_t session_log_last_seq(const struct session_log *log);

/**
 * Gathers a record of the log's session for the journal; no event yet. Returns the lsn of its batch
 * (> 0, never falling), or a negative errno once the store has failed.
 */
int64_t session_log_append(
	struct session_log *log, enum record_kind kind, int64_t ts, const char *data, size_t len);
/** Whether a snapshot must be appended before the session's next record. */
bool session_log_wants_snapshot(const struct session_log *log);
/**
 * Adds an event that the newest record has completed; takes a reference of its own. The event
 * shares the fate of that record: it is in the log when synced() reports the record, and dropped if
 * the record fails. If only the write to events.jsonl fails, the event stays in memory (and in the
 * journal), and the write is retried with the next one.
 */
void session_log_complete(struct session_log *log, struct event *event, int64_t ts);
/** Recovery has completed an event that the log counts already; a repair may need it. */
void session_log_again(struct session_log *log, const struct event_view *view);
/**
 * Adds a name that the newest record's input gave; it shares the fate of the record like an event.
 * `nth` counts these names from 0 over the session's life, so that a replay adds none twice.
 */
void session_log_name(struct session_log *log, uint64_t nth, const struct log_name *name);
/** How many names given by inputs the log has. */
uint64_t session_log_input_names(const struct session_log *log);
/**
 * Inside failed() or rewind(): requests a replay of the session's durable records. After that call
 * has returned, replay() follows for the records of all sessions that requested it, then rewound().
 */
void session_log_rewind(struct session_log *log);

/** The owner's facts about the session: see struct store_facts. */
void *session_log_facts(const struct session_log *log);
/** The facts have changed without an event; the next save writes them. */
void session_log_facts_changed(struct session_log *log);
/**
 * Starts making the log and its facts durable independently of the journal. Called at the end of a
 * turn.
 */
void session_log_save(struct session_log *log);

/** The result of looking up a name. */
struct log_key {
	uint64_t seq; /* 0: the input had none */
	const char *by; /* "" if nobody; borrowed until the next call */
	struct key_sum sum;
};
/**
 * Visits the names of the listed kind (struct name_kind), in their order. Returns a negative errno
 * if they cannot be read.
 */
int session_log_each_listed(
	struct session_log *log, void (*visit)(void *arg, const char *key), void *arg);
/**
 * Whether the log's names are in memory. The names of a session that was idle are on disk only:
 * session_log_load_names() first, since a lookup would block until they are read.
 */
bool session_log_has_names(const struct session_log *log);
/**
 * Whether names that inputs gave are lost, so that a name that is not found may have been given all
 * the same. Only if session_log_has_names().
 */
bool session_log_lacks_names(const struct session_log *log);
/** What became of the names of a log, whose lines were damaged. */
struct names_repaired {
	int status; /* negative errno: they cannot be read */
	bool is_remade; /* their file was made anew */
	uint64_t recovered; /* names that the journal had */
	uint64_t missing; /* names that inputs gave, and that are lost */
	uint64_t doubtful; /* of these, such as records that are gone may have had */
};
/** Reads the names, if they are not in memory. Blocks. */
void session_log_get_names_repair(struct session_log *log, struct names_repaired *ret);
/**
 * From now on a name that is not found counts as never given. Returns how many are given up. Its
 * owner tells that in the log.
 */
uint64_t session_log_forget_names(struct session_log *log);
/** Embedded in the waiter's struct. */
struct names_wait {
	struct list link;
	/**
	 * Called once: the names are in memory, or cannot be read (a lookup returns the error), or
	 * the log is about to be freed.
	 */
	void (*done)(struct names_wait *wait);
};
/**
 * Reads the names on the thread pool, unless they are in memory. Blocks while the store is being
 * opened; later it does nothing if `wait` is NULL.
 */
void session_log_load_names(struct session_log *log, struct names_wait *wait);
/** Accepts a wait that is not in use (zeroed, or done). */
void names_wait_cancel(struct names_wait *wait);
/**
 * Looks a name up. Returns 1 if it exists, 0 if not, or a negative errno. Blocks if the names have
 * not been loaded.
 */
int session_log_find_key(
	struct session_log *log, unsigned kind, const char *key, struct log_key *ret_key);

/** A page: consecutive events, about `max_bytes` of them at most, but at least one. */
struct log_page {
	uint64_t from; /* seqs of the first and the last */
	uint64_t to;
	size_t max_bytes;
	bool is_fixed_at_end; /* omit the oldest events if not all fit; else the newest */
	enum event_format format; /* to prepare the events in */
	bool gaps; /* put event_create_gap() in place of damaged events; else they are -EBADMSG */
};
/**
 * Puts the events of a page, each with a reference, into `events` (which has room for all from
 * `from` to `to`) and returns how many. Returns 0 if some are not in memory, or if many would have
 * to be rendered first.
 */
size_t session_log_get_hot(
	struct session_log *log, const struct log_page *page, struct event **events);
/** `events` is freed after the call; the callee owns the references in it. NULL if status < 0. */
typedef void (*log_read_done)(void *arg, int status, struct event **events, size_t count);
/**
 * Reads a page that session_log_get_hot() does not have: reads events on the thread pool, has
 * missing HTML rendered on another thread, and calls `done`. Returns NULL if the log does not have
 * all of the page, or if it is in memory and wanted in FORMAT_MARKDOWN.
 */
struct log_read *session_log_read(
	struct session_log *log, const struct log_page *page, log_read_done done, void *arg);
/** The range that the newest read with damage found damaged. Returns false if no read has. */
bool session_log_get_damage(const struct session_log *log, uint64_t *ret_from, uint64_t *ret_to);
/** Cancels a read: `done` will not be called. */
void log_read_cancel(struct log_read *read);

#endif
