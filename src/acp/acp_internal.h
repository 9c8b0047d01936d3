/*
 * Private to src/acp, the room that speaks ACP with one agent: acp_process.c starts and stops its
 * process, acp_session.c talks with it, acp_requests.c hears what it asks, acp_resume.c has it go
 * on with an earlier session, acp_settings.c sets what clients ask for, acp_state.c tells what is
 * beside the conversation, acp_updates.c translates.
 *
 * Files and commands are the workspace's, pipes and processes the process room's, comparing a
 * replay with the log is reconcile's: each is used through its header alone. What a log, a store or
 * an observer is, nobody here knows.
 */
#ifndef HOLDFAST_ACP_INTERNAL_H
#define HOLDFAST_ACP_INTERNAL_H

#include "acp_updates.h"

#include "holdfast/acp_agent.h"
#include "holdfast/traceparent.h"
#include "holdfast/agent_state.h"
#include "holdfast/child.h"
#include "holdfast/child_stderr.h"
#include "holdfast/json_lines.h"
#include "holdfast/json_rpc.h"
#include "holdfast/list.h"
#include "holdfast/reconcile.h"
#include "holdfast/workspace.h"

enum acp_stage {
	ACP_IDLE,
	ACP_INITIALIZING,
	ACP_LOGGING_IN, /* authenticate was sent before there is a session */
	ACP_RESUMING, /* session/resume was sent */
	ACP_RECALLING, /* the owner reads what the log has */
	ACP_LOADING, /* session/load was sent */
	ACP_SETTLING, /* and answered, but some tell more of the history behind that */
	ACP_NEW_SESSION,
	ACP_READY,
};

/* The process that is spoken with, if any, and how the starts went. acp_process.c */
struct acp_process {
	struct child *child;
	struct box *box; /* of the child and its commands */
	unsigned open; /* children that are not closed yet, the one above among them */
	struct json_lines lines;
	struct child_stderr errors;
	uint64_t start_ms; /* since 1970 */
	bool exited; /* and all its output was pushed into `lines` */
	int64_t exit_status;
	int term_signal;
	/* Found out where no op may be called; told by the wake timer. */
	int spawn_error;
	bool overflowed;
	char *over; /* what was too much for the box; NULL: nothing */
	enum limit limit; /* that of the newest child that was over one */
	bool delay_untold;
	unsigned failures; /* in a row, without a turn that was answered */
	bool rested; /* the delay before the next start is over */
	uv_timer_t pause; /* before a start; or, with nothing to do, until the child is stopped */
};

/* What is between the child and us. acp_session.c */
struct acp_session {
	enum acp_stage stage;
	char *id; /* as the agent names it */
	json_int_t last_id; /* of our requests */
	json_int_t awaited_id; /* of the one for the stage or the prompt */
	json_t *info; /* what started() will say */
	json_t *early; /* params of updates that came before session/new was answered */
	size_t early_bytes;
	json_t *auth_methods; /* of initialize */
	json_t *login; /* while stopped() or turn_end() is called: how to log in; NULL: that is not why */
	json_t *prompt_takes; /* promptCapabilities, the same; NULL: it has not been started */
	struct diag_rate noise; /* reports of lines that could not be used */
};

/* The prompt. */
struct acp_turn {
	bool prompting;
	json_t *prompt; /* its blocks while it is not sent */
	char trace[TRACEPARENT_SIZE]; /* that it belongs to; "": none */
	bool cancelling; /* session/cancel was sent */
	bool cancelled_unsent; /* it was never sent, which is not told yet */
	bool late; /* something was said outside of a prompt */
};

/* Going on with an earlier session. acp_resume.c */
struct acp_resume {
	bool can_resume;
	bool can_load;
	unsigned failures; /* in a row: children that did not survive going on */
	struct reconcile *replay; /* while it tells its history */
	json_t *loaded; /* the answer to session/load */
	uint64_t loaded_at; /* ms of the loop */
	uint64_t replayed_at; /* the newest update of the history */
};

/* What is told beside the conversation. acp_state.c */
struct acp_state {
	json_t *metas; /* of chunks, to be told behind the text that they came with */
	/* By kind, what the newest hashes to: some agents send half a megabyte again and again. */
	uint64_t told[AGENT_STATE_COUNT];
	json_t *models; /* x-acp-models as it was told last; NULL: never */
};

/* Settings that were asked for. acp_settings.c */
struct acp_settings {
	struct list list;
	size_t count;
};

/* The agent's questions (session/request_permission) that are not answered yet. acp_requests.c */
struct acp_questions {
	struct list list;
	size_t count;
	unsigned long asked; /* ever, for their names */
};

struct acp_agent {
	uv_loop_t *loop;
	struct acp_agent_config config; /* its strings are copies, but for env */
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
	uv_timer_t deadline; /* of the start, of a cancelled turn, or of a quiet time */
	bool destroying;
	unsigned open_timers;
	void (*freed)(void *arg);
	void *freed_arg;
};

/**
 * Sends and empties `message`; an agent that does not read is stopped at the next tick of the loop.
 */
void acp_agent_send(struct acp_agent *agent, struct buffer *message);
/** Lets the loop call again soon, outside of the owner's calls, to say what is left to say. */
void acp_agent_wake(struct acp_agent *agent);
/** Frees the agent if it is being destroyed and nothing is left open. */
void acp_agent_free_if_done(struct acp_agent *agent);
void acp_agent_end_turn(struct acp_agent *agent, const char *stop_reason, const char *message);
/** The deadline is in so many ms: of the start, of a cancelled turn, of history, or of a quiet time. */
void acp_agent_await(struct acp_agent *agent, int ms);
/** There is nothing to do now: after a while the child is stopped, if it is to be. */
void acp_agent_await_idle(struct acp_agent *agent);
/** Something was reported: outside of a prompt, its end is looked out for. */
void acp_agent_note_late(struct acp_agent *agent);
/** The box has killed all that is in it, because it was too much. */
void acp_process_over(void *owner, enum limit limit, const char *why);
/** Starts the child, now or as soon as that may be. */
void acp_process_start(struct acp_agent *agent);
/** Reads from it, or not, as may be now. */
void acp_process_read(struct acp_agent *agent);
/** Releases the child, which ends by itself now, and forgets all that was between us. */
void acp_process_drop(struct acp_agent *agent);
/** How whatever is started for the agent is run. */
struct child_config acp_process_config(const struct acp_agent *agent);
/** Keeps a line of its stdout as if it were of its stderr. */
void acp_process_note_words(struct acp_agent *agent, const char *line, size_t len);
/** Ends the child and with it the prompt, and tells. */
void acp_agent_stop_child(struct acp_agent *agent, const char *reason, const char *detail);
/** The same because it began no session; if it wants a login, clients are told how to. */
void acp_agent_stop_for_login(struct acp_agent *agent, bool wants_login, const char *why);

/** Those that its sessions get; the caller owns a reference. */
json_t *acp_agent_mcp_servers(const struct acp_agent *agent);
void acp_agent_send_initialize(struct acp_agent *agent);
void acp_agent_send_new_session(struct acp_agent *agent);
/** For the stage or the prompt; takes over `params`. */
void acp_agent_send_request(struct acp_agent *agent, const char *method, json_t *params);
/** The child has a session: takes the name, and tells. `result` is what it answered. */
void acp_agent_begin(struct acp_agent *agent, const char *agent_session_id, const json_t *result);
/** After that: what came early is told, and the prompt that waits is sent. */
void acp_agent_begun(struct acp_agent *agent);
void acp_agent_send_prompt(struct acp_agent *agent);
/** Whether it takes each block of the prompt that waits, as far as is known. */
bool acp_agent_takes_prompt(const struct acp_agent *agent);
void acp_agent_send_cancel(struct acp_agent *agent);
void acp_agent_handle_line(struct acp_agent *agent, char *line, size_t len);
/** Reports something the agent said that could not be used; rate-limited. */
void acp_agent_report_noise(
	struct acp_agent *agent, const char *what, const char *text, size_t len);

/* acp_state.c: what is told beside the conversation itself */

/** Whether an update of this kind tells the state of the session: the newest one counts. */
bool acp_agent_is_state(const char *kind);
/**
 * Whether the newest state of the type (x-acp-…) was told just so, by this child or one before it;
 * remembers it if not.
 */
bool acp_agent_is_known_state(struct acp_agent *agent, const char *type, const json_t *data);
/** Tells an update if it is of that kind and not known; false if it is of another kind. */
bool acp_agent_tell_state(struct acp_agent *agent, const json_t *update);
/** The modes, models and options that the answer to session/new has. */
void acp_agent_tell_session(struct acp_agent *agent, const json_t *result);
/** The agent has taken this model: no update says so, so its models are told again with it. */
void acp_agent_tell_model(struct acp_agent *agent, const char *model_id);
/** The options that an answer has, if they are not known. */
void acp_agent_tell_options(struct acp_agent *agent, const json_t *result);
/** Keeps the _meta of a chunk or of a prompt's result, if it has one. */
void acp_agent_keep_meta(struct acp_agent *agent, const char *of, const json_t *from);
void acp_agent_tell_metas(struct acp_agent *agent);
/** Appends what can be done about an error, if it is known. */
void acp_agent_advise(struct acp_agent *agent, struct buffer *words, const json_t *error);
/** How to log in, for clients. The caller owns it. */
json_t *acp_agent_login_ways(const struct acp_agent *agent);
/** Somebody has logged in. */
void acp_agent_tell_login(struct acp_agent *agent, const struct acp_setting *how);
/** A line that was too long has ended: who waits for it hears why nothing comes. */
void acp_agent_handle_skipped(struct acp_agent *agent);

/* acp_settings.c: what clients ask to be set */

/** The session has begun: what waited for it is asked for. */
void acp_agent_send_settings(struct acp_agent *agent);
/** The child is gone: what it was asked for is refused; of a destroyed agent all is forgotten. */
void acp_agent_drop_settings(struct acp_agent *agent);
/** Whether this answers one of them. */
bool acp_agent_handle_set(struct acp_agent *agent, const json_t *message);
/** Whether somebody wants to log in, and waits for it to be started. */
bool acp_agent_wants_login(const struct acp_agent *agent);
/** After initialize: asks for the login that waits; false if none does. */
bool acp_agent_log_in(struct acp_agent *agent);

/* acp_resume.c: going on with the session that a child before had */

/** What initialize says of that. */
void acp_resume_read(struct acp_agent *agent, const json_t *result);
/** Goes on with an earlier session, or begins a new one. */
void acp_resume_begin(struct acp_agent *agent);
/** Whether an update was of the history, and is taken. */
bool acp_resume_take(
	struct acp_agent *agent, const json_t *update, const json_t *params, size_t line_len);
/** The answer to session/resume or session/load; `error` NULL: it is `result`. */
void acp_resume_handle_answer(struct acp_agent *agent, const json_t *result, const json_t *error);
/** The deadline has come, while history may still be told. */
void acp_resume_settle(struct acp_agent *agent);
/** One update of a replay, and the bytes that it came in. */
void acp_resume_replay(struct reconcile *replay, const json_t *update, size_t size);
/** Forgets all of it. */
void acp_resume_finish(struct acp_agent *agent);

/** Some send updates before the answer that names the session: they are told after started(). */
void acp_agent_keep_early(struct acp_agent *agent, const json_t *params, size_t line_len);
/** The answer to our request, with an error instead of what it brought. */
void acp_agent_handle_response(struct acp_agent *agent, const json_t *message);
void acp_agent_handle_request(
	struct acp_agent *agent, const char *method, const json_t *id, const json_t *params);
/** $/cancel_request */
void acp_agent_handle_withdrawal(struct acp_agent *agent, const json_t *params);
/**
 * Answers all open questions with `cancelled` if the child can still hear, and forgets them; but
 * those that have their answer, which acp_agent_answer() is about to give.
 */
void acp_agent_cancel_questions(struct acp_agent *agent);
void acp_agent_forget_questions(struct acp_agent *agent);
void acp_agent_send_error(struct acp_agent *agent, const json_t *id, int code, const char *why);

#endif
