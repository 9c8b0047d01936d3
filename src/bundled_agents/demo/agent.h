/*
 * The demo agent: an ACP v1 agent (https://agentclientprotocol.com) without a model. It speaks
 * JSON-RPC over stdin and stdout, has many sessions, and replies to a prompt with scripts that the
 * prompt's words choose. Same prompt, same bytes: no random number and no clock decides what it
 * says; the clock only decides when.
 *
 * agent.c takes the client's messages, methods.c answers its requests, turn.c plays a reply (say.c
 * its text, calls.c its tool calls), ask.c asks the client for permission and files, settings.c has
 * what a person can choose; messages.c, script.c and token.c know nothing of the others.
 */
#ifndef HOLDFAST_DEMO_AGENT_AGENT_H
#define HOLDFAST_DEMO_AGENT_AGENT_H

#include "messages.h"
#include "script.h"

#include "common/agent_io.h"
#include "holdfast/json_rpc.h"
#include "holdfast/list.h"

#include <stdint.h>

enum {
	DEMO_SESSIONS_MAX = 256,
	DEMO_OPEN_CALLS_MAX = 4, /* of the calls in the scripts, no more are ever open at once */
};

struct demo_open_call {
	const struct demo_call *call; /* NULL: the place is free */
	char id[24];
};

/* The reply that is being played. Zeroed but for its timer at the start of a prompt. */
struct demo_turn {
	json_t *prompt_id; /* of the request to answer at the end; NULL while no turn is on */
	struct demo_reply reply;
	size_t script; /* which of the reply's scripts, */
	const struct demo_step *step; /* which step of it, */
	const char *text; /* and where in the step's text; NULL between two steps */
	size_t text_len;
	size_t text_at;
	bool is_separator; /* the text is the blank line between two scripts, not the step's own */
	bool needs_separator;
	long pause; /* tokens' time to wait */
	long fill_left;
	size_t fill_text;
	unsigned outcome; /* enum demo_outcome, or 0 */
	bool is_waiting; /* for the client's answer, or for nothing (DEMO_HANG) */
	int64_t request_id; /* of the open request to the client; -1 if none */
	struct demo_open_call calls[DEMO_OPEN_CALLS_MAX];
	struct buffer quote; /* for DEMO_QUOTE */
	struct buffer made; /* the text that is being said, where it is not a step's own */
	uint64_t played_at; /* ms of the loop's time up to which tokens are paid for */
	long credit; /* thousandths of a token */
};

struct demo_session {
	struct list link; /* in agent.sessions */
	struct demo_agent *agent;
	char id[24];
	char *cwd;
	unsigned call_count;
	uint64_t token_count;
	bool always_allowed;
	bool is_quick; /* the mode */
	bool hides_thoughts;
	bool has_title; /* the client was told one */
	uv_timer_t timer; /* paces the turn */
	struct demo_turn turn;
};

struct demo_agent {
	uv_loop_t *loop;
	struct agent_io io;
	struct list sessions;
	unsigned session_count;
	int64_t next_request_id; /* counts from 0, as real agents do */
	long rate; /* tokens per second; 0: as fast as stdout takes them */
	bool is_initialized;
	bool client_reads_files;
	bool client_writes_files;
	bool is_exiting; /* when what is queued has gone out */
	bool is_closed;
	int exit_code;
};

/** Opens stdin and stdout on the loop. Returns 0 or a negative errno; then the process must end. */
int demo_agent_start(struct demo_agent *agent, uv_loop_t *loop, long rate);
/** Frees everything; the loop has ended. */
void demo_agent_finish(struct demo_agent *agent);
/** Exits with `code` as soon as everything said so far has gone out; says nothing more. */
void demo_agent_exit(struct demo_agent *agent, int code);

/* methods.c */

/** Answers a request of the client's, now or later. */
void demo_methods_run(struct demo_agent *agent, const char *name, json_t *id, const json_t *params);
void demo_methods_cancel(struct demo_agent *agent, const json_t *params);

/* settings.c */

/** The answer to session/new. */
json_t *demo_settings_answer(const struct demo_session *session);
void demo_settings_tell_commands(struct demo_session *session);
/** Names the session after its first prompt. */
void demo_settings_tell_title(struct demo_session *session, const char *prompt, size_t len);
/** False if there is no such mode; `id` may be NULL. */
bool demo_settings_take_mode(struct demo_session *session, const char *id);
/** The answer to the request; NULL if there is no such option or value, which may be NULL. */
json_t *demo_settings_take_option(struct demo_session *session, const char *id, const char *value);

/* turn.c */

/** Starts to reply; `prompt_id` is borrowed. No turn may be on. */
void demo_turn_start(
	struct demo_session *session, json_t *prompt_id, const char *prompt, size_t len);
/** Goes on after the client's answer, or after stdout was full. */
void demo_turn_resume(struct demo_session *session);
/** Answers the prompt. Calls that are still open are reported as failed. */
void demo_turn_end(struct demo_session *session, const char *stop_reason);
/** Frees the turn without a word. */
void demo_turn_drop(struct demo_session *session);
bool demo_turn_is_on(const struct demo_session *session);

/** Sends a session/update of this kind; takes `update`. */
void demo_turn_update(struct demo_session *session, const char *kind, json_t *update);

/* calls.c */

/** The open call's id, or NULL. */
const char *demo_calls_find(struct demo_session *session, const struct demo_call *call);
/** Reports the beginning of a call. */
void demo_calls_begin(
	struct demo_session *session, const struct demo_call *call, const char *status);
/** Reports what the step says of its call, if that is open. */
void demo_calls_update(struct demo_session *session, const struct demo_step *step);
/** The call is no longer open. */
void demo_calls_forget(struct demo_session *session, const struct demo_call *call);
void demo_calls_fail_open(struct demo_session *session);

/* say.c */

/** Says the next token of the turn's step; false if there is none, and the step is over. */
bool demo_say_token(struct demo_session *session);

/* ask.c: each reports the call, asks, and has the turn wait; or sets the outcome at once. */

void demo_ask_permission(struct demo_session *session, const struct demo_call *call);
void demo_ask_read(struct demo_session *session, const struct demo_call *call);
void demo_ask_write(struct demo_session *session, const struct demo_call *call);
/** The client's answer to the session's open request; `result` is NULL if it is an error. */
void demo_ask_answered(struct demo_session *session, const json_t *result, const json_t *error);
/** The turn is cancelled: withdraws the open question, if any. */
void demo_ask_withdraw(struct demo_session *session);

#endif
