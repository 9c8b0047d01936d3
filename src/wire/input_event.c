/*
 * Input events: what producers append and what an agent's updates become (proto/protocol.md#producers).
 */
#include "holdfast/usage_report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/** A member that an event's data must or may have. */
struct field {
	const char *name;
	char kind; /* s string, S non-empty string, t token, i whole number from 0, n number, b
		      boolean, a array, o object */
	bool needed;
};

#define FIELDS_MAX 8

static const struct field fields[][FIELDS_MAX] = {
	[EVENT_USER_PROMPT] = {{"message", 's', true}, {"prompt_id", 't', false},
		{"client_id", 't', false}},
	[EVENT_TOOL_CALL] = {{"tool_call_id", 'S', true}, {"title", 's', true},
		{"kind", 's', false}, {"status", 's', false}, {"content", 'a', false},
		{"locations", 'a', false}},
	[EVENT_TOOL_CALL_UPDATE] = {{"tool_call_id", 'S', true}, {"title", 's', false},
		{"kind", 's', false}, {"status", 's', false}, {"content", 'a', false},
		{"locations", 'a', false}},
	[EVENT_PLAN] = {{"entries", 'a', true}},
	[EVENT_FILE_READ] = {{"path", 'S', true}, {"size", 'i', true}},
	[EVENT_FILE_WRITE] = {{"path", 'S', true}, {"size", 'i', true}},
	[EVENT_PERMISSION_REQUEST] = {{"request_id", 'S', true}, {"tool_call", 'o', true},
		{"options", 'a', true}},
	[EVENT_PERMISSION_RESOLVED] = {{"request_id", 'S', true}, {"outcome", 'S', true},
		{"option_id", 's', false}, {"by", 's', false}, {"bound_to", 'i', false}},
	[EVENT_USAGE] = {{"used", 'n', false}, {"size", 'n', false}},
	[EVENT_TURN_END] = {{"stop_reason", 's', false}, {"message", 's', false}},
	[EVENT_AGENT_STARTED] = {{"name", 's', false}, {"title", 's', false},
		{"version", 's', false}, {"resumed", 'b', false}},
	[EVENT_AGENT_STOPPED] = {{"reason", 's', true}, {"detail", 's', false},
		{"cancelled", 'b', false}, {"between_turns", 'b', false}},
	[EVENT_MESSAGE_CHUNK] = {{"text", 'S', true}},
	[EVENT_THOUGHT_CHUNK] = {{"text", 'S', true}},
	[EVENT_RUN_START] = {{"run_id", 't', true}},
	[EVENT_RUN_END] = {{"run_id", 't', true}},
	[EVENT_UNKNOWN] = {{NULL, 0, false}},
};

static const char *kind_words(char kind)
{
	switch (kind) {
	case 's':
		return "a string";
	case 'S':
		return "a string that is not empty";
	case 't':
		return "a string that matches [A-Za-z0-9._:-]{1,128}";
	case 'n':
		return "a number";
	case 'i':
		return "a whole number from 0 to 2^53 - 1";
	case 'b':
		return "true or false";
	case 'a':
		return "an array";
	default:
		return "an object";
	}
}

static bool is_of_kind(const json_t *value, char kind)
{
	switch (kind) {
	case 's':
		return json_is_string(value);
	case 'S':
		return json_is_string(value) && json_string_length(value);
	case 't':
		return json_is_string(value) &&
		       token_is_valid(json_string_value(value), json_string_length(value), 128);
	case 'n':
		return json_is_number(value);
	case 'i':
		return json_is_integer(value) && json_integer_value(value) >= 0 &&
		       json_integer_value(value) <= 9007199254740991;
	case 'b':
		return json_is_boolean(value);
	case 'a':
		return json_is_array(value);
	default:
		return json_is_object(value);
	}
}

/** Every element of `array` is an object whose `names` are strings. */
static bool elements_have(const json_t *array, const char *const names[])
{
	size_t i;
	json_t *element;
	json_array_foreach(array, i, element) {
		for (const char *const *name = names; *name; name++) {
			if (!json_is_string(json_object_get(element, *name))) {
				return false;
			}
		}
	}
	return true;
}

static int check_elements(enum event_type type, const json_t *data, struct refusal *refusal)
{
	if (type == EVENT_PLAN &&
		!elements_have(json_object_get(data, "entries"),
			(const char *const[]){"content", "priority", "status", NULL})) {
		return refuse(refusal, "bad_request",
			"each of a plan's entries needs content, priority and status, strings");
	}
	if (type == EVENT_PERMISSION_REQUEST &&
		(!json_array_size(json_object_get(data, "options")) ||
			!elements_have(json_object_get(data, "options"),
				(const char *const[]){"option_id", "name", NULL}))) {
		return refuse(refusal, "bad_request",
			"permission_request needs options, each with option_id and name, strings");
	}
	if (!elements_have(json_object_get(data, "content"), (const char *const[]){"type", NULL}) ||
		!elements_have(
			json_object_get(data, "locations"), (const char *const[]){"path", NULL})) {
		return refuse(refusal, "bad_request",
			"each element of content needs a type, and each of locations a path, strings");
	}
	const char *outcome = json_string_value(json_object_get(data, "outcome"));
	bool selected = outcome && strcmp(outcome, "selected") == 0;
	if (type == EVENT_PERMISSION_RESOLVED &&
		!(selected && json_object_get(data, "option_id")) &&
		strcmp(outcome, "cancelled") != 0) {
		return refuse(refusal, "bad_request",
			"the outcome is \"selected\", with an option_id, or \"cancelled\"");
	}
	return 0;
}

int input_data_check(enum event_type type, const json_t *data, struct refusal *refusal)
{
	const char *name = type == EVENT_CUSTOM ? "x-…" : event_type_name(type);
	if (!json_is_object(data)) {
		return refuse(refusal, "bad_request", "an event needs \"data\", an object");
	}
	for (const struct field *field = fields[type];
		field < fields[type] + FIELDS_MAX && field->name; field++) {
		const json_t *value = json_object_get(data, field->name);
		if (!value && !field->needed) {
			continue;
		}
		if (!is_of_kind(value, field->kind)) {
			return refuse(refusal, "bad_request", "data of %s needs \"%s\", %s", name,
				field->name, kind_words(field->kind));
		}
	}
	return check_elements(type, data, refusal);
}

/**
 * Members of the event itself: what is not known is refused, so that nothing is silently dropped.
 */
static int check_members(const json_t *json, struct refusal *refusal)
{
	const char *name;
	json_t *value;
	json_object_foreach((json_t *)json, name, value) {
		if (strcmp(name, "seq") == 0 || strcmp(name, "ts") == 0 ||
			strcmp(name, "turn") == 0) {
			return refuse(refusal, "bad_request",
				"\"%s\" is set by the server; leave it out", name);
		}
		if (strcmp(name, "type") != 0 && strcmp(name, "data") != 0 &&
			strcmp(name, "message_id") != 0 && strcmp(name, "key") != 0 &&
			strcmp(name, "run_id") != 0) {
			return refuse(
				refusal, "bad_request", "an event has no member \"%.40s\"", name);
		}
	}
	return 0;
}

static int find_event_type(const json_t *type, struct input_event *ret, struct refusal *refusal)
{
	const char *name = json_string_value(type);
	size_t len = json_string_length(type);
	ret->type = event_type_of(name, len);
	ret->type_name = name;
	ret->type_len = len;
	if (strcmp(name, "text_complete") == 0 || strcmp(name, "session_idle") == 0) {
		ret->type = EVENT_TURN_END;
	} else if (ret->type == EVENT_CUSTOM && !token_is_valid(name, len, 64)) {
		return refuse(
			refusal, "unknown_type", "an x-… type matches x-[A-Za-z0-9._:-]{1,62}");
	} else if (ret->type == EVENT_UNKNOWN || ret->type == EVENT_AGENT_MESSAGE ||
		   ret->type == EVENT_AGENT_THOUGHT) {
		return refuse(refusal, "unknown_type",
			"no input event has the type \"%.40s\"; text comes as agent_message_chunk or agent_thought_chunk, events of your own as x-…",
			name);
	}
	return 0;
}

/** The event's bytes: the text itself of a chunk, else the object as compact JSON. */
static int take_data(const json_t *data, const struct limits *limits,
	const struct json_numbers *numbers, struct input_event *ret, struct refusal *refusal)
{
	bool is_run = ret->type == EVENT_RUN_START || ret->type == EVENT_RUN_END;
	if (is_run || ret->type == EVENT_MESSAGE_CHUNK || ret->type == EVENT_THOUGHT_CHUNK) {
		const json_t *text = json_object_get(data, is_run ? "run_id" : "text");
		ret->data = json_string_value(text);
		ret->data_len = json_string_length(text);
	} else {
		ret->data_json = json_text(data, numbers);
		ret->data = ret->data_json;
		ret->data_len = strlen(ret->data_json);
	}
	if (ret->data_len > limits->event_size) {
		return refuse_limit(refusal, LIMIT_event_size,
			"the data of an event may have at most %zu bytes", limits->event_size);
	}
	return 0;
}

static int take_key(const json_t *json, struct input_event *ret, struct refusal *refusal)
{
	const json_t *key = json_object_get(json, "key");
	const json_t *run_id = json_object_get(json, "run_id");
	size_t len = json_string_length(key);
	if (key && (!len || len > KEY_MAX)) {
		return refuse(refusal, "bad_key",
			"a key is a string of 1 to %d bytes; hash a longer one", KEY_MAX);
	}
	if (run_id && !is_of_kind(run_id, 't')) {
		return refuse(refusal, "bad_request", "run_id must be %s", kind_words('t'));
	}
	ret->key = json_string_value(key);
	ret->key_len = len;
	ret->run_id = json_string_value(run_id);
	return 0;
}

/** Whether it can be counted, the session's total says. */
static int check_usage(const struct input_event *in, struct refusal *refusal)
{
	struct usage_report report;
	return in->type == EVENT_USAGE
		       ? usage_report_parse(in->object, in->message_id, &report, refusal)
		       : 0;
}

int input_event_parse(const json_t *json, const struct limits *limits,
	const struct json_numbers *numbers, struct input_event *ret, struct refusal *refusal)
{
	*ret = (struct input_event){0};
	const json_t *type = json_object_get(json, "type");
	const json_t *message_id = json_object_get(json, "message_id");
	if (!json_is_object(json) || !json_is_string(type)) {
		return refuse(refusal, "bad_request",
			"an event is an object with \"type\", a string, and \"data\"");
	}
	int r = find_event_type(type, ret, refusal);
	r = r < 0 ? r : check_members(json, refusal);
	if (r < 0) {
		return r;
	}
	if (message_id && (!json_is_string(message_id) || !json_string_length(message_id) ||
				  json_string_length(message_id) > MESSAGE_ID_MAX)) {
		return refuse(
			refusal, "bad_request", "message_id must be a string of 1 to 256 bytes");
	}
	ret->message_id = json_string_value(message_id);
	ret->message_id_len = message_id ? json_string_length(message_id) : 0;
	ret->object = json_object_get(json, "data");
	ret->numbers = numbers;
	r = take_key(json, ret, refusal);
	r = r < 0 ? r : input_data_check(ret->type, ret->object, refusal);
	r = r < 0 ? r : check_usage(ret, refusal);
	r = r < 0 ? r : take_data(ret->object, limits, numbers, ret, refusal);
	if (r < 0) {
		input_event_finish(ret);
	} else if (ret->key) {
		key_sum_make(ret, KEY_SUM_NEWEST, &ret->sum);
	}
	return r;
}

void input_event_finish(struct input_event *event)
{
	free(event->data_json);
	event->data_json = NULL;
}
