#include "holdfast/snapshot.h"

#include "holdfast/hash.h"
#include "holdfast/usage_total.h"

#include <errno.h>
#include <string.h>

/** The state while a snapshot is translated to input events. */
struct matching {
	const struct limits *limits;
	const struct snapshot_log *log;
	struct refusal *refusal;
	struct hash *messages; /* sets of the ids in the snapshot */
	struct hash *calls;
	struct hash *results;
	json_t *events;
	/* The current message. */
	const char *message_id;
	bool is_known;
	bool is_user;
	struct buffer prompt; /* a user's texts, which become one event */
	json_t *behind_prompt; /* a user's other blocks, which follow the prompt */
};

/** Adds an id to a set. Returns false if it was in it already. */
static bool set_add(struct hash *set, const char *id)
{
	return !hash_put(set, id, strlen(id), set);
}

static bool set_has(const struct hash *set, const char *id)
{
	return hash_get(set, id, strlen(id)) != NULL;
}

static bool log_knows(const struct matching *m, enum snapshot_id kind, const char *id)
{
	return m->log->known(m->log->ctx, kind, id);
}

/** Adds an input event. Takes over the reference to `data`. */
static int emit(struct matching *m, const char *type, json_t *data)
{
	json_t *event = json_pack(
		"{s:s, s:s, s:o}", "type", type, "message_id", m->message_id, "data", data);
	json_array_append_new(m->events, event);
	if (json_array_size(m->events) > m->limits->batch_events) {
		return refuse_limit(m->refusal, LIMIT_batch_events,
			"a snapshot may add at most %zu events; send the first messages alone",
			m->limits->batch_events);
	}
	return 0;
}

/* --- blocks --- */

static int put_text(struct matching *m, const json_t *block)
{
	const json_t *text = json_object_get(block, "text");
	if (!json_is_string(text)) {
		return refuse(
			m->refusal, ERROR_bad_request, "a text block needs \"text\", a string");
	}
	if (m->is_known || !json_string_length(text)) {
		return 0;
	}
	if (!m->is_user) {
		return emit(m, "agent_message_chunk", json_pack("{s:O}", "text", text));
	}
	if (m->prompt.len) {
		buffer_append_char(&m->prompt, '\n');
	}
	buffer_append(&m->prompt, json_string_value(text), json_string_length(text));
	return 0;
}

static int put_thinking(struct matching *m, const json_t *block)
{
	const json_t *text = json_object_get(block, "thinking");
	if (!json_is_string(text)) {
		return refuse(m->refusal, ERROR_bad_request,
			"a thinking block needs \"thinking\", a string");
	}
	if (m->is_known || !json_string_length(text)) {
		return 0;
	}
	return emit(m, "agent_thought_chunk", json_pack("{s:O}", "text", text));
}

/**
 * Reads a tool call's id from a member of a block. Returns NULL, with a refusal, if it is invalid.
 */
static const char *tool_id(struct matching *m, const json_t *block, const char *member)
{
	const json_t *id = json_object_get(block, member);
	size_t len = json_string_length(id);
	if (!len || len > MESSAGE_ID_MAX) {
		refuse(m->refusal, ERROR_bad_request,
			"a %s block needs \"%s\", a string of 1 to %d bytes",
			json_string_value(json_object_get(block, "type")), member, MESSAGE_ID_MAX);
		return NULL;
	}
	return json_string_value(id);
}

static int put_tool_use(struct matching *m, const json_t *block)
{
	const char *id = tool_id(m, block, "id");
	const json_t *name = json_object_get(block, "name");
	if (!id) {
		return -EINVAL;
	}
	if (!json_is_string(name)) {
		return refuse(
			m->refusal, ERROR_bad_request, "a tool_use block needs \"name\", a string");
	}
	if (!set_add(m->calls, id)) {
		return refuse(m->refusal, ERROR_duplicate_tool_use_id,
			"the tool_use id \"%.100s\" is in the snapshot twice; each call has its own",
			id);
	}
	if (log_knows(m, SNAPSHOT_TOOL_CALL, id)) {
		return 0;
	}
	json_t *data = json_pack("{s:s, s:O, s:O, s:s}", "tool_call_id", id, "title", name, "name",
		name, "status", "pending");
	json_t *input = json_object_get(block, "input");
	if (input) {
		json_object_set(data, "raw_input", input);
	}
	return emit(m, "tool_call", data);
}

/**
 * Converts a tool's result to the content of a tool call; NULL if it is neither text nor blocks.
 */
static json_t *result_content(const json_t *content)
{
	json_t *out = json_array();
	if (json_is_string(content)) {
		json_array_append_new(out, json_pack("{s:s, s:{s:s, s:O}}", "type", "content",
						   "content", "type", "text", "text", content));
		return out;
	}
	size_t i;
	json_t *block;
	json_array_foreach(content, i, block) {
		if (!json_is_string(json_object_get(block, "type"))) {
			json_decref(out);
			return NULL;
		}
		json_array_append_new(
			out, json_pack("{s:s, s:O}", "type", "content", "content", block));
	}
	if (content && !json_is_array(content)) {
		json_decref(out);
		return NULL;
	}
	return out;
}

static int put_tool_result(struct matching *m, const json_t *block)
{
	const char *id = tool_id(m, block, "tool_use_id");
	if (!id) {
		return -EINVAL;
	}
	if (!set_add(m->results, id)) {
		return refuse(m->refusal, ERROR_duplicate_tool_use_id,
			"the tool call \"%.100s\" has two results in the snapshot; send only the last one",
			id);
	}
	if (!set_has(m->calls, id) && !log_knows(m, SNAPSHOT_TOOL_CALL, id)) {
		return refuse(m->refusal, ERROR_unknown_tool_use,
			"a tool_result is of \"%.100s\", but no tool_use with this id comes before it, in the snapshot or in the log",
			id);
	}
	json_t *content = result_content(json_object_get(block, "content"));
	if (!content) {
		return refuse(m->refusal, ERROR_bad_request,
			"the content of a tool_result is a string, or an array of blocks with a type");
	}
	if (log_knows(m, SNAPSHOT_TOOL_RESULT, id)) {
		json_decref(content);
		return 0;
	}
	bool failed = json_is_true(json_object_get(block, "is_error"));
	return emit(m, "tool_call_update",
		json_pack("{s:s, s:s, s:o}", "tool_call_id", id, "status",
			failed ? "failed" : "completed", "content", content));
}

/** Takes a block of another type (an image, a document …), which is passed on as it is. */
static int put_other(struct matching *m, json_t *block)
{
	if (m->is_known) {
		return 0;
	}
	if (m->is_user) {
		json_array_append(m->behind_prompt, block);
		return 0;
	}
	return emit(m, "x-content", json_pack("{s:s, s:O}", "role", "assistant", "content", block));
}

static int put_block(struct matching *m, json_t *block)
{
	const char *type = json_string_value(json_object_get(block, "type"));
	if (!type) {
		return refuse(m->refusal, ERROR_bad_request,
			"each block of a message's content is an object with \"type\", a string");
	}
	if (strcmp(type, "text") == 0) {
		return put_text(m, block);
	}
	if (strcmp(type, "thinking") == 0) {
		return put_thinking(m, block);
	}
	if (strcmp(type, "tool_use") == 0) {
		return put_tool_use(m, block);
	}
	if (strcmp(type, "tool_result") == 0) {
		return put_tool_result(m, block);
	}
	if (strcmp(type, "redacted_thinking") == 0) {
		return 0; /* only the model can read it */
	}
	return put_other(m, block);
}

/* --- messages --- */

static int put_content(struct matching *m, const json_t *content)
{
	if (json_is_string(content)) {
		json_t *block = json_pack("{s:s, s:O}", "type", "text", "text", content);
		int r = put_text(m, block);
		json_decref(block);
		return r;
	}
	if (!json_is_array(content)) {
		return refuse(m->refusal, ERROR_bad_request,
			"a message needs \"content\", a string or an array of blocks");
	}
	int r = 0;
	size_t i;
	json_t *block;
	json_array_foreach(content, i, block) {
		r = r < 0 ? r : put_block(m, block);
	}
	return r;
}

/** Adds a user's prompt and other blocks, after the tool results in the same message. */
static int put_prompt(struct matching *m)
{
	int r = 0;
	if (m->prompt.len) {
		json_t *text = json_stringn(m->prompt.data, m->prompt.len);
		r = emit(m, "user_prompt", json_pack("{s:o}", "message", text));
	}
	size_t i;
	json_t *block;
	json_array_foreach(m->behind_prompt, i, block) {
		r = r < 0 ? r
			  : emit(m, "x-content",
				    json_pack("{s:s, s:O}", "role", "user", "content", block));
	}
	buffer_clear(&m->prompt);
	json_array_clear(m->behind_prompt);
	return r;
}

static int put_usage(struct matching *m, const json_t *message)
{
	json_t *usage = json_object_get(message, "usage");
	json_t *model = json_object_get(message, "model");
	if (m->is_known || !usage || json_is_null(usage)) {
		return 0;
	}
	json_t *data = json_is_object(usage) ? json_copy(usage) : json_null();
	json_object_set_new(data, "mode", json_string("cumulative_in_message"));
	json_object_set_new(data, "message_id", json_string(m->message_id));
	if (model && !json_is_null(model)) {
		json_object_set(data, "model", model);
	}
	struct usage_report report;
	if (usage_report_parse(data, NULL, &report, m->refusal) < 0) {
		json_decref(data);
		return -EINVAL;
	}
	return emit(m, "usage", data);
}

/** Adds a turn_end if the message's stop_reason ends the turn; waiting for a tool does not. */
static int put_turn_end(struct matching *m, const json_t *message)
{
	static const char *const reasons[][2] = {
		{"end_turn", "end_turn"},
		{"stop_sequence", "end_turn"},
		{"max_tokens", "max_tokens"},
		{"refusal", "refusal"},
	};
	const json_t *reason = json_object_get(message, "stop_reason");
	if (reason && !json_is_string(reason) && !json_is_null(reason)) {
		return refuse(
			m->refusal, ERROR_bad_request, "stop_reason must be a string or null");
	}
	for (size_t i = 0; !m->is_known && json_is_string(reason) && i < 4; i++) {
		if (strcmp(json_string_value(reason), reasons[i][0]) == 0) {
			return emit(
				m, "turn_end", json_pack("{s:s}", "stop_reason", reasons[i][1]));
		}
	}
	return 0;
}

static int read_role(struct matching *m, const json_t *message)
{
	const char *role = json_string_value(json_object_get(message, "role"));
	m->is_user = role && strcmp(role, "user") == 0;
	if (!m->is_user && (!role || strcmp(role, "assistant") != 0)) {
		return refuse(m->refusal, ERROR_unknown_role,
			"a message needs \"role\", \"user\" or \"assistant\"; leave system messages out");
	}
	return 0;
}

static int put_message(struct matching *m, const json_t *message)
{
	int r = read_role(m, message);
	r = r < 0 ? r : put_content(m, json_object_get(message, "content"));
	r = r < 0 ? r : put_prompt(m);
	r = r < 0 ? r : put_usage(m, message);
	return r < 0 ? r : put_turn_end(m, message);
}

/* --- the snapshot --- */

/** Checks, before anything else, that each message has an id of its own. */
static int check_ids(struct matching *m, const json_t *messages, size_t *ret_bad)
{
	size_t i;
	json_t *message;
	json_array_foreach(messages, i, message) {
		*ret_bad = i;
		const json_t *id = json_object_get(message, "message_id");
		size_t len = json_string_length(id);
		if (!json_is_object(message)) {
			return refuse(m->refusal, ERROR_bad_request, "a message is an object");
		}
		if (!len || len > MESSAGE_ID_MAX) {
			return refuse(m->refusal, ERROR_missing_message_id,
				"a message needs \"message_id\", a string of 1 to %d bytes that stays the same in every snapshot",
				MESSAGE_ID_MAX);
		}
		if (!set_add(m->messages, json_string_value(id))) {
			return refuse(m->refusal, ERROR_duplicate_message_id,
				"the message_id \"%.100s\" is in the snapshot twice; each message has its own",
				json_string_value(id));
		}
	}
	return 0;
}

/**
 * Checks that the first `count` messages are the log's first, in order. A message that causes no
 * event (it is empty, or all its tool calls and results are known) is not in the log, and is
 * skipped.
 */
static int match_first(struct matching *m, const json_t *messages, size_t count, size_t *ret_bad)
{
	size_t next = 0;
	for (size_t i = 0; i < count; i++) {
		*ret_bad = i;
		const json_t *message = json_array_get(messages, i);
		m->message_id = json_string_value(json_object_get(message, "message_id"));
		m->is_known = false;
		const char *held = m->log->nth(m->log->ctx, next);
		if (held && strcmp(held, m->message_id) == 0) {
			next++;
			continue;
		}
		bool elsewhere = log_knows(m, SNAPSHOT_MESSAGE, m->message_id);
		int r = elsewhere ? 0 : put_message(m, message);
		if (r < 0) {
			return r;
		}
		if (!elsewhere && json_array_size(m->events) == 0) {
			continue;
		}
		return refuse(m->refusal, ERROR_history_mismatch,
			"skip_first does not fit: here the log has \"%.60s\", the snapshot \"%.60s\"; send it without skip_first",
			held ? held : "no message", m->message_id);
	}
	return 0;
}

static int match_rest(struct matching *m, const json_t *messages, size_t first,
	struct snapshot_match *ret, size_t *ret_bad)
{
	ret->known = first;
	ret->added = 0;
	for (size_t i = first; i < json_array_size(messages); i++) {
		*ret_bad = i;
		const json_t *message = json_array_get(messages, i);
		m->message_id = json_string_value(json_object_get(message, "message_id"));
		m->is_known = log_knows(m, SNAPSHOT_MESSAGE, m->message_id);
		int r = put_message(m, message);
		if (r < 0) {
			return r;
		}
		*(m->is_known ? &ret->known : &ret->added) += 1;
	}
	return 0;
}

static int check_shape(const json_t *data, const struct limits *limits, size_t *ret_skip_first,
	struct refusal *refusal)
{
	const json_t *messages = json_object_get(data, "messages");
	const json_t *skip_first = json_object_get(data, "skip_first");
	size_t count = json_array_size(messages);
	json_int_t skip = json_integer_value(skip_first);
	if (!json_is_array(messages)) {
		return refuse(refusal, ERROR_bad_request,
			"append_snapshot needs \"messages\", an array of all messages so far");
	}
	if (count > limits->batch_events) {
		return refuse_limit(refusal, LIMIT_batch_events,
			"a snapshot has at most %zu messages", limits->batch_events);
	}
	if (skip_first && (!json_is_integer(skip_first) || skip < 0 || (size_t)skip > count)) {
		return refuse(refusal, ERROR_bad_request,
			"skip_first must be a whole number from 0 to the number of messages, %zu",
			count);
	}
	*ret_skip_first = (size_t)skip;
	return 0;
}

int snapshot_match(const json_t *data, const struct limits *limits, const struct snapshot_log *log,
	struct snapshot_match *ret, size_t *ret_bad, struct refusal *refusal)
{
	size_t skip_first = 0;
	*ret_bad = SNAPSHOT_NO_INDEX;
	if (check_shape(data, limits, &skip_first, refusal) < 0) {
		return -EINVAL;
	}
	const json_t *messages = json_object_get(data, "messages");
	struct matching m = {.limits = limits,
		.log = log,
		.refusal = refusal,
		.messages = hash_create(),
		.calls = hash_create(),
		.results = hash_create(),
		.events = json_array(),
		.behind_prompt = json_array()};
	int r = check_ids(&m, messages, ret_bad);
	r = r < 0 ? r : match_first(&m, messages, skip_first, ret_bad);
	r = r < 0 ? r : match_rest(&m, messages, skip_first, ret, ret_bad);
	hash_destroy(m.messages);
	hash_destroy(m.calls);
	hash_destroy(m.results);
	buffer_finish(&m.prompt);
	json_decref(m.behind_prompt);
	if (r < 0) {
		json_decref(m.events);
		return r;
	}
	ret->events = m.events;
	return 0;
}
