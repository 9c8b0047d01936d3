/*
 * Names that inputs give: idempotency keys, message ids, tool calls and their results, runs,
 * prompts that were removed.
 */
#include "state_internal.h"

#include <stdlib.h>
#include <string.h>

static void add(struct session_state *state, enum log_key_kind kind, const char *key, size_t len,
	uint64_t seq, const struct key_sum *sum)
{
	state->ops->name(state->owner, &(struct session_name){.kind = kind,
					       .key = key,
					       .len = len,
					       .seq = seq,
					       .nth = state->facts.input_names++,
					       .sum = sum});
}

void session_names_note_message(
	struct session_state *state, const char *id, size_t len, uint64_t seq)
{
	char **last = &state->facts.last_message_id;
	if (*last && strlen(*last) == len && memcmp(*last, id, len) == 0) {
		return;
	}
	free(*last);
	*last = xstrndup(id, len);
	add(state, LOG_KEY_MESSAGE, id, len, seq, NULL);
}

static void note_data(struct session_state *state, const struct input_event *in, uint64_t seq)
{
	const json_t *json = session_state_data(state);
	const char *tool = session_text_of(json, "tool_call_id");
	const char *status = session_text_of(json, "status");
	const char *prompt = session_text_of(json, "prompt_id");
	size_t len = strlen(tool);
	/* No snapshot can name a longer one. */
	bool is_tool = in->type != EVENT_USER_PROMPT && len && len <= MESSAGE_ID_MAX;
	if (is_tool && in->type == EVENT_TOOL_CALL) {
		add(state, LOG_KEY_TOOL_CALL, tool, len, seq, NULL);
	}
	/* A call may come with its result. */
	if (is_tool && (strcmp(status, "completed") == 0 || strcmp(status, "failed") == 0)) {
		add(state, LOG_KEY_TOOL_RESULT, tool, len, seq, NULL);
	}
	if (in->type == EVENT_USER_PROMPT && *prompt && !in->message_id) {
		session_names_note_message(state, prompt, strlen(prompt), seq);
	}
}

void session_names_note(struct session_state *state, const struct input_event *in, uint64_t seq)
{
	if (in->key) {
		add(state, LOG_KEY_INPUT, in->key, in->key_len, seq, &in->sum);
	}
	if (in->message_id) {
		session_names_note_message(state, in->message_id, in->message_id_len, seq);
	}
	if (in->type == EVENT_TOOL_CALL || in->type == EVENT_TOOL_CALL_UPDATE ||
		in->type == EVENT_USER_PROMPT) {
		note_data(state, in, seq);
	}
}

void session_names_note_prompt(struct session_state *state, const char *prompt_id, uint64_t seq)
{
	state->ops->name(state->owner, &(struct session_name){.kind = LOG_KEY_PROMPT,
					       .key = prompt_id,
					       .len = strlen(prompt_id),
					       .seq = seq});
}

void session_names_note_removed(struct session_state *state, const char *prompt_id)
{
	add(state, LOG_KEY_REMOVED, prompt_id, strlen(prompt_id), 0, NULL);
}

void session_run_begin(struct session_state *state, const char *run_id, size_t len)
{
	free(state->facts.run_id);
	state->facts.run_id = xstrndup(run_id, len);
	add(state, LOG_KEY_RUN, run_id, len, 0, NULL);
}

void session_run_end(struct session_state *state)
{
	session_facts_set(&state->facts.run_id, NULL);
	state->ops->name(state->owner, &(struct session_name){.key = ""});
}
