#ifndef HOLDFAST_SESSION_INTERNAL_H
#define HOLDFAST_SESSION_INTERNAL_H

#include "holdfast/hash.h"
#include "holdfast/session.h"
#include "holdfast/session_state.h"

#include <jansson.h>

/** What the state machine has done and the disk has not confirmed: the head of such structs. */
struct pending {
	struct list link;
	int64_t lsn;
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
	struct hash *resolved; /* struct resolution of session_answers.c, by request id */

	struct buffer
		base; /* that snapshot, while it is not on disk: what a failure goes back to */
	int64_t base_lsn;
	struct open_mark shown_open; /* what is on disk of the open event */
	struct open_mark open_marks[2]; /* as of the batch in flight, and of the one that gathers */
	size_t open_mark_count;
	int64_t created_lsn; /* of its RECORD_CREATE; 0: it was there when the server started */
	bool has_snapshot; /* recovery has seen one */
	int64_t applying_lsn; /* of the record being applied */
	int64_t last_ts; /* the newest that an input or event of it was given */
	int64_t time_shift; /* of the session's clock against clock_elapsed_ms() */
	int64_t last_lsn; /* of its newest record */
	/* Lists of structs that begin with struct pending, in lsn order. */
	struct list pending_prompts; /* what its agent has to be given */
	struct list pending_answers; /* what its agent has to be told */
	struct list pending_activity; /* notices of what is held */
	struct list pending_names; /* names that inputs gave */
	struct list pending_labels; /* what people have called it */
	struct list pending_states; /* what the status became */
	struct hash *fresh_names; /* pending_names by kind and name, the first of each */
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
	bool has_open; /* a block: counted in table.open_blocks */
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
	struct metrics *metrics; /* NULL: nobody counts */
	struct turns *turns; /* of loads; NULL: nobody waits */
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
	struct hash *makers; /* of session_room.c, by sub */
	size_t open_blocks; /* sessions that have one */
	struct list
		ready; /* struct durable_wait: on disk or refused, told at the end of the tick */
	struct elsewhere *elsewhere; /* session_elsewhere.c; NULL: all sessions are here */
	bool recovering; /* also while sessions are taken back to what is on disk */
	bool closing; /* nobody is told any more */
};

/** Takes the first of a list off it, if the record of this number is on disk; else NULL. */
void *session_take_pending(struct list *list, uint64_t lsn);

/* session_answers.c */
/** Of session_state_ops: it is known from now on, and the agent hears of it when it is durable. */
void session_take_answer(void *session, const struct session_answer *answer);
/** Whether a request of this id was answered; ret_answer may be NULL. */
bool session_find_answer(
	const struct session *session, const char *request_id, struct log_key *ret_answer);
/** The agent hears what is durable. */
void session_answers_tell(struct session *session, uint64_t lsn);
/** Forgets what waits to be told. */
void session_answers_drop(struct session *session);
/** Forgets the answers that the log does not have. */
void session_answers_rewind(struct session *session);
void session_answers_finish(struct session *session);

/* session_activity.c */
/** Of session_state_ops: observers hear of it. */
void session_activity_note(void *session, uint64_t seq, const struct stream_input *input);
/** Observers hear of what is durable, before they get its events. */
void session_activity_tell(struct session *session, uint64_t lsn);
/** Forgets what waits to be told. */
void session_activity_drop(struct session *session);

/* session_elsewhere.c */
/** If the store is shared. */
void session_elsewhere_begin(struct session_table *table);
void session_elsewhere_end(struct session_table *table);
/** Other nodes are to hear of the session as it is now. */
void session_elsewhere_note(struct session_table *table, const char *id);
/** It has been deleted. */
void session_elsewhere_forget(struct session_table *table, const char *id);

/* session_names.c */
/** Of session_state_ops: it waits for the disk. */
void session_names_add(void *session, const struct session_name *name);
/** What is durable is found in the log from now on. */
void session_names_commit(struct session *session, uint64_t lsn);
/** Forgets what waits. */
void session_names_drop(struct session *session);

/* session_labels.c */
/** A RECORD_LABELS: the log follows when it is on disk. -EBADMSG if it is none of ours. */
int session_labels_apply(struct session *session, const struct record *record);
/** The log gets what is durable. Returns whether there was any. */
bool session_labels_commit(struct session *session, uint64_t lsn);
/** Forgets what waits. */
void session_labels_drop(struct session *session);

/* session_follow.c */
/** A run has begun or ended (NULL), durably. */
void session_follow_run(struct session *session, const char *run_id);
/** The state becomes what the log tells. */
void session_follow_log(struct session *session);
/** Whether session_follow_log() would make the very same state. */
bool session_is_in_log(const struct session *session);
/**
 * Gives the log what is to be kept, unless some of it is not on disk yet. Returns whether the log
 * has it: where it has not, the journal's newest segment needs a snapshot of the session.
 */
bool session_usage_give_log(struct session *session);

/* session_status.c: the part of the state that observers are told, when it is durable */
/** After a record has been applied: if it changed the status, the change waits for its lsn. */
void session_status_note(struct session *session, int64_t lsn);
/** Shows what is durable now. Returns whether that is something new. */
bool session_status_commit(struct session *session, uint64_t lsn);
/** Shows the state as it is: after recovery. */
void session_status_show(struct session *session);
/** Forgets what waits. */
void session_status_drop(struct session *session);

/* session_table.c */
/** A random number that is not 0; -EIO if the system has none. */
int session_random(uint64_t *ret);

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

/* session_room.c */
/** A session is there, and is not any more: for the count of its maker's. */
void session_room_count(struct session_log *log, void *table);
void session_room_uncount(struct session_table *table, const struct session_log *log);
void session_room_finish(struct session_table *table);
/** Whether its newest text is a block that is not whole. */
void session_room_note_open(struct session *session, bool is_open);

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
/** `input` is what an input's record was made of, else NULL. */
int session_journal(struct session *session, enum record_kind kind, const char *data, size_t len,
	const struct input_event *input, uint64_t *ret_seq);
int session_journal_snapshot(struct session *session);
/** The whole state, as a snapshot has it. */
void session_save_state(struct session *session, struct buffer *out);
/** Applies a record of the journal. */
int session_apply(struct session *session, const struct record *record,
	const struct input_event *input, uint64_t *ret_seq);

/* session_prompts.c: what is known of prompts by their ids */
/** It has begun with this seq, or (0) waits in the queue. */
void session_remember_prompt(struct session *session, const char *prompt_id, uint64_t seq);
/** It is in the queue no more, and has not begun. */
void session_forget_prompt(struct session *session, const char *prompt_id);

/* session_view.c */
void session_log_labels(const struct session_log *log, struct session_labels *ret);
/** The object of a session that is not in memory. */
void session_log_object(const struct session_log *log, struct session_object *ret);

/* session_publish.c */
/** Deltas and previews: what the end of a loop tick sends; arms the timer. */
void session_publish(struct session *session);
/** The time until the timer is due has changed. */
void session_rearm(struct session *session);
/** An observer has become live: one with previews must not wait for the next text. */
void session_handle_joined(void *arg);
/** Of struct store_ops. */
void session_handle_pruned(void *owner);

#endif
