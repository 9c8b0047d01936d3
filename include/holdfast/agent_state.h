/*
 * What a session's agent says of itself beside the conversation: its modes, options, commands. Each
 * piece is an event, and what is kept of it is only the seq of the newest one. So it costs a few
 * numbers, however long the agent's lists are, and it is as durable as the log is.
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

/** By kind: the seq of the newest event of it, 0 if there is none. */
struct agent_state {
	uint64_t seqs[AGENT_STATE_COUNT];
};

/** The kind that events of this type (x-acp-…) are of; AGENT_STATE_COUNT: none. */
enum agent_state_kind agent_state_kind(const char *type, size_t len);
/** What clients call a kind: "modes", "mode", … */
const char *agent_state_name(size_t kind);
/** Whether whoever folds it in has to know the data of such an event. */
bool agent_state_needs_data(enum event_type type);
/**
 * Takes the next event of the log. An agent that starts with a session of its own, and does not go
 * on with the one before, has none of that one's modes.
 */
void agent_state_see(struct agent_state *state, const struct event_view *view);
/** Appends {"modes":7,…}: what there is of it that has not been pruned. */
void agent_state_append(const struct agent_state *state, uint64_t first_seq, struct buffer *out);
/**
 * The title that this event gives the session: *ret_title, the caller's, NULL if it takes it back.
 * False if it says nothing about it.
 */
bool agent_state_title(const struct event_view *view, char **ret_title);

#endif
