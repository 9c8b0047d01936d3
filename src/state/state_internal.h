/* What the files of the state machine share. */
#ifndef HOLDFAST_STATE_INTERNAL_H
#define HOLDFAST_STATE_INTERNAL_H

#include "holdfast/session_state.h"

#include "holdfast/hash.h"
#include "holdfast/json_text.h"

/** What a question is about: two with the same sum ask the same. */
struct ledger_sum {
	uint64_t low;
	uint64_t high;
};

/** A permission request that nobody has answered yet. */
struct permission {
	struct list link;
	char *request_id;
	char *data; /* JSON of permission_request, or of elicitation_request */
	bool is_elicitation;
	char *tool_call_id;
	json_t *options;
	bool has_subject; /* the question itself says what is to be done */
	struct ledger_sum subject;
	int64_t asked_at; /* on the session's clock; -1: it is not known any more */
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

/* session_state.c */
/** Appends an event of our own. Returns its seq. */
uint64_t session_put(struct session_state *state, enum event_type type, const char *data,
	size_t len, int64_t ts);
/** Puts a prompt at the end of the queue; takes the reference. */
void session_queue_append(struct session_state *state, struct queued_prompt *prompt);
/** A JSON object from its text; an empty one if it is none. Freed by json_decref(). */
json_t *session_read_object(const char *data, size_t len);
/** A member of it, "" if there is none; borrowed. */
const char *session_text_of(const json_t *object, const char *name);

/* ledger.c */
void session_ledger_init(struct session_state *state);
void session_ledger_finish(struct session_state *state);
/** Nothing is asked, and no answer is remembered. */
bool session_ledger_is_empty(const struct session_state *state);
/**
 * A permission_request has been appended: it is open, or has at once the answer that it had before
 * its agent died.
 */
void session_ledger_ask(struct session_state *state, const struct input_event *in, int64_t ts);
/** A permission_resolved, `seq`, has been appended. */
void session_ledger_resolve(struct session_state *state, const json_t *resolved, uint64_t seq);
/** Questions that are still open when the turn ends are closed with it. */
void session_ledger_cancel_all(struct session_state *state, int64_t ts);
/** A tool_call or a tool_call_update: what is done needs no answer any more. */
void session_ledger_note_call(struct session_state *state);
/**
 * After that: what is remembered is carried over if the agent died in the middle, else forgotten.
 */
void session_ledger_end_turn(struct session_state *state, bool carries);
void session_ledger_follow_log(struct session_state *state);
/** For the snapshot: takes over the strings; false if they are none. */
bool session_ledger_add_permission(struct session_state *state, char *request_id, char *data);
/** Takes over the answer. */
void session_ledger_add_answer(struct session_state *state, struct given_answer *answer);

/* state_names.c */
/** An input has been applied: its names are to be kept. */
void session_names_note(struct session_state *state, const struct input_event *in, uint64_t seq);
/** A prompt has begun with this seq, or (0) waits in the queue. */
void session_names_note_prompt(struct session_state *state, const char *prompt_id, uint64_t seq);
/** A name of a message: chunks of one are many, and name it once. */
void session_names_note_message(
	struct session_state *state, const char *id, size_t len, uint64_t seq);
void session_names_note_removed(struct session_state *state, const char *prompt_id);
void session_run_begin(struct session_state *state, const char *run_id, size_t len);
void session_run_end(struct session_state *state);

/* state_usage.c */
/**
 * Counts what a usage input reports. Returns whether that changed what observers are told; then
 * *ret_data is the data of its event: the report, and the total.
 */
bool session_usage_add(
	struct session_state *state, const struct input_event *in, struct buffer *ret_data);
/** An agent's process or a run begins: see usage_total_new_source(). */
void session_usage_begin_source(struct session_state *state, bool resumed);
/** Takes what was kept; accepts NULL. -EBADMSG if it is not that. */
int session_usage_load(struct session_state *state, const char *text);
/** See session_state_follow_log(). */
void session_usage_follow_log(struct session_state *state, const char *text, bool has_usage);

/* input_record.c */
int session_input_unpack(const char *bytes, size_t len, struct input_event *ret);

#endif
