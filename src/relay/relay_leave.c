#include "relay_leave.h"

#include "holdfast/session.h"

void relay_leave_begin(
	struct relay_leave *leave, struct agent_host *agents, struct session_table *sessions)
{
	leave->agents = agents;
	leave->sessions = sessions;
	leave->agents_left = SIZE_MAX;
}

static bool has_agent(void *arg, const char *session_id)
{
	return agent_host_is_leaving(arg, session_id);
}

void relay_leave_tick(struct relay_leave *leave)
{
	size_t left = leave->sessions ? agent_host_count(leave->agents) : 0;
	if (left && left != leave->agents_left) {
		leave->agents_left = left;
		session_table_hand_over_most(leave->sessions, has_agent, leave->agents);
	}
}
