/* The lines of keys.jsonl: what a name looks like. Pure. */
#include "store_internal.h"

#include "holdfast/json_text.h"
#include "holdfast/sealed_line.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_names[] = {[LOG_KEY_PROMPT] = "prompt",
	[LOG_KEY_ANSWER] = "answer",
	[LOG_KEY_INPUT] = "input",
	[LOG_KEY_MESSAGE] = "message",
	[LOG_KEY_TOOL_CALL] = "tool_call",
	[LOG_KEY_TOOL_RESULT] = "tool_result",
	[LOG_KEY_RUN] = "run",
	[LOG_KEY_REMOVED] = "removed"};

const char *log_key_kind_name(enum log_key_kind kind)
{
	return kind_names[kind];
}

void log_name_finish(struct log_name *name)
{
	json_decref(name->json);
	*name = (struct log_name){0};
}

static enum log_key_kind find_kind(const char *name)
{
	for (enum log_key_kind i = LOG_KEY_PROMPT; i <= LOG_KEY_REMOVED; i++) {
		if (strcmp(name, kind_names[i]) == 0) {
			return i;
		}
	}
	return LOG_KEY_UNKNOWN;
}

int log_name_parse(const char *line, size_t len, struct log_name *ret_name)
{
	size_t body;
	*ret_name = (struct log_name){0};
	if (!sealed_line_check(line, len, &body)) {
		return -EBADMSG;
	}
	json_t *json = json_loadb(line, len, 0, NULL);
	const char *kind = json_string_value(json_object_get(json, "kind"));
	const char *key = json_string_value(json_object_get(json, "key"));
	const char *by = json_string_value(json_object_get(json, "by"));
	const char *sum = json_string_value(json_object_get(json, "sum"));
	json_int_t rule = json_integer_value(json_object_get(json, "rule"));
	json_int_t seq = json_integer_value(json_object_get(json, "seq"));
	struct log_name name = {.kind = kind ? find_kind(kind) : LOG_KEY_UNKNOWN,
		.seq = (uint64_t)seq,
		.key = key,
		.by = by ? by : "",
		.sum = {.value = sum ? strtoull(sum, NULL, 16) : 0, .rule = (unsigned)rule},
		.json = json};
	bool has_event = name.kind != LOG_KEY_UNKNOWN && name.kind < LOG_KEY_INPUT;
	if (!kind || (name.kind != LOG_KEY_UNKNOWN && !key) || seq < has_event) {
		json_decref(json);
		return -EBADMSG;
	}
	*ret_name = name;
	return 0;
}

static bool skip(const char **at, const char *end, const char *text)
{
	size_t len = strlen(text);
	if ((size_t)(end - *at) < len || memcmp(*at, text, len) != 0) {
		return false;
	}
	*at += len;
	return true;
}

/** Skips a JSON string up to its closing quote, and that; false if there is none. */
static bool skip_string(const char **at, const char *end, size_t *ret_len)
{
	const char *start = *at;
	while (*at < end && **at != '"') {
		*at += **at == '\\' ? 2 : 1;
	}
	*ret_len = (size_t)(*at - start);
	return *at < end && skip(at, end, "\"");
}

/** What may follow the key. */
static void scan_rest(const char *at, const char *end, struct raw_name *ret)
{
	if (skip(&at, end, ",\"by\":\"")) {
		ret->by = at;
		if (!skip_string(&at, end, &ret->by_len)) {
			ret->by_len = 0;
			return;
		}
	}
	/* The line's seal ends every number. */
	if (skip(&at, end, ",\"sum\":\"")) {
		ret->sum.value = strtoull(at, NULL, 16);
		at += strspn(at, "0123456789abcdef");
		skip(&at, end, "\"");
	}
	if (skip(&at, end, ",\"rule\":")) {
		ret->sum.rule = (unsigned)strtoul(at, NULL, 10);
	}
}

int log_name_scan(const char *line, size_t len, struct raw_name *ret)
{
	size_t body;
	const char *end = line + len;
	char kind[16];
	*ret = (struct raw_name){.by = ""};
	if (!sealed_line_check(line, len, &body)) {
		return -EBADMSG;
	}
	const char *at = line;
	size_t kind_len = skip(&at, end, "{\"kind\":\"") ? strcspn(at, "\"\n") : 0;
	if (!kind_len || kind_len >= sizeof(kind)) {
		return 0; /* of a later version */
	}
	memcpy(kind, at, kind_len);
	kind[kind_len] = '\0';
	at += kind_len;
	if (!skip(&at, end, "\",\"seq\":")) {
		return 0;
	}
	ret->seq = strtoull(at, NULL, 10);
	at += strspn(at, "0123456789");
	if (!skip(&at, end, ",\"key\":\"")) {
		return 0;
	}
	ret->key = at;
	if (skip_string(&at, end, &ret->key_len)) {
		ret->kind = find_kind(kind);
		scan_rest(at, end, ret);
	}
	return 0;
}

/* --- events --- */

bool log_name_needs_data(enum event_type type)
{
	return type == EVENT_USER_PROMPT || type == EVENT_PERMISSION_RESOLVED;
}

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));
	return text ? text : "";
}

bool log_name_of_event(const struct event_view *view, struct log_name *ret_name)
{
	*ret_name = (struct log_name){0};
	if (!log_name_needs_data(view->type)) {
		return false;
	}
	json_t *json = json_read(view->data, view->data_len, 0, NULL, NULL);
	bool is_prompt = view->type == EVENT_USER_PROMPT;
	const char *key = text_of(json, is_prompt ? "prompt_id" : "request_id");
	if (!*key) {
		json_decref(json);
		return false;
	}
	*ret_name = (struct log_name){.kind = is_prompt ? LOG_KEY_PROMPT : LOG_KEY_ANSWER,
		.seq = view->seq,
		.key = key,
		.by = is_prompt ? "" : text_of(json, "by"),
		.json = json};
	return true;
}

void log_note_key(struct session_log *log, const struct event_view *view)
{
	struct log_name name;
	if (log_name_of_event(view, &name)) {
		log_keys_add(log, &name);
	}
	log_name_finish(&name);
}
