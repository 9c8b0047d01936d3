/*
 * Names: those that inputs give (idempotency keys, message ids, tool calls and their results, runs,
 * removed prompts), and those that are derived from events (prompts, answers).
 */
#include "state_internal.h"

#include "holdfast/json_text.h"

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

typedef void take_name(void *arg, enum log_key_kind kind, const char *key);

static const char *text_in(const struct json_span *object, const char *name)
{
	const struct json_span *value = json_span_get(object, name);
	return json_span_is(value, JSON_STRING) ? value->text : "";
}

/** Finds the names in the data of an input, or of its event. */
static void names_in_data(enum event_type type, const struct json_span *data, bool has_message_id,
	take_name *take, void *arg)
{
	const char *tool = text_in(data, "tool_call_id");
	const char *status = text_in(data, "status");
	const char *prompt = text_in(data, "prompt_id");
	size_t len = strlen(tool);
	/* Longer ids are not noted: an append_snapshot cannot contain them. */
	bool is_tool = type != EVENT_USER_PROMPT && len && len <= MESSAGE_ID_MAX;
	if (is_tool && type == EVENT_TOOL_CALL) {
		take(arg, LOG_KEY_TOOL_CALL, tool);
	}
	/* A tool_call may include its result. */
	if (is_tool && (strcmp(status, "completed") == 0 || strcmp(status, "failed") == 0)) {
		take(arg, LOG_KEY_TOOL_RESULT, tool);
	}
	if (type == EVENT_USER_PROMPT && *prompt && !has_message_id) {
		take(arg, LOG_KEY_MESSAGE, prompt);
	}
}

static bool has_names_in_data(enum event_type type)
{
	return type == EVENT_TOOL_CALL || type == EVENT_TOOL_CALL_UPDATE ||
	       type == EVENT_USER_PROMPT;
}

/** The argument of take_of_input(). */
struct noting {
	struct session_state *state;
	uint64_t seq;
};

static void take_of_input(void *arg, enum log_key_kind kind, const char *key)
{
	const struct noting *noting = arg;
	if (kind == LOG_KEY_MESSAGE) {
		session_names_note_message(noting->state, key, strlen(key), noting->seq);
	} else {
		add(noting->state, kind, key, strlen(key), noting->seq, NULL);
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
	if (has_names_in_data(in->type)) {
		struct noting noting = {state, seq};
		struct json_spans spans = {0};
		if (!in->span) {
			json_spans_read(in->data, in->data_len, &spans);
		}
		names_in_data(in->type, in->span ? in->span : spans.all, in->message_id != NULL,
			take_of_input, &noting);
		json_spans_finish(&spans);
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

/* --- names of events --- */

const struct name_kind session_name_kinds[] = {
	[LOG_KEY_PROMPT] = {.name = "prompt", .is_of_event = true},
	[LOG_KEY_ANSWER] = {.name = "answer", .is_of_event = true, .has_by = true},
	[LOG_KEY_INPUT] = {.name = "input", .has_sum = true, .is_once = true},
	[LOG_KEY_MESSAGE] = {.name = "message", .is_listed = true},
	[LOG_KEY_TOOL_CALL] = {.name = "tool_call"},
	[LOG_KEY_TOOL_RESULT] = {.name = "tool_result"},
	[LOG_KEY_RUN] = {.name = "run", .is_once = true},
	[LOG_KEY_REMOVED] = {.name = "removed"},
	[LOG_KEY_FORGOTTEN] = {.name = "forgotten", .is_count = true},
};

bool session_names_need_data(enum event_type type)
{
	return type == EVENT_USER_PROMPT || type == EVENT_PERMISSION_RESOLVED ||
	       type == EVENT_ELICITATION_RESOLVED;
}

/** The argument of take_of_event(). */
struct telling {
	uint64_t seq;
	visit_name *visit;
	void *arg;
};

static void take_of_event(void *arg, enum log_key_kind kind, const char *key)
{
	const struct telling *telling = arg;
	if (*key) {
		telling->visit(telling->arg,
			&(struct log_name){
				.kind = kind, .seq = telling->seq, .key = key, .by = ""});
	}
}

/** In an event's view the id is a JSON string without its quotes; they are next to it in memory. */
static void tell_message_id(struct telling *telling, const struct event_view *view)
{
	json_t *id = json_read(
		view->message_id - 1, view->message_id_len + 2, JSON_DECODE_ANY, NULL, NULL);
	take_of_event(telling, LOG_KEY_MESSAGE, id ? json_string_value(id) : "");
	json_decref(id);
}

char *session_signature(const json_t *resolved)
{
	struct buffer text = {0};
	const char *by = session_text_of(resolved, "by");
	const char *sub = session_text_of(resolved, "sub");
	buffer_append(&text, by, strcspn(by, "\x1f"));
	if (text.len && *sub) {
		buffer_append_char(&text, '\x1f');
		buffer_append_str(&text, sub);
	}
	buffer_cstr(&text);
	return text.data;
}

const char *session_signature_split(char *signature)
{
	char *end = strchr(signature, '\x1f');
	if (!end) {
		return "";
	}
	*end = '\0';
	return end + 1;
}

void session_names_of(const struct event_view *view, bool all, visit_name *visit, void *arg)
{
	struct telling telling = {view->seq, visit, arg};
	bool tells = session_names_need_data(view->type);
	json_t *json = tells ? json_read(view->data, view->data_len, 0, NULL, NULL) : NULL;
	if (view->type == EVENT_USER_PROMPT) {
		take_of_event(&telling, LOG_KEY_PROMPT, session_text_of(json, "prompt_id"));
	} else if (tells && *session_text_of(json, "request_id")) {
		char *by = session_signature(json);
		visit(arg, &(struct log_name){.kind = LOG_KEY_ANSWER,
				   .seq = view->seq,
				   .key = session_text_of(json, "request_id"),
				   .by = by});
		free(by);
	}
	if (all && view->message_id) {
		tell_message_id(&telling, view);
	}
	if (all && has_names_in_data(view->type)) {
		struct json_spans spans = {0};
		json_spans_read(view->data, view->data_len, &spans);
		names_in_data(
			view->type, spans.all, view->message_id != NULL, take_of_event, &telling);
		json_spans_finish(&spans);
	}
	json_decref(json);
}
