#include "requests_internal.h"

#include "holdfast/bytes.h"
#include "holdfast/json_text.h"
#include "holdfast/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Longest name of an agent's mode, model or option, and longest value, in bytes. */
#define SETTING_MAX 1024

/* --- texts --- */

bool session_id_is_valid(const char *id, size_t len)
{
	if (!len || len > 128 || id[0] == '.') {
		return false;
	}
	for (size_t i = 0; i < len; i++) {
		char c = id[i];
		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
			    c == '.' || c == '_' || c == '-')) {
			return false;
		}
	}
	return true;
}

bool token_is_valid(const char *text, size_t len, size_t max)
{
	if (!len || len > max) {
		return false;
	}
	for (size_t i = 0; i < len; i++) {
		if (!session_id_is_valid((char[]){'a', text[i]}, 2) && text[i] != ':') {
			return false;
		}
	}
	return true;
}

json_t *json_parse(
	const char *text, size_t len, struct json_numbers *numbers, struct refusal *refusal)
{
	if (!utf8_is_valid(text, len)) {
		refuse(refusal, ERROR_bad_utf8, "the text is not valid UTF-8");
		return NULL;
	}
	if (memchr(text, '\0', len)) { /* jansson does not notice one after a number */
		refuse(refusal, ERROR_bad_json, "not valid JSON: it has a NUL byte");
		return NULL;
	}
	if (json_is_deep(text, len)) {
		refuse(refusal, ERROR_bad_json, "the JSON nests deeper than %d levels",
			JSON_DEPTH_MAX);
		return NULL;
	}
	json_error_t error;
	json_t *json =
		json_read(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, numbers, &error);
	if (!json) {
		refuse(refusal, ERROR_bad_json, "not valid JSON: %.120s (line %d, column %d)",
			error.text, error.line, error.column);
	}
	return json;
}

int json_spans_parse(const char *text, size_t len, struct json_spans *ret, struct refusal *refusal)
{
	if (json_spans_read(text, len, ret) == 0) {
		return 0;
	}
	/* jansson says what is wrong, and where. */
	json_t *json = json_parse(text, len, NULL, refusal);
	if (json) {
		json_decref(json);
		refuse(refusal, ERROR_bad_json, "not valid JSON");
	}
	return -EINVAL;
}

/* --- fields --- */

/** Returns a string member, or NULL with `refusal` set if it is missing or not a string. */
static const json_t *need_string(
	const json_t *object, const char *name, const char *what, struct refusal *refusal)
{
	const json_t *value = json_object_get(object, name);
	if (!json_is_string(value)) {
		refuse(refusal, ERROR_bad_request, "%s needs \"%s\", a string", what, name);
		return NULL;
	}
	return value;
}

/**
 * Whether the value is a whole number from `least` to 2^53 - 1, which every JSON reader keeps
 * exact.
 */
static bool is_count(const json_t *value, json_int_t least)
{
	return json_is_integer(value) && json_integer_value(value) >= least &&
	       json_integer_value(value) <= JSON_SAFE_MAX;
}

/** A misspelt after_seq must not silently load something else. */
int json_check_names(
	const json_t *object, const char *what, const char *const names[], struct refusal *refusal)
{
	const char *name;
	json_t *value;
	json_object_foreach((json_t *)object, name, value) {
		bool known = false;
		for (const char *const *known_name = names; *known_name; known_name++) {
			known = known || strcmp(*known_name, name) == 0;
		}
		if (!known) {
			return refuse(refusal, ERROR_bad_request, "%s has no member \"%.40s\"",
				what, name);
		}
	}
	return 0;
}

/* --- observers' requests --- */

static int parse_load(const json_t *data, const struct limits *limits, struct load_request *load,
	struct refusal *refusal)
{
	const json_t *after = json_object_get(data, "after_seq");
	const json_t *before = json_object_get(data, "before_seq");
	const json_t *limit = json_object_get(data, "limit");
	const json_t *epoch = json_object_get(data, "epoch");
	const json_t *follow = json_object_get(data, "follow");
	const json_t *gaps = json_object_get(data, "gaps");
	size_t fallback =
		limits->load_default < limits->load_max ? limits->load_default : limits->load_max;
	*load = (struct load_request){.limit = fallback};
	if (after && before) {
		return refuse(refusal, ERROR_bad_request,
			"load_events takes after_seq or before_seq, not both");
	}
	if (after && !is_count(after, 0)) {
		return refuse(
			refusal, ERROR_bad_request, "after_seq must be a whole number from 0 on");
	}
	if (before && !is_count(before, 1)) {
		return refuse(
			refusal, ERROR_bad_request, "before_seq must be a whole number from 1 on");
	}
	if (limit &&
		(!is_count(limit, 1) || json_integer_value(limit) > (json_int_t)limits->load_max)) {
		return refuse(refusal, ERROR_bad_request,
			"limit must be a whole number from 1 to %zu", limits->load_max);
	}
	if (epoch && !json_is_string(epoch)) {
		return refuse(refusal, ERROR_bad_request,
			"epoch must be the string that the server sent");
	}
	if (follow && !json_is_boolean(follow)) {
		return refuse(refusal, ERROR_bad_request, "follow must be true or false");
	}
	if (gaps && !json_is_boolean(gaps)) {
		return refuse(refusal, ERROR_bad_request, "gaps must be true or false");
	}
	load->from = after ? LOAD_AFTER : before ? LOAD_BEFORE : LOAD_NEWEST;
	load->seq = (uint64_t)json_integer_value(after ? after : before);
	load->limit = limit ? (size_t)json_integer_value(limit) : load->limit;
	load->has_epoch = epoch != NULL;
	if (epoch) {
		bytes_read_hex(json_string_value(epoch), json_string_length(epoch), &load->epoch);
	}
	load->follow = json_is_true(follow);
	load->gaps = json_is_true(gaps);
	return 0;
}

static int parse_keepalive(const json_t *data, const struct json_numbers *numbers,
	struct request *ret, struct refusal *refusal)
{
	const json_t *time = json_object_get(data, "client_time");
	const json_t *seen = json_object_get(data, "last_seen_seq");
	if ((time && !json_is_number(time)) || (seen && !is_count(seen, 0))) {
		return refuse(refusal, ERROR_bad_request,
			"keepalive takes client_time, a number, and last_seen_seq, a whole number from 0 on");
	}
	ret->keepalive.client_time[0] = '\0';
	if (time) {
		char *text = json_text(time, numbers);
		snprintf(ret->keepalive.client_time, sizeof(ret->keepalive.client_time), "%s",
			text && strlen(text) < sizeof(ret->keepalive.client_time) ? text : "");
		free(text);
	}
	return 0;
}

static int take_message(const json_t *data, const struct limits *limits, struct request *ret,
	struct refusal *refusal)
{
	const json_t *message = need_string(data, "message", refusal->request, refusal);
	if (!message) {
		return -EINVAL;
	}
	if (!json_string_length(message)) {
		return refuse(
			refusal, ERROR_bad_request, "the message of a prompt must not be empty");
	}
	if (json_string_length(message) > limits->prompt_size) {
		return refuse_limit(refusal, LIMIT_prompt_size,
			"a prompt may have at most %zu bytes", limits->prompt_size);
	}
	ret->prompt.message = json_string_value(message);
	ret->prompt.message_len = json_string_length(message);
	return 0;
}

static int take_prompt_id(const json_t *data, struct request *ret, struct refusal *refusal)
{
	const json_t *id = need_string(data, "prompt_id", refusal->request, refusal);
	if (!id) {
		return -EINVAL;
	}
	if (!token_is_valid(json_string_value(id), json_string_length(id), 128)) {
		return refuse(
			refusal, ERROR_bad_request, "prompt_id must match [A-Za-z0-9._:-]{1,128}");
	}
	ret->prompt.prompt_id = json_string_value(id);
	strcpy(refusal->prompt_id, ret->prompt.prompt_id);
	return 0;
}

/** Parses a prompt, or the edit of one. */
static int parse_prompt(const json_t *data, const struct limits *limits, struct request *ret,
	struct refusal *refusal)
{
	int r = take_prompt_id(data, ret, refusal);
	return r < 0 ? r : take_message(data, limits, ret, refusal);
}

static int parse_list(const json_t *data, struct request *ret, struct refusal *refusal)
{
	ret->prompt.prompt_id = NULL;
	return json_object_get(data, "prompt_id") ? take_prompt_id(data, ret, refusal) : 0;
}

static int parse_cancel(const json_t *data, struct request *ret, struct refusal *refusal)
{
	const json_t *turn = json_object_get(data, "turn");
	if (turn && !is_count(turn, 1)) {
		return refuse(refusal, ERROR_bad_request,
			"the turn of a cancel must be a whole number from 1 on");
	}
	ret->cancel.turn = (uint64_t)json_integer_value(turn);
	return 0;
}

static int parse_answer(const json_t *data, struct request *ret, struct refusal *refusal)
{
	const json_t *id = need_string(data, "request_id", "permission_answer", refusal);
	const json_t *option =
		id ? need_string(data, "option_id", "permission_answer", refusal) : NULL;
	if (!option) {
		return -EINVAL;
	}
	ret->answer.request_id = json_string_value(id);
	ret->answer.option_id = json_string_value(option);
	return 0;
}

static int parse_elicited(const json_t *data, struct request *ret, struct refusal *refusal)
{
	const json_t *id = need_string(data, "request_id", "elicitation_answer", refusal);
	const json_t *action =
		id ? need_string(data, "action", "elicitation_answer", refusal) : NULL;
	const json_t *content = json_object_get(data, "content");
	if (!action) {
		return -EINVAL;
	}
	if (content && !json_is_object(content)) {
		return refuse(refusal, ERROR_bad_request,
			"the content of an elicitation_answer must be an object");
	}
	ret->elicited.request_id = json_string_value(id);
	ret->elicited.action = json_string_value(action);
	ret->elicited.content = content;
	return 0;
}

/** Checks a name that an agent defines. */
static int need_agent_name(
	const json_t *data, const char *name, const char *request, struct refusal *refusal)
{
	const json_t *text = need_string(data, name, request, refusal);
	size_t len = json_string_length(text);
	if (text && (!len || len > SETTING_MAX)) {
		return refuse(refusal, ERROR_bad_request, "%s must have 1 to %d bytes", name,
			SETTING_MAX);
	}
	return text ? 0 : -EINVAL;
}

static int parse_setting(const json_t *data, struct request *ret, struct refusal *refusal)
{
	bool is_option = ret->type == REQUEST_SET_CONFIG_OPTION;
	const char *name = is_option                           ? "config_id"
			   : ret->type == REQUEST_SET_MODEL    ? "model_id"
			   : ret->type == REQUEST_AUTHENTICATE ? "method_id"
							       : "mode_id";
	const json_t *value = json_object_get(data, "value");
	if (need_agent_name(data, name, refusal->request, refusal) < 0) {
		return -EINVAL;
	}
	if (is_option && !json_is_boolean(value) &&
		!(json_is_string(value) && json_string_length(value) <= SETTING_MAX)) {
		return refuse(refusal, ERROR_bad_request,
			"the value of set_config_option must be a string of at most %d bytes, or true or false",
			SETTING_MAX);
	}
	ret->setting.id = json_string_value(json_object_get(data, name));
	ret->setting.value = value;
	return 0;
}

static int parse_snapshot(const json_t *data, struct request *ret, struct refusal *refusal)
{
	const json_t *ref = json_object_get(data, "ref");
	char *text = ref ? json_text(ref, NULL) : NULL;
	struct json_spans spans = {0};
	int r = 0;
	ret->snapshot.data = data;
	ret->snapshot.ref[0] = '\0';
	if (ref) {
		r = json_spans_parse(text, strlen(text), &spans, refusal);
		r = r < 0 ? r : request_take_ref(spans.all, ret->snapshot.ref, refusal);
	}
	json_spans_finish(&spans);
	free(text);
	return r;
}

static int parse_token(const json_t *data, struct request *ret, struct refusal *refusal)
{
	ret->token.token = json_string_value(json_object_get(data, "token"));
	ret->token.login = json_string_value(json_object_get(data, "login"));
	if (json_object_size(data) != 1 || (!ret->token.token && !ret->token.login)) {
		return refuse(refusal, ERROR_bad_request,
			"a token frame needs either a token or a login");
	}
	return 0;
}

static int parse_data(struct request *ret, const json_t *data, const struct limits *limits,
	const struct json_numbers *numbers, struct refusal *refusal)
{
	static const char *const names[][7] = {
		[REQUEST_LOAD_EVENTS] = {"after_seq", "before_seq", "epoch", "limit", "follow",
			"gaps", NULL},
		[REQUEST_KEEPALIVE] = {"client_time", "last_seen_seq", NULL},
		[REQUEST_PROMPT] = {"message", "prompt_id", "content", NULL},
		[REQUEST_LIST_PROMPTS] = {"prompt_id", NULL},
		[REQUEST_EDIT_PROMPT] = {"prompt_id", "message", NULL},
		[REQUEST_REMOVE_PROMPT] = {"prompt_id", NULL},
		[REQUEST_CANCEL] = {"turn", NULL},
		[REQUEST_PERMISSION_ANSWER] = {"request_id", "option_id", NULL},
		[REQUEST_ELICITATION_ANSWER] = {"request_id", "action", "content", NULL},
		[REQUEST_SET_MODE] = {"mode_id", NULL},
		[REQUEST_SET_MODEL] = {"model_id", NULL},
		[REQUEST_SET_CONFIG_OPTION] = {"config_id", "value", NULL},
		[REQUEST_AUTHENTICATE] = {"method_id", NULL},
		[REQUEST_TOKEN] = {"token", "login", NULL},
		[REQUEST_PRESENCE] = {"name", "watch", NULL},
		[REQUEST_APPEND_SNAPSHOT] = {"messages", "skip_first", "run_id", "ref", NULL},
	};
	int r = json_check_names(data, refusal->request, names[ret->type], refusal);
	if (r < 0) {
		return r;
	}
	switch (ret->type) {
	case REQUEST_LOAD_EVENTS:
		return parse_load(data, limits, &ret->load, refusal);
	case REQUEST_KEEPALIVE:
		return parse_keepalive(data, numbers, ret, refusal);
	case REQUEST_PROMPT:
		r = parse_prompt(data, limits, ret, refusal);
		return r < 0 ? r : request_take_content(data, limits, ret, refusal);
	case REQUEST_EDIT_PROMPT:
		return parse_prompt(data, limits, ret, refusal);
	case REQUEST_LIST_PROMPTS:
		return parse_list(data, ret, refusal);
	case REQUEST_REMOVE_PROMPT:
		return take_prompt_id(data, ret, refusal);
	case REQUEST_CANCEL:
		return parse_cancel(data, ret, refusal);
	case REQUEST_PERMISSION_ANSWER:
		return parse_answer(data, ret, refusal);
	case REQUEST_ELICITATION_ANSWER:
		return parse_elicited(data, ret, refusal);
	case REQUEST_SET_MODE:
	case REQUEST_SET_MODEL:
	case REQUEST_SET_CONFIG_OPTION:
	case REQUEST_AUTHENTICATE:
		return parse_setting(data, ret, refusal);
	case REQUEST_TOKEN:
		return parse_token(data, ret, refusal);
	case REQUEST_PRESENCE:
		return request_parse_presence(data, ret, refusal);
	case REQUEST_APPEND: /* handled by request_parse() */
		break;
	case REQUEST_APPEND_SNAPSHOT:
		return parse_snapshot(data, ret, refusal);
	}
	return -EINVAL;
}

static int find_type(const char *name, enum request_side side, enum request_type *ret_type,
	struct refusal *refusal)
{
	static const char *const names[] = {
		[REQUEST_LOAD_EVENTS] = "load_events",
		[REQUEST_KEEPALIVE] = "keepalive",
		[REQUEST_PROMPT] = "prompt",
		[REQUEST_LIST_PROMPTS] = "list_prompts",
		[REQUEST_EDIT_PROMPT] = "edit_prompt",
		[REQUEST_REMOVE_PROMPT] = "remove_prompt",
		[REQUEST_CANCEL] = "cancel",
		[REQUEST_PERMISSION_ANSWER] = "permission_answer",
		[REQUEST_ELICITATION_ANSWER] = "elicitation_answer",
		[REQUEST_SET_MODE] = "set_mode",
		[REQUEST_SET_MODEL] = "set_model",
		[REQUEST_SET_CONFIG_OPTION] = "set_config_option",
		[REQUEST_AUTHENTICATE] = "authenticate",
		[REQUEST_TOKEN] = "token",
		[REQUEST_PRESENCE] = "presence",
		[REQUEST_APPEND] = "append",
		[REQUEST_APPEND_SNAPSHOT] = "append_snapshot",
	};
	static const char *const takes[] = {
		[SIDE_OBSERVER] =
			("load_events, keepalive, prompt, list_prompts, edit_prompt, remove_prompt, cancel, permission_answer, elicitation_answer, set_mode, set_model, set_config_option, authenticate, presence and token"),
		[SIDE_PRODUCER] = "append, append_snapshot, keepalive and token",
		[SIDE_FEED] = "keepalive and token",
	};
	for (enum request_type type = 0; type <= REQUEST_APPEND_SNAPSHOT; type++) {
		bool here = type == REQUEST_KEEPALIVE || type == REQUEST_TOKEN ||
			    (type >= REQUEST_APPEND && side == SIDE_PRODUCER) ||
			    (type < REQUEST_APPEND && side == SIDE_OBSERVER);
		if (here && strcmp(names[type], name) == 0) {
			*ret_type = type;
			return 0;
		}
	}
	return refuse(refusal, ERROR_unknown_type,
		"this socket does not take frames of type \"%.40s\"; it takes %s", name,
		takes[side]);
}

int request_parse(const char *text, size_t len, const struct limits *limits, enum request_side side,
	struct json_numbers *numbers, struct request *ret, struct refusal *refusal)
{
	*refusal = (struct refusal){0};
	*ret = (struct request){0};
	int r = side == SIDE_PRODUCER ? request_parse_append(text, len, limits, ret, refusal) : 0;
	if (r != 0) {
		return r < 0 ? r : 0;
	}
	json_t *json = json_parse(text, len, numbers, refusal);
	if (!json) {
		return -EINVAL;
	}
	const json_t *type = json_object_get(json, "type");
	const json_t *data = json_object_get(json, "data");
	if (json_is_string(type)) {
		snprintf(refusal->request, sizeof(refusal->request), "%s", json_string_value(type));
		utf8_repair(refusal->request);
	}
	if (!json_is_string(type) || !json_is_object(data)) {
		r = refuse(refusal, ERROR_bad_request, NO_FRAME);
	} else if (json_check_names(json, "a frame", (const char *const[]){"type", "data", NULL},
			   refusal) < 0) {
		r = -EINVAL;
	} else {
		r = find_type(json_string_value(type), side, &ret->type, refusal);
	}
	ret->json = json;
	if (r == 0) {
		r = parse_data(ret, data, limits, numbers, refusal);
	}
	if (r < 0) {
		json_decref(json);
	}
	return r;
}

void request_finish(struct request *request)
{
	json_decref(request->json);
	json_spans_finish(&request->spans);
}

/* --- REST --- */

/**
 * Returns a whole number as JSON; null if it is malformed or has too many digits for any parameter.
 */
static json_t *query_number(const char *text)
{
	size_t len = strlen(text);
	if (!len || len > 16 || strspn(text, "0123456789") != len) {
		return json_null();
	}
	return json_integer(strtoll(text, NULL, 10));
}

int load_request_from_query(const char *after_seq, const char *before_seq, const char *limit,
	const char *epoch, const char *gaps, const struct limits *limits, struct load_request *ret,
	struct refusal *refusal)
{
	if (gaps && strcmp(gaps, "0") != 0 && strcmp(gaps, "1") != 0) {
		return refuse(refusal, ERROR_bad_request, "gaps must be 0 or 1");
	}
	json_t *data = json_object();
	if (after_seq) {
		json_object_set_new(data, "after_seq", query_number(after_seq));
	}
	if (before_seq) {
		json_object_set_new(data, "before_seq", query_number(before_seq));
	}
	if (limit) {
		json_object_set_new(data, "limit", query_number(limit));
	}
	if (epoch) {
		json_object_set_new(data, "epoch", json_string(epoch));
	}
	int r = parse_load(data, limits, ret, refusal);
	ret->gaps = gaps && *gaps == '1';
	json_decref(data);
	return r;
}
