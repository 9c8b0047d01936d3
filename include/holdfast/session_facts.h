/*
 * What a log's events tell of its session at its end: kept by the store with each log, also of
 * sessions that are not in memory.
 */
#ifndef HOLDFAST_SESSION_FACTS_H
#define HOLDFAST_SESSION_FACTS_H

#include "holdfast/agent_state.h"
#include "holdfast/store.h"

struct session_facts {
	uint64_t turn;
	uint64_t turn_end_seq;
	bool in_turn;
	bool agent_running;
	char *prompt_id; /* NULL: none */
	uint64_t prompt_seq;
	char *agent_session_id; /* what the newest agent_started says; NULL: nothing */
	uint64_t agent_session_seq; /* where it began: the prompt that the agent was started for */
	char *usage; /* what session_facts_set_usage() was given last; NULL: nothing */
	char *run_id; /* of the producer's run under way; NULL: none. No event tells it */
	struct agent_state agent_state;
	char *agent_title; /* what the agent calls the session; NULL: nothing */
};

extern const struct store_facts session_facts_ops;

/** Those of a log; strings are borrowed until an append. */
struct session_facts *session_facts(const struct session_log *log);
/** A run has begun or ended (NULL), durably. */
void session_facts_set_run(struct session_log *log, const char *run_id);
/** What the session has used. All that it counts must be on disk in the journal. */
void session_facts_set_usage(struct session_log *log, const char *usage);

#endif
