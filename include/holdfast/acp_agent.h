/*
 * An ACP v1 agent as a child process (https://agentclientprotocol.com, schema v1): JSON-RPC 2.0,
 * one message a line, over the child's stdin and stdout; its stderr goes to our diagnostics.
 *
 * The child starts with the first prompt (initialize, session/new, then session/prompt) and again
 * with the next one after it has died. Then it goes on with the session it had, if it can: by
 * session/resume, which tells nothing, or else by session/load, which tells the whole history
 * again. Of that only what the log lacks comes out of here. It runs in a process group of its own,
 * which is ended with it. Everything it says is hostile: bounded, validated, and skipped with a
 * diagnostic if it is not JSON-RPC. The program must ignore SIGPIPE. What it reports comes out of
 * here in Holdfast's names (snake_case, proto/protocol.md), in the order in which it was said,
 * through one table of functions.
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
	json_t *mcp_servers; /* an array, for the agent's sessions; borrowed while the agent lives; NULL: none */
	const char *private_dir; /* see struct workspace_config; NULL: none */
	const char *session_id; /* names the session in diagnostics */
	size_t line_max; /* bytes; a longer line of the agent's is reported and skipped */
	size_t file_max; /* bytes; fs requests for a larger file are refused */
	size_t file_names_max; /* hard links; those for a file with more are refused; 0: 1 */
	size_t terminals_max; /* that it may have at once; 0: it is offered none */
	size_t questions_max; /* that it may have open at once; 0: 64 */
	int stop_grace_ms; /* from SIGTERM to SIGKILL */
	int cancel_grace_ms; /* for the answer to session/cancel; 0: 10 s */
	char **env; /* of the child and its commands; borrowed while the agent lives; NULL: ours */
	int file_ms; /* for one file request; 0: 20 s */
	size_t descriptors_kept; /* nothing is started that would leave us fewer; 0: whatever */
	struct spawner *
		spawner; /* that starts the child, its commands and, as its helper, agent_files.h */
	struct box_rules box; /* of the child and its commands; they hold with guards only */
	int restart_delay_ms; /* after two failures in a row, then twice as long each time; 0: 500
			       */
	int idle_ms; /* the child is stopped when there was nothing to do for so long; 0: never */
	int resumable_idle_ms; /* the same for one that can go on with its session later */
	int quiet_ms; /* see quiet(); 0: 1 s */
	int start_timeout_ms; /* for initialize and session/new together; 0: 120 s */
	int login_ms; /* for authenticate, during which a person does something elsewhere; 0: 10 min */
	struct json_numbers *numbers; /* takes those of the agent; NULL: they are not kept */
};

enum acp_setting_kind { ACP_SET_MODE, ACP_SET_MODEL, ACP_SET_OPTION, ACP_LOG_IN };

/** A setting that a client asks for. */
struct acp_setting {
	enum acp_setting_kind kind;
	const char *id; /* of the mode, the model, the option, or the way to log in */
	const json_t *value; /* of the option: a string or a boolean */
	const char *by; /* who asked for it, and whose token that has: refused() repeats both */
	const char *sub;
};

/** What the agent tells its owner, on the loop. None may call acp_agent_destroy(). */
struct acp_agent_ops {
	/**
	 * The session that a child had before and that this one shall go on with; NULL: none.
	 * Borrowed.
	 */
	const char *(*earlier_session)(void *owner);
	/**
	 * What the log has of that session is wanted: acp_agent_log_event() for each of its events, or
	 * for those alone that its agent_state names, then acp_agent_log_end(), now or later. Forget
	 * it at stopped().
	 */
	void (*history)(void *owner, bool state_only);
	/**
	 * The child answered initialize and session/new, session/resume or session/load. `info` is
	 * {name?, title?, version?, protocol_version, agent_session_id, resumed?, resume_error?};
	 * borrowed.
	 */
	void (*started)(void *owner, const json_t *info);
	/**
	 * Something of the session's history that the log lacks; follows started(). An input event:
	 * agent_message_chunk and agent_thought_chunk {text}, which are whole, user_prompt
	 * {message}, or what event() has. Borrowed; message_id may be NULL.
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
	 * Another event: tool_call, tool_call_update, plan, usage, file_read, file_write,
	 * x-acp-terminal for the commands that the agent runs with our help, or x-acp-<kind> for
	 * what has no type of its own (proto/protocol.md). `data` is borrowed.
	 */
	void (*event)(void *owner, const char *type, const json_t *data);
	/**
	 * The agent asks. `type` is permission_request, and `data` {request_id, tool_call, options: [{option_id, name,
	 * kind}]}; or it is elicitation_request (see elicitation.h). Borrowed.
	 */
	void (*question)(void *owner, const char *type, const char *request_id, const json_t *data);
	/** The agent has withdrawn its question ($/cancel_request). */
	void (*permission_withdrawn)(void *owner, const char *request_id);
	/**
	 * Whether a question has its answer already, which acp_agent_answer() will bring: then
	 * neither a cancel nor the agent's withdrawal gives it another one. May be NULL: none has.
	 * Only looks, and is called by the functions below as well.
	 */
	bool (*permission_is_resolved)(void *owner, const char *request_id);
	/**
	 * The prompt is over: `stop_reason` is ACP's (end_turn, max_tokens, max_turn_requests,
	 * refusal, cancelled) or "error", with `message` saying what the agent answered; else
	 * message is NULL. Called once for each acp_agent_prompt(), unless stopped() is called
	 * instead.
	 */
	void (*turn_end)(void *owner, const char *stop_reason, const char *message);
	/**
	 * The agent said something outside of a prompt, waits for no answer, and has said nothing
	 * more for quiet_ms.
	 */
	void (*quiet)(void *owner);
	/** The agent does not set what was asked for: why, in its words. */
	void (*refused)(void *owner, const struct acp_setting *setting, const char *why);
	/**
	 * The child is gone: `reason` is "exit", "signal", "spawn_failed", "protocol", or, our own
	 * doing, "limit", "idle" or "stopped"; `detail` says more in words. If a prompt was running it ends
	 * with this; acp_agent_is_cancelling() says if that was asked for. Called once a start.
	 */
	void (*stopped)(void *owner, const char *reason, const char *detail);
};

/** Makes an agent that is not running. `ops` and `owner` must outlive it. */
struct acp_agent *acp_agent_create(uv_loop_t *loop, const struct acp_agent_config *config,
	const struct acp_agent_ops *ops, void *owner);
/**
 * Ends the child, if any, and frees the agent when it is gone and all handles are closed (the loop
 * must still run for that); then calls `freed(arg)`, if given. No ops are called any more. Accepts
 * NULL (calls freed at once).
 */
void acp_agent_destroy(struct acp_agent *agent, void (*freed)(void *arg), void *arg);

/**
 * Starts the child if need be and sends the prompt. One at a time: -EBUSY while one runs; -EINVAL
 * if the message is not UTF-8; else 0. Calls no op itself, nor do the functions below.
 */
int acp_agent_prompt(struct acp_agent *agent, const char *message, size_t len);
/**
 * The same with ACP's content blocks, which it takes over; -ENOTSUP if the agent is known not to
 * take one of them. If that turns out later, its turn ends with an error.
 */
int acp_agent_prompt_blocks(struct acp_agent *agent, json_t *blocks);
/** The next prompt belongs to this trace (traceparent.h; NULL: to none); copied. */
void acp_agent_trace(struct acp_agent *agent, const char *traceparent);
/** Whether it takes a block of this type ("image", …), as far as is known: before its start it may. */
bool acp_agent_takes(const struct acp_agent *agent, const char *type);
/**
 * Tells the agent to stop its turn (session/cancel) and answers its open questions with
 * `cancelled`, also those it still asks in this turn. turn_end() follows, or stopped(), as it does
 * for an agent that does not answer within cancel_grace_ms.
 */
void acp_agent_cancel(struct acp_agent *agent);
/**
 * Asks the agent to set something; copied. It is not started for that: what is asked for while it
 * is not running waits for its next start, before the prompt. What is set comes as event(), else
 * refused() is called. -ENOBUFS if too much is asked for already.
 * To log in it is started: it is asked behind initialize and before its session begins. If that fails, it
 * is stopped. -EBUSY while another login waits or is under way.
 */
int acp_agent_set(struct acp_agent *agent, const struct acp_setting *setting);
/**
 * Answers a question; option_id NULL means cancelled. -ENOENT if no such question is open: it was
 * another start's, or somebody else's.
 */
int acp_agent_answer(struct acp_agent *agent, const char *request_id, const char *option_id);
/**
 * What an elicitation is about to be answered with (NULL: nothing), for when acp_agent_answer() says that it is accepted: then
 * `option_id` is the action.
 */
void acp_agent_note_content(struct acp_agent *agent, const char *request_id, const json_t *content);
/**
 * Stops (true) or goes on (false) reading the agent's stdout: back-pressure while the store is
 * behind. While stopped only what is not read from there is told: our own ending of a turn or of
 * the child, and a file request that was already being done.
 */
void acp_agent_pause(struct acp_agent *agent, bool paused);
/** A prompt was cancelled, and has not ended yet. */
bool acp_agent_is_cancelling(const struct acp_agent *agent);
bool acp_agent_is_running(const struct acp_agent *agent);
/** That the newest child went over which was stopped because of "limit". */
enum limit acp_agent_limit(const struct acp_agent *agent);
/** At stopped() and turn_end(): how to log in, if that is because the agent wants it; else NULL. The agent's own. */
json_t *acp_agent_login(const struct acp_agent *agent);
/** At stopped(): appends the last lines of the child's stderr, clean and without secrets. */
void acp_agent_last_errors(const struct acp_agent *agent, struct buffer *out);
/** Nothing runs, waits or is remembered: another agent, made anew, would do just the same. */
bool acp_agent_is_as_new(const struct acp_agent *agent);

/** An event of the log, of any type, in its order; see history(). */
void acp_agent_log_event(
	struct acp_agent *agent, const char *type, const json_t *data, const char *message_id);
/** That was all. `is_cut`: the session's first events are not among them. */
void acp_agent_log_end(struct acp_agent *agent, bool is_cut);
/** The log cannot be read: the child gets a new session. */
void acp_agent_log_failed(struct acp_agent *agent);

#endif
