/*
 * The agents of a server's sessions: one ACP child for each session that has been prompted. The
 * host joins the two: durable prompts go to the agent, what the agent says goes to intake.
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
	uv_loop_t *loop;
	const struct limits *limits;
	const struct agent_list
		*list; /* outlives the host; NULL: none, prompts are refused with no_agent */
	const char *private_dir; /* see struct workspace_config; NULL: none */
	struct spawner *spawner; /* that starts the agents; NULL: without an agent */
	struct box_rules box; /* of each agent; what it points to must outlive the host */
	char *const *env; /* what agents get beside the usual: see agent_env.h; NULL: nothing */
};

struct agent_host *agent_host_create(const struct agent_host_config *config);
/**
 * Ends all agents; `done(arg)` is called when the last one is gone. What sessions and clients still
 * want of the host has no effect then; it is theirs until agent_host_free().
 */
void agent_host_destroy(struct agent_host *host, void (*done)(void *arg), void *arg);
/** Agents that are there, or on their way out. */
size_t agent_host_count(const struct agent_host *host);
/** Whether an agent that the session of this id had is still on its way out. */
bool agent_host_is_leaving(const struct agent_host *host, const char *session_id);
/** When the agents, the sessions and the clients are gone. */
void agent_host_free(struct agent_host *host);
/** The agents that there are. */
const struct agent_list *agent_host_list(const struct agent_host *host);
/** That of the session: the one that it was made with, or the default. NULL: there is none. */
const struct agent_entry *agent_host_agent(const struct agent_host *host, struct session *session);
/** Why this agent cannot be started, as far as was seen when the server started, in words; NULL: nothing. */
const char *agent_host_fault(const struct agent_host *host, const struct agent_entry *entry);
/** Why a session has no agent, in words. */
const char *agent_host_lack(const struct agent_host *host);
/** Where the session's agent works: absolute. NULL: it has none. Borrowed. */
const char *agent_host_cwd(const struct agent_host *host, struct session *session);
/** The server's own directory, see agent_host_config; NULL: none. */
const char *agent_host_private_dir(const struct agent_host *host);
/** Looks at the directories that sessions may have. */
struct agent_dirs *agent_host_dirs(struct agent_host *host);
/** Whether a prompt of this session finds an agent, or room for another one (limit agents). */
bool agent_host_has_room(const struct agent_host *host, const struct session *session);
/** Agents whose process is up. */
size_t agent_host_count_running(const struct agent_host *host);

/** session_ops.prompt_due: the prompt is durable, its agent gets it (and is started if need be). */
void agent_host_prompt(struct agent_host *host, struct session *session, const char *message,
	size_t len, const json_t *content);
/**
 * The request that brought this prompt has a traceparent: the agent gets it with the prompt, as
 * `_meta.traceparent`. Before the prompt is durable; forgotten when the server ends.
 */
void agent_host_note_trace(struct agent_host *host, const struct session *session,
	const char *prompt_id, const char *traceparent);
/** Whether its agent takes blocks of this type ("image", …) in a prompt, as far as is known. */
bool agent_host_takes(const struct agent_host *host, struct session *session, const char *type);
/**
 * Tells the session's agent to stop its turn; open permission requests are closed. -ESRCH if no
 * turn runs.
 */
int agent_host_cancel(struct agent_host *host, struct session *session);
/**
 * What an elicitation is answered with, which only its agent hears, once the answer is durable. NULL: nothing. Before that
 * is given to the session.
 */
void agent_host_note_content(struct agent_host *host, struct session *session,
	const char *request_id, const json_t *content);
/** session_ops.answered: the agent hears it, if it was the one who asked. */
void agent_host_answer(struct agent_host *host, struct session *session, const char *request_id,
	const char *option_id);
/**
 * A client (`author`) asks for a setting of the agent: `request` is a set_mode, a set_model or a
 * set_config_option. If the agent refuses, the client is sent an error. -ENOBUFS if too many wait
 * for the agent.
 */
int agent_host_set(struct agent_host *host, struct session *session, const struct request *request,
	const struct author *author);
/** session_ops.deleted: its agent ends. */
void agent_host_forget(struct agent_host *host, struct session *session);
/**
 * A session that recovery brought back in the middle of an agent's turn: its agent died with the
 * server, so the turn is ended with agent_stopped {reason: "server_restart"}.
 */
void agent_host_recover(struct agent_host *host, struct session *session);
/** The end of a loop tick: releases agents that have stopped, so that their sessions can rest. */
void agent_host_end_tick(struct agent_host *host);
/** The store takes inputs again: what agents have said meanwhile is given to it. */
void agent_host_retry(struct agent_host *host);
/** The store is behind (true) or has caught up: agents are read from no more, or again. */
void agent_host_pause(struct agent_host *host, bool paused);

#endif
