#include "ai_tools.h"

#include "holdfast/hash.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct tool {
	char *id;
	struct buffer input; /* JSON; empty: not known yet */
	struct buffer content; /* likewise: its content so far */
	bool is_shown; /* it has a part in the message */
	bool is_asked; /* its part is final or awaits approval: do not show it again */
	bool is_denied; /* its part already says that it was denied */
	unsigned step; /* in which it was shown */
};

struct question {
	char *id;
	char *tool_id; /* NULL: the question has not arrived yet */
	struct buffer allows; /* ids of the options that allow, each with its NUL */
	bool is_answered; /* by this client; perhaps not in the log yet */
	bool is_open;
};

struct ai_tools {
	unsigned refs;
	XXH128_hash_t sum; /* see ai_tools_sum() */
	struct hash *calls; /* struct tool, by tool_call_id */
	struct hash *questions; /* struct question, by request_id */
	size_t open; /* unanswered questions */
	size_t unseen; /* questions answered by this client that have not arrived yet */
	unsigned step;
};

struct ai_tools *ai_tools_create(void)
{
	struct ai_tools *tools = xcalloc(1, sizeof(*tools));
	tools->refs = 1;
	tools->calls = hash_create();
	tools->questions = hash_create();
	return tools;
}

static void free_tool(void *value, void *arg)
{
	struct tool *tool = value;
	buffer_finish(&tool->input);
	buffer_finish(&tool->content);
	free(tool->id);
	free(tool);
}

static void free_question(void *value, void *arg)
{
	struct question *question = value;
	buffer_finish(&question->allows);
	free(question->id);
	free(question->tool_id);
	free(question);
}

struct ai_tools *ai_tools_ref(struct ai_tools *tools)
{
	tools->refs++;
	return tools;
}

void ai_tools_unref(struct ai_tools *tools)
{
	if (--tools->refs) {
		return;
	}
	hash_each(tools->calls, free_tool, NULL);
	hash_each(tools->questions, free_question, NULL);
	hash_destroy(tools->calls);
	hash_destroy(tools->questions);
	free(tools);
}

static struct tool *add_tool(struct ai_tools *tools, const char *id)
{
	struct tool *tool = xcalloc(1, sizeof(*tool));
	tool->id = xstrdup(id);
	hash_put(tools->calls, id, strlen(id), tool);
	return tool;
}

static struct question *find_question(struct ai_tools *tools, const char *id)
{
	struct question *question = hash_get(tools->questions, id, strlen(id));
	if (!question) {
		question = xcalloc(1, sizeof(*question));
		question->id = xstrdup(id);
		hash_put(tools->questions, id, strlen(id), question);
	}
	return question;
}

static void copy_bytes(struct buffer *to, const struct buffer *from)
{
	if (from->len) {
		buffer_append(to, from->data, from->len);
	}
}

static void copy_tool(void *value, void *arg)
{
	const struct tool *tool = value;
	struct tool *copy = add_tool(arg, tool->id);
	copy_bytes(&copy->input, &tool->input);
	copy_bytes(&copy->content, &tool->content);
	copy->is_shown = tool->is_shown;
	copy->is_asked = tool->is_asked;
	copy->is_denied = tool->is_denied;
	copy->step = tool->step;
}

static void copy_question(void *value, void *arg)
{
	const struct question *question = value;
	struct question *copy = find_question(arg, question->id);
	copy->tool_id = question->tool_id ? xstrdup(question->tool_id) : NULL;
	copy_bytes(&copy->allows, &question->allows);
	copy->is_answered = question->is_answered;
	copy->is_open = question->is_open;
}

struct ai_tools *ai_tools_own(struct ai_tools *tools)
{
	if (tools->refs == 1) {
		return tools;
	}
	struct ai_tools *copy = ai_tools_create();
	hash_each(tools->calls, copy_tool, copy);
	hash_each(tools->questions, copy_question, copy);
	copy->sum = tools->sum;
	copy->open = tools->open;
	copy->unseen = tools->unseen;
	copy->step = tools->step;
	ai_tools_unref(tools);
	return copy;
}

/** Adds an input to the sum: its kind and its text. */
static void change(struct ai_tools *tools, char kind, const char *text, size_t len)
{
	struct {
		XXH128_hash_t before;
		XXH128_hash_t news;
	} both = {tools->sum, XXH3_128bits_withSeed(text, len, (XXH64_hash_t)kind)};
	assert(tools->refs == 1);
	tools->sum = XXH3_128bits(&both, sizeof(both));
}

void ai_tools_sum(const struct ai_tools *tools, uint64_t ret[2])
{
	ret[0] = tools->sum.low64;
	ret[1] = tools->sum.high64;
}

void ai_tools_note_answered(struct ai_tools *tools, const char *request_id)
{
	change(tools, 'n', request_id, strlen(request_id));
	struct question *question = find_question(tools, request_id);
	tools->unseen += !question->is_answered;
	question->is_answered = true;
}

bool ai_tools_wait(const struct ai_tools *tools)
{
	return tools->open > 0;
}

/* --- chunks --- */

static void begin(struct buffer *out, const char *type, const char *tool_id)
{
	buffer_append_str(out, "{");
	buffer_append_member(out, "type", type);
	buffer_append_member(out, "toolCallId", tool_id);
}

static void put_json(struct buffer *out, const char *name, const struct buffer *json)
{
	buffer_printf(out, ",\"%s\":", name);
	if (json->len) {
		buffer_append(out, json->data, json->len);
	} else {
		buffer_append_str(out, "null");
	}
}

/**
 * Ends a chunk of a tool. Tools run by the agent are, to the chat, tools that the provider
 * executes.
 */
static void end_tool(struct buffer *out)
{
	buffer_append_str(out, ",\"dynamic\":true,\"providerExecuted\":true}\n");
}

static void show(struct ai_tools *tools, struct tool *tool, const char *id,
	const struct json_span *data, struct buffer *out)
{
	const char *name = json_span_string(data, "name");
	const char *title = json_span_string(data, "title");
	name = name ? name : json_span_string(data, "kind");
	tool->is_shown = true;
	tool->step = tools->step;
	if (!out) {
		return;
	}
	begin(out, "tool-input-available", id);
	buffer_append_member(out, "toolName", name ? name : "tool");
	if (title) {
		buffer_append_member(out, "title", title);
	}
	put_json(out, "input", &tool->input);
	end_tool(out);
}

/**
 * Returns the first text of a tool's content:
 * `[{"type":"content","content":{"type":"text","text":…}}]`.
 */
static const char *text_in(const struct json_span *content)
{
	if (!json_span_is(content, JSON_ARRAY)) {
		return NULL;
	}
	json_span_each(block, content) {
		const char *text = json_span_string(json_span_get(block, "content"), "text");
		if (text) {
			return text;
		}
	}
	return NULL;
}

static void put_failure(const char *id, const struct json_span *data, struct buffer *out)
{
	const char *why = json_span_string(data, "raw_output");
	why = why ? why : text_in(json_span_get(data, "content"));
	begin(out, "tool-output-error", id);
	buffer_append_member(out, "errorText", why ? why : "the tool failed");
	end_tool(out);
}

static void put_output(
	struct tool *tool, const char *id, const struct json_span *data, struct buffer *out)
{
	const struct json_span *raw = json_span_get(data, "raw_output");
	struct buffer output = {0};
	if (raw && raw->type != JSON_NULL) {
		json_span_write(&output, raw);
	} else {
		buffer_append(
			&output, tool->content.data ? tool->content.data : "", tool->content.len);
	}
	begin(out, "tool-output-available", id);
	put_json(out, "output", &output);
	end_tool(out);
	buffer_finish(&output);
}

static void keep(struct buffer *kept, const struct json_span *value)
{
	if (value && value->type != JSON_NULL) {
		buffer_clear(kept);
		json_span_write(kept, value);
	}
}

/** Updates a call and shows it if it is new or has changed. */
static struct tool *take_call(
	struct ai_tools *tools, const char *id, const struct json_span *data, struct buffer *out)
{
	struct tool *tool = hash_get(tools->calls, id, strlen(id));
	bool is_new = !tool;
	if (is_new) {
		tool = add_tool(tools, id);
	}
	const struct json_span *input = json_span_get(data, "raw_input");
	bool is_told = (input && input->type != JSON_NULL) || json_span_get(data, "title");
	keep(&tool->input, input);
	keep(&tool->content, json_span_get(data, "content"));
	/* The chat would not find a part of an earlier step. */
	if (!tool->is_shown || (is_told && !tool->is_asked && tool->step == tools->step)) {
		show(tools, tool, id, data, out);
	}
	return tool;
}

void ai_tools_take(struct ai_tools *tools, const struct json_span *data, struct buffer *out)
{
	const char *id = json_span_string(data, "tool_call_id");
	const char *status = json_span_string(data, "status");
	if (!id) {
		return;
	}
	change(tools, out ? 'T' : 't', data->text, data->len);
	struct tool *tool = take_call(tools, id, data, out);
	bool has_failed = status && strcmp(status, "failed") == 0;
	bool is_over = has_failed || (status && strcmp(status, "completed") == 0);
	if (has_failed && out && !tool->is_denied) {
		put_failure(id, data, out);
	} else if (is_over && out && !has_failed) {
		put_output(tool, id, data, out);
	}
	if (is_over) {
		buffer_finish(&tool->input);
		buffer_finish(&tool->content);
		tool->is_asked = true; /* its part is final */
	}
}

/* --- questions --- */

static void note_options(struct question *question, const struct json_span *options)
{
	if (!json_span_is(options, JSON_ARRAY)) {
		return;
	}
	json_span_each(option, options) {
		const char *id = json_span_string(option, "option_id");
		const char *kind = json_span_string(option, "kind");
		if (id && kind && strncmp(kind, "allow", 5) == 0) {
			buffer_append(&question->allows, id, strlen(id) + 1);
		}
	}
}

static bool allows(const struct question *question, const char *option)
{
	for (size_t at = 0; option && at < question->allows.len;
		at += strlen(question->allows.data + at) + 1) {
		if (strcmp(question->allows.data + at, option) == 0) {
			return true;
		}
	}
	return false;
}

static void put_question(
	struct buffer *out, const char *id, const char *tool_id, const struct json_span *options)
{
	begin(out, "tool-approval-request", tool_id);
	buffer_append_member(out, "approvalId", id);
	if (options) {
		buffer_append_str(out, ",\"approvalDescriptor\":{\"options\":");
		json_span_write(out, options);
		buffer_append_char(out, '}');
	}
	buffer_append_str(out, "}\n");
}

bool ai_tools_ask(struct ai_tools *tools, const struct json_span *data, struct buffer *out)
{
	const char *id = json_span_string(data, "request_id");
	const struct json_span *call = json_span_get(data, "tool_call");
	const char *tool_id = json_span_string(call, "tool_call_id");
	if (!id) {
		return false;
	}
	change(tools, out ? 'A' : 'a', data->text, data->len);
	struct question *question = find_question(tools, id);
	tool_id = tool_id ? tool_id : id;
	free(question->tool_id);
	question->tool_id = xstrdup(tool_id);
	note_options(question, json_span_get(data, "options"));
	take_call(tools, tool_id, call, out)->is_asked = true;
	question->is_open = true;
	tools->open += !question->is_answered;
	if (out) {
		put_question(out, id, tool_id, json_span_get(data, "options"));
	}
	return question->is_answered && tools->unseen && --tools->unseen == 0;
}

void ai_tools_resolve(struct ai_tools *tools, const struct json_span *data, struct buffer *out)
{
	const char *id = json_span_string(data, "request_id");
	struct question *question = id ? hash_get(tools->questions, id, strlen(id)) : NULL;
	if (!question || !question->is_open) {
		return;
	}
	change(tools, out ? 'R' : 'r', data->text, data->len);
	question->is_open = false;
	tools->open -= !question->is_answered;
	bool is_approved = allows(question, json_span_string(data, "option_id"));
	struct tool *tool = hash_get(tools->calls, question->tool_id, strlen(question->tool_id));
	tool->is_denied = !is_approved;
	if (out) {
		buffer_append_str(out, "{\"type\":\"tool-approval-response\"");
		buffer_append_member(out, "approvalId", id);
		buffer_printf(out, ",\"approved\":%s}\n", is_approved ? "true" : "false");
		if (!is_approved) {
			begin(out, "tool-output-denied", question->tool_id);
			buffer_append_str(out, "}\n");
		}
	}
	if (!tools->open) { /* all questions are answered: what follows is another step */
		tools->step++;
		if (out) {
			buffer_append_str(
				out, "{\"type\":\"finish-step\"}\n{\"type\":\"start-step\"}\n");
		}
	}
}
