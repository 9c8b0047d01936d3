#include "relay_leave.h"

#include "holdfast/session.h"

void relay_leave_init(struct relay_leave *leave, const struct server_life *life,
	struct agent_host *agents, struct session_table *sessions)
{
	leave->life = life;
	leave->agents = agents;
	leave->sessions = sessions;
	leave->agents_left = SIZE_MAX;
}

static bool has_agent(void *arg, const char *session_id)
{
	const struct agent_host *agents = arg;
	return agents->ops->is_leaving(agents, session_id);
}

void relay_leave_tick(struct relay_leave *leave)
{
	bool may = leave->agents && server_may(leave->life, MAY_HAND_OVER);
	size_t left = may ? leave->agents->ops->count(leave->agents) : 0;
	if (left && left != leave->agents_left) {
		leave->agents_left = left;
		session_table_hand_over_most(leave->sessions, has_agent, leave->agents);
	}
}
