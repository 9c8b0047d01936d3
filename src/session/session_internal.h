#ifndef HOLDFAST_SESSION_INTERNAL_H
#define HOLDFAST_SESSION_INTERNAL_H

#include "holdfast/hash.h"
#include "holdfast/session.h"
#include "holdfast/usage_total.h"

#include <jansson.h>

/** A permission request that nobody has answered yet. */
struct permission {
	struct list link;
	char *request_id;
	char *data; /* JSON of permission_request */
};

struct ledger_sum {
	uint64_t low;
	uint64_t high;
};

/** A person's answer, while what was asked for is not done. */
struct given_answer {
	struct list link;
	bool is_carried; /* the agent is gone with it; else it is of the running turn */
	uint64_t seq; /* of its permission_resolved */
	struct ledger_sum subject; /* what the question was about */
	char *tool_call_id;
	char *option_id;
	char *by;
};

struct resolution {
	uint64_t seq;
	char by[]; /* client id, "" if cancelled */
};

/** The deterministic part: changed by session_apply() and by nothing else. */
struct session_state {
	struct stream_buffer *stream;
	uint64_t turn; /* number of the running or the last one */
	bool in_turn;
	bool turn_of_prompt;
	bool agent_running;
	uint64_t last_turn_end_seq;
	char *last_prompt_id;
	uint64_t last_prompt_seq;
	struct usage_total *usage;
	char *usage_text; /* what observers are told of it, JSON; NULL: nothing was reported */
	char *run_id; /* of the run that alone may append; NULL: none is under way */
	char *last_message_id; /* the name that was noted last, NULL: none */
	uint64_t input_names; /* how many names inputs have given */
	struct prompt_queue *queue; /* prompts that wait for their turn */
	struct list permissions; /* struct permission, in seq order */
	struct hash *permissions_by_id; /* the same; NULL while there are none */
	struct list answers; /* struct given_answer, in seq order */
	size_t answer_count;
};

/** A user_prompt that the session's agent has to be given, when it is on disk. */
struct pending_prompt {
	struct list link;
	int64_t lsn;
	struct event *event;
};

/** How much of the open event is told when the disk has confirmed a record. */
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

	/* Names that the log may not have yet; it has all others. */
	struct hash *prompt_ids; /* seq + 1 of each prompt taken, as a pointer; 1: in the queue */
	struct hash *resolved; /* struct resolution, by request id */

	uint64_t segment; /* journal segment that has this session's snapshot */
	struct buffer
		base; /* that snapshot, while it is not on disk: what a failure goes back to */
	int64_t base_lsn;
	struct open_mark shown_open; /* what is on disk of the open event */
	struct open_mark open_marks[2]; /* as of the batch in flight, and of the one that gathers */
	size_t open_mark_count;
	int64_t created_lsn; /* of its RECORD_CREATE; 0: it was there when the server started */
	bool has_snapshot; /* recovery has seen one */
	bool usage_in_log; /* what state.usage is, the log has been given */
	int64_t applying_lsn; /* of the record being applied */
	int64_t applying_at; /* and when it came, on the session's clock */
	int64_t last_ts; /* the newest that an input or event of it was given */
	int64_t time_shift; /* of the session's clock against clock_elapsed_ms() */
	int64_t last_lsn; /* of its newest record */
	bool emitting_prompt;
	bool emitting_recovered;
	struct list pending_prompts; /* struct pending_prompt, in lsn order */
	struct list pending_answers; /* what its agent has to be told, in lsn order */
	struct list pending_activity; /* struct pending_activity, in lsn order */
	struct list pending_names; /* struct pending_name, in lsn order */
	struct hash *fresh_names; /* the same by kind and name, the first of each */
	struct list pending_states; /* what the state became by inputs that wait for the disk */
	struct list waits; /* struct durable_wait, in lsn order */

	struct list live_link; /* table.live */
	int64_t active_at; /* uv_now() when something happened to it last, or nearly so */
	size_t holds; /* session_hold() */
	struct list dirty_link; /* table.dirty: has records that are not on disk yet, or waits */
	struct list touched_link; /* table.touched: has something to tell at the end of the tick */
	bool object_changed; /* the feed wants to know */
	char *shown_usage; /* what channel.status.usage points at */
	struct prompt_queue *shown_queue; /* and channel.status.queue */
	char *shown_prompt_id;
	int64_t preview_ts; /* of the last preview */
	uint64_t preview_seq; /* the event it showed */
	size_t preview_len; /* and how much of it */
	bool preview_wanted; /* somebody new is waiting for one */
	uv_timer_t timer;
	int64_t timer_at; /* by clock_elapsed_ms(); INT64_MAX: not armed */
	bool is_lost; /* a write has failed, and what the disk has of it cannot be read yet */
	bool is_deleted; /* that may be on its way to the disk, and may fail */
	bool has_ended; /* deleted durably; freed when the timer is closed */
	struct durable_wait delete_wait;
};

/* The lsn of a wait for what will not come; of struct durable_wait. */
#define WAIT_REFUSED INT64_MIN

struct session_table {
	uv_loop_t *loop;
	const struct limits *limits;
	const struct clock *clock;
	const struct session_ops *ops;
	void *owner;
	struct store *store;
	struct list live; /* all that are in memory, the one that was active last at the end */
	size_t live_count;
	size_t evicted; /* since memory was given back to the system last */
	uv_poll_t *watch; /* of the clock; NULL: the system has none */
	int watch_fd;
	uv_timer_t *evict_timer; /* armed for when the first of them may be idle for long enough */
	struct list dirty;
	struct list lost; /* by dirty_link: not yet what the disk has of them, after a failure */
	struct list touched;
	struct json_numbers *numbers;
	struct list
		ready; /* struct durable_wait: on disk or refused, told at the end of the tick */
	bool recovering; /* also while sessions are taken back to what is on disk */
	bool closing; /* nobody is told any more */
};

/* session_state.c */
void session_state_init(struct session *session, uint64_t next_seq);
void session_state_finish(struct session_state *state);
/** Applies a journal record: the one way in which the state changes. Returns the seq it got. */
int session_apply(struct session *session, const struct record *record, uint64_t *ret_seq);
/** The log goes on behind what the journal tells: the state becomes what the log tells. */
void session_state_follow_log(struct session *session);
/** Takes the reference. */
void session_queue_append(struct session_state *state, struct queued_prompt *prompt);
bool session_state_is_idle(const struct session_state *state);
/** Whether session_state_follow_log() would make the very same state. */
bool session_state_is_in_log(const struct session *session);
const struct stream_buffer_ops *session_stream_ops(void);
/** Appends an event of our own. Returns its seq. */
uint64_t session_put(
	struct session *session, enum event_type type, const char *data, size_t len, int64_t ts);
/** A JSON object from its text; an empty one if it is none. Freed by json_decref(). */
json_t *session_read_object(const char *data, size_t len);
/** A member of it, "" if there is none; borrowed. */
const char *session_text_of(const json_t *object, const char *name);

/* session_ledger.c */
void session_ledger_init(struct session_state *state);
void session_ledger_finish(struct session_state *state);
/** Nothing is asked, and no answer is remembered. */
bool session_ledger_is_empty(const struct session_state *state);
/**
 * A permission_request has been appended: it is open, or has at once the answer that it had before
 * its agent died.
 */
void session_ledger_ask(struct session *session, const char *data, size_t len, int64_t ts);
/** A permission_resolved, `seq`, has been appended. */
void session_ledger_resolve(struct session *session, const char *data, size_t len, uint64_t seq);
/** Whether the request of a permission_resolved is open; *ret_seq is what resolved it if not. */
bool session_ledger_is_open(
	const struct session *session, const char *data, size_t len, uint64_t *ret_seq);
/** Questions that are still open when the turn ends are closed with it. */
void session_ledger_cancel_all(struct session *session, int64_t ts);
/** A tool_call or a tool_call_update: what is done needs no answer any more. */
void session_ledger_note_call(struct session_state *state, const char *data, size_t len);
/**
 * After that: what is remembered is carried over if the agent died in the middle, else forgotten.
 */
void session_ledger_end_turn(struct session_state *state, bool carries);
void session_ledger_follow_log(struct session *session);
/** For the snapshot; takes over `permission`, or `answer`. */
void session_ledger_add_permission(struct session_state *state, struct permission *permission);
void session_ledger_add_answer(struct session_state *state, struct given_answer *answer);
/** The agent hears what is durable. */
void session_ledger_tell(struct session *session, uint64_t lsn);
/** Forgets what waits to be told. */
void session_ledger_drop(struct session *session);

/* session_activity.c */
/** stream_buffer_ops.held */
void session_activity_note(void *owner, uint64_t seq, const struct stream_input *input);
/** Observers hear of what is durable, before they get its events. */
void session_activity_tell(struct session *session, uint64_t lsn);
/** Forgets what waits to be told. */
void session_activity_drop(struct session *session);

/* session_names.c */
/** An input has been applied: its names wait for the disk. */
void session_names_note(struct session *session, const struct input_event *in, uint64_t seq);
void session_names_note_prompt(struct session *session, const char *prompt_id, uint64_t seq);
void session_names_note_removed(struct session *session, const char *prompt_id);
/** The log takes what is durable. */
void session_names_commit(struct session *session, uint64_t lsn);
/** Forgets what waits. */
void session_names_drop(struct session *session);
void session_run_begin(struct session *session, const char *run_id, size_t len);
void session_run_end(struct session *session);

/* session_snapshot.c */
void session_snapshot_save(const struct session *session, struct buffer *out);
int session_snapshot_load(struct session *session, const char *bytes, size_t len);

/* session_usage.c */
/**
 * Counts what a usage input reports. Returns whether that changed what observers are told; then
 * *ret_data is the data of its event: the report, and the total.
 */
bool session_usage_add(
	struct session *session, const struct input_event *in, struct buffer *ret_data);
/** An agent's process or a run begins: see usage_total_new_source(). */
void session_usage_begin_source(struct session *session, bool resumed);
/** All of it, to be kept; NULL if there is nothing. The caller frees it. */
char *session_usage_save(const struct session_state *state);
/** Takes what was kept; accepts NULL. -EBADMSG if it is not that. */
int session_usage_load(struct session_state *state, const char *text);
/** Takes what the log was given last. */
void session_usage_follow_log(struct session *session);
/**
 * Gives the log what is to be kept, unless some of it is not on disk yet. Returns whether the log
 * has it: where it has not, the journal's newest segment needs a snapshot of the session.
 */
bool session_usage_give_log(struct session *session);

/* session_input.c: the payload of RECORD_INPUT */
void session_input_pack(const struct input_event *input, struct buffer *out);
int session_input_unpack(const char *bytes, size_t len, struct input_event *ret);

/* session_status.c: the part of the state that observers are told, when it is durable */
/** After a record has been applied: if it changed the status, the change waits for its lsn. */
void session_status_note(struct session *session, int64_t lsn);
/** Shows what is durable now. Returns whether that is something new. */
bool session_status_commit(struct session *session, uint64_t lsn);
/** Shows the state as it is: after recovery. */
void session_status_show(struct session *session);
/** Forgets what waits. */
void session_status_drop(struct session *session);

/* session_time.c */
/** What the next input gets: the wall clock's time, but never less than the input before it. */
int64_t session_next_ts(struct session *session);
void session_note_ts(struct session *session, int64_t ts);
/** The session's clock. */
int64_t session_time(const struct session *session);
/** The session is what the disk has of it: its clock goes on from its newest input. */
void session_time_resume(struct session *session);
void session_watch_clock(struct session_table *table);
void session_unwatch_clock(struct session_table *table);
/** The wall clock was set, or the machine has woken up: timers look when they are due. */
void session_table_clock_changed(struct session_table *table);

/* session_evict.c */
/** Notes that something happened to it. */
void session_note_activity(struct session *session);
/** Releases sessions that have been idle for long enough; at the end of a loop tick. */
void session_table_evict(struct session_table *table);

/* session.c */
struct session *session_new(struct session_table *table, struct session_log *log);
void session_free(struct session *session);
/** After recovery: what is in the log is what is shown. */
void session_show_recovered(struct session *session);
void session_commit(struct session *session, uint64_t lsn);
/**
 * What is not on disk is given up: nobody hears of it, waiters hear the error, or that what they
 * wait for is in doubt.
 */
void session_fail(struct session *session, int error, uint64_t in_doubt_lsn);
/** After that: makes the state ready to be what the disk has. True if the journal must tell it. */
bool session_rewind_begin(struct session *session);
void session_rewind_end(struct session *session);
void session_touch(struct session *session);
int session_journal(struct session *session, enum record_kind kind, const char *data, size_t len,
	uint64_t *ret_seq);
int session_journal_snapshot(struct session *session);
/** Whether a request of this id was answered; ret_answer may be NULL. */
bool session_find_answer(
	const struct session *session, const char *request_id, struct log_key *ret_answer);
void session_remember_resolution(
	struct session *session, const char *request_id, const char *by, uint64_t seq);

/* session_prompts.c: what is known of prompts by their ids */
/** It has begun with this seq, or (0) waits in the queue. */
void session_remember_prompt(struct session *session, const char *prompt_id, uint64_t seq);
/** It is in the queue no more, and has not begun. */
void session_forget_prompt(struct session *session, const char *prompt_id);

/* session_view.c */
/** The object of a session that is not in memory. */
void session_log_object(const struct session_log *log, struct session_object *ret);

/* session_publish.c */
/** Deltas and previews: what the end of a loop tick sends; arms the timer. */
void session_publish(struct session *session);
/** The time until the timer is due has changed. */
void session_rearm(struct session *session);
/** An observer has become live: one with previews must not wait for the next text. */
void session_handle_joined(void *arg);

#endif
