/*
 * Inputs of an agent that are not durable yet. An agent cannot be told that a write has failed, so
 * its inputs are kept until they are stored, and are repeated, in order, once the store accepts
 * inputs again. The host pauses the agent meanwhile, which bounds their number. Large images and
 * files in them are first written as blobs of the session (content_blobs.h).
 */
#ifndef HOLDFAST_AGENT_INPUTS_H
#define HOLDFAST_AGENT_INPUTS_H

#include "holdfast/session.h"

#include <jansson.h>

struct agent_inputs {
	struct session *session;
	struct list kept; /* struct agent_input, in order */
	struct durable_wait wait; /* waits for the newest input that existed when it began */
	bool is_waiting;
	/* some were refused or rolled back: nothing is passed on until agent_inputs_retry() */
	bool failed;
	bool is_held; /* an image or file is being written, and the inputs behind it wait */
	bool begins_turn; /* an input that had waited began a turn; the reader clears it */
	/* called when `is_held` may have ended; can be NULL */
	void (*go_on)(struct agent_inputs *inputs);
};

void agent_inputs_init(struct agent_inputs *inputs, struct session *session);
/** Whether new inputs have to wait, so that the agent must be paused. */
static inline bool agent_inputs_wait(const struct agent_inputs *inputs)
{
	return inputs->failed || inputs->is_held;
}

/** Drops all kept inputs. */
void agent_inputs_finish(struct agent_inputs *inputs);

/* Each returns 0 if the input was accepted or is kept for later, else -EINVAL. */
int agent_inputs_text(struct agent_inputs *inputs, bool thought, const char *text, size_t len,
	const char *message_id);
int agent_inputs_event(struct agent_inputs *inputs, const char *type, const json_t *data);
/** See intake_recovered(). */
int agent_inputs_recovered(
	struct agent_inputs *inputs, const char *type, const json_t *data, const char *message_id);
/** The agent withdraws a permission request. */
int agent_inputs_withdraw(struct agent_inputs *inputs, const char *request_id);

/** Call it when the store accepts inputs again. */
void agent_inputs_retry(struct agent_inputs *inputs);

#endif
