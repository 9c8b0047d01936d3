/*
 * Reads a session's log from one event on, for an agent that goes on with its session: each event
 * is given to acp_agent_log_event(), in order, then acp_agent_log_end() or acp_agent_log_failed() is called.
 */
#ifndef HOLDFAST_AGENT_HISTORY_H
#define HOLDFAST_AGENT_HISTORY_H

#include "holdfast/acp_agent.h"
#include "holdfast/session.h"

/* Zeroed: nothing is being read. */
struct agent_history {
	struct session_log *log;
	struct acp_agent *agent;
	struct log_read *read; /* under way; NULL: none */
	size_t page_size; /* bytes */
	uint64_t next;
	uint64_t end; /* the last event to be given */
	uint64_t others[AGENT_STATE_COUNT]; /* each by itself, after that; in order */
	size_t other_count;
	size_t other_at;
	bool is_cut; /* the log does not have the first of them any more, or there were too many */
};

/** Gives the events from `from` to the running turn. What is under way is forgotten. */
void agent_history_give(struct agent_history *history, struct session_log *log, uint64_t from,
	size_t page_size, struct acp_agent *agent);
/** Gives the newest events of the agent's state alone. */
void agent_history_give_state(struct agent_history *history, struct session_log *log,
	size_t page_size, struct acp_agent *agent);
/** Nothing more is given. */
void agent_history_stop(struct agent_history *history);

#endif
