/*
 * A session: one deterministic state machine over its journal, with its turn, its queue of prompts,
 * its open permission requests, and the channel that its observers see.
 *
 * Every input goes one way: journaled (session_log_append), applied at once (which may complete
 * events), and, when the journal is synced and the log has the completed events, committed: waiters
 * hear that their input is durable, observers are woken. Recovery applies the same records again.
 */
#ifndef HOLDFAST_SESSION_H
#define HOLDFAST_SESSION_H

#include "holdfast/clock.h"
#include "holdfast/observer.h"
#include "holdfast/session_facts.h"
#include "holdfast/store.h"
#include "holdfast/stream_buffer.h"

#include <errno.h>
#include <uv.h>

struct session;
struct labels_change;
struct session_table;
struct shelf;
struct usage_total;

/** What the floors above want to hear. All are called on the loop, outside of any session call. */
struct session_ops {
	/**
	 * A prompt has become the user_prompt event `seq`, and that is durable: its turn begins.
	 * `content`: its images and files, a list; NULL: none.
	 */
	void (*prompt_due)(void *owner, struct session *session, uint64_t seq, const char *message,
		size_t len, const struct json_t *content);
	/**
	 * A permission request has its answer, and that is durable; option_id NULL: it was
	 * cancelled. Of an elicitation it is the action, and NULL if that is cancel. Called once for each; not for what was resolved before the server started.
	 */
	void (*answered)(void *owner, struct session *session, const char *request_id,
		const char *option_id);
	/** The session's object (max_seq, status, …) has changed; at most once a loop tick. */
	void (*changed)(void *owner, struct session *session);
	/** It is durably gone and about to be freed. */
	void (*deleted)(void *owner, struct session *session);
	/** Another node has it now; here it is about to be freed. */
	void (*moved)(void *owner, struct session *session);
	/**
	 * The journal cannot be written: what was not on disk is taken back, inputs are refused.
	 */
	void (*store_failed)(void *owner, int error);
	/** Inputs are taken again. */
	void (*store_revived)(void *owner);
	/**
	 * What another node tells of a session of its own: its object as it is now; NULL: it is
	 * gone. `is_new`: nothing was told of it before. A session that moves between nodes may be
	 * told of again. NULL: nobody asks.
	 */
	void (*elsewhere)(
		void *owner, const char *id, const struct session_object *object, bool is_new);
	/** A session that could not be read when the table was opened is there now. */
	void (*returned)(void *owner, struct session *session);
};

struct session_table_config {
	uv_loop_t *loop;
	const struct limits *limits;
	const struct clock *clock;
	struct metrics *metrics; /* NULL: nobody counts */
	struct turns *turns; /* of loads; NULL: nobody waits */
	struct store_place place;
	const struct session_ops *ops;
	void *owner;
};

/** Opens the data directory and recovers every session in it. See store_open() for errors. */
int session_table_open(const struct session_table_config *config, struct session_table **ret_table,
	char **ret_why);
/**
 * Closes the store and frees all sessions; observers must be gone. Blocks. Accepts NULL. Returns
 * false if something still uses the table: see store_close().
 */
bool session_table_close(struct session_table *table);
/**
 * The session of this name, or NULL. A session that is idle leaves memory after a while
 * (limits->evict_ms) and comes back here. So a pointer to it is good until the tick ends;
 * longer for one who holds it, watches it (an observer), waits for it, or is its host.
 */
struct session *session_table_get(struct session_table *table, const char *id, size_t len);
/** Whether there is one of this name that cannot be read now; it comes back by itself. */
bool session_table_is_unreadable(const struct session_table *table, const char *id, size_t len);
/** See store_is_shared(), store_seek() and store_node_key(). */
bool session_table_is_shared(const struct session_table *table);
void session_table_seek(struct session_table *table, const char *id, struct place_wait *wait);
const unsigned char *session_table_node_key(const struct session_table *table);
/** See store_shelf(). */
const struct shelf *session_table_shelf(struct session_table *table);
/** See session_log_mirror(). */
struct session_log *session_table_mirror(
	struct session_table *table, const char *id, const struct log_place *place, void *owner);
/**
 * The log of a session of another node, to read in it what lists tell of it; NULL: there is none. To be freed as
 * a mirror.
 */
struct session_log *session_table_shown_log(struct session_table *table, const char *id);
/** See store_hand_over(). */
void session_table_hand_over(struct session_table *table);
/** See store_hand_over_most(). */
void session_table_hand_over_most(
	struct session_table *table, bool (*stays)(void *arg, const char *id), void *arg);
void session_hold(struct session *session);
void session_drop(struct session *session);
/** How many hold it: those that watch and feed it. */
size_t session_count_holds(const struct session *session);
/** All sessions that there are. */
size_t session_table_count(const struct session_table *table);
/** At most so many are visited by session_table_each_object(). */
size_t session_table_count_objects(const struct session_table *table);
/** Sessions that are in memory. */
size_t session_table_count_live(const struct session_table *table);
/** Permission requests that wait for an answer, in all of them. */
size_t session_table_count_permissions(const struct session_table *table);
/** Prompts in the queues of all sessions, and observers that are behind. */
size_t session_table_count_prompts(const struct session_table *table);
size_t session_table_count_behind(const struct session_table *table);
/** Calls `visit` for every session that there is, wherever it is. */
void session_table_each_object(struct session_table *table,
	void (*visit)(const struct session_object *object, void *arg), void *arg);
/** See session_log_get_repair(); also true if a damaged journal may have had something of it. */
bool session_table_get_repair(
	const struct session_table *table, const char *id, struct store_repaired *ret);
/** See store_count_damaged(). */
size_t session_table_count_damaged(const struct session_table *table);
/** The object of one; false if there is none. */
bool session_table_get_object(
	struct session_table *table, const char *id, size_t len, struct session_object *ret);
/** Calls `visit` for every session in memory: all but idle ones are there. */
void session_table_each(
	struct session_table *table, void (*visit)(struct session *session, void *arg), void *arg);
/**
 * The end of a loop tick: deltas and states go out, the gathered batch starts on its way to the
 * disk.
 */
void session_table_end_tick(struct session_table *table);
/** How numbers of what came in during this tick of the loop were written. */
struct json_numbers *session_table_numbers(struct session_table *table);
/** Bytes that wait for the disk: producers are paused above limits->journal_backlog. */
size_t session_table_backlog(const struct session_table *table);
/** See store_synced_lsn(). */
uint64_t session_table_synced_lsn(const struct session_table *table);

#define DURABLE_IN_DOUBT (-EINPROGRESS)

/**
 * Something that waits until what has been journaled so far is durable. Embedded in the waiter's
 * struct.
 */
struct durable_wait {
	struct list link;
	int64_t lsn;
	/**
	 * status is 0, or a negative errno: then the input is not stored. Called once; the wait is
	 * unlinked. DURABLE_IN_DOUBT: it could not be stored, but if the server dies soon the next
	 * start may find it; so it is not known whether it is there, until the store is revived.
	 */
	void (*done)(struct durable_wait *wait, int status);
};

/** What a session is made with; NULL: nothing. */
struct session_wish {
	const char *title;
	const char *sub; /* whose token makes it */
	const char *agent; /* see session_facts.h; the same */
	const char *cwd;
};

/**
 * Makes a session; `id` NULL makes one up. Returns
 * -EEXIST, -EIO (the store has failed) or another negative errno. It is durable when
 * session_wait_durable() says so.
 */
int session_create(struct session_table *table, const char *id, const struct session_wish *wish,
	struct session **ret_session);
/** The limit that stands in the way of one more session of `sub`; LIMIT_NONE: none does. */
enum limit session_room_for_another(const struct session_table *table, const char *sub);
/** Whether the data directory may become larger. */
bool session_table_has_disk(const struct session_table *table);
/** Others than the sessions have written so many bytes there. */
void session_table_note_others(struct session_table *table, uint64_t bytes);
/** Whether inputs are refused because they cannot be made durable. */
bool session_table_is_failing(const struct session_table *table);
/** Whether a producer's text may open another block, and an input give another name. */
bool session_has_room_for_block(const struct session *session);
bool session_has_room_for_names(const struct session *session);
/**
 * Gives it labels, as session_wait_durable() says when. Errors: -EIO, -ENOENT (a deletion is under
 * way).
 */
int session_label(struct session *session, const struct labels_change *change);
/**
 * Begins the deletion: ops->deleted follows when it is durable. Until then the session is there for
 * all who read; it takes no inputs (-ENOENT), and goes on if the deletion fails. -EALREADY if one
 * is under way.
 */
int session_delete(struct session *session);
/**
 * Gives the session a new epoch: its history is not the one its clients know
 * (proto/protocol.md#the-idea-in-one-minute). Blocks until that is on disk; for `holdfast new-epoch`, while nothing else goes on. A crash
 * leaves it with the old epoch or the new one. On failure it keeps the old one.
 */
int session_change_epoch(struct session *session, uint64_t *ret_old, uint64_t *ret_new);
/**
 * Waits until all that the session's state rests on now is on disk; with an error if the state
 * will not stay so, because a write fails or has failed.
 */
void session_wait_durable(struct session *session, struct durable_wait *wait);
/** The number in the journal of its newest input; 0: all that it is, is on disk. */
int64_t session_last_lsn(const struct session *session);
/**
 * Whether the input of this number is on disk. What is lost has no number any more: whoever keeps
 * one waits for it, and forgets it when the wait ends with an error.
 */
bool session_is_stored(const struct session *session, int64_t lsn);
/** Accepts a wait that is not in use (zeroed, or done). */
void durable_wait_cancel(struct durable_wait *wait);

/**
 * Takes one checked input: gives it its seq (0 for text that is blank so far, and for usage that
 * changes nothing) and journals it. A turn_end outside of a turn adds nothing, nor does a
 * permission_resolved of a request that has its answer: *ret_duplicate is set, with the seq of the
 * one that was. Returns -EIO if the store has failed; nothing has changed
 * then.
 */
int session_input(struct session *session, const struct input_event *input, uint64_t *ret_seq,
	bool *ret_duplicate);
/**
 * Looks for a name that an input gave, durable or not: 1, 0, or a negative errno if that cannot be
 * read. What *ret_key points at is borrowed until the next call.
 */
int session_find_name(
	struct session *session, enum log_key_kind kind, const char *key, struct log_key *ret_key);
/** Gives all message ids, in the order of their first input; an id may come again. */
int session_each_message(
	struct session *session, void (*visit)(void *arg, const char *message_id), void *arg);
/**
 * Whether names and prompts can be looked up at once. Where they cannot, whoever has an input for a
 * session that has come back into memory waits first, and holds the session meanwhile.
 */
bool session_has_names(const struct session *session);
void session_load_names(struct session *session, struct names_wait *wait);
/** The id of the run that alone may append now; NULL: none is under way. Borrowed. */
const char *session_run(const struct session *session);

/**
 * Takes a prompt: it becomes user_prompt at once when the session is free, else it waits in the
 * queue (*ret_seq 0). The same prompt_id again adds nothing, also if it was removed (*ret_seq 0).
 * Errors: -EIO, -ENOBUFS (queue full).
 */
int session_prompt(struct session *session, const char *message, size_t len, const char *prompt_id,
	const struct author *author, uint64_t *ret_seq, bool *ret_duplicate);
/** The same with images and files, a list that was checked; NULL: none. */
int session_prompt_with(struct session *session, const struct request *request,
	const struct author *author, uint64_t *ret_seq, bool *ret_duplicate);
/** What has become of a prompt, with what is not yet committed. */
enum prompt_place { PROMPT_UNKNOWN, PROMPT_QUEUED, PROMPT_BEGUN, PROMPT_REMOVED };
struct prompt_view {
	enum prompt_place place;
	uint64_t seq; /* of its user_prompt, if it has begun */
};
/** Returns a negative errno, with PROMPT_UNKNOWN, if that cannot be read. */
int session_find_prompt(
	struct session *session, const char *prompt_id, struct prompt_view *ret_prompt);
/**
 * Gives a prompt that waits another message. Errors: -EIO, -ESRCH (it does not wait). *ret_had is
 * how it stood.
 */
int session_edit_prompt(struct session *session, const char *prompt_id, const char *message,
	size_t len, struct prompt_view *ret_had);
/** Takes a prompt out of the queue; one that was taken out before is left so. Errors as above. */
int session_remove_prompt(
	struct session *session, const char *prompt_id, struct prompt_view *ret_had);

enum permission_state { PERMISSION_UNKNOWN, PERMISSION_PENDING, PERMISSION_RESOLVED };
struct permission_view {
	enum permission_state state;
	const char *by; /* the signature of whoever resolved it, "" if nobody did; borrowed */
	uint64_t seq; /* of permission_resolved */
};
struct permission_view session_permission(const struct session *session, const char *request_id);
struct permission_count {
	size_t open; /* pending requests */
	size_t most; /* that may be: the limit open_permissions */
};
struct permission_count session_count_permissions(const struct session *session);
/** Whether a pending request has such an option. */
bool session_permission_has_option(
	const struct session *session, const char *request_id, const char *option_id);
/** Its option that allows, or rejects, once rather than always; NULL: it has none. Lent. */
const char *session_permission_pick(
	const struct session *session, const char *request_id, bool allows);
/** The data (JSON) of a pending request that is an elicitation; NULL: it is none. Borrowed. */
const char *session_elicitation(const struct session *session, const char *request_id);
/** Calls `visit` for the id of every pending request; it may resolve them. */
void session_each_permission(
	struct session *session, void (*visit)(void *arg, const char *request_id), void *arg);

/** What it has used, with what is not yet committed; borrowed until the next input. */
const struct usage_total *session_usage(const struct session *session);

struct channel *session_channel(struct session *session);
const char *session_id(const struct session *session);
void session_get_object(const struct session *session, struct session_object *ret);
/** A turn is running (with what is not yet committed counted). */
bool session_is_prompting(const struct session *session);
/** The number of the running turn, or of the last one; 0: there was none. */
uint64_t session_turn(const struct session *session);
/** The running turn was begun by a prompt, so that the session's agent is at work on it. */
bool session_is_turn_of_prompt(const struct session *session);
bool session_agent_is_running(const struct session *session);
/** Prompts that wait for their turn. */
size_t session_queue_length(const struct session *session);
/** Its creation is on disk: only what is there is told of. What is appended to it may be sooner. */
bool session_is_there(const struct session *session);
/** A deletion is under way. */
bool session_is_deleted(const struct session *session);
struct session_table *session_table_of(struct session *session);
/** A place for the floor above to hang its own state on the session (the agent). */
void session_set_host(struct session *session, void *host);
void *session_host(const struct session *session);

/** The facts of a log; strings are borrowed until an append. */
struct session_facts *session_facts(const struct session_log *log);
/** For whoever opens or checks a store. */
extern const struct store_facts session_facts_ops;

#endif
