/*
 * Reads a session's log from a given event on, for an agent that resumes its session: passes each
 * event to acp_agent_log_event(), in order, and then calls acp_agent_log_end() or
 * acp_agent_log_failed().
 */
#ifndef HOLDFAST_AGENT_HISTORY_H
#define HOLDFAST_AGENT_HISTORY_H

#include "agents/acp/acp_agent.h"
#include "holdfast/session.h"

/* Zeroed: nothing is being read. */
struct agent_history {
	struct session_log *log;
	struct acp_agent *agent;
	struct log_read *read; /* the pending read; NULL: none */
	size_t page_size; /* bytes */
	uint64_t next;
	uint64_t end; /* the last event to be passed on */
	uint64_t others[AGENT_STATE_COUNT]; /* single events to be passed on after that; in order */
	size_t other_count;
	size_t other_at;
	bool is_cut; /* the first events are missing: they were pruned, or there were too many */
};

/** Passes on the events from `from` up to the running turn. Cancels what is under way. */
void agent_history_give(struct agent_history *history, struct session_log *log, uint64_t from,
	size_t page_size, struct acp_agent *agent);
/** Passes on only the newest events of the agent's state. */
void agent_history_give_state(struct agent_history *history, struct session_log *log,
	size_t page_size, struct acp_agent *agent);
/** Cancels what is under way. */
void agent_history_stop(struct agent_history *history);

#endif
