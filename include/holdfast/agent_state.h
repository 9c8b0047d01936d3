/*
 * What an agent reports about itself besides the conversation: its modes, options and commands.
 * Each report is an event; only the seq of the newest one of each kind is kept. So the state costs
 * a few numbers however long the agent's lists are, and is as durable as the log.
 */
#ifndef HOLDFAST_AGENT_STATE_H
#define HOLDFAST_AGENT_STATE_H

#include "holdfast/event.h"

enum agent_state_kind {
	AGENT_STATE_MODES,
	AGENT_STATE_MODELS,
	AGENT_STATE_MODE,
	AGENT_STATE_OPTIONS,
	AGENT_STATE_COMMANDS,
	AGENT_STATE_INFO,
	AGENT_STATE_COUNT,
};

/** By kind: the seq of its newest event, 0 if none. */
struct agent_state {
	uint64_t seqs[AGENT_STATE_COUNT];
};

/** Returns the kind of events of this type (x-acp-…), or AGENT_STATE_COUNT. */
enum agent_state_kind agent_state_kind(const char *type, size_t len);
/** Returns the name that clients know a kind by: "modes", "mode", … */
const char *agent_state_name(size_t kind);
/** Whether agent_state_see() and agent_state_title() need the data of events of this type. */
bool agent_state_needs_data(enum event_type type);
/**
 * Applies the next event of the log. An agent that starts a new session of its own, instead of
 * resuming one, clears the state of its predecessor.
 */
void agent_state_see(struct agent_state *state, const struct event_view *view);
/** Appends {"modes":7,…}: the kinds whose event has not been pruned (seq at least `first_seq`). */
void agent_state_append(const struct agent_state *state, uint64_t first_seq, struct buffer *out);
/**
 * Returns whether the event sets or clears the session's title. *ret_title is then the title, which
 * the caller frees, or NULL if it is cleared.
 */
bool agent_state_title(const struct event_view *view, char **ret_title);

#endif
