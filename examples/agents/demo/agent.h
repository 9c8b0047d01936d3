/*
 * The demo agent: an ACP v1 agent (https://agentclientprotocol.com) without a model. It speaks
 * JSON-RPC over stdin and stdout, serves many sessions, and replies to a prompt with scripts that
 * the prompt's words choose. The same prompt gives the same bytes: neither a random number nor a
 * clock decides what it says; the clock only decides when.
 *
 * agent.c takes the client's messages, methods.c answers its requests, turn.c plays a reply (say.c
 * its text, calls.c its tool calls), ask.c asks the client for permission and files, settings.c has
 * what a person can choose. messages.c, script.c and token.c depend on none of the others.
 */
#ifndef HOLDFAST_DEMO_AGENT_AGENT_H
#define HOLDFAST_DEMO_AGENT_AGENT_H

#include "messages.h"
#include "script.h"

#include "../common/agent_io.h"
#include "holdfast/json_rpc.h"
#include "holdfast/list.h"

#include <stdint.h>

enum {
	DEMO_SESSIONS_MAX = 256,
	DEMO_OPEN_CALLS_MAX = 4, /* no script has more calls open at once */
};

struct demo_open_call {
	const struct demo_call *call; /* NULL: this entry is free */
	char id[24];
};

/* The reply that is being played. Zeroed, except for request_id, when no turn is on. */
struct demo_turn {
	json_t *prompt_id; /* id of the request to answer at the end; NULL: no turn is on */
	struct demo_reply reply;
	size_t script; /* index of the current script of the reply */
	const struct demo_step *step; /* the current step of that script */
	const char *text; /* the text being said; NULL between two steps */
	size_t text_len;
	size_t text_at;
	bool is_separator; /* the text is the blank line between two scripts, not the step's own */
	bool needs_separator;
	long pause; /* remaining pause, in tokens */
	long fill_left;
	size_t fill_text;
	unsigned outcome; /* enum demo_outcome, or 0 */
	bool is_waiting; /* for the client's answer, or forever (DEMO_HANG) */
	int64_t request_id; /* of the open request to the client; -1: none */
	struct demo_open_call calls[DEMO_OPEN_CALLS_MAX];
	struct buffer quote; /* for DEMO_QUOTE */
	struct buffer made; /* the text being said, if it is generated */
	uint64_t played_at; /* time of the loop (ms) up to which credit was granted */
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
	bool is_quick; /* mode "quick" */
	bool hides_thoughts;
	bool has_title; /* the client was told a title */
	uv_timer_t timer; /* drives the turn */
	struct demo_turn turn;
};

struct demo_agent {
	uv_loop_t *loop;
	struct agent_io io;
	struct list sessions;
	unsigned session_count;
	int64_t next_request_id; /* counts from 0, as real agents do */
	long rate; /* tokens per second; 0: as fast as stdout accepts them */
	bool is_initialized;
	bool client_reads_files;
	bool client_writes_files;
	bool is_exiting; /* exits once everything queued is written */
	bool is_closed;
	int exit_code;
};

/**
 * Opens stdin and stdout on the loop. Returns 0, or a negative errno, after which the process must
 * end.
 */
int demo_agent_start(struct demo_agent *agent, uv_loop_t *loop, long rate);
/** Frees everything; call it when the loop has ended. */
void demo_agent_finish(struct demo_agent *agent);
/** Exits with `code` once everything queued is written; nothing more is said. */
void demo_agent_exit(struct demo_agent *agent, int code);

/* methods.c */

/** Answers a request of the client, now or later. */
void demo_methods_run(struct demo_agent *agent, const char *name, json_t *id, const json_t *params);
void demo_methods_cancel(struct demo_agent *agent, const json_t *params);

/* settings.c */

/** The answer to session/new. */
json_t *demo_settings_answer(const struct demo_session *session);
void demo_settings_tell_commands(struct demo_session *session);
/** Reports a title for the session, made from its first prompt. */
void demo_settings_tell_title(struct demo_session *session, const char *prompt, size_t len);
/** Sets the mode; returns false if `id` is unknown or NULL. */
bool demo_settings_take_mode(struct demo_session *session, const char *id);
/**
 * Sets an option. Returns the answer to the request, or NULL if `id` or `value` is unknown or NULL.
 */
json_t *demo_settings_take_option(struct demo_session *session, const char *id, const char *value);

/* turn.c */

/** Starts a reply; takes a reference to `prompt_id`. No turn must be on. */
void demo_turn_start(
	struct demo_session *session, json_t *prompt_id, const char *prompt, size_t len);
/** Continues after the client's answer, or after stdout was full. */
void demo_turn_resume(struct demo_session *session);
/** Ends the turn and answers the prompt. Open calls are reported as failed. */
void demo_turn_end(struct demo_session *session, const char *stop_reason);
/** Frees the turn without an answer. */
void demo_turn_drop(struct demo_session *session);
bool demo_turn_is_on(const struct demo_session *session);

/** Sends a session/update of this kind; takes over `update`. */
void demo_turn_update(struct demo_session *session, const char *kind, json_t *update);

/* calls.c */

/** The id of an open call, or NULL. */
const char *demo_calls_find(struct demo_session *session, const struct demo_call *call);
/** Reports the beginning of a call. */
void demo_calls_begin(
	struct demo_session *session, const struct demo_call *call, const char *status);
/** Reports the update of a step for its call, if that is open. */
void demo_calls_update(struct demo_session *session, const struct demo_step *step);
/** The call is no longer open. */
void demo_calls_forget(struct demo_session *session, const struct demo_call *call);
void demo_calls_fail_open(struct demo_session *session);

/* say.c */

/**
 * Says the next token of the turn's step. Returns false if there was none, and the step is over.
 */
bool demo_say_token(struct demo_session *session);

/*
 * ask.c: each function reports the call, sends the request and makes the turn wait, or sets the
 * outcome at once.
 */

void demo_ask_permission(struct demo_session *session, const struct demo_call *call);
void demo_ask_read(struct demo_session *session, const struct demo_call *call);
void demo_ask_write(struct demo_session *session, const struct demo_call *call);
/** Takes the client's answer to the session's open request; `result` is NULL if it is an error. */
void demo_ask_answered(struct demo_session *session, const json_t *result, const json_t *error);
/** The turn is cancelled: withdraws the open question, if any. */
void demo_ask_withdraw(struct demo_session *session);

#endif
