/*
 * The agents of a server's sessions: one ACP child process for each session that has been prompted.
 * The host connects the two: durable prompts go to the agent, and what the agent says goes to
 * intake.
 */
#ifndef HOLDFAST_AGENT_HOST_H
#define HOLDFAST_AGENT_HOST_H

#include "holdfast/agent_dirs.h"
#include "holdfast/agent_list.h"
#include "holdfast/box.h"
#include "holdfast/session.h"
#include "holdfast/spawner.h"

struct agent_host;

struct agent_host_config {
	const struct server_life *life; /* of the server; must outlive the host */
	uv_loop_t *loop;
	const struct limits *limits;
	/* must outlive the host; NULL: no agents, prompts are refused with no_agent */
	const struct agent_list *list;
	const char *private_dir; /* see struct workspace_config; NULL: none */
	struct spawner *spawner; /* starts the agents; NULL only without agents */
	struct box_rules box; /* of each agent; what it points to must outlive the host */
	char *const *env; /* entries of --agent-env, see agent_env.h; NULL: none */
};

/**
 * Creates a host; logs a warning for each command that cannot be run. The loop, the limits, the
 * list and the spawner must outlive it; `env` and `private_dir` are copied.
 */
struct agent_host *agent_host_create(const struct agent_host_config *config);
/**
 * Ends all agents; `done(arg)` is called when the last one is gone. Calls of sessions and clients
 * have no effect from then on, but are allowed until agent_host_free().
 */
void agent_host_destroy(struct agent_host *host, void (*done)(void *arg), void *arg);
/** Number of agents, including those that are ending. */
size_t agent_host_count(const struct agent_host *host);
/** Whether an earlier agent of the session with this id is still ending. */
bool agent_host_is_leaving(const struct agent_host *host, const char *session_id);
/** Frees the host; call it once the agents, the sessions and the clients are gone. */
void agent_host_free(struct agent_host *host);
/** The agents that the server offers. */
const struct agent_list *agent_host_list(const struct agent_host *host);
/**
 * The agent of a session: the one it was created with, or the default. NULL if it no longer exists.
 */
const struct agent_entry *agent_host_agent(const struct agent_host *host, struct session *session);
/**
 * Why this agent cannot be started, as far as the server could tell when it started, in words for
 * people. NULL if nothing is known to be wrong.
 */
const char *agent_host_fault(const struct agent_host *host, const struct agent_entry *entry);
/** Why a session has no agent, in words for people. */
const char *agent_host_lack(const struct agent_host *host);
/**
 * The absolute path of the directory where the session's agent works; NULL if it has no agent.
 * Borrowed.
 */
const char *agent_host_cwd(const struct agent_host *host, struct session *session);
/** The server's data directory, see agent_host_config; NULL: none. */
const char *agent_host_private_dir(const struct agent_host *host);
/** The checker of session directories, which is created with the first call. */
struct agent_dirs *agent_host_dirs(struct agent_host *host);
/**
 * Whether a prompt of this session can be given to an agent: its own is busy already, or the limit
 * `agents` allows another busy one.
 */
bool agent_host_has_room(const struct agent_host *host, const struct session *session);
/** Number of agents whose process is running. */
size_t agent_host_count_running(const struct agent_host *host);

/**
 * session_ops.prompt_due: the prompt is durable; gives it to the session's agent, which is started
 * if need be.
 */
void agent_host_prompt(struct agent_host *host, struct session *session, const char *message,
	size_t len, const json_t *content);
/**
 * Remembers the traceparent of the request that brought this prompt; the agent gets it with the
 * prompt, as `_meta.traceparent`. Call it before the prompt is durable. It is lost when the server
 * ends.
 */
void agent_host_note_trace(struct agent_host *host, const struct session *session,
	const char *prompt_id, const char *traceparent);
/**
 * Whether the session's agent accepts blocks of this type ("image", …) in a prompt, as far as is
 * known.
 */
bool agent_host_takes(const struct agent_host *host, struct session *session, const char *type);
/**
 * Tells the session's agent to cancel its turn, and closes its open permission requests. Returns
 * -ESRCH if no turn is running.
 */
int agent_host_cancel(struct agent_host *host, struct session *session);
/**
 * Remembers the content of the answer to an elicitation. Only the agent gets it, once the answer is
 * durable. Call it before the answer is given to the session; NULL if there is no content.
 */
void agent_host_note_content(struct agent_host *host, struct session *session,
	const char *request_id, const json_t *content);
/** session_ops.answered: passes the answer on to the agent, if it is the one that asked. */
void agent_host_answer(struct agent_host *host, struct session *session, const char *request_id,
	const char *option_id);
/**
 * A client (`author`) changes a setting of the agent or logs in: `request` is a set_mode,
 * set_model, set_config_option or authenticate. If the agent refuses, the client is sent an error.
 * Returns -ENOBUFS if too many settings wait for the agent, -EBUSY while another login is pending.
 */
int agent_host_set(struct agent_host *host, struct session *session, const struct request *request,
	const struct author *author);
/** session_ops.deleted: ends the session's agent. */
void agent_host_forget(struct agent_host *host, struct session *session);
/**
 * Ends the turn of a session that recovery brought back in the middle of it: its agent died with
 * the server. The turn ends with agent_stopped {reason: "server_restart"}.
 */
void agent_host_recover(struct agent_host *host, struct session *session);
/**
 * Call it at the end of a tick of the loop: releases agents that have stopped, so that their
 * sessions can be evicted.
 */
void agent_host_end_tick(struct agent_host *host);
/** The store accepts inputs again: gives it what agents have said in the meantime. */
void agent_host_retry(struct agent_host *host);
/**
 * The store is behind (true) or has caught up (false): stops or resumes reading from all agents.
 */
void agent_host_pause(struct agent_host *host, bool paused);

#endif
