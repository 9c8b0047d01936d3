/* Internals of sessions: the structs of a session and of the table, and what the files share. */
#ifndef HOLDFAST_SESSION_INTERNAL_H
#define HOLDFAST_SESSION_INTERNAL_H

#include "holdfast/hash.h"
#include "holdfast/session.h"
#include "holdfast/session_state.h"

#include <jansson.h>

/** The head of structs for effects of a record that are withheld until the record is durable. */
struct pending {
	struct list link;
	int64_t lsn;
};

/** How much of the open event may be shown once the record `lsn` is durable. */
struct open_mark {
	int64_t lsn;
	uint64_t seq;
	size_t len;
};

struct session {
	struct session_table *table;
	struct session_log *log;
	struct session_state state;
	struct channel channel;
	void *host;

	/* Prompts and answers that are not in the log yet, or were not when they were noted. */
	struct hash *prompt_ids; /* by prompt id: seq + 1, as a pointer; 1: it is queued */
	struct hash *resolved; /* struct resolution of session_answers.c, by request id */

	/*
	 * A snapshot of durable state whose record is not durable itself yet: after a failure the
	 * session returns to it without reading the journal. Empty otherwise.
	 */
	struct buffer base;
	int64_t base_lsn; /* of that record */
	struct open_mark shown_open; /* the durable part of the open event */
	struct open_mark open_marks[2]; /* as of the batch in flight, and of the gathering one */
	size_t open_mark_count;
	int64_t created_lsn; /* of its RECORD_CREATE; 0: it existed when the server started */
	bool has_snapshot; /* recovery has replayed one */
	int64_t applying_lsn; /* of the record being applied */
	int64_t last_ts; /* the newest ts that an input or event of the session got */
	int64_t time_shift; /* the session's clock minus clock_elapsed_ms() */
	int64_t last_lsn; /* of its newest record */
	/* Lists of structs that begin with struct pending, in lsn order. */
	struct list pending_prompts; /* prompts for its agent */
	struct list pending_answers; /* answers for its agent */
	struct list pending_activity; /* notices of held inputs */
	struct list pending_names; /* names given by inputs */
	struct list pending_labels; /* changes of its labels */
	struct list pending_states; /* changes of its status */
	struct hash *fresh_names; /* pending_names by kind and name, the first of each */
	struct list waits; /* struct durable_wait, in lsn order */

	struct list live_link; /* table.live */
	int64_t active_at; /* uv_now() of the last activity, approximately */
	size_t holds; /* session_hold() */
	struct list dirty_link; /* table.dirty: it has records that are not durable, or waits */
	struct list touched_link; /* table.touched: to be published at the end of the tick */
	bool object_changed; /* ops->changed() is due */
	char *shown_usage; /* owns channel.status.usage */
	char *shown_question; /* owns channel.status.waiting_for */
	struct prompt_queue *shown_queue; /* owns channel.status.queue */
	char *shown_prompt_id;
	int64_t preview_ts; /* of the last preview */
	uint64_t preview_seq; /* the event that it showed */
	size_t preview_len; /* how much of its text */
	bool has_open; /* it has an open block, counted in table.open_blocks */
	bool preview_wanted; /* an observer has joined and has no preview yet */
	uv_timer_t timer;
	int64_t timer_at; /* by clock_elapsed_ms(); INT64_MAX: not armed */
	bool is_lost; /* a write has failed, and its durable records have not been read back yet */
	bool is_deleted; /* a deletion is in progress, which may still fail */
	bool has_ended; /* durably deleted, and about to be freed */
	struct durable_wait delete_wait;
};

/* The lsn of a durable_wait whose record is lost already. */
#define WAIT_REFUSED INT64_MIN

struct session_table {
	uv_loop_t *loop;
	const struct limits *limits;
	const struct clock *clock;
	struct metrics *metrics; /* NULL: nothing is counted */
	struct turns *turns; /* of loads; may be NULL */
	const struct session_ops *ops;
	void *owner;
	struct store *store;
	struct list live; /* all sessions in memory, the most recently active one last */
	size_t live_count;
	size_t evicted; /* since memory was last returned to the system */
	uv_poll_t *watch; /* reports changes of the clock; NULL: not available */
	int watch_fd;
	uv_timer_t *evict_timer; /* armed for when the first of `live` may be evicted */
	struct list dirty;
	struct list lost; /* by dirty_link: not yet rewound to their durable state */
	struct list touched;
	struct json_numbers *numbers;
	struct hash *makers; /* struct maker of session_room.c, by sub */
	size_t open_blocks; /* sessions with an open block */
	struct list ready; /* struct durable_wait: decided, to be ended when the tick ends */
	const struct session_elsewhere_ops *elsewhere_ops;
	struct session_elsewhere *elsewhere; /* NULL: the store is not shared, or no ops */
	bool recovering; /* replaying records, at the start or in a rewind */
	struct server_life *life;
};

/** Removes the first struct pending of a list and returns it; NULL if its lsn is above `lsn`. */
void *session_take_pending(struct list *list, uint64_t lsn);

/* session_answers.c */
/** Of session_state_ops: remembers the answer at once, and tells the agent when it is durable. */
void session_take_answer(void *session, const struct session_answer *answer);
/** Whether the request with this id was answered; ret_answer may be NULL. */
bool session_find_answer(
	const struct session *session, const char *request_id, struct log_key *ret_answer);
/** Tells the agent the durable answers. */
void session_answers_tell(struct session *session, uint64_t lsn);
/** Forgets the answers that are in the log now, if it can find them without reading the disk. */
void session_answers_commit(struct session *session);
/** Drops the answers that are not durable. */
void session_answers_drop(struct session *session);
/** Forgets the answers that the log does not have. */
void session_answers_rewind(struct session *session);
void session_answers_finish(struct session *session);

/* session_activity.c */
/** Of session_state_ops: prepares a notice of a held input. */
void session_activity_note(void *session, uint64_t seq, const struct stream_input *input);
/** Sends the notices of durable inputs to the observers, before their events. */
void session_activity_tell(struct session *session, uint64_t lsn);
/** Drops the notices that were not sent. */
void session_activity_drop(struct session *session);

/* session_list.c: what other nodes' sessions need of this table; nothing without elsewhere_ops */
void session_elsewhere_begin(
	struct session_table *table, const struct session_table_config *config);
void session_elsewhere_end(struct session_table *table);
/** The object of a session of this node has changed. */
void session_elsewhere_note(struct session_table *table, const char *id);
/** A session of this node was deleted. */
void session_elsewhere_forget(struct session_table *table, const char *id);

/* session_names.c */
/** Of session_state_ops: keeps the name until it is durable. */
void session_names_add(void *session, const struct session_name *name);
/** Drops the durable names, which are in the log now. */
void session_names_commit(struct session *session, uint64_t lsn);
/** Drops all names that are not durable. */
void session_names_drop(struct session *session);

/* session_labels.c */
/** Takes a RECORD_LABELS, to change the log's facts when it is durable; -EBADMSG if malformed. */
int session_labels_apply(struct session *session, const struct record *record);
/** Applies the durable changes to the log's facts. Returns whether there were any. */
bool session_labels_commit(struct session *session, uint64_t lsn);
/** Drops the changes that are not durable. */
void session_labels_drop(struct session *session);

/* session_follow.c */
/** A run has durably begun, or ended (NULL): notes it in the log's facts. */
void session_follow_run(struct session *session, const char *run_id);
/** Makes the state agree with the log: see session_state_follow_log(). */
void session_follow_log(struct session *session);
/** Whether session_follow_log() would change nothing. */
bool session_is_in_log(const struct session *session);
/**
 * Copies the usage total to the log's facts, if it is durable. Returns whether the log has it: if
 * not, the journal's newest segment needs a snapshot of the session.
 */
bool session_usage_give_log(struct session *session);

/* session_status.c: the part of the state that observers see once it is durable */
/** After a record has been applied: queues the new status, if it changed, for that lsn. */
void session_status_note(struct session *session, int64_t lsn);
/** Shows the durable status to observers. Returns whether it has changed. */
bool session_status_commit(struct session *session, uint64_t lsn);
/** Shows the current status: after recovery. */
void session_status_show(struct session *session);
/** Drops the changes that are not durable. */
void session_status_drop(struct session *session);

/* session_table.c */
/** Gets a random number other than 0; -EIO if that fails. */
int session_random(uint64_t *ret);

/* session_time.c */
/** The ts for the next input: the wall clock's time, but never less than that of the last input. */
int64_t session_next_ts(struct session *session);
void session_note_ts(struct session *session, int64_t ts);
/** The time in ms by the session's clock. */
int64_t session_time(const struct session *session);
/** After a session was restored: its clock continues from the ts of its newest input. */
void session_time_resume(struct session *session);
void session_watch_clock(struct session_table *table);
void session_unwatch_clock(struct session_table *table);
/** The wall clock was set, or the machine has resumed: timers are armed again. */
void session_table_clock_changed(struct session_table *table);

/* session_room.c */
/** Adds a session to, or removes it from, the number of sessions of its creator. */
void session_room_count(struct session_log *log, void *table);
void session_room_uncount(struct session_table *table, const struct session_log *log);
void session_room_finish(struct session_table *table);
/** Notes whether the session has an open block. */
void session_room_note_open(struct session *session, bool is_open);

/* session_evict.c */
/** Notes activity, which postpones the session's eviction. */
void session_note_activity(struct session *session);
/** Evicts sessions that have been idle for evict_ms; at the end of a loop tick. */
void session_table_evict(struct session_table *table);

/* session.c */
struct session *session_new(struct session_table *table, struct session_log *log);
void session_free(struct session *session);
/** After recovery: shows everything, as all of it is durable. */
void session_show_recovered(struct session *session);
/**
 * Records up to `lsn` are durable: releases their effects. May free the session if it was deleted.
 */
void session_commit(struct session *session, uint64_t lsn);
/**
 * The write of the journal has failed: drops all effects that are not durable. Waits end with
 * `error`, or with DURABLE_IN_DOUBT up to `in_doubt_lsn`.
 */
void session_fail(struct session *session, int error, uint64_t in_doubt_lsn);
/**
 * After session_fail(): begins to restore the durable state. Returns true if the session's records
 * must be replayed from the journal before session_rewind_end().
 */
bool session_rewind_begin(struct session *session);
void session_rewind_end(struct session *session);
/** Has the session published at the end of the tick. */
void session_touch(struct session *session);
/**
 * Journals a record and applies it. `input` is the input that an input record was made from, else
 * NULL. Returns 0, -ENOENT if a deletion is in progress, or -EIO.
 */
int session_journal(struct session *session, enum record_kind kind, const char *data, size_t len,
	const struct input_event *input, uint64_t *ret_seq);
int session_journal_snapshot(struct session *session);
/** Appends the payload of a snapshot: the whole state. */
void session_save_state(struct session *session, struct buffer *out);
/** Applies a record of the journal. */
int session_apply(struct session *session, const struct record *record,
	const struct input_event *input, uint64_t *ret_seq);

/* session_prompts.c: prompts by their ids */
/** A prompt has begun as the event `seq`, or was queued (0). */
void session_remember_prompt(struct session *session, const char *prompt_id, uint64_t seq);
/** A prompt was removed from the queue. */
void session_forget_prompt(struct session *session, const char *prompt_id);
/** Forgets the prompts that are in the log now, if it can find them without reading the disk. */
void session_prompts_commit(struct session *session);

/* session_view.c */
void session_log_labels(const struct session_log *log, struct session_labels *ret);
/** The object of a session that is not in memory. */
void session_log_object(const struct session_log *log, struct session_object *ret);

/* session_publish.c */
/** At the end of a tick: sends deltas and previews, and arms the timer. */
void session_publish(struct session *session);
/** Arms the timer again after the clocks have changed. */
void session_rearm(struct session *session);
/** An observer has become live: sends a preview without waiting for more text. */
void session_handle_joined(void *arg);
/** Of struct store_ops. */
void session_handle_pruned(void *owner);

#endif
