#include "editor_request.h"

#include "holdfast/requests.h"

#include "holdfast/bytes.h"
#include "holdfast/json_rpc.h"
#include "holdfast/json_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *text_of(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

static const json_t *ours(const json_t *object)
{
	return json_object_get(json_object_get(object, "_meta"), "holdfast");
}

/* --- the message --- */

/**
 * Returns a request id as JSON, which the caller frees. NULL unless it is a string or a whole number
 * of at most EDITOR_ID_MAX bytes. 7.0 is a whole number (JSON-RPC 2.0, section 4: an id should have no
 * fractional part), and is answered as 7.0.
 */
static char *read_id(const json_t *id)
{
	struct buffer text = {0};
	json_int_t number;
	if (!json_is_string(id) && !json_whole(id, &number)) {
		return NULL;
	}
	json_write(&text, id, NULL);
	char *copy = text.len <= EDITOR_ID_MAX ? xstrdup(buffer_cstr(&text)) : NULL;
	buffer_finish(&text);
	return copy;
}

static int take_answer(struct editor_request *ret)
{
	const json_t *id = json_object_get(ret->json, "id");
	const char *text = json_string_value(id);
	if (text) { /* our ids are all strings */
		ret->method = EDITOR_ANSWER;
		ret->of = xstrdup(text);
		ret->result = json_object_get(ret->json, "result");
	}
	return 0;
}

/* --- parameters --- */

static int need_session(struct editor_request *ret, const json_t *params, struct refusal *refusal)
{
	const char *id = text_of(params, "sessionId");
	if (!id || !session_id_is_valid(id, strlen(id))) {
		return refuse(refusal, ERROR_bad_request,
			"sessionId must match [A-Za-z0-9._-]{1,128} and must not begin with a dot");
	}
	ret->session_id = id;
	return 0;
}

static int take_initialize(
	struct editor_request *ret, const json_t *params, struct refusal *refusal)
{
	const json_t *elicitation =
		json_object_get(json_object_get(params, "clientCapabilities"), "elicitation");
	const json_t *version = json_object_get(params, "protocolVersion");
	json_int_t number;
	if (!json_is_number(version) || !json_whole(version, &number)) {
		return refuse(refusal, ERROR_bad_request, "protocolVersion must be a whole number");
	}
	ret->initialize.is_read_only = json_is_true(json_object_get(ours(params), "read_only"));
	ret->initialize.takes_forms = json_is_object(json_object_get(elicitation, "form"));
	ret->initialize.takes_urls = json_is_object(json_object_get(elicitation, "url"));
	return 0;
}

static bool read_count(const json_t *value, uint64_t *ret)
{
	json_int_t count;
	if (!json_whole(value, &count) || count < 0 || count > JSON_SAFE_MAX) {
		return false;
	}
	*ret = (uint64_t)count;
	return true;
}

static int take_position(struct editor_request *ret, const json_t *params, struct refusal *refusal)
{
	const json_t *place = ours(params);
	const json_t *after = json_object_get(place, "after_seq");
	const json_t *open = json_object_get(place, "open");
	const char *epoch = text_of(place, "epoch");
	if (!after) {
		return 0;
	}
	ret->has_position = true;
	if (epoch) {
		bytes_read_hex(epoch, strlen(epoch), &ret->epoch);
	}
	if (!read_count(after, &ret->after_seq) || (open && !read_count(open, &ret->open)) ||
		!ret->epoch) {
		return refuse(refusal, ERROR_bad_request,
			"_meta.holdfast needs after_seq, a whole number, and epoch, 16 hexadecimal digits, as in updates; open, if present, is a whole number");
	}
	return 0;
}

static int take_directories(
	struct editor_request *ret, const json_t *params, struct refusal *refusal)
{
	size_t i;
	json_t *path;
	const json_t *list = json_object_get(params, "additionalDirectories");
	if (list && !json_is_null(list) && !json_is_array(list)) {
		return refuse(refusal, ERROR_bad_request,
			"additionalDirectories must be a list of paths");
	}
	json_array_foreach((json_t *)list, i, path) {
		if (!json_is_string(path)) {
			return refuse(refusal, ERROR_bad_request,
				"additionalDirectories must be a list of paths");
		}
	}
	ret->make.additional = json_array_size(list) ? list : NULL;
	return 0;
}

static int take_new(struct editor_request *ret, const json_t *params, struct refusal *refusal)
{
	ret->make.cwd = text_of(params, "cwd");
	ret->make.agent = text_of(ours(params), "agent");
	if (!ret->make.cwd || ret->make.cwd[0] != '/') {
		return refuse(refusal, ERROR_bad_request, "cwd must be an absolute path");
	}
	return take_directories(ret, params, refusal);
}

static int take_load(struct editor_request *ret, const json_t *params, struct refusal *refusal)
{
	int r = need_session(ret, params, refusal);
	r = r < 0 ? r : take_position(ret, params, refusal);
	return r < 0 ? r : take_directories(ret, params, refusal);
}

/* --- prompts --- */

static int take_link(struct editor_request *ret, const json_t *block, struct refusal *refusal)
{
	json_t *link = json_pack("{s:s}", "type", "resource_link");
	const char *uri = text_of(block, "uri");
	const char *name = text_of(block, "name");
	if (!uri || !name) {
		json_decref(link);
		return refuse(refusal, ERROR_bad_request, "a resource_link needs a uri and a name");
	}
	json_object_set_new(link, "uri", json_string(uri));
	json_object_set_new(link, "name", json_string(name[0] ? name : uri));
	json_array_append_new(ret->content, link);
	return 0;
}

static int take_block(struct editor_request *ret, const json_t *block, struct refusal *refusal)
{
	const char *type = text_of(block, "type");
	const char *text = text_of(block, "text");
	if (type && strcmp(type, "text") == 0 && text) {
		buffer_append_str(&ret->message, text);
		return 0;
	}
	if (type && strcmp(type, "resource_link") == 0) {
		return take_link(ret, block, refusal);
	}
	return refuse(refusal, ERROR_unsupported_content,
		"the blocks of a prompt must be of type text or resource_link");
}

static int take_prompt(struct editor_request *ret, const json_t *params,
	const struct limits *limits, struct refusal *refusal)
{
	size_t i;
	json_t *block;
	const json_t *blocks = json_object_get(params, "prompt");
	const json_t *prompt_id = json_object_get(ours(params), "prompt_id");
	const char *named = json_string_value(prompt_id);
	if (need_session(ret, params, refusal) < 0) {
		return -EINVAL;
	}
	if (!json_is_array(blocks)) {
		return refuse(refusal, ERROR_bad_request, "prompt must be a list of blocks");
	}
	if (prompt_id && (!named || !token_is_valid(named, strlen(named), 128))) {
		return refuse(
			refusal, ERROR_bad_request, "prompt_id must match [A-Za-z0-9._:-]{1,128}");
	}
	ret->content = json_array();
	json_array_foreach((json_t *)blocks, i, block) {
		if (take_block(ret, block, refusal) < 0) {
			return -EINVAL;
		}
	}
	if (!ret->message.len && !json_array_size(ret->content)) {
		return refuse(refusal, ERROR_bad_request, "the prompt is empty");
	}
	if (ret->message.len > limits->prompt_size) {
		return refuse_limit(refusal, LIMIT_prompt_size,
			"a prompt may have at most %zu bytes", limits->prompt_size);
	}
	ret->wish.type = REQUEST_PROMPT;
	int r = request_take_blocks(ret->content, limits, &ret->wish, refusal);
	ret->wish.prompt.message = buffer_cstr(&ret->message);
	ret->wish.prompt.message_len = ret->message.len;
	ret->wish.prompt.prompt_id = named;
	return r;
}

/* --- settings --- */

static int take_setting(struct editor_request *ret, const json_t *params, enum request_type type,
	const char *name, struct refusal *refusal)
{
	const char *id = text_of(params, name);
	const json_t *value = json_object_get(params, "value");
	if (need_session(ret, params, refusal) < 0) {
		return -EINVAL;
	}
	if (!id || !id[0] || strlen(id) > 1024) {
		return refuse(
			refusal, ERROR_bad_request, "%s must be a string of 1 to 1024 bytes", name);
	}
	if (type == REQUEST_SET_CONFIG_OPTION && !json_is_boolean(value) &&
		(!json_is_string(value) || json_string_length(value) > 1024)) {
		return refuse(refusal, ERROR_bad_request,
			"value must be a string of at most 1024 bytes, or true or false");
	}
	ret->wish.type = type;
	ret->wish.setting.id = id;
	ret->wish.setting.value = value;
	return 0;
}

static int take_set_mode(struct editor_request *ret, const json_t *params, struct refusal *refusal)
{
	return take_setting(ret, params, REQUEST_SET_MODE, "modeId", refusal);
}

static int take_set_model(struct editor_request *ret, const json_t *params, struct refusal *refusal)
{
	return take_setting(ret, params, REQUEST_SET_MODEL, "modelId", refusal);
}

static int take_set_option(
	struct editor_request *ret, const json_t *params, struct refusal *refusal)
{
	return take_setting(ret, params, REQUEST_SET_CONFIG_OPTION, "configId", refusal);
}

static int take_list(struct editor_request *ret, const json_t *params, struct refusal *refusal)
{
	ret->list.cwd = text_of(params, "cwd");
	ret->list.cursor = text_of(params, "cursor");
	return 0;
}

static int take_take_back(struct editor_request *ret, const json_t *params, struct refusal *refusal)
{
	ret->of = read_id(json_object_get(params, "requestId"));
	return ret->of ? 0
		       : refuse(refusal, ERROR_bad_request,
				 "requestId must be a string or a whole number");
}

/* --- methods --- */

static const struct {
	const char *name;
	enum editor_method method;
	int (*take)(struct editor_request *ret, const json_t *params, struct refusal *refusal);
	bool is_notification;
} methods[] = {
	{"initialize", EDITOR_INITIALIZE, take_initialize, false},
	{"session/list", EDITOR_LIST, take_list, false},
	{"session/new", EDITOR_NEW, take_new, false},
	{"session/load", EDITOR_LOAD, take_load, false},
	{"session/resume", EDITOR_RESUME, take_load, false},
	{"session/prompt", EDITOR_PROMPT, NULL, false},
	{"session/cancel", EDITOR_CANCEL, need_session, true},
	{"session/close", EDITOR_CLOSE, need_session, false},
	{"session/delete", EDITOR_DELETE, need_session, false},
	{"session/set_mode", EDITOR_SET, take_set_mode, false},
	{"session/set_model", EDITOR_SET, take_set_model, false},
	{"session/set_config_option", EDITOR_SET, take_set_option, false},
	{"$/cancel_request", EDITOR_TAKE_BACK, take_take_back, true},
};

static int take_method(struct editor_request *ret, const char *name, const struct limits *limits,
	struct refusal *refusal)
{
	const json_t *params = json_object_get(ret->json, "params");
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		if (strcmp(methods[i].name, name) != 0) {
			continue;
		}
		if (!ret->id && !methods[i].is_notification) {
			return refuse(refusal, ERROR_bad_message,
				"%s must be a request, with an id", name);
		}
		ret->method = methods[i].method;
		return methods[i].take ? methods[i].take(ret, params, refusal)
				       : take_prompt(ret, params, limits, refusal);
	}
	return ret->id ? refuse(refusal, ERROR_unknown_method,
				 "this server does not know this method")
		       : 0;
}

int editor_request_parse(const char *text, size_t len, const struct limits *limits,
	struct editor_request *ret, struct refusal *refusal)
{
	*ret = (struct editor_request){0};
	ret->json = json_parse(text, len, NULL, refusal);
	if (!ret->json) {
		return -EINVAL;
	}
	switch (json_rpc_classify(ret->json)) {
	case JSON_RPC_RESPONSE:
		return take_answer(ret);
	case JSON_RPC_REQUEST:
	case JSON_RPC_NOTIFICATION:
		break;
	default:
		return refuse(refusal, ERROR_bad_message,
			"a message must be a request, notification or response of JSON-RPC 2.0");
	}
	const json_t *id = json_object_get(ret->json, "id");
	ret->id = read_id(id);
	if (id && !ret->id) {
		return refuse(refusal, ERROR_bad_message,
			"an id must be a string or a whole number of at most %d bytes",
			EDITOR_ID_MAX);
	}
	return take_method(ret, text_of(ret->json, "method"), limits, refusal);
}

void editor_request_finish(struct editor_request *request)
{
	free(request->id);
	free(request->of);
	json_decref(request->json);
	json_decref(request->content);
	buffer_finish(&request->message);
}
