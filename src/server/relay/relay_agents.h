/* Builds the agents of the server (agent_host.h), as its options want them. */
#ifndef HOLDFAST_RELAY_AGENTS_H
#define HOLDFAST_RELAY_AGENTS_H

#include "holdfast/agent_host.h"
#include "holdfast/config.h"

struct relay_agents_config {
	const struct server_life *life; /* of the server; must outlive the agents */
	uv_loop_t *loop;
	const struct config *config; /* must outlive the agents */
	/** Called once, from the loop: no agent can be started or ended any more. */
	void (*lost)(void *owner);
	void *owner;
};

/**
 * Sets up the confinement of agents, and starts the process that starts them. To be called before
 * threads and secrets exist: that process is forked, and must not have them. *ret stays NULL in a
 * build without agents. Returns 0, or -1 and *ret_why (caller frees) if agents could not be started,
 * or would not be confined.
 */
int relay_open_agents(
	const struct relay_agents_config *wanted, struct agent_host **ret, char **ret_why);
/** agent_host_ops.recover. Without agents (NULL) too: the store may be of a server that had some. */
void relay_recover_turn(struct agent_host *agents, struct session *session);

#endif
