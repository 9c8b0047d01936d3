/*
 * The agents of a server's sessions, as the server and its doors use them: one agent for each session
 * that has been prompted. The wing of agents (src/agents) has the table of operations. A server that
 * was built without it has no `struct agent_host`, and refuses prompts with no_agent.
 */
#ifndef HOLDFAST_AGENT_HOST_H
#define HOLDFAST_AGENT_HOST_H

#include "holdfast/session.h"

#include <stdatomic.h>
#include <string.h>

struct agent_host;

/** An agent that the server offers. A session remembers the name of its agent, and its directory. */
struct agent_offer {
	const char *name;
	const char *title; /* shown to people; not empty */
	/* Directories of its sessions: absolute, without symlinks; the first is the default. At least
	 * one, ended by NULL. */
	char *const *roots;
	/* Why it cannot be started, in words for people; NULL: nothing is known to be wrong. */
	const char *fault;
	bool is_demo; /* it is the demo agent that comes with the server */
};

/* --- directories and files, which are read on a thread of their own --- */

#define AGENT_DIRS_MAX 200 /* paths in one answer */

struct agent_dirs_job;

enum agent_dirs_kind {
	/** Resolves `text`, an absolute path, if it is a directory below `roots`. */
	AGENT_DIRS_CHECK,
	/**
	 * Lists the directories below `roots` whose path begins with `text`; "" gives the roots
	 * themselves. Without symlinks, and without names that begin with a dot, unless `text` has
	 * that dot.
	 */
	AGENT_DIRS_LIST,
	/**
	 * Finds files and directories in the first of `roots`, a session's directory, that a person
	 * who types `text` may mean. The best matches come first.
	 */
	AGENT_DIRS_FILES,
};

struct agent_dirs_query {
	enum agent_dirs_kind kind;
	char *const *roots; /* ended by NULL */
	const char *text;
	size_t most; /* of AGENT_DIRS_FILES: paths in the answer */
};

struct agent_dirs_found {
	char *path; /* of AGENT_DIRS_CHECK; NULL: not a directory, or outside of the roots */
	char **paths; /* of the other kinds; ended by NULL */
	bool has_more;
};

/** Called once, on the loop, unless the job is cancelled; `found` is borrowed. */
typedef void agent_dirs_done(void *arg, const struct agent_dirs_found *found);

/* --- the operations --- */

struct agent_host_ops {
	/* For the server and its doors. Who has found an offer (agent_host_find()) has a host. */

	/**
	 * Whether a prompt of this session can be given to an agent: its own is busy already, or the
	 * limit `agents` allows another busy one.
	 */
	bool (*has_room)(const struct agent_host *host, const struct session *session);
	/**
	 * Whether the session's agent accepts blocks of this type ("image", …) in a prompt, as far as
	 * is known.
	 */
	bool (*accepts)(const struct agent_host *host, struct session *session, const char *type);
	/**
	 * Remembers the traceparent of the request that brought this prompt; the agent gets it with
	 * the prompt, as `_meta.traceparent`. Called before the prompt is durable. It is lost when
	 * the server ends.
	 */
	void (*record_trace)(struct agent_host *host, const struct session *session,
		const char *prompt_id, const char *traceparent);
	/**
	 * Remembers the content of the answer to an elicitation. Only the agent gets it, once the
	 * answer is durable. Called before that; `content` NULL: none.
	 */
	void (*record_content)(struct agent_host *host, struct session *session,
		const char *request_id, const json_t *content);
	/**
	 * Has the session's agent cancel its turn, and closes its open permission requests. Returns
	 * -ESRCH if no turn is running.
	 */
	int (*cancel)(struct agent_host *host, struct session *session);
	/**
	 * A client (`author`) changes a setting of the agent or logs in: `request` is a set_mode,
	 * set_model, set_config_option or authenticate. If the agent refuses, the client is sent an
	 * error. Returns -ENOBUFS if too many settings wait for the agent, -EBUSY while another login
	 * is pending.
	 */
	int (*set)(struct agent_host *host, struct session *session, const struct request *request,
		const struct author *author);
	/** Begins a job of directories. Returns NULL if too many wait, or the server stops. */
	struct agent_dirs_job *(*query_dirs)(struct agent_host *host,
		const struct agent_dirs_query *query, agent_dirs_done *done, void *arg);
	/** Cancels a job that has not been answered yet: `done` is not called. */
	void (*cancel_dirs)(struct agent_dirs_job *job);
	/** The number of agents whose process is running. */
	size_t (*count_running)(const struct agent_host *host);

	/* For the relay, which passes on what happens to sessions and to the store. */

	/**
	 * session_ops.prompt_due: the prompt is durable; gives it to the session's agent, which is
	 * started if need be.
	 */
	void (*prompt)(struct agent_host *host, struct session *session, const char *message,
		size_t len, const json_t *content);
	/** session_ops.answered: passes the answer on to the agent, if it is the one that asked. */
	void (*answer)(struct agent_host *host, struct session *session, const char *request_id,
		const char *option_id);
	/** session_ops.host_lost: ends the session's agent. */
	void (*forget)(struct agent_host *host, struct session *session);
	/**
	 * Ends the turn of a session that recovery brought back in the middle of it: its agent died
	 * with the server. The turn ends with agent_stopped {reason: "server_restart"}.
	 */
	void (*recover)(struct agent_host *host, struct session *session);
	/**
	 * At the end of a tick of the loop: releases agents that have stopped, so that their sessions
	 * can be evicted. While the store `is_behind`, nothing is read from agents.
	 */
	void (*end_tick)(struct agent_host *host, bool is_behind);
	/** The store accepts inputs again: gives it what agents have said in the meantime. */
	void (*retry)(struct agent_host *host);
	/** The number of agents, including those that are ending. */
	size_t (*count)(const struct agent_host *host);
	/** Whether an earlier agent of the session with this id is still ending. */
	bool (*is_leaving)(const struct agent_host *host, const char *session_id);
	/**
	 * The time until which agents may live while the server is not heard of, in ms of
	 * CLOCK_BOOTTIME. It starts at 0, which is in the past. Any thread may store a new value.
	 * NULL: they end only with the server. Owned by the host.
	 */
	atomic_llong *(*deadline)(const struct agent_host *host);
	/**
	 * Ends all agents; `done(arg)` is called when the last one is gone. With `is_waited_for`
	 * another server waits for the sessions, and each agent is killed after at most
	 * limits.agent_hand_over_ms. The other operations have no effect from then on, but are
	 * allowed until `destroy`.
	 */
	void (*stop)(
		struct agent_host *host, bool is_waited_for, void (*done)(void *arg), void *arg);
	/**
	 * Frees the host, after `stop`, once the agents, the sessions and the clients are gone. Blocks
	 * up to a second. The loop has to run once more afterwards.
	 */
	void (*destroy)(struct agent_host *host);
};

struct agent_host {
	const struct agent_host_ops *ops;
	const struct agent_offer *offers; /* the first is the default */
	size_t offer_count; /* 0: the server was started without an agent */
	bool is_named; /* the names come from a file, and sessions remember them */
};

/* --- the list; `host` NULL: no agents --- */

/** Finds an agent by name; NULL: the default. Returns NULL if it does not exist. */
static inline const struct agent_offer *agent_host_find(
	const struct agent_host *host, const char *name)
{
	for (size_t i = 0; host && i < host->offer_count; i++) {
		if (!name || strcmp(host->offers[i].name, name) == 0) {
			return &host->offers[i];
		}
	}
	return NULL;
}

/**
 * The agent of a session: the one it was created with, or the default. NULL if it no longer exists.
 */
static inline const struct agent_offer *agent_host_agent(
	const struct agent_host *host, struct session *session)
{
	return agent_host_find(host, session_facts(session_channel(session)->log)->agent);
}

/** The absolute path of the directory where the session's agent works; NULL: it has none. Borrowed. */
static inline const char *agent_host_cwd(const struct agent_host *host, struct session *session)
{
	const struct agent_offer *offer = agent_host_agent(host, session);
	const char *cwd = session_facts(session_channel(session)->log)->cwd;
	return !offer ? NULL : cwd ? cwd : offer->roots[0];
}

#endif
