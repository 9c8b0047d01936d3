/*
 * Private to src/agents/acp, the room that speaks ACP with one agent: acp_process.c starts and stops its
 * process, acp_session.c talks to it, acp_requests.c handles its requests, acp_resume.c resumes an
 * earlier session, acp_settings.c changes the settings that clients ask for, acp_cut.c joins text, acp_late.c ends the
 * turns that it begins by itself, acp_state.c reports
 * what does not belong to the conversation, acp_unread.c handles lines that were not read,
 * acp_updates.c translates.
 *
 * Files and commands belong to the workspace room, pipes and processes to the process room, and
 * comparing a replay with the log to the reconcile room; each is used through its public header
 * alone. Nothing here knows what a log, a store or an observer is.
 */
#ifndef HOLDFAST_ACP_INTERNAL_H
#define HOLDFAST_ACP_INTERNAL_H

#include "acp_updates.h"

#include "acp_agent.h"
#include "holdfast/traceparent.h"
#include "holdfast/agent_state.h"
#include "agents/process/child.h"
#include "agents/process/child_stderr.h"
#include "holdfast/json_lines.h"
#include "holdfast/json_rpc.h"
#include "holdfast/list.h"
#include "agents/reconcile/reconcile.h"
#include "agents/workspace/workspace.h"

enum acp_stage {
	ACP_IDLE,
	ACP_INITIALIZING,
	ACP_LOGGING_IN, /* authenticate was sent; the session has not begun */
	ACP_RESUMING, /* session/resume was sent */
	ACP_RECALLING, /* waiting for the owner to pass on the log */
	ACP_LOADING, /* session/load was sent */
	/* session/load was answered; some agents replay more of the history afterwards */
	ACP_SETTLING,
	ACP_NEW_SESSION,
	ACP_READY,
};

/* The agent's process, if it is running, and how earlier starts went. acp_process.c */
struct acp_process {
	struct child *child;
	struct box *box; /* for the child and its commands */
	unsigned open; /* children that are not closed yet, including `child` */
	struct json_lines lines;
	struct child_stderr errors;
	uint64_t start_ms; /* since 1970 */
	bool exited; /* it has exited, and all its output is in `lines` */
	int64_t exit_status;
	int term_signal;
	/* Noticed where no op may be called; the wake timer reports them. */
	int spawn_error;
	bool overflowed;
	char *over; /* which limit the box exceeded, in words; NULL: none */
	enum limit limit; /* exceeded by the newest child that exceeded one */
	bool delay_untold;
	unsigned failures; /* consecutive failures without an answered turn in between */
	bool rested; /* the delay before the next start is over */
	uv_timer_t pause; /* delays a start; or, while idle, runs until the child is stopped */
};

/* The conversation with the child. acp_session.c */
struct acp_session {
	enum acp_stage stage;
	char *id; /* the agent's id of the session */
	json_int_t last_id; /* of the newest request we sent */
	json_int_t awaited_id; /* of the request that the stage or the prompt waits for */
	json_t *info; /* the data of started() */
	json_t *early; /* params of updates that arrived before session/new was answered */
	size_t early_bytes;
	json_t *auth_methods; /* from initialize */
	/* ways to log in, while stopped() or turn_end() is called; NULL: not the reason */
	json_t *login;
	json_t *prompt_takes; /* promptCapabilities, from initialize; NULL: never started */
	struct json_rpc_halves halves; /* of the line that is being handled */
	struct json_rpc_half half; /* of a character, for which the rest of the text is awaited */
	bool half_is_thought;
	char *half_of; /* its message; NULL: none */
	struct diag_rate noise; /* limits reports of unusable lines */
};

/* The running or waiting prompt. */
struct acp_turn {
	bool prompting;
	json_t *prompt; /* its blocks, until it is sent */
	char trace[TRACEPARENT_SIZE]; /* traceparent of the prompt; "": none */
	bool cancelling; /* session/cancel was sent */
	bool cancelled_unsent; /* cancelled before it was sent; not reported yet */
	bool late; /* the agent has said something outside of a prompt */
	json_t *calls; /* ids of tool calls that it has begun then, and not finished; NULL: none */
	bool is_let_go; /* a client has cancelled that turn: tools and commands hold it no longer */
	int64_t sign_ms; /* when it last gave a sign then; loop_now_ms() */
	/* id? and method? of a line that could not be read and may be what the turn waits for */
	json_t *missed;
};

/* Resuming an earlier session. acp_resume.c */
struct acp_resume {
	bool can_resume;
	bool can_load;
	unsigned failures; /* consecutive children that did not survive resuming */
	struct reconcile *replay; /* while the agent replays its history */
	bool is_late; /* some of the history has come behind the answer to session/load */
	json_t *loaded; /* the answer to session/load */
	int64_t loaded_at; /* when that answer arrived; loop_now_ms() */
	int64_t replayed_at; /* when the newest update of the history arrived; loop_now_ms() */
};

/* What is reported beside the conversation. acp_state.c */
struct acp_state {
	json_t *metas; /* _meta of chunks, to be reported after their text */
	/*
	 * Hash of the newest state of each kind: some agents send half a megabyte again and again.
	 */
	uint64_t told[AGENT_STATE_COUNT];
	json_t *models; /* x-acp-models as last reported; NULL: never */
};

/* Pending settings. acp_settings.c */
struct acp_settings {
	struct list list;
	size_t count;
};

/* The agent's open questions. acp_requests.c */
struct acp_questions {
	struct list list;
	size_t count;
	unsigned long asked; /* questions ever asked, for their names */
};

struct acp_agent {
	uv_loop_t *loop;
	struct acp_agent_config config; /* its strings are copies, except env */
	const struct acp_agent_ops *ops;
	void *owner;
	struct acp_process process;
	struct acp_session session;
	struct acp_turn turn;
	struct acp_resume resume;
	struct acp_state state;
	struct acp_settings settings;
	struct acp_questions questions;
	struct workspace *workspace; /* NULL once it is freed */
	bool paused;
	bool draining;
	uv_timer_t wake;
	uv_timer_t deadline; /* of a start, of a cancelled turn, or of a quiet period */
	bool destroying;
	unsigned open_timers;
	void (*freed)(void *arg);
	void *freed_arg;
};

/**
 * Sends and empties `message`. An agent that does not read its input is stopped in the next tick of
 * the loop.
 */
void acp_agent_send(struct acp_agent *agent, struct buffer *message);
/**
 * Starts the wake timer, which reports what could not be reported at once because no op may be
 * called from within the owner's calls.
 */
void acp_agent_wake(struct acp_agent *agent);
/** Frees the agent if it is being destroyed and nothing is left open. */
void acp_agent_free_if_done(struct acp_agent *agent);
void acp_agent_end_turn(struct acp_agent *agent, const char *stop_reason, const char *message);
/** Sets the deadline `ms` from now: of a start, a cancelled turn, a replay, or a quiet period. */
void acp_agent_await(struct acp_agent *agent, int ms);
/** The agent is idle: starts the timer that stops the child, if idle children are to be stopped. */
void acp_agent_await_idle(struct acp_agent *agent);
/** box_create()'s callback: the box exceeded a limit and has killed everything in it. */
void acp_process_over(void *owner, enum limit limit, const char *why);
/** Starts the child, now or as soon as the delay and the previous child allow. */
void acp_process_start(struct acp_agent *agent);
/** Starts or stops reading from the child, as the state requires. */
void acp_process_read(struct acp_agent *agent);
/** Ends the child and resets everything that belonged to the conversation with it. */
void acp_process_drop(struct acp_agent *agent);
/** The configuration shared by the agent's process and its commands. */
struct child_config acp_process_config(const struct acp_agent *agent);
/** Ends the child, and with it the prompt, and calls stopped(). */
void acp_agent_stop_child(struct acp_agent *agent, const char *reason, const char *detail);
/**
 * Like acp_agent_stop_child(), because no session could begin. If the agent wants a login, clients
 * are told the ways to log in.
 */
void acp_agent_stop_for_login(struct acp_agent *agent, bool wants_login, const char *why);

/** The MCP servers for session/new; new reference. */
json_t *acp_agent_mcp_servers(const struct acp_agent *agent);
void acp_agent_send_initialize(struct acp_agent *agent);
void acp_agent_send_new_session(struct acp_agent *agent);
/** Sends a request whose answer the stage or the prompt waits for; takes over `params`. */
void acp_agent_send_request(struct acp_agent *agent, const char *method, json_t *params);
/**
 * The child has a session: takes over its id and calls started(). `result` is the answer that began
 * it.
 */
void acp_agent_begin(struct acp_agent *agent, const char *agent_session_id, const json_t *result);
/** After acp_agent_begin(): reports the early updates and sends the waiting prompt. */
void acp_agent_begun(struct acp_agent *agent);
void acp_agent_send_prompt(struct acp_agent *agent);
/** Whether the agent accepts every block of the waiting prompt, as far as is known. */
bool acp_agent_accepts_prompt(const struct acp_agent *agent);
void acp_agent_send_cancel(struct acp_agent *agent);
void acp_agent_handle_line(struct acp_agent *agent, char *line, size_t len);
/**
 * Logs something from the agent that could not be used, each byte of it visible. Returns false if
 * there were too many of them in this minute.
 */
bool acp_agent_report_noise(
	struct acp_agent *agent, const char *what, const char *text, size_t len);

/* acp_state.c: what is reported beside the conversation */

/** Whether updates of this kind carry session state, of which only the newest counts. */
bool acp_agent_is_state(const char *kind);
/**
 * Whether the newest state of this type (x-acp-…) was reported with the same data before, by this
 * child or an earlier one; if not, remembers it.
 */
bool acp_agent_is_known_state(struct acp_agent *agent, const char *type, const json_t *data);
/**
 * Reports an update that carries state, unless it is known already. Returns false if it does not
 * carry state.
 */
bool acp_agent_tell_state(struct acp_agent *agent, const json_t *update);
/** Reports the modes, models and options in the answer to session/new. */
void acp_agent_tell_session(struct acp_agent *agent, const json_t *result);
/**
 * The agent has accepted this model. No update says so, so its models are reported again with the
 * new one.
 */
void acp_agent_tell_model(struct acp_agent *agent, const char *model_id);
/** Reports the options in an answer, if they are not known. */
void acp_agent_tell_options(struct acp_agent *agent, const json_t *result);
/** Keeps the _meta of a chunk or of a prompt's result, if any, until acp_agent_tell_metas(). */
void acp_agent_keep_meta(struct acp_agent *agent, const char *of, const json_t *from);
void acp_agent_tell_metas(struct acp_agent *agent);
/** Appends advice about an error, if any is known. */
void acp_agent_advise(struct acp_agent *agent, struct buffer *words, const json_t *error);
/** The ways to log in, for clients; new reference. */
json_t *acp_agent_login_ways(const struct acp_agent *agent);
/** Reports that a client has logged in. */
void acp_agent_tell_login(struct acp_agent *agent, const struct acp_setting *how);
/* acp_cut.c: text that is cut in the middle of a character */

/**
 * Changes the text of a chunk: puts the half that waits in front, and keeps back the next one. Any
 * other update shows that the rest of the text does not come.
 */
void acp_agent_join(struct acp_agent *agent, const json_t *update);
/** Something else comes than the rest of the text: reports U+FFFD for the half that waits, if any. */
void acp_agent_give_half(struct acp_agent *agent);
void acp_agent_drop_half(struct acp_agent *agent);

/* acp_late.c: a turn that the agent began by itself */

/**
 * Notes that something was reported; outside of a prompt, quiet() will follow once the agent is
 * silent, and nothing holds the turn.
 */
void acp_agent_note_late(struct acp_agent *agent);
/** Notes a sign of life: what holds the turn holds it for longer. */
void acp_agent_note_sign(struct acp_agent *agent);
/** Notes an update of a tool call outside of a prompt, or behind a line that was missed. */
void acp_agent_note_call(struct acp_agent *agent, const json_t *update);
/** Whether such a call is unfinished, and the agent has given a sign within self_turn_ms. */
bool acp_agent_is_at_call(const struct acp_agent *agent);
/** The quiet period has passed: ends the turn, unless it is held. */
void acp_agent_handle_quiet(struct acp_agent *agent);
/** The turn is over, or a prompt begins. */
void acp_agent_end_late(struct acp_agent *agent);

/* acp_unread.c: lines that were not read */

/**
 * A line that was too long has ended: reports it, and answers the request or ends the wait for the
 * response that it contained.
 */
void acp_agent_handle_skipped(struct acp_agent *agent);
/** A line that is no message has arrived. */
void acp_agent_handle_unread(struct acp_agent *agent, const char *line, size_t len);
/** A message has arrived, which may be one that was missed. */
void acp_agent_note_news(struct acp_agent *agent, const json_t *message);
/** The turn ends: nobody waits for a missed message any more. */
void acp_agent_forget_missed(struct acp_agent *agent);
/** The deadline has passed while a message is missed: what waits for it goes on without it. */
void acp_agent_give_up_missed(struct acp_agent *agent);

/* acp_settings.c: settings that clients change */

/** The session has begun: sends the settings that waited for it. */
void acp_agent_send_settings(struct acp_agent *agent);
/**
 * The child is gone: refuses the settings that were sent to it. If the agent is being destroyed,
 * forgets all settings.
 */
void acp_agent_drop_settings(struct acp_agent *agent);
/** Handles the answer to a setting; returns false if `message` is not one. */
bool acp_agent_handle_set(struct acp_agent *agent, const json_t *message);
/** Whether a login waits to be sent. */
bool acp_agent_wants_login(const struct acp_agent *agent);
/** After initialize: sends the login that waits; returns false if none does. */
bool acp_agent_log_in(struct acp_agent *agent);

/* acp_resume.c: resuming the session of an earlier child */

/** Reads from the answer to initialize how the agent can resume a session. */
void acp_resume_read(struct acp_agent *agent, const json_t *result);
/** Resumes an earlier session, or begins a new one. */
void acp_resume_begin(struct acp_agent *agent);
/**
 * Takes an update that belongs to the replayed history; returns false if no history is being
 * replayed.
 */
bool acp_resume_take(
	struct acp_agent *agent, const json_t *update, const json_t *params, size_t line_len);
/** The answer to session/resume or session/load: `error`, or `result` if that is NULL. */
void acp_resume_handle_answer(struct acp_agent *agent, const json_t *result, const json_t *error);
/** The deadline has passed in stage ACP_SETTLING: ends the history, or keeps waiting. */
void acp_resume_settle(struct acp_agent *agent);
/** Adds one update of a replay, whose JSON has `size` bytes. */
void acp_resume_replay(struct reconcile *replay, const json_t *update, size_t size);
/** Frees the state of a replay. */
void acp_resume_finish(struct acp_agent *agent);

/**
 * Keeps an update that arrived before the answer that names the session; it is reported after
 * started().
 */
void acp_agent_keep_early(struct acp_agent *agent, const json_t *params, size_t line_len);
/** Handles a response of the agent, a result or an error. */
void acp_agent_handle_response(struct acp_agent *agent, const json_t *message);
void acp_agent_handle_request(
	struct acp_agent *agent, const char *method, const json_t *id, const json_t *params);
/** Handles $/cancel_request. */
void acp_agent_handle_withdrawal(struct acp_agent *agent, const json_t *params);
/**
 * Answers all open questions with `cancelled` and forgets them, except those whose answer is
 * already known and which acp_agent_answer() is about to give.
 */
void acp_agent_cancel_questions(struct acp_agent *agent);
void acp_agent_forget_questions(struct acp_agent *agent);
void acp_agent_send_error(struct acp_agent *agent, const json_t *id, int code, const char *why);

#endif
