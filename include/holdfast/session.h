/*
 * A session: one deterministic state machine over its journal, with its turn, its queue of prompts,
 * its open permission requests, and the channel that its observers see.
 *
 * Every input takes the same path: it is journaled (session_log_append()), applied at once, which
 * may complete events, and committed when the journal is synced and the log has those events. The
 * commit tells waiters that their input is durable, and wakes the observers. Recovery applies the
 * same records again.
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
struct session_elsewhere;
struct session_table;
struct shelf;
struct usage_total;

/** What session_elsewhere_ops.begin() gets. */
struct session_elsewhere_place {
	struct session_table *table;
	struct store *store;
	uv_loop_t *loop;
	struct server_life *life;
	/** See session_ops.elsewhere(); NULL: nobody is told. */
	void (*tell)(void *owner, const char *id, const struct session_object *object, bool is_new);
	void *owner;
};

/** Callbacks to the floors above. All are called on the loop, outside of any session call. */
struct session_ops {
	/**
	 * A prompt has durably become the user_prompt event `seq`: its turn begins. `content` is
	 * the list of its images and files, or NULL.
	 */
	void (*prompt_due)(void *owner, struct session *session, uint64_t seq, const char *message,
		size_t len, const struct json_t *content);
	/**
	 * A permission request has been answered durably. `option_id` is NULL if it was cancelled;
	 * of an elicitation it is the action, NULL for "cancel". Called once for each request, and
	 * not for those resolved before the server started.
	 */
	void (*answered)(void *owner, struct session *session, const char *request_id,
		const char *option_id);
	/** The session's object (max_seq, status, …) has changed; at most once a loop tick. */
	void (*changed)(void *owner, struct session *session);
	/** The session is durably deleted and about to be freed. */
	void (*deleted)(void *owner, struct session *session);
	/** Another node has taken the session over; here it is about to be freed. */
	void (*moved)(void *owner, struct session *session);
	/**
	 * The session is about to be freed, and has a host: it must forget the session, and call
	 * session_set_host() with NULL. Called in each state of the server. May be NULL if sessions
	 * never have a host.
	 */
	void (*host_lost)(void *owner, struct session *session);
	/**
	 * The journal cannot be written: whatever is not durable is undone, inputs are refused.
	 */
	void (*store_failed)(void *owner, int error);
	/** The journal can be written again: inputs are accepted. */
	void (*store_revived)(void *owner);
	/**
	 * Another node reports the current object of one of its sessions; `object` is NULL if the
	 * session is gone. `is_new`: it was not known before. A session that moves between nodes
	 * may be reported again. May be NULL.
	 */
	void (*elsewhere)(
		void *owner, const char *id, const struct session_object *object, bool is_new);
	/** A session that could not be read when the table was opened can be used now. */
	void (*returned)(void *owner, struct session *session);
};

/**
 * Listed sessions of other nodes, beside those of this table (session_elsewhere.c). `elsewhere` is
 * what begin() has returned.
 */
struct session_elsewhere_ops {
	/** The table has been opened; its store is shared. */
	struct session_elsewhere *(*begin)(const struct session_elsewhere_place *place);
	/** The table is about to be freed, and its store is closed. */
	void (*end)(struct session_elsewhere *elsewhere);
	/** The object of a session of this node has changed. */
	void (*changed)(struct session_elsewhere *elsewhere, const char *id);
	/** A session of this node was deleted. */
	void (*deleted)(struct session_elsewhere *elsewhere, const char *id);
	/** See session_table_each_object(), session_table_count_objects(). */
	void (*each)(struct session_elsewhere *elsewhere,
		void (*visit)(const struct session_object *object, void *arg), void *arg);
	size_t (*count)(const struct session_elsewhere *elsewhere);
	/** See session_table_shown_log(). */
	struct session_log *(*log)(struct session_elsewhere *elsewhere, const char *id);
};

struct session_table_config {
	uv_loop_t *loop;
	const struct limits *limits;
	const struct clock *clock;
	struct metrics *metrics; /* NULL: nothing is counted */
	struct turns *turns; /* share the loop's time among loads; NULL: no limit */
	struct store_place place;
	const struct session_ops *ops;
	void *owner;
	const struct session_elsewhere_ops *elsewhere; /* if the store is shared; NULL: none */
};

/** Opens the data directory and recovers every session in it. See store_open() for errors. */
int session_table_open(const struct session_table_config *config, struct session_table **ret_table,
	char **ret_why);
/**
 * Closes the store and frees all sessions; observers must be gone. Blocks. Accepts NULL. Returns
 * false, with the table not freed, if work is still using it: see store_close().
 */
bool session_table_close(struct session_table *table);
/**
 * The session with this id, or NULL. Brings a session back that was evicted from memory because it
 * was idle (limits->evict_ms). So the pointer is valid until the end of the tick, and longer while
 * session_hold(), an observer, a wait or a host keeps the session in memory.
 */
struct session *session_table_get(struct session_table *table, const char *id, size_t len);
/** See store_absence() and store_delete_damaged(). */
enum store_absence session_table_absence(
	const struct session_table *table, const char *id, size_t len);
int session_table_delete_damaged(
	struct session_table *table, const char *id, struct place_wait *wait);
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
 * A mirror of a listed session of another node, to read events that its object refers to; NULL if
 * no such session is listed. Free it with session_log_mirror_free().
 */
struct session_log *session_table_shown_log(struct session_table *table, const char *id);
/** See store_hand_over(). The server is draining, and afterwards closing: sessions take no inputs. */
void session_table_hand_over(struct session_table *table);
/** See store_hand_over_most(). The server is draining: it takes no sessions over any more. */
void session_table_hand_over_most(
	struct session_table *table, bool (*stays)(void *arg, const char *id), void *arg);
/** Keeps a session in memory until session_drop(), which must be called as often. */
void session_hold(struct session *session);
void session_drop(struct session *session);
/** The number of session_hold() calls without a session_drop(). */
size_t session_count_holds(const struct session *session);
/** The sessions of this node, in memory or not. */
size_t session_table_count(const struct session_table *table);
/** An upper bound of the sessions that session_table_each_object() visits. */
size_t session_table_count_objects(const struct session_table *table);
/** Sessions that are in memory. */
size_t session_table_count_live(const struct session_table *table);
/** Permission requests of all sessions that wait for an answer. */
size_t session_table_count_permissions(const struct session_table *table);
/** Prompts in the queues of all sessions, and observers that are behind. */
size_t session_table_count_prompts(const struct session_table *table);
size_t session_table_count_behind(const struct session_table *table);
/** Calls `visit` for every session, in memory or not, of this node or another. */
void session_table_each_object(struct session_table *table,
	void (*visit)(const struct session_object *object, void *arg), void *arg);
/** See session_log_get_repair(); also true if a damaged journal may have had records of it. */
bool session_table_get_repair(
	const struct session_table *table, const char *id, struct store_repaired *ret);
/**
 * Tells what became of the session's names, and with `forgets` gives up those that are lost: an
 * event in the log says so. Blocks. Returns 0 or a negative errno.
 */
int session_repair_names(struct session *session, bool forgets, struct names_repaired *ret);
/** See store_count_damaged(). */
size_t session_table_count_damaged(const struct session_table *table);
/** Gets the object of a session of this node; false if it does not exist or is not durable yet. */
bool session_table_get_object(
	struct session_table *table, const char *id, size_t len, struct session_object *ret);
/** Calls `visit` for every session in memory, which all but idle ones are. */
void session_table_each(
	struct session_table *table, void (*visit)(struct session *session, void *arg), void *arg);
/**
 * The end of a loop tick: sends deltas and states, evicts idle sessions, and starts writing the
 * gathered batch.
 */
void session_table_end_tick(struct session_table *table);
/** How the numbers in JSON received during this tick were spelled: see json_text.h. */
struct json_numbers *session_table_numbers(struct session_table *table);
/** Bytes not yet durable: producers are paused above limits->journal_backlog. */
size_t session_table_backlog(const struct session_table *table);
/** See store_synced_lsn(). */
uint64_t session_table_synced_lsn(const struct session_table *table);

/* A status of durable_wait: see there. */
#define DURABLE_IN_DOUBT (-EINPROGRESS)

/** A wait until everything journaled so far is durable. Embedded in the waiter's struct. */
struct durable_wait {
	struct list link;
	int64_t lsn;
	/**
	 * Called once, with the wait unlinked. `status` is 0, or a negative errno: the input is not
	 * stored. DURABLE_IN_DOUBT: the write failed, but if the server dies before the store is
	 * revived, the next start may find the input; until then its outcome is unknown.
	 */
	void (*done)(struct durable_wait *wait, int status);
};

/** The properties of a new session; each may be NULL. */
struct session_wish {
	const char *title;
	const char *sub; /* of the token that creates it */
	const char *agent; /* this and `cwd`: see session_facts.h */
	const char *cwd;
};

/**
 * Creates a session; if `id` is NULL, a random one is chosen. Returns 0, -EEXIST, or -EIO if the
 * store has failed. The session is durable once session_wait_durable() reports it.
 */
int session_create(struct session_table *table, const char *id, const struct session_wish *wish,
	struct session **ret_session);
/** The limit that forbids another session for `sub`, or LIMIT_NONE. */
enum limit session_room_for_another(const struct session_table *table, const char *sub);
/** Whether the data directory is below the limit max_disk. */
bool session_table_has_disk(const struct session_table *table);
/** See store_note_others(). */
void session_table_note_others(struct session_table *table, uint64_t bytes);
/** Whether inputs are refused because they cannot be made durable. */
bool session_table_is_failing(const struct session_table *table);
/** What the table, or the one of a session, keeps its sessions in. */
enum storage_kind session_table_storage(const struct session_table *table);
enum storage_kind session_storage(const struct session *session);
/** Whether the limits open_blocks and names allow another open block and another name. */
bool session_has_room_for_block(const struct session *session);
bool session_has_room_for_names(const struct session *session);
/**
 * Changes the session's labels; session_wait_durable() tells when that is durable. Returns 0, -EIO,
 * or -ENOENT if a deletion is in progress.
 */
int session_label(struct session *session, const struct labels_change *change);
/**
 * Begins to delete a session: ops->deleted() follows when that is durable. Until then the session
 * can be read, and refuses inputs (-ENOENT); if the deletion fails, it continues to exist. Returns
 * 0, -EIO, or -EALREADY if a deletion is in progress.
 */
int session_delete(struct session *session);
/**
 * Gives the session a new epoch, which tells clients that its history is not the one they know
 * (proto/protocol.md#the-idea-in-one-minute). Blocks until that is durable; for `holdfast
 * new-epoch`, while nothing else runs. A crash leaves the old epoch or the new one; on failure it
 * keeps the old one.
 */
int session_change_epoch(struct session *session, uint64_t *ret_old, uint64_t *ret_new);
/**
 * Waits until everything that the session's current state depends on is durable. Ends with an error
 * if that state is undone, because a write fails or has failed.
 */
void session_wait_durable(struct session *session, struct durable_wait *wait);
/** The lsn of the session's newest record; 0: everything is durable. */
int64_t session_last_lsn(const struct session *session);
/**
 * Whether the record with this lsn is durable. Wrong for a record that was lost, once later ones
 * are durable: whoever keeps an lsn must wait for it, and forget it if the wait ends with an error.
 */
bool session_is_stored(const struct session *session, int64_t lsn);
/** Accepts a wait that is not in use (zeroed, or done). */
void durable_wait_cancel(struct durable_wait *wait);

/**
 * Journals and applies one checked input. *ret_seq is the seq that it gets; 0 for text that is
 * blank so far, and for usage that changes nothing. A turn_end outside a turn and an answer to a
 * request that is resolved already add nothing: they set *ret_duplicate, and *ret_seq to the seq of
 * the earlier event. Returns 0, -ENOENT if a deletion is in progress, or -EIO if the store has
 * failed; on an error nothing has changed.
 */
int session_input(struct session *session, const struct input_event *input, uint64_t *ret_seq,
	bool *ret_duplicate);
/**
 * Looks up a name that an input gave, durable or not. Returns 1 if it exists, 0 if not, -ENODATA if
 * it is not found but may have been lost, or another negative errno if the names cannot be read:
 * refuse_names(). *ret_key is borrowed until the next call.
 */
int session_find_name(
	struct session *session, enum log_key_kind kind, const char *key, struct log_key *ret_key);
/** Visits all message ids, in the order of their first input; an id may be visited again. */
int session_each_message(
	struct session *session, void (*visit)(void *arg, const char *message_id), void *arg);
/**
 * Whether names and prompts can be looked up without blocking. If not, as after an eviction, load
 * the names first, and hold the session meanwhile. See session_log_load_names().
 */
bool session_has_names(const struct session *session);
void session_load_names(struct session *session, struct names_wait *wait);
/** The id of the current run, which alone may append; NULL if none is in progress. Borrowed. */
const char *session_run(const struct session *session);

/**
 * Takes a prompt. It becomes a user_prompt at once if no turn is running and the queue is empty;
 * else it is queued (*ret_seq 0). A prompt_id that is known adds nothing and sets *ret_duplicate;
 * *ret_seq is then that of its user_prompt, 0 if it is queued or was removed. Returns 0, -EIO,
 * -ENOENT if a deletion is in progress, or -ENOBUFS if the queue is full.
 */
int session_prompt(struct session *session, const char *message, size_t len, const char *prompt_id,
	const struct author *author, uint64_t *ret_seq, bool *ret_duplicate);
/** As session_prompt(), with the images and files of the request, which must have been checked. */
int session_prompt_with(struct session *session, const struct request *request,
	const struct author *author, uint64_t *ret_seq, bool *ret_duplicate);
/** What has become of a prompt; includes what is not durable yet. */
enum prompt_place { PROMPT_UNKNOWN, PROMPT_QUEUED, PROMPT_BEGUN, PROMPT_REMOVED };
struct prompt_view {
	enum prompt_place place;
	uint64_t seq; /* of its user_prompt, if it has begun */
};
/** Looks up a prompt. Returns 0, or a negative errno and PROMPT_UNKNOWN if it cannot be read. */
int session_find_prompt(
	struct session *session, const char *prompt_id, struct prompt_view *ret_prompt);
/** Whose a queued prompt is, durable or not; NULL: it is not queued. Borrowed. */
const char *session_queued_sub(const struct session *session, const char *prompt_id);
/**
 * Replaces the message of a queued prompt. *ret_had is the prompt before that. Returns 0, -EIO,
 * -ENOENT if a deletion is in progress, or -ESRCH if the prompt is not in the queue.
 */
int session_edit_prompt(struct session *session, const char *prompt_id, const char *message,
	size_t len, struct prompt_view *ret_had);
/** Removes a prompt from the queue; 0 also if it was removed before. Errors as above. */
int session_remove_prompt(
	struct session *session, const char *prompt_id, struct prompt_view *ret_had);

enum permission_state { PERMISSION_UNKNOWN, PERMISSION_PENDING, PERMISSION_RESOLVED };
struct permission_view {
	enum permission_state state;
	const char *by; /* the signature of the answerer (session_signature()), or ""; borrowed */
	uint64_t seq; /* of permission_resolved */
};
struct permission_view session_permission(const struct session *session, const char *request_id);
struct permission_count {
	size_t open; /* pending requests */
	size_t most; /* the limit open_permissions */
};
struct permission_count session_count_permissions(const struct session *session);
/** Whether a pending request offers this option. */
bool session_permission_has_option(
	const struct session *session, const char *request_id, const char *option_id);
/**
 * The id of the option of a pending request that allows (or rejects), preferably once rather than
 * always; NULL if it has none. Borrowed.
 */
const char *session_permission_pick(
	const struct session *session, const char *request_id, bool allows);
/** The data (JSON) of a pending elicitation; NULL if the request is not one. Borrowed. */
const char *session_elicitation(const struct session *session, const char *request_id);
/** Calls `visit` for the id of every pending request; it may resolve them. */
void session_each_permission(
	struct session *session, void (*visit)(void *arg, const char *request_id), void *arg);

/** The session's usage, including what is not durable yet; borrowed until the next input. */
const struct usage_total *session_usage(const struct session *session);

struct channel *session_channel(struct session *session);
const char *session_id(const struct session *session);
void session_get_object(const struct session *session, struct session_object *ret);
/** Whether a turn is running; includes what is not durable yet. */
bool session_is_prompting(const struct session *session);
/** The number of the running turn, or of the last one; 0 before the first. */
uint64_t session_turn(const struct session *session);
/** Whether the running turn was begun by a prompt, so that the session's agent works on it. */
bool session_is_turn_of_prompt(const struct session *session);
/** Whether this prompt has begun the running turn. */
bool session_is_turn_of(const struct session *session, const char *prompt_id);
bool session_agent_is_running(const struct session *session);
/** The number of queued prompts. */
size_t session_queue_length(const struct session *session);
/** Whether the session's creation is durable and it is not deleted: only then is it shown. */
bool session_is_there(const struct session *session);
/** Whether a deletion is in progress. */
bool session_is_deleted(const struct session *session);
struct session_table *session_table_of(struct session *session);
/** Attaches state of the floor above (the agent's host); the session stays in memory with it. */
void session_set_host(struct session *session, void *host);
void *session_host(const struct session *session);

/** The facts of a log; strings are borrowed until an append. */
struct session_facts *session_facts(const struct session_log *log);
/** The facts of sessions, for opening or checking a store. */
extern const struct store_facts session_facts_ops;

#endif
