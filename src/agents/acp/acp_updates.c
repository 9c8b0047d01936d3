#include "acp_updates.h"

#include "holdfast/acp_names.h"
#include "holdfast/json_text.h"

#include <errno.h>
#include <string.h>

#define KIND_MAX         64
#define QUOTA_MODELS_MAX 16

static json_t *share(const json_t *value)
{
	return json_incref((json_t *)value);
}

static void rename_member(json_t *out, const char *key, const json_t *value)
{
	const char *ours = acp_name_ours(key);
	/* A member that already has one of our names must not replace a renamed one. */
	if (ours || !json_object_get(out, key)) {
		json_object_set_new(out, ours ? ours : key,
			acp_name_is_opaque(key) ? share(value) : acp_update_rename(value));
	}
}

json_t *acp_update_rename(const json_t *value)
{
	if (json_is_array(value)) {
		json_t *out = json_array();
		for (size_t i = 0; i < json_array_size(value); i++) {
			json_array_append_new(out, acp_update_rename(json_array_get(value, i)));
		}
		return out;
	}
	if (!json_is_object(value)) {
		return share(value);
	}
	json_t *out = json_object();
	const char *key;
	json_t *member;
	json_object_foreach((json_t *)value, key, member) {
		rename_member(out, key, member);
	}
	return out;
}

static bool has_string(const json_t *object, const char *key)
{
	return json_is_string(json_object_get(object, key));
}

static bool has_name(const json_t *object, const char *key)
{
	return json_string_length(json_object_get(object, key)) > 0;
}

/** A number from 0 as a new reference, in whatever spelling it came; NULL if it is none. */
static json_t *count_of(const json_t *value)
{
	json_int_t count;
	if (!json_whole(value, &count) || count < 0) {
		return NULL;
	}
	return json_is_integer(value) ? share(value) : json_integer(count);
}

static void set_count(json_t *out, const char *key, const json_t *value)
{
	json_t *count = count_of(value);
	if (count) {
		json_object_set_new(out, key, count);
	}
}

static bool is_content(const json_t *item)
{
	const char *type = json_string_value(json_object_get(item, "type"));
	if (!type) {
		return false;
	}
	if (strcmp(type, "content") == 0) {
		return has_string(json_object_get(item, "content"), "type");
	}
	if (strcmp(type, "diff") == 0) {
		return has_string(item, "path") && has_string(item, "newText");
	}
	return strcmp(type, "terminal") != 0 || has_name(item, "terminalId");
}

static bool is_location(const json_t *item)
{
	return has_string(item, "path");
}

static bool is_plan_entry(const json_t *item)
{
	return has_string(item, "content") && has_string(item, "priority") &&
	       has_string(item, "status");
}

/** Adds the valid items of a list; the others are dropped, as ACP's schema demands. */
static void set_list(json_t *out, const char *key, const json_t *list, bool (*fits)(const json_t *))
{
	if (!json_is_array(list)) {
		return;
	}
	json_t *kept = json_array();
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *item = json_array_get(list, i);
		json_t *renamed = fits(item) ? acp_update_rename(item) : NULL;
		if (renamed && fits == is_location) { /* a line that is no number is none */
			json_object_del(renamed, "line");
			set_count(renamed, "line", json_object_get(item, "line"));
		}
		if (renamed) {
			json_array_append_new(kept, renamed);
		}
	}
	json_object_set_new(out, key, kept);
}

static void set_string(json_t *out, const json_t *from, const char *key)
{
	if (has_string(from, key)) {
		json_object_set_new(out, key, share(json_object_get(from, key)));
	}
}

/** Null means the same as absent in ACP. */
static void set_opaque(json_t *out, const char *key, const json_t *value)
{
	if (value && !json_is_null(value)) {
		json_object_set_new(out, key, share(value));
	}
}

/**
 * A tool call in our names. Known fields are copied if they have the right type; invalid optional
 * fields are dropped.
 */
static json_t *tool_call(const json_t *call, bool needs_title, const char **ret_why)
{
	if (!has_name(call, "toolCallId")) {
		*ret_why = "a tool call without toolCallId";
		return NULL;
	}
	json_t *out = json_object();
	json_object_set_new(out, "tool_call_id", share(json_object_get(call, "toolCallId")));
	set_string(out, call, "title");
	if (needs_title && !has_string(call, "title")) {
		const char *kind = json_string_value(json_object_get(call, "kind"));
		json_object_set_new(out, "title", json_string(kind ? kind : "tool call"));
	}
	set_string(out, call, "name");
	set_string(out, call, "kind");
	set_string(out, call, "status");
	set_list(out, "content", json_object_get(call, "content"), is_content);
	set_list(out, "locations", json_object_get(call, "locations"), is_location);
	set_opaque(out, "raw_input", json_object_get(call, "rawInput"));
	set_opaque(out, "raw_output", json_object_get(call, "rawOutput"));
	set_opaque(out, "_meta", json_object_get(call, "_meta"));
	return out;
}

static json_t *plan(const json_t *update, const char **ret_why)
{
	const json_t *entries = json_object_get(update, "entries");
	if (!json_is_array(entries)) {
		*ret_why = "a plan without entries";
		return NULL;
	}
	json_t *out = json_object();
	set_list(out, "entries", entries, is_plan_entry);
	set_opaque(out, "_meta", json_object_get(update, "_meta"));
	return out;
}

static json_t *usage_update(const json_t *update, const char **ret_why)
{
	json_t *out = json_pack("{s:s}", "mode", "cumulative");
	set_count(out, "used", json_object_get(update, "used"));
	set_count(out, "size", json_object_get(update, "size"));
	if (json_object_size(out) < 3) {
		*ret_why = "a usage_update without used and size";
		json_decref(out);
		return NULL;
	}
	const json_t *cost = json_object_get(update, "cost");
	if (json_is_number(json_object_get(cost, "amount")) && has_string(cost, "currency")) {
		json_object_set_new(out, "cost", acp_update_rename(cost));
	}
	set_opaque(out, "_meta", json_object_get(update, "_meta"));
	return out;
}

/** The usage of a prompt according to these counts; NULL if they contain none. */
static json_t *prompt_usage(const json_t *counts, const char *const keys[])
{
	/*
	 * The schema says both "for this turn" and "across all turns". What agents send is per
	 * turn: within a session the figures go up and down from prompt to prompt.
	 */
	json_t *out = json_pack("{s:s}", "mode", "delta");
	for (; *keys; keys++) {
		const json_t *count = json_object_get(counts, *keys);
		const char *ours = acp_name_ours(*keys);
		set_count(out, ours ? ours : *keys, count);
	}
	if (json_object_size(out) == 1) {
		json_decref(out);
		return NULL;
	}
	return out;
}

/** Adds the usage in gemini's own form, which has one entry for each model. */
static void add_quota(json_t *out, const json_t *quota)
{
	static const char *const keys[] = {"input_tokens", "output_tokens", NULL};
	const json_t *models = json_object_get(quota, "model_usage");
	for (size_t i = 0; i < json_array_size(models) && i < QUOTA_MODELS_MAX; i++) {
		const json_t *one = json_array_get(models, i);
		const json_t *model = json_object_get(one, "model");
		json_t *usage = prompt_usage(json_object_get(one, "token_count"), keys);
		if (usage && json_string_length(model) > 0) {
			json_object_set_new(usage, "model", share(model));
		}
		json_array_append_new(out, usage);
	}
	if (json_array_size(out) == 0) {
		json_array_append_new(
			out, prompt_usage(json_object_get(quota, "token_count"), keys));
	}
}

json_t *acp_update_usages(const json_t *result)
{
	static const char *const keys[] = {"totalTokens", "inputTokens", "outputTokens",
		"thoughtTokens", "cachedReadTokens", "cachedWriteTokens", NULL};
	const json_t *usage = json_object_get(result, "usage");
	json_t *out = json_array();
	if (json_is_object(usage)) {
		json_array_append_new(out, prompt_usage(usage, keys));
	} else {
		add_quota(out, json_object_get(json_object_get(result, "_meta"), "quota"));
	}
	return out;
}

/** Reports a chunk that is not text, such as an image or a resource. */
static void report_content(
	const json_t *update, bool thought, const struct acp_agent_ops *ops, void *owner)
{
	json_t *data = json_object();
	json_object_set_new(data, "content", acp_update_rename(json_object_get(update, "content")));
	if (thought) {
		json_object_set_new(data, "thought", json_true());
	}
	if (has_string(update, "messageId")) {
		json_object_set_new(
			data, "message_id", share(json_object_get(update, "messageId")));
	}
	ops->event(owner, "x-acp-content", data);
	json_decref(data);
}

static int report_chunk(const json_t *update, bool thought, const struct acp_agent_ops *ops,
	void *owner, const char **ret_why)
{
	const json_t *content = json_object_get(update, "content");
	const char *type = json_string_value(json_object_get(content, "type"));
	if (!type) {
		*ret_why = "a chunk without content";
		return -EINVAL;
	}
	if (strcmp(type, "text") != 0) {
		report_content(update, thought, ops, owner);
		return 0;
	}
	const json_t *text = json_object_get(content, "text");
	if (!json_is_string(text)) {
		*ret_why = "a text chunk without text";
		return -EINVAL;
	}
	if (json_string_length(text) == 0) {
		return 1;
	}
	ops->text(owner, thought, json_string_value(text), json_string_length(text),
		json_string_value(json_object_get(update, "messageId")));
	return 0;
}

/** Reports an update whose kind has no event type of its own, whether or not ACP defines it. */
static int report_other(const json_t *update, const char *kind, const struct acp_agent_ops *ops,
	void *owner, const char **ret_why)
{
	static const char fitting[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
	size_t len = strlen(kind);
	if (len == 0 || len > KIND_MAX || strspn(kind, fitting) != len) {
		*ret_why = "an update whose kind is no name";
		return -EINVAL;
	}
	char type[sizeof("x-acp-") + KIND_MAX] = "x-acp-";
	memcpy(type + strlen(type), kind, len + 1);
	json_t *data = acp_update_rename(update);
	json_object_del(data, "sessionUpdate");
	ops->event(owner, type, data);
	json_decref(data);
	return 0;
}

static int report_event(
	const char *type, json_t *data, const struct acp_agent_ops *ops, void *owner)
{
	if (!data) {
		return -EINVAL;
	}
	ops->event(owner, type, data);
	json_decref(data);
	return 0;
}

bool acp_update_is_chunk(const json_t *update)
{
	const char *kind = json_string_value(json_object_get(update, "sessionUpdate"));
	return kind && (strcmp(kind, "agent_message_chunk") == 0 ||
			       strcmp(kind, "agent_thought_chunk") == 0);
}

int acp_update_report(
	const json_t *update, const struct acp_agent_ops *ops, void *owner, const char **ret_why)
{
	const char *kind = json_string_value(json_object_get(update, "sessionUpdate"));
	if (!kind) {
		*ret_why = "an update without sessionUpdate";
		return -EINVAL;
	}
	if (acp_update_is_chunk(update)) {
		return report_chunk(
			update, strcmp(kind, "agent_thought_chunk") == 0, ops, owner, ret_why);
	}
	if (strcmp(kind, "user_message_chunk") == 0) {
		return 1;
	}
	if (strcmp(kind, "tool_call") == 0) {
		return report_event(kind, tool_call(update, true, ret_why), ops, owner);
	}
	if (strcmp(kind, "tool_call_update") == 0) {
		return report_event(kind, tool_call(update, false, ret_why), ops, owner);
	}
	if (strcmp(kind, "plan") == 0) {
		return report_event(kind, plan(update, ret_why), ops, owner);
	}
	if (strcmp(kind, "usage_update") == 0) {
		return report_event("usage", usage_update(update, ret_why), ops, owner);
	}
	return report_other(update, kind, ops, owner, ret_why);
}

static json_t *permission_options(const json_t *list)
{
	json_t *out = json_array();
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *option = json_array_get(list, i);
		if (has_name(option, "optionId") && has_string(option, "name")) {
			json_t *kept = json_object();
			json_object_set_new(
				kept, "option_id", share(json_object_get(option, "optionId")));
			set_string(kept, option, "name");
			set_string(kept, option, "kind");
			set_opaque(kept, "_meta", json_object_get(option, "_meta"));
			json_array_append_new(out, kept);
		}
	}
	return out;
}

json_t *acp_update_permission(const json_t *params, const char *request_id, const char **ret_why)
{
	json_t *call = tool_call(json_object_get(params, "toolCall"), false, ret_why);
	if (!call) {
		return NULL;
	}
	json_t *options = permission_options(json_object_get(params, "options"));
	if (json_array_size(options) == 0) {
		*ret_why = "a question without options";
		json_decref(options);
		json_decref(call);
		return NULL;
	}
	json_t *out = json_pack(
		"{s:s, s:o, s:o}", "request_id", request_id, "tool_call", call, "options", options);
	set_opaque(out, "_meta", json_object_get(params, "_meta"));
	return out;
}
