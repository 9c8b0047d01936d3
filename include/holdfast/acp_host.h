/*
 * The agents of a server's sessions: one ACP child process for each session that has been prompted.
 * The host connects the two: durable prompts go to the agent, and what the agent says goes to
 * intake.
 */
#ifndef HOLDFAST_ACP_HOST_H
#define HOLDFAST_ACP_HOST_H

#include "holdfast/sandbox.h"
#include "holdfast/agent_host.h"

#include "holdfast/agent_list.h"

struct acp_host_config {
	const struct server_life *life; /* of the server; must outlive the host */
	uv_loop_t *loop;
	const struct limits *limits;
	const struct agent_list *list; /* must outlive the host; empty: prompts are refused */
	const char *private_dir; /* see struct workspace_config; NULL: none */
	char *cgroup; /* where agents get control groups (cgroup.h); NULL: nowhere; taken over, also on failure */
	struct sandbox sandbox; /* of agents; `tmp` NULL: none; taken over, also on failure */
	char *const *env; /* entries of --agent-env, see agent_env.h; NULL: none */
	bool has_deadline; /* see agent_host_ops.deadline; needs /proc */
	/** Called once, from the loop: no agent can be started or ended any more. */
	void (*lost)(void *owner);
	void *owner;
};

/**
 * Creates a host, and starts the process that starts its agents (spawner.h), if there are any. Call
 * it while the process has one thread, and no secret in memory. Logs a warning for each command that
 * cannot be run. `env` and `private_dir` are copied. Returns 0, or -1 and *ret_why (caller frees).
 */
int acp_host_create(const struct acp_host_config *config, struct agent_host **ret, char **ret_why);

#endif
