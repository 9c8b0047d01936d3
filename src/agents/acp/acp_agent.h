/*
 * An ACP v1 agent as a child process (https://agentclientprotocol.com, schema v1): JSON-RPC 2.0,
 * one message a line, over the child's stdin and stdout; its stderr goes to the server's log.
 *
 * The child is started by the first prompt (initialize, session/new, then session/prompt), and
 * after it has died by the next one. It then resumes its earlier session if it can: by
 * session/resume, which replays nothing, or else by session/load, which replays the whole history,
 * of which only what the log lacks is reported. The child runs in a process group of its own, which
 * is ended with it. Everything it says is hostile: bounded, validated, and skipped with a
 * diagnostic if it is not JSON-RPC. The program must ignore SIGPIPE. What the agent reports is
 * passed on in Holdfast's names (snake_case, proto/protocol.md), in order, through one table of
 * functions.
 */
#ifndef HOLDFAST_ACP_AGENT_H
#define HOLDFAST_ACP_AGENT_H

#include "holdfast/buffer.h"
#include "holdfast/box.h"
#include "holdfast/spawner.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct acp_agent;

/* The strings are copied. */
struct acp_agent_config {
	const char *command; /* run by /bin/sh -c */
	const char *cwd; /* absolute; the agent's working directory and the root of fs requests */
	/* an array for session/new; borrowed while the agent lives; NULL: none */
	json_t *mcp_servers;
	const char *private_dir; /* see struct workspace_config; NULL: none */
	const char *session_id; /* names the session in diagnostics */
	size_t line_max; /* bytes; a longer line from the agent is reported and skipped */
	size_t file_max; /* bytes; fs requests for larger files are refused */
	size_t file_names_max; /* hard links; fs requests for files with more are refused; 0: 1 */
	size_t terminals_max; /* open at once; 0: terminals are not offered */
	size_t questions_max; /* open at once; 0: 64 */
	int stop_grace_ms; /* from SIGTERM to SIGKILL */
	int cancel_grace_ms; /* to wait for the answer to session/cancel; 0: 10 s */
	/* of the child and its commands; borrowed while the agent lives; NULL: the server's */
	char **env;
	int file_ms; /* timeout of one file request; 0: 20 s */
	/* free descriptors that starting a process must leave; 0: any number */
	size_t descriptors_kept;
	/* starts the child, its commands and, as its helper, agent_files.h */
	struct spawner *spawner;
	struct box_rules box; /* for the child and its commands; enforced only with guards */
	/* after two failures in a row, doubled with each further one; 0: 500 */
	int restart_delay_ms;
	int idle_ms; /* the child is stopped after being idle this long; 0: never */
	/* the same for an agent that can resume its session; 0: as idle_ms */
	int resumable_idle_ms;
	int quiet_ms; /* see quiet(); 0: 1 s */
	int self_turn_ms; /* see quiet(); 0: 1 h */
	int start_timeout_ms; /* for initialize and session/new together; 0: 120 s */
	int login_ms; /* for authenticate, while a person logs in elsewhere; 0: 10 min */
	struct json_numbers *numbers; /* collects the agent's numbers; NULL: they are not kept */
};

enum acp_setting_kind { ACP_SET_MODE, ACP_SET_MODEL, ACP_SET_OPTION, ACP_LOG_IN };

/** A setting that a client asks for. */
struct acp_setting {
	enum acp_setting_kind kind;
	const char *id; /* of the mode, the model, the option, or the login method */
	const json_t *value; /* of the option: a string or a boolean */
	const char *by; /* the client that asked, and its token's subject: passed to refused() */
	const char *sub;
};

/** What the agent reports to its owner, on the loop. None of these may call acp_agent_destroy(). */
struct acp_agent_ops {
	/**
	 * Returns the agent's id of the session to resume, which an earlier child had; NULL: none.
	 * Borrowed.
	 */
	const char *(*earlier_session)(void *owner);
	/**
	 * Requests the log of that session: the owner calls acp_agent_log_event() for each of its
	 * events, or, with `state_only`, only for the newest events of the agent's state, and then
	 * acp_agent_log_end(), now or later. stopped() cancels the request.
	 */
	void (*history)(void *owner, bool state_only);
	/**
	 * The child answered initialize and session/new, session/resume or session/load. `info` is
	 * {name?, title?, version?, protocol_version, prompt_capabilities?, agent_session_id,
	 * resumed?, resume_error?}; borrowed.
	 */
	void (*started)(void *owner, const json_t *info);
	/**
	 * A part of the session's history that the log lacks; follows started(). An input event:
	 * agent_message_chunk and agent_thought_chunk {text}, each complete, user_prompt {message},
	 * or one that event() reports. Borrowed; message_id may be NULL.
	 */
	void (*recovered)(
		void *owner, const char *type, const json_t *data, const char *message_id);
	/**
	 * A piece of a message, or of a thought. Valid UTF-8, not empty; borrowed. message_id may
	 * be NULL.
	 */
	void (*text)(
		void *owner, bool thought, const char *text, size_t len, const char *message_id);
	/**
	 * Any other event: tool_call, tool_call_update, plan, usage, file_read, file_write,
	 * x-acp-terminal for commands that the agent has the server run, or x-acp-<kind> for
	 * updates without a type of their own (proto/protocol.md). `data` is borrowed.
	 */
	void (*event)(void *owner, const char *type, const json_t *data);
	/**
	 * The agent asks a question. `type` is permission_request, with `data` {request_id,
	 * tool_call, options: [{option_id, name, kind}]}, or elicitation_request (see
	 * elicitation.h). Borrowed.
	 */
	void (*question)(void *owner, const char *type, const char *request_id, const json_t *data);
	/** The agent has withdrawn its question ($/cancel_request). */
	void (*permission_withdrawn)(void *owner, const char *request_id);
	/**
	 * Whether a question is already answered and acp_agent_answer() will follow: then neither a
	 * cancel nor the agent's withdrawal answers it a second time. May be NULL: no question is.
	 * Must have no side effects, because the functions below call it too.
	 */
	bool (*permission_is_resolved)(void *owner, const char *request_id);
	/**
	 * The prompt is over. `stop_reason` is ACP's (end_turn, max_tokens, max_turn_requests,
	 * refusal, cancelled), or "error" with the agent's words in `message`, which is NULL
	 * otherwise. Called once for each acp_agent_prompt(), unless stopped() is called instead.
	 */
	void (*turn_end)(void *owner, const char *stop_reason, const char *message);
	/**
	 * The agent said something outside of a prompt, and has then been silent for quiet_ms with
	 * nothing that explains it: a tool call that it has begun then and not finished, a pending
	 * terminal/wait_for_exit, an open question; or it has given no sign for self_turn_ms.
	 */
	void (*quiet)(void *owner);
	/**
	 * Whether a prompt waits for quiet(): then tool calls and commands do not hold it back. May
	 * be NULL: none does.
	 */
	bool (*prompt_waits)(void *owner);
	/** The agent refused a setting; `why` is in its words. */
	void (*refused)(void *owner, const struct acp_setting *setting, const char *why);
	/**
	 * The child is gone. `reason` is "exit", "signal", "spawn_failed", "protocol", or, if the
	 * server stopped it, "limit", "idle" or "stopped"; `detail` says more in words. A prompt
	 * that was running ends with this; acp_agent_is_cancelling() says whether it was being
	 * cancelled. Called once for each start.
	 */
	void (*stopped)(void *owner, const char *reason, const char *detail);
};

/** Creates an agent, which is not started yet. `ops` and `owner` must outlive it. */
struct acp_agent *acp_agent_create(uv_loop_t *loop, const struct acp_agent_config *config,
	const struct acp_agent_ops *ops, void *owner);
/**
 * Ends the child, if any, and frees the agent once the child is gone and all handles are closed
 * (the loop must keep running for that); then calls `freed(arg)` unless it is NULL. No ops are
 * called any more. Accepts NULL; then `freed` is called at once.
 */
void acp_agent_destroy(struct acp_agent *agent, void (*freed)(void *arg), void *arg);

/**
 * Sends a prompt, starting the child if need be. Returns -EBUSY while another prompt is running,
 * -EINVAL if the message is not UTF-8, else 0. Neither this function nor the ones below call an op
 * before they return.
 */
int acp_agent_prompt(struct acp_agent *agent, const char *message, size_t len);
/**
 * Like acp_agent_prompt(), with ACP's content blocks, which it takes over. Returns -ENOTSUP if the
 * agent is known not to accept one of them; if that turns out later, the turn ends with an error.
 */
int acp_agent_prompt_blocks(struct acp_agent *agent, json_t *blocks);
/** Sets the trace of the next prompt (traceparent.h; NULL: none); copied. */
void acp_agent_trace(struct acp_agent *agent, const char *traceparent);
/**
 * Whether the agent accepts blocks of this type ("image", …), as far as is known: true before its
 * first start.
 */
bool acp_agent_accepts(const struct acp_agent *agent, const char *type);
/**
 * Cancels the turn (session/cancel) and answers the agent's open questions with `cancelled`,
 * including those it still asks in this turn. turn_end() follows, or stopped(), for instance if the
 * agent does not answer within cancel_grace_ms.
 */
void acp_agent_cancel(struct acp_agent *agent);
/**
 * Asks the agent to change a setting; copied. The agent is not started for that: if it is not
 * running, the setting waits for its next start and is sent before the prompt. A change is reported
 * by event(), a refusal by refused(). Returns -ENOBUFS if too many settings are pending.
 *
 * For a login the agent is started: authenticate is sent after initialize, before a session begins.
 * If the login fails, the agent is stopped. Returns -EBUSY while another login is pending.
 */
int acp_agent_set(struct acp_agent *agent, const struct acp_setting *setting);
/**
 * Answers a question; option_id NULL means cancelled. Returns -ENOENT if no such question is open:
 * it was asked by an earlier child, or not by this agent.
 */
int acp_agent_answer(struct acp_agent *agent, const char *request_id, const char *option_id);
/**
 * Sets the content of the answer to an elicitation (NULL: none), which is sent if
 * acp_agent_answer() accepts it. For elicitations, the `option_id` of acp_agent_answer() is the
 * action.
 */
void acp_agent_record_content(
	struct acp_agent *agent, const char *request_id, const json_t *content);
/**
 * Stops (true) or resumes (false) reading the agent's stdout: back-pressure while the store is
 * behind. While it is stopped, only events that do not come from stdout are reported: the end of a
 * turn or of the child that the server caused, and a file request that was already under way.
 */
void acp_agent_pause(struct acp_agent *agent, bool paused);
/** Whether a prompt was cancelled and has not ended yet. */
bool acp_agent_is_cancelling(const struct acp_agent *agent);
/** Whether the child is running. */
bool acp_agent_is_running(const struct acp_agent *agent);
/** The limit that the newest child stopped with "limit" had exceeded. */
enum limit acp_agent_limit(const struct acp_agent *agent);
/**
 * During stopped() and turn_end(): the ways to log in, if the agent ended because it wants a login;
 * else NULL. Borrowed.
 */
json_t *acp_agent_login(const struct acp_agent *agent);
/**
 * During stopped(): appends the last lines of the child's stderr, sanitized and without secrets.
 */
void acp_agent_last_errors(const struct acp_agent *agent, struct buffer *out);
/**
 * Whether nothing runs, waits or is remembered, so that a newly created agent would behave the
 * same.
 */
bool acp_agent_is_as_new(const struct acp_agent *agent);
/** Whether a process of it runs, or something waits that has one started. */
bool acp_agent_is_busy(const struct acp_agent *agent);

/** Passes on one event of the log, of any type, in order; see history(). */
void acp_agent_log_event(
	struct acp_agent *agent, const char *type, const json_t *data, const char *message_id);
/**
 * The log has been passed on completely. `is_cut`: the session's first events were not part of it.
 */
void acp_agent_log_end(struct acp_agent *agent, bool is_cut);
/** The log cannot be read: the child gets a new session, unless only its state was requested. */
void acp_agent_log_failed(struct acp_agent *agent);

#endif
