/* Hands over sessions of a stopping server to other nodes, each as soon as its agent is gone. */
#ifndef HOLDFAST_RELAY_LEAVE_H
#define HOLDFAST_RELAY_LEAVE_H

#include "holdfast/agent_host.h"

struct relay_leave {
	const struct server_life *life;
	struct agent_host *agents; /* NULL: none */
	struct session_table *sessions;
	size_t agents_left; /* at the last hand-over */
};

/** All are borrowed. */
void relay_leave_init(struct relay_leave *leave, const struct server_life *life,
	struct agent_host *agents, struct session_table *sessions);
/**
 * To be called at the end of a tick: if the server may hand sessions over, and agents have ended
 * since the last time, hands over the sessions without an agent, and blocks meanwhile. When the last agent is gone, the caller calls
 * session_table_hand_over().
 */
void relay_leave_tick(struct relay_leave *leave);

#endif
