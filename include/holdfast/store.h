/*
 * The store: what makes an input durable, and where events stay. This is the one interface; the
 * seam below it, for engines, is src/store/engine.h. The embedded engine keeps a journal (inputs of
 * all sessions, one fdatasync a batch) and for each session a log (its events, one a line). The
 * formats are in proto/store-format.md.
 *
 *   DIR/lock                         held by the one server that uses DIR
 *   DIR/journal/<number>.journal     inputs, in the order in which they were received
 *   DIR/sessions/<id>/events.jsonl   events, in seq order
 *   DIR/sessions/<id>/events.index   where the line of each event starts
 *   DIR/sessions/<id>/keys.jsonl     what is found by name: prompts, answers
 *   DIR/sessions/<id>/metadata.json  epoch, the owner's facts, and what of the others is certain
 *   DIR/set-aside/, DIR/trash/       damaged sessions; deleted ones until their files are gone
 *
 * Data goes one way: a record and the events that it completes -> gathered batch -> the journal on
 * disk -> the logs -> synced(). All functions run on the loop's thread; the journal is written and
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

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct store;
struct shelf;
struct session_log;
struct log_read;

/**
 * Whether a snapshot is of a version that cannot be read: of a later program, as a rule. Then
 * *ret_has is that version, and *ret_from and *ret_to are those that can be.
 */
typedef bool snapshot_is_foreign(
	const struct record *snapshot, unsigned *ret_has, unsigned *ret_from, unsigned *ret_to);

struct json_t;
/**
 * What the owner keeps of each session beside its log, in memory and in metadata.json, and what is
 * all there is of a session at rest. The store has it folded, written and read; what it says is the
 * owner's affair. What it says must be on disk in the journal, or told by events.
 */
struct store_facts {
	/** Those of a log without events, from the data of its RECORD_CREATE. */
	void *(*create)(const char *data, size_t len);
	void (*destroy)(void *facts);
	/** Takes the log's next event; needs_data(): whether it looks at the data of such ones. */
	void (*fold)(void *facts, const struct event_view *view);
	bool (*needs_data)(enum event_type type);
	/** Appends them as members of a JSON object, each with a comma in front. */
	void (*write)(const void *facts, struct buffer *out);
	/** Reads them; NULL and *ret_why (static text) if they are none, or say of more events. */
	void *(*read)(const struct json_t *object, uint64_t max_seq, const char **ret_why);

	/** The kinds of names, by their numbers; the 0 is none. */
	const struct name_kind *name_kinds;
	unsigned name_kind_count;
	/** Gives the names that an event tells; `all`: also those that its input gave. */
	void (*names_of)(const struct event_view *view, bool all, visit_name *visit, void *arg);
	/** Whether that, not all of them, looks at the data of such events. */
	bool (*names_need_data)(enum event_type type);
};

struct store_ops {
	const struct store_facts *facts;
	/** All records up to `lsn` are on disk. */
	void (*synced)(void *owner, uint64_t lsn);
	/**
	 * The journal cannot be written: records after the last synced() are lost, and more are
	 * refused until revived(). The owner takes back what they did: session_log_rewind(). If the
	 * server dies before that, those up to `in_doubt_lsn` may come back with the next start; 0:
	 * none.
	 */
	void (*failed)(void *owner, int error, uint64_t in_doubt_lsn);
	/** It is about to be tried again: a negative errno if not all is taken back yet. */
	int (*rewind)(void *owner);
	/** What session_log_rewind() asked for has been given to replay(), or cannot be read. */
	void (*rewound)(void *owner, int status);
	/** The journal can be written again. */
	void (*revived)(void *owner);
	/**
	 * What the engine keeps of a session in memory begins anew: append a snapshot, unless the
	 * session is what its log tells.
	 */
	void (*snapshot)(void *session);

	/** What tells the time. */
	const struct clock *(*clock)(void *owner);
	/** Whether older events of a session in memory may be pruned now. */
	bool (*may_prune)(void *session);
	/** They have been, and the engine does not wait for others to notice: session_log_first_seq(). */
	void (*pruned)(void *session);
	/** Appends the JSON of its prompts that wait: what they refer to stays. */
	void (*append_waiting)(void *session, struct buffer *out);

	/* Recovery, inside store_open(). */
	/** The journal speaks of a session: it is needed in memory. Returns its owner. */
	void *(*found)(void *owner, struct session_log *log);
	snapshot_is_foreign *is_foreign;
	/**
	 * One record of it, also by session_log_rewind(). -EBADMSG sets the session aside. Events
	 * and names that the owner gives meanwhile are in the log at once.
	 */
	int (*replay)(void *session, const struct record *record);
	/**
	 * Later: a session that was left out can be read again; found() and replay() have been
	 * called if the journal speaks of it.
	 */
	void (*returned)(void *owner, struct session_log *log);
	/** A session that was found turned out to be damaged and is set aside: forget it. */
	void (*lost)(void *session);
	/** Another server has the session now: let go of it, if it is in memory. Its log goes. */
	void (*fenced)(struct session_log *log, void *owner);
	/** All is read: snapshot() follows for each session in memory. */
	void (*recovered)(void *owner);
};

enum store_durability {
	DURABILITY_FSYNC, /* synced() means on disk */
	DURABILITY_WRITE, /* synced() means handed to the kernel: survives us, not the machine */
};

/**
 * How a data directory is opened by holdfast repair: damaged sessions are not set aside, and those
 * that were come back; each gets all that its log and the journal have of it. Their files stay as
 * they are until session_log_change_epoch(), which writes the log without the damage.
 */
struct store_repair {
	const char *only; /* the session that is meant; NULL: all */
};

struct store_engine;
/** Where a store is. */
struct store_place {
	const char *dir; /* a data directory */
	const struct store_repair *repair; /* NULL: it is not to be repaired */
	bool takes_older; /* a database that is an older copy is used, and all sessions get new epochs; else it is refused */
	enum store_durability durability;
	const struct store_engine *engine; /* NULL: the embedded one, in `dir` */
	void *engine_arg; /* of another one: where it is */
	/* HOST:PORT where other nodes reach this one; NULL: this server shares its store with nobody. */
	const char *node_address;
	/*
	 * Where a node says until when its sessions are certainly its own, in ms of CLOCK_BOOTTIME;
	 * NULL: nobody asks. Nobody else has one of them before that. Any thread may read it.
	 */
	atomic_llong *lease_end;
};

/**
 * Opens (and makes) a data directory, takes its lock and recovers what is in it. Blocks. Returns
 * -EBUSY when another server holds the lock, -EBADMSG when the journal is damaged where no crash
 * can damage it, -ENOTSUP when something is of a format that this program does not read (then
 * nothing has been changed), or another negative errno; *ret_store is set before the first of the
 * ops is called; *ret_why (caller frees) says what and what to do. A directory that can be read but
 * not written (the disk is full) is opened: failed() says so, and revived() follows once it can.
 */
int store_open(uv_loop_t *loop, const struct store_place *place, const struct limits *limits,
	const struct store_ops *ops, void *owner, struct store **ret_store, char **ret_why);
/**
 * Writes and syncs what is gathered, checkpoints, gives the lock back and frees the store with all
 * its logs. Blocks; calls synced() for the last time. No read may be under way. Accepts NULL.
 *
 * Where work on the thread pool does not come back within limits->stop_wait_ms it returns false:
 * all is synced, but nothing is freed, as that work may still use it. The process should end.
 */
bool store_close(struct store *store);

/** Counts batches, and whether they work, from now on; NULL: does not. */
void store_count(struct store *store, struct metrics *metrics);
/** Starts the sync of what is gathered unless one is in flight. Called once a loop tick. */
void store_kick(struct store *store);
/** All records up to this one are on disk. */
uint64_t store_synced_lsn(const struct store *store);
/**
 * Writes and syncs everything gathered, with synced() for it. Blocks; for shutdown. A negative
 * errno if the journal could not be written.
 */
int store_sync(struct store *store);
/**
 * The wall clock's time, in ms since 1970, for every input. Looks whether it was set: then what it
 * told before counts as so much younger, or older, when events are pruned for their age.
 */
int64_t store_now(struct store *store);
/** Looks for events that need not be kept (limits keep_events, keep_days); a timer does it too. */
void store_prune(struct store *store);
/** Whether the data directory is as large as it may be (limit max_disk). */
bool store_is_full(const struct store *store);
/** Others than the store have written so many bytes there. */
void store_note_others(struct store *store, uint64_t bytes);
/** Whether groups cannot be made durable at the moment: appends are refused. */
bool store_is_failing(const struct store *store);
/** Bytes that wait for the disk. */
size_t store_backlog(const struct store *store);

/**
 * Makes a session: gathers its RECORD_CREATE, with this data. Its folder follows when that is on
 * disk. Returns the record's lsn, -EEXIST if what cannot be read has this name, or another negative
 * errno.
 */
int64_t store_create_session(struct store *store, const char *id, uint64_t epoch,
	int64_t created_at, const char *data, size_t len, struct session_log **ret_log);
/** The session of this name, or NULL. */
struct session_log *store_get_session(const struct store *store, const char *id, size_t len);
/** There is one of this name, but it cannot be read; that is tried again by itself. */
bool store_is_left_out(const struct store *store, const char *id, size_t len);
size_t store_count_sessions(const struct store *store);

/* --- several servers (nodes) on one store --- */

/** Where the session of a name is. */
enum session_place {
	PLACE_HERE, /* this node has it: store_get_session() */
	PLACE_ELSEWHERE, /* another node has it */
	PLACE_NOWHERE,
};
/** Embedded in the waiter's struct. */
struct place_wait {
	struct list link;
	/**
	 * It is known, as of a moment ago; called once, on the loop, never inside store_seek().
	 * `status` < 0: nobody can tell now. `address` (HOST:PORT of the other node; lent) is that
	 * of PLACE_ELSEWHERE, else NULL.
	 */
	void (*done)(
		struct place_wait *wait, int status, enum session_place place, const char *address);
};
/** Whether other nodes may have sessions that this one has not. */
bool store_is_shared(const struct store *store);
/**
 * Whether what this node has of sessions is the newest. If not, it has stood still for so long that others
 * may have them, and lets go of them in a moment.
 */
bool store_has_lease(const struct store *store);
/**
 * Finds out where a session is that is not here, and takes it over if no living node has it. Only
 * if store_is_shared().
 */
void store_seek(struct store *store, const char *id, struct place_wait *wait);
/** Accepts a wait that is not in use (zeroed, or done). */
void place_wait_cancel(struct place_wait *wait);
/**
 * This node is about to stop: makes all durable, and lets other nodes have its sessions. Nothing is
 * taken from then on; what is in memory can be read. Blocks for as long as the store does. Does
 * nothing unless store_is_shared().
 */
void store_hand_over(struct store *store);
/**
 * The same of those sessions that need not stay, by their ids: they are let go here, and this node takes no more of others. May
 * come several times, before store_hand_over().
 */
void store_hand_over_most(struct store *store, bool (*stays)(void *arg, const char *id), void *arg);
/** What nodes prove to each other with who they are; NULL: the store is not shared. */
#define NODE_KEY_SIZE 32
const unsigned char *store_node_key(const struct store *store);
/** Names the log in the store that the nodes share; 0: the store is not shared. */
uint64_t session_log_number(const struct session_log *log);
/** What another node says of a log that it has. */
struct log_place {
	uint64_t number; /* session_log_number() there */
	uint64_t epoch;
	uint64_t first_seq;
	uint64_t max_seq; /* what it has shown: at most so much is read */
};
/**
 * A log that another node has, to read it here: old events come from the store, and new ones are told with
 * session_log_mirror_add(). store_get_session() does not find it, and nothing may be written to it. NULL unless
 * store_is_shared(). session_log_mirror_free() before the store is closed.
 */
struct session_log *session_log_mirror(
	struct store *store, const char *id, const struct log_place *place, void *owner);
/** The next event, with a reference of its own. Returns -EBADMSG if it is not the next one. */
int session_log_mirror_add(struct session_log *mirror, struct event *event);
/** Events before this one are not kept any more. Nothing if that is known. */
void session_log_mirror_prune(struct session_log *mirror, uint64_t first_seq);
void session_log_mirror_free(struct session_log *mirror);

/** What servers on it share beside sessions; NULL: nothing, they have it in their data directory. */
const struct shelf *store_shelf(struct store *store);

/** Calls `visit` for every session, in no order; it must not add or remove any. */
void store_each_session(
	struct store *store, void (*visit)(struct session_log *log, void *arg), void *arg);
/** Whom replay() is called for; NULL while the session is not in memory. */
void session_log_set_owner(struct session_log *log, void *owner);
void *session_log_owner(const struct session_log *log);
/**
 * Gives back the memory and the descriptors that the log can do without until it is used again.
 * -EBUSY while somebody is at its files, or something is in memory only, which is written then.
 */
int session_log_rest(struct session_log *log);
/** Takes the session's folder away (after its RECORD_DELETE is synced) and frees the log. */
void store_remove_session(struct session_log *log);

/**
 * Gives the session another epoch, for good: its records so far do not count any more. `snapshot`
 * is its state, for a record of this `ts`; NULL: it is what its log tells. Blocks.
 */
int session_log_change_epoch(
	struct session_log *log, uint64_t epoch, int64_t ts, const struct buffer *snapshot);

/** What a repair finds of a session. */
struct store_repaired {
	const char *why; /* static text */
	uint64_t lost; /* events, for which there are gaps; known once it is done */
	uint64_t found; /* events that the journal has again; known once it is done */
	bool is_done;
};
/** False: it is not damaged, or not to be repaired. */
bool session_log_get_repair(const struct session_log *log, struct store_repaired *ret);
/** Whether the journal is damaged in a place that does not tell which sessions it concerns. */
bool store_journal_is_damaged(const struct store *store);
/** Sessions that are known to be damaged: set aside, or with events that could not be read. */
size_t store_count_damaged(const struct store *store);

const char *session_log_id(const struct session_log *log);
uint64_t session_log_epoch(const struct session_log *log);
int64_t session_log_created_at(const struct session_log *log);
int64_t session_log_updated_at(const struct session_log *log);
/**
 * Seqs of the first and the last event in the log; last is first - 1 when it is empty. The first
 * one grows when events are pruned (limits keep_events, keep_days), between two turns of the loop.
 */
uint64_t session_log_first_seq(const struct session_log *log);
uint64_t session_log_last_seq(const struct session_log *log);

/**
 * Gathers a record for the next group. Returns the group's number, its lsn (> 0, growing), or a
 * negative errno once the store has failed.
 */
int64_t session_log_append(
	struct session_log *log, enum record_kind kind, int64_t ts, const char *data, size_t len);
/** Whether a snapshot has to come before the session's next record. */
bool session_log_wants_snapshot(const struct session_log *log);
/**
 * Takes an event that the newest record has completed, with a reference of its own. It goes the way
 * of that record: it is in the log when synced() tells of the record, and nowhere if that fails. If
 * only events.jsonl cannot take it, it stays in memory (and in the journal) and is tried again with
 * the next one.
 */
void session_log_complete(struct session_log *log, struct event *event, int64_t ts);
/** Recovery has an event once more that the log counts already. */
void session_log_again(struct session_log *log, const struct event_view *view);
/**
 * Takes a name that the newest record's input gave; it goes the same way. `nth` counts such names
 * from 0 over the session's life, so that one that recovery tells again is not taken twice.
 */
void session_log_name(struct session_log *log, uint64_t nth, const struct log_name *name);
/** How many of them the log has. */
uint64_t session_log_input_names(const struct session_log *log);
/**
 * After failed(): wants the records that are on disk of the session. When failed() or rewind() has
 * returned they are read for all that want them; replay() of each and rewound() follow.
 */
void session_log_rewind(struct session_log *log);

/** What the owner keeps with the log: see struct store_facts. */
void *session_log_facts(const struct session_log *log);
/** They are others now, without an event: they are on disk with the next save. */
void session_log_facts_changed(struct session_log *log);
/** Makes the log and its facts durable by themselves, soon: at the end of a turn. */
void session_log_save(struct session_log *log);

/** What is found by name. */
struct log_key {
	uint64_t seq; /* 0: the input had none */
	const char *by; /* "" if nobody; borrowed until the next call */
	struct key_sum sum;
};
/**
 * Gives the names of the kind that is listed, in their order. Returns a negative errno if they
 * cannot be read.
 */
int session_log_each_listed(
	struct session_log *log, void (*visit)(void *arg, const char *key), void *arg);
/**
 * Names are looked up in memory. A log that was at rest has them on disk alone, and takes as long
 * to bring them as the disk does: whoever is about to look a name up waits for that first.
 */
bool session_log_has_names(const struct session_log *log);
/** Embedded in the waiter's struct. */
struct names_wait {
	struct list link;
	/** The names are there, or cannot be read (a look says why), or the log goes. Once. */
	void (*done)(struct names_wait *wait);
};
/**
 * Reads them on the thread pool, if they are not there. While the store is being opened it blocks;
 * later, `wait` NULL does nothing.
 */
void session_log_load_names(struct session_log *log, struct names_wait *wait);
/** Accepts a wait that is not in use (zeroed, or done). */
void names_wait_cancel(struct names_wait *wait);
/**
 * Returns 1 if there is that name, 0 if there is not, or a negative errno. Blocks if nobody has
 * waited for the names.
 */
int session_log_find_key(
	struct session_log *log, unsigned kind, const char *key, struct log_key *ret_key);

/** Consecutive events, no more than about `max_bytes` of them but one at least. */
struct log_page {
	uint64_t from; /* seqs of the first and the last */
	uint64_t to;
	size_t max_bytes;
	bool is_fixed_at_end; /* what does not fit is left out at the older end */
	enum event_format format; /* that they are made ready in */
	bool gaps; /* event_create_gap() stands for those that are damaged; else they are -EBADMSG */
};
/**
 * The events of a page, if it can be made of what is in memory, and few of them have to be rendered:
 * puts them with a reference each into `events` (room for all from `from` to `to`) and returns how
 * many; else 0.
 */
size_t session_log_get_hot(
	struct session_log *log, const struct log_page *page, struct event **events);
/**
 * Reads the same from disk, on the thread pool, has another thread render what has no HTML yet, in
 * turn with other pages, and then calls `done` with the events (whose references it takes over; the
 * array is freed after it returns) or status < 0. Returns NULL only if there is no such page, or it
 * is in memory and FORMAT_MARKDOWN.
 */
typedef void (*log_read_done)(void *arg, int status, struct event **events, size_t count);
struct log_read *session_log_read(
	struct session_log *log, const struct log_page *page, log_read_done done, void *arg);
/** Which events the newest read that failed with -EBADMSG found damaged; false: none has. */
bool session_log_get_damage(const struct session_log *log, uint64_t *ret_from, uint64_t *ret_to);
/** `done` will not be called. */
void log_read_cancel(struct log_read *read);

#endif
