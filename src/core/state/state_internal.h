/* Internals of the state machine, shared by its files. */
#ifndef HOLDFAST_STATE_INTERNAL_H
#define HOLDFAST_STATE_INTERNAL_H

#include "holdfast/session_state.h"

#include "holdfast/hash.h"
#include "holdfast/json_text.h"

/** A digest of the subject of a permission request: requests with the same sum ask the same. */
struct ledger_sum {
	uint64_t low;
	uint64_t high;
};

/** A permission request, or an elicitation, that has not been answered yet. */
struct permission {
	struct list link;
	char *request_id;
	char *data; /* JSON of permission_request, or of elicitation_request */
	bool is_elicitation;
	char *tool_call_id;
	json_t *options;
	bool has_subject; /* the request itself says what is to be done, see ledger.c */
	struct ledger_sum subject;
	int64_t asked_at; /* on the session's clock; -1: unknown */
};

/** A person's answer, kept until the tool call that it permits is done. */
struct given_answer {
	struct list link;
	bool is_carried; /* given in an earlier turn, in which the agent died; else in this one */
	uint64_t seq; /* of its permission_resolved */
	struct ledger_sum subject; /* of the request */
	char *tool_call_id;
	char *option_id;
	char *by;
};

/* session_state.c */
/** Adds an event that the state machine itself makes. Returns its seq. */
uint64_t session_put(struct session_state *state, enum event_type type, const char *data,
	size_t len, int64_t ts);
/** Adds a prompt at the end of the queue; takes over the reference. */
void session_queue_append(struct session_state *state, struct queued_prompt *prompt);
/** Parses JSON; an empty object if it is malformed. The caller releases it with json_decref(). */
json_t *session_read_object(const char *data, size_t len);
/** A string member of an object, "" if it has none; borrowed. */
const char *session_text_of(const json_t *object, const char *name);

/* ledger.c */
void session_ledger_init(struct session_state *state);
void session_ledger_finish(struct session_state *state);
/** Whether no request is open, and no answer is remembered. */
bool session_ledger_is_empty(const struct session_state *state);
/**
 * A permission_request has been added: opens it, or resolves it at once with the answer that the
 * same request got before its agent died.
 */
void session_ledger_ask(struct session_state *state, const struct input_event *in, int64_t ts);
/** The permission_resolved with this seq has been added. */
void session_ledger_resolve(struct session_state *state, const json_t *resolved, uint64_t seq);
/** The turn ends: cancels requests that are still open. */
void session_ledger_cancel_all(struct session_state *state, int64_t ts);
/** A tool_call or tool_call_update: if the call is over, its answer is not needed any more. */
void session_ledger_note_call(struct session_state *state);
/**
 * After session_ledger_cancel_all(): carries remembered answers over to the next turn, or drops
 * them.
 */
void session_ledger_end_turn(struct session_state *state, bool carries);
/** See session_state_follow_log(). */
void session_ledger_follow_log(struct session_state *state);
/** Adds an open request from a snapshot; takes over the strings. False if one of them is NULL. */
bool session_ledger_add_permission(struct session_state *state, char *request_id, char *data);
/** Adds an answer from a snapshot; takes it over. */
void session_ledger_add_answer(struct session_state *state, struct given_answer *answer);

/* state_names.c */
/** Notes the names of an input that has been applied. */
void session_names_note(struct session_state *state, const struct input_event *in, uint64_t seq);
/** Notes a prompt that has begun as the event `seq`, or was queued (0). */
void session_names_note_prompt(struct session_state *state, const char *prompt_id, uint64_t seq);
/** Notes a message id, once for consecutive chunks of the message. */
void session_names_note_message(
	struct session_state *state, const char *id, size_t len, uint64_t seq);
void session_names_note_removed(struct session_state *state, const char *prompt_id);
void session_run_begin(struct session_state *state, const char *run_id, size_t len);
void session_run_end(struct session_state *state);

/* state_usage.c */
/**
 * Adds the report of a usage input. Returns whether the visible total has changed; then *ret_data
 * is the data for its event: the report and the total.
 */
bool session_usage_add(
	struct session_state *state, const struct input_event *in, struct buffer *ret_data);
/** An agent process or a run begins: see usage_total_new_source(). */
void session_usage_begin_source(struct session_state *state, bool resumed);
/** Restores a total from session_usage_save(); accepts NULL. -EBADMSG if it is malformed. */
int session_usage_load(struct session_state *state, const char *text);
/** See session_state_follow_log(). */
void session_usage_follow_log(struct session_state *state, const char *text, bool has_usage);

/* input_record.c */
/** Parses the payload of RECORD_INPUT, which *ret points into; -EBADMSG if it is malformed. */
int session_input_unpack(const char *bytes, size_t len, struct input_event *ret);

#endif
