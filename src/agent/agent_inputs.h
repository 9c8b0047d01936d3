/*
 * What an agent has said and the disk does not have yet. An agent cannot be told that a write has
 * failed, so its inputs are kept until they are stored, and given again, in order, once the store
 * takes inputs again. How much that can be is bounded by the host, which pauses agents meanwhile.
 * Large images and files in them become blobs of the session first (content_blobs.h).
 */
#ifndef HOLDFAST_AGENT_INPUTS_H
#define HOLDFAST_AGENT_INPUTS_H

#include "holdfast/session.h"

#include <jansson.h>

struct agent_inputs {
	struct session *session;
	struct list kept; /* struct agent_input, in order */
	struct durable_wait wait; /* for the newest that was there when it began */
	bool is_waiting;
	bool failed; /* some were refused or taken back: nothing is given until there is a retry */
	bool is_held; /* an image or file of one is being written: what follows waits for it */
	bool begins_turn; /* one that had waited has begun a turn; whoever looks takes it back */
	void (*go_on)(struct agent_inputs *inputs); /* it is written; NULL: nobody cares */
};

void agent_inputs_init(struct agent_inputs *inputs, struct session *session);
/** Whether what comes now waits, so that it may not become more. */
static inline bool agent_inputs_wait(const struct agent_inputs *inputs)
{
	return inputs->failed || inputs->is_held;
}

/** Forgets what is kept. */
void agent_inputs_finish(struct agent_inputs *inputs);

/* Each returns 0 when the input is taken or kept for later, else -EINVAL. */
int agent_inputs_text(struct agent_inputs *inputs, bool thought, const char *text, size_t len,
	const char *message_id);
int agent_inputs_event(struct agent_inputs *inputs, const char *type, const json_t *data);
/** See intake_recovered(). */
int agent_inputs_recovered(
	struct agent_inputs *inputs, const char *type, const json_t *data, const char *message_id);
/** The agent takes back a permission request. */
int agent_inputs_withdraw(struct agent_inputs *inputs, const char *request_id);

/** The store takes inputs again. */
void agent_inputs_retry(struct agent_inputs *inputs);

#endif
