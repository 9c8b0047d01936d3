#include "messages.h"

#include "holdfast/json_rpc.h"
#include "holdfast/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { CONTENT_MAX = 4000 };

/* All strings passed to jansson are valid UTF-8, so it can only fail for lack of memory. */
static json_t *need(json_t *json)
{
	if (!json) {
		abort();
	}
	return json;
}

void demo_put_request(struct buffer *out, int64_t id, const char *method, json_t *params)
{
	json_rpc_put(out, json_pack("{s:s, s:I, s:s, s:o}", "jsonrpc", "2.0", "id", (json_int_t)id,
				  "method", method, "params", need(params)));
}

void demo_put_cancel_request(struct buffer *out, int64_t id)
{
	json_rpc_put(out, json_pack("{s:s, s:s, s:{s:I}}", "jsonrpc", "2.0", "method",
				  "$/cancel_request", "params", "requestId", (json_int_t)id));
}

void demo_put_update(struct buffer *out, const char *session_id, json_t *update)
{
	json_rpc_put(out,
		json_pack("{s:s, s:s, s:{s:s, s:o}}", "jsonrpc", "2.0", "method", "session/update",
			"params", "sessionId", session_id, "update", need(update)));
}

/* Written without jansson, because every token is one such message. */
void demo_put_chunk(
	struct buffer *out, const char *session_id, bool thought, const char *text, size_t len)
{
	buffer_printf(out,
		"{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{"
		"\"sessionId\":\"%s\",\"update\":{\"sessionUpdate\":\"%s\","
		"\"content\":{\"type\":\"text\",\"text\":",
		session_id, thought ? "agent_thought_chunk" : "agent_message_chunk");
	buffer_append_json(out, text, len);
	buffer_append_str(out, "}}}}\n");
}

char *demo_call_path(const struct demo_call *call, const char *cwd)
{
	struct buffer path;
	buffer_init(&path);
	buffer_append_str(&path, cwd);
	if (path.data[path.len - 1] != '/') {
		buffer_append_char(&path, '/');
	}
	buffer_append_str(&path, call->file);
	buffer_append_char(&path, '\0');
	return path.data;
}

static json_t *text_content(const char *text, size_t len)
{
	return need(json_pack("{s:s, s:{s:s, s:s%}}", "type", "content", "content", "type", "text",
		"text", text, utf8_floor(text, len, CONTENT_MAX)));
}

static json_t *diff_content(const struct demo_call *call, const char *path)
{
	return need(json_pack("{s:s, s:s, s:n, s:s}", "type", "diff", "path", path, "oldText",
		"newText", call->new_text));
}

static json_t *raw_input(const struct demo_call *call, const char *path)
{
	return need(json_pack("{s:s*, s:s*, s:s*}", "path", path, "query", call->query, "content",
		call->new_text));
}

json_t *demo_call_object(
	const struct demo_call *call, const char *call_id, const char *cwd, const char *status)
{
	char *path = call->file ? demo_call_path(call, cwd) : NULL;
	json_t *object = need(
		json_pack("{s:s, s:s, s:s, s:s, s:o}", "toolCallId", call_id, "title", call->title,
			"kind", call->kind, "status", status, "rawInput", raw_input(call, path)));
	if (path) {
		json_t *location = need(json_pack("{s:s}", "path", path));
		if (call->line) {
			json_object_set_new(location, "line", json_integer(call->line));
		}
		json_object_set_new(object, "locations", json_pack("[o]", location));
		if (call->new_text) {
			json_object_set_new(
				object, "content", json_pack("[o]", diff_content(call, path)));
		}
	}
	free(path);
	return object;
}

json_t *demo_call_update(const char *call_id, const char *status, const char *text, size_t len)
{
	json_t *update = need(json_pack("{s:s, s:s}", "toolCallId", call_id, "status", status));
	if (text) {
		json_object_set_new(update, "content", json_pack("[o]", text_content(text, len)));
	}
	return update;
}

json_t *demo_call_end(
	const struct demo_call *call, const char *call_id, const char *cwd, const char *status)
{
	json_t *update = demo_call_update(call_id, status, NULL, 0);
	json_t *content = need(json_array());
	if (call->new_text && call->file) {
		char *path = demo_call_path(call, cwd);
		json_array_append_new(content, diff_content(call, path));
		free(path);
	}
	if (call->result) {
		json_array_append_new(content, text_content(call->result, strlen(call->result)));
		json_object_set_new(
			update, "rawOutput", json_pack("{s:s}", "output", call->result));
	}
	json_object_set_new(update, "content", content);
	return update;
}

static const char *plan_status(int entry, int done)
{
	if (entry < done) {
		return "completed";
	}
	return entry == done ? "in_progress" : "pending";
}

json_t *demo_plan_update(const struct demo_plan *plan, int done)
{
	json_t *entries = need(json_array());
	for (int i = 0; i < (int)plan->count; i++) {
		json_array_append_new(entries,
			need(json_pack("{s:s, s:s, s:s}", "content", plan->entries[i], "priority",
				i ? "medium" : "high", "status", plan_status(i, done))));
	}
	return need(json_pack("{s:o}", "entries", entries));
}

json_t *demo_update_named(const char *kind, json_t *update)
{
	/* The kind comes first, as other agents send it, for people who read these lines. */
	json_t *named = need(json_pack("{s:s}", "sessionUpdate", kind));
	json_object_update(named, update);
	json_decref(update);
	return named;
}
