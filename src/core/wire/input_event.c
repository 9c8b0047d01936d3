/*
 * Checks input events: what producers append, and what an agent's updates become
 * (proto/protocol.md#producers).
 */
#include "holdfast/usage_report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/** A required or optional member of an event's data. */
struct field {
	const char *name;
	/*
	 * s string, S non-empty string, p name of a person, t token, i whole number from 0,
	 * n number, b boolean, a array, o object
	 */
	char kind;
	bool needed;
};

#define FIELDS_MAX 8

static const struct field fields[][FIELDS_MAX] = {
	[EVENT_USER_PROMPT] = {{"message", 's', true}, {"prompt_id", 't', false},
		{"client_id", 't', false}, {"name", 'p', false}},
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
		{"option_id", 's', false}, {"by", 's', false}, {"name", 'p', false},
		{"bound_to", 'i', false}},
	[EVENT_ELICITATION_REQUEST] = {{"request_id", 'S', true}, {"mode", 'S', true},
		{"message", 's', true}, {"requested_schema", 'o', false}, {"url", 'S', false}},
	[EVENT_ELICITATION_RESOLVED] = {{"request_id", 'S', true}, {"action", 'S', true},
		{"by", 's', false}, {"name", 'p', false}},
	[EVENT_USAGE] = {{"used", 'n', false}, {"size", 'n', false}},
	[EVENT_TURN_END] = {{"stop_reason", 's', false}, {"message", 's', false}},
	[EVENT_AGENT_STARTED] = {{"name", 's', false}, {"title", 's', false},
		{"version", 's', false}, {"resumed", 'b', false}},
	[EVENT_AGENT_STOPPED] = {{"reason", 's', true}, {"detail", 's', false},
		{"stderr", 's', false}, {"cancelled", 'b', false}, {"between_turns", 'b', false}},
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
		return "a non-empty string";
	case 'p':
		return "the name of a person: a string of 1 to 64 bytes without invisible characters, leading or trailing space";
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

static bool is_of_kind(const struct json_span *value, char kind)
{
	uint64_t count;
	switch (kind) {
	case 's':
		return json_span_is(value, JSON_STRING);
	case 'S':
		return json_span_is(value, JSON_STRING) && value->len;
	case 'p':
		return json_span_is(value, JSON_STRING) &&
		       person_name_is_valid(value->text, value->len);
	case 't':
		return json_span_is(value, JSON_STRING) &&
		       token_is_valid(value->text, value->len, 128);
	case 'n':
		return json_span_is(value, JSON_INTEGER) || json_span_is(value, JSON_REAL);
	case 'i':
		return json_span_count(value, &count);
	case 'b':
		return json_span_is(value, JSON_TRUE) || json_span_is(value, JSON_FALSE);
	case 'a':
		return json_span_is(value, JSON_ARRAY);
	default:
		return json_span_is(value, JSON_OBJECT);
	}
}

/**
 * Whether every element of an array is an object whose members `names` are strings; true if it is
 * not an array.
 */
static bool elements_have(const struct json_span *array, const char *const names[])
{
	if (!json_span_is(array, JSON_ARRAY)) {
		return true;
	}
	json_span_each(element, array) {
		for (const char *const *name = names; *name; name++) {
			if (!json_span_is(json_span_get(element, *name), JSON_STRING)) {
				return false;
			}
		}
	}
	return true;
}

static int check_elements(
	enum event_type type, const struct json_span *data, struct refusal *refusal)
{
	if (type == EVENT_PLAN &&
		!elements_have(json_span_get(data, "entries"),
			(const char *const[]){"content", "priority", "status", NULL})) {
		return refuse(refusal, ERROR_bad_request,
			"each of a plan's entries needs content, priority and status, strings");
	}
	if (type == EVENT_PERMISSION_REQUEST &&
		(!json_span_array_size(json_span_get(data, "options")) ||
			!elements_have(json_span_get(data, "options"),
				(const char *const[]){"option_id", "name", NULL}))) {
		return refuse(refusal, ERROR_bad_request,
			"permission_request needs options, each with option_id and name, strings");
	}
	if (!elements_have(json_span_get(data, "content"), (const char *const[]){"type", NULL}) ||
		!elements_have(
			json_span_get(data, "locations"), (const char *const[]){"path", NULL})) {
		return refuse(refusal, ERROR_bad_request,
			"each element of content needs a type, and each of locations a path, strings");
	}
	const struct json_span *outcome = json_span_get(data, "outcome");
	if (type == EVENT_PERMISSION_RESOLVED && !json_span_says(outcome, "cancelled") &&
		!(json_span_says(outcome, "selected") && json_span_get(data, "option_id"))) {
		return refuse(refusal, ERROR_bad_request,
			"the outcome must be \"selected\", with an option_id, or \"cancelled\"");
	}
	return 0;
}

int input_data_check(enum event_type type, const struct json_span *data, struct refusal *refusal)
{
	const char *name = type == EVENT_CUSTOM ? "x-…" : event_type_name(type);
	if (!json_span_is(data, JSON_OBJECT)) {
		return refuse(refusal, ERROR_bad_request, "an event needs \"data\", an object");
	}
	for (const struct field *field = fields[type];
		field < fields[type] + FIELDS_MAX && field->name; field++) {
		const struct json_span *value = json_span_get(data, field->name);
		if (!value && !field->needed) {
			continue;
		}
		if (!is_of_kind(value, field->kind)) {
			return refuse(refusal, ERROR_bad_request, "data of %s needs \"%s\", %s",
				name, field->name, kind_words(field->kind));
		}
	}
	return check_elements(type, data, refusal);
}

/**
 * Checks the members of the event itself. Unknown ones are refused, so that nothing is silently
 * dropped.
 */
static int check_members(const struct json_span *event, struct refusal *refusal)
{
	json_span_each_name(member, event) {
		const char *name = member->text;
		if (strcmp(name, "seq") == 0 || strcmp(name, "ts") == 0 ||
			strcmp(name, "turn") == 0) {
			return refuse(refusal, ERROR_bad_request,
				"\"%s\" is set by the server; leave it out", name);
		}
		if (strcmp(name, "type") != 0 && strcmp(name, "data") != 0 &&
			strcmp(name, "message_id") != 0 && strcmp(name, "key") != 0 &&
			strcmp(name, "run_id") != 0) {
			return refuse(refusal, ERROR_bad_request,
				"an event has no member \"%.40s\"", name);
		}
	}
	return 0;
}

static int find_event_type(
	const struct json_span *type, struct input_event *ret, struct refusal *refusal)
{
	const char *name = type->text;
	size_t len = type->len;
	ret->type = event_type_of(name, len);
	ret->type_name = name;
	ret->type_len = len;
	if (strcmp(name, "text_complete") == 0 || strcmp(name, "session_idle") == 0) {
		ret->type = EVENT_TURN_END;
	} else if (strncmp(name, EVENT_OWN_FRONT, strlen(EVENT_OWN_FRONT)) == 0) {
		return refuse(
			refusal, ERROR_unknown_type, "x-holdfast-… is reserved for the server");
	} else if (ret->type == EVENT_CUSTOM && !token_is_valid(name, len, 64)) {
		return refuse(refusal, ERROR_unknown_type,
			"an x-… type must match x-[A-Za-z0-9._:-]{1,62}");
	} else if (ret->type == EVENT_ELICITATION_REQUEST ||
		   ret->type == EVENT_ELICITATION_RESOLVED) {
		return refuse(refusal, ERROR_unknown_type,
			"only the server's own agents can send elicitations");
	} else if (ret->type == EVENT_UNKNOWN || ret->type == EVENT_AGENT_MESSAGE ||
		   ret->type == EVENT_AGENT_THOUGHT) {
		return refuse(refusal, ERROR_unknown_type,
			"\"%.40s\" is not the type of an input event; send text as agent_message_chunk or agent_thought_chunk, and your own events as x-…",
			name);
	}
	return 0;
}

/** Whether the session's state needs the parsed data of this type; otherwise it takes the bytes. */
static bool needs_object(enum event_type type)
{
	switch (type) {
	case EVENT_USER_PROMPT:
	case EVENT_PERMISSION_REQUEST:
	case EVENT_PERMISSION_RESOLVED:
	case EVENT_ELICITATION_REQUEST:
	case EVENT_ELICITATION_RESOLVED:
	case EVENT_USAGE:
	case EVENT_AGENT_STARTED:
	case EVENT_AGENT_STOPPED:
		return true;
	default:
		return false;
	}
}

static void take_json(const struct json_span *data, struct input_event *ret)
{
	struct buffer compact = {0};
	ret->data = data->text;
	ret->data_len = data->len;
	if (!data->is_compact) {
		json_span_write(&compact, data);
		ret->data = ret->data_json = compact.data;
		ret->data_len = compact.len;
	}
	if (needs_object(ret->type)) {
		ret->object = ret->read = json_read(ret->data, ret->data_len, 0, NULL, NULL);
	}
}

/** Sets the event's data: the text of a chunk, the id of a run, otherwise compact JSON. */
static void take_data(const struct json_span *data, struct input_event *ret)
{
	bool is_run = ret->type == EVENT_RUN_START || ret->type == EVENT_RUN_END;
	if (is_run || ret->type == EVENT_MESSAGE_CHUNK || ret->type == EVENT_THOUGHT_CHUNK) {
		const struct json_span *text = json_span_get(data, is_run ? "run_id" : "text");
		ret->data = text->text;
		ret->data_len = text->len;
	} else {
		take_json(data, ret);
	}
}

static int take_key(const struct json_span *event, struct input_event *ret, struct refusal *refusal)
{
	const struct json_span *key = json_span_get(event, "key");
	const struct json_span *run_id = json_span_get(event, "run_id");
	if (key && (key->type != JSON_STRING || !key->len || key->len > KEY_MAX)) {
		return refuse(refusal, ERROR_bad_key,
			"a key is a string of 1 to %d bytes; hash a longer one", KEY_MAX);
	}
	if (run_id && !is_of_kind(run_id, 't')) {
		return refuse(refusal, ERROR_bad_request, "run_id must be %s", kind_words('t'));
	}
	ret->key = key ? key->text : NULL;
	ret->key_len = key ? key->len : 0;
	ret->run_id = run_id ? run_id->text : NULL;
	return 0;
}

/** Checks a usage report; whether it fits the session's total is checked later. */
static int check_usage(const struct input_event *in, struct refusal *refusal)
{
	struct usage_report report;
	return in->type == EVENT_USAGE
		       ? usage_report_parse(in->object, in->message_id, &report, refusal)
		       : 0;
}

int input_event_parse(const struct json_span *event, const struct limits *limits,
	struct input_event *ret, struct refusal *refusal)
{
	*ret = (struct input_event){0};
	const struct json_span *type = json_span_get(event, "type");
	const struct json_span *message_id = json_span_get(event, "message_id");
	if (!json_span_is(type, JSON_STRING)) {
		return refuse(refusal, ERROR_bad_request,
			"an event is an object with \"type\", a string, and \"data\"");
	}
	int r = find_event_type(type, ret, refusal);
	r = r < 0 ? r : check_members(event, refusal);
	if (r < 0) {
		return r;
	}
	if (message_id && (message_id->type != JSON_STRING || !message_id->len ||
				  message_id->len > MESSAGE_ID_MAX)) {
		return refuse(refusal, ERROR_bad_request,
			"message_id must be a string of 1 to 256 bytes");
	}
	ret->message_id = message_id ? message_id->text : NULL;
	ret->message_id_len = message_id ? message_id->len : 0;
	ret->span = json_span_get(event, "data");
	r = take_key(event, ret, refusal);
	r = r < 0 ? r : input_data_check(ret->type, ret->span, refusal);
	if (r < 0) {
		return r;
	}
	take_data(ret->span, ret);
	r = check_usage(ret, refusal);
	if (r == 0 && ret->data_len > limits->event_size) {
		r = refuse_limit(refusal, LIMIT_event_size,
			"the data of an event may have at most %zu bytes", limits->event_size);
	}
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
	json_decref(event->read);
	event->data_json = NULL;
	event->read = NULL;
}
