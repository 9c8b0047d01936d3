/*
 * What requests ask of the agents (agent_host.h) in a server that may have been built without them.
 */
#include "server/net_internal.h"

#include <errno.h>

/** Why a session has no agent, in words for people. */
static const char *lack(const struct agent_host *agents)
{
	return !agents ? "this server was built without agents, and takes no prompts; "
			 "build it with -Dagents=true"
	       : agents->offer_count
		       ? "the agent of this session is no longer in the --agents file; put it back, or start a new session"
		       : "this server runs without an agent; start it with --agent \"COMMAND\" or --agents FILE";
}

int conn_check_agent(const struct conn *conn, struct session *session, struct refusal *refusal)
{
	const struct agent_host *agents = conn->server->agents;
	return agent_host_agent(agents, session)
		       ? 0
		       : refuse(refusal, ERROR_no_agent, "%s", lack(agents));
}

int conn_cancel_turn(struct conn *conn, struct session *session)
{
	struct agent_host *agents = conn->server->agents;
	return agents ? agents->ops->cancel(agents, session) : -ESRCH;
}
