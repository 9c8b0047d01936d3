/* A server that stops hands sessions over to other nodes, each as soon as its agent is gone. */
#ifndef HOLDFAST_RELAY_LEAVE_H
#define HOLDFAST_RELAY_LEAVE_H

#include "holdfast/agent_host.h"

struct relay_leave {
	struct agent_host *agents;
	struct session_table *sessions; /* NULL: the server does not stop */
	size_t agents_left; /* when sessions without one were handed over last */
};

/** The agents have been told to end; both are borrowed. */
void relay_leave_begin(
	struct relay_leave *leave, struct agent_host *agents, struct session_table *sessions);
/**
 * At the end of a tick: hands over what has no agent any more, if that has changed, and blocks meanwhile. When the last
 * agent is gone, session_table_hand_over() is the caller's to call.
 */
void relay_leave_tick(struct relay_leave *leave);

#endif
