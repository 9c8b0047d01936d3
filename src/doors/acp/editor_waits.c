/*
 * The requests that an editor waits for: its load, its prompts (until their turns end) and its
 * settings.
 */
#include "editor_view_internal.h"

#include "holdfast/json_rpc.h"
#include "holdfast/requests.h"

#include <stdlib.h>
#include <string.h>

enum kind { WAIT_PROMPT, WAIT_SETTING };

struct editor_wait {
	struct list link; /* editor_view.waits */
	enum kind kind;
	enum editor_setting setting;
	char *id; /* of the request, JSON */
	char *name; /* prompt_id, id of the wanted mode or model, or id of an option */
	uint64_t turn; /* of a prompt; 0: not begun */
};

/* --- messages --- */

void editor_put_result(struct buffer *out, const char *id, const char *result, size_t len)
{
	buffer_printf(out, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":", id);
	buffer_append(out, result, len);
	buffer_append_str(out, "}\n");
}

/**
 * Returns the JSON-RPC or ACP number of an error code; JSON_RPC_INTERNAL_ERROR if there is none.
 */
static int number_of(enum error_code code)
{
	switch (code) {
	case ERROR_bad_json:
	case ERROR_bad_utf8:
		return JSON_RPC_PARSE_ERROR;
	case ERROR_bad_message:
		return JSON_RPC_INVALID_REQUEST;
	case ERROR_unknown_method:
		return JSON_RPC_METHOD_NOT_FOUND;
	case ERROR_bad_request:
		return JSON_RPC_INVALID_PARAMS;
	case ERROR_not_found:
		return JSON_RPC_NOT_FOUND;
	case ERROR_cancelled:
		return JSON_RPC_REQUEST_CANCELLED;
	default:
		return JSON_RPC_INTERNAL_ERROR;
	}
}

void editor_put_error(struct buffer *out, const char *id, enum error_code code, const char *message)
{
	buffer_printf(
		out, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":%d", id, number_of(code));
	buffer_append_member(out, "message", message);
	buffer_append_str(out, ",\"data\":{");
	buffer_append_member(out, "code", error_code_text(code));
	buffer_append_str(out, "}}}\n");
}

static void put_stop(struct buffer *out, const char *id, const char *reason)
{
	struct buffer result = {0};
	buffer_append_char(&result, '{');
	buffer_append_member(&result, "stopReason", reason);
	buffer_append_char(&result, '}');
	editor_put_result(out, id, result.data, result.len);
	buffer_finish(&result);
}

/* --- waits --- */

bool editor_view_has_room(const struct editor_view *view)
{
	return view->wait_count < EDITOR_WAITS_MAX;
}

static struct editor_wait *add(
	struct editor_view *view, enum kind kind, const char *id, const char *name)
{
	if (!editor_view_has_room(view)) {
		return NULL;
	}
	struct editor_wait *wait = xcalloc(1, sizeof(*wait));
	wait->kind = kind;
	wait->id = xstrdup(id);
	wait->name = xstrdup(name);
	list_append(&view->waits, &wait->link);
	view->wait_count++;
	return wait;
}

static void drop(struct editor_view *view, struct editor_wait *wait)
{
	list_remove(&wait->link);
	view->wait_count--;
	free(wait->id);
	free(wait->name);
	free(wait);
}

void editor_waits_finish(struct editor_view *view)
{
	list_for_each_safe(link, tmp, &view->waits) {
		drop(view, list_entry(link, struct editor_wait, link));
	}
}

void editor_waits_fail(
	struct editor_view *view, enum error_code code, const char *why, struct buffer *out)
{
	if (view->load_id) {
		editor_put_error(out, view->load_id, code, why);
		free(view->load_id);
		view->load_id = NULL;
	}
	list_for_each_safe(link, tmp, &view->waits) {
		struct editor_wait *wait = list_entry(link, struct editor_wait, link);
		editor_put_error(out, wait->id, code, why);
		drop(view, wait);
	}
}

/* --- prompts --- */

bool editor_view_add_prompt(struct editor_view *view, const char *id, const char *prompt_id)
{
	return add(view, WAIT_PROMPT, id, prompt_id) != NULL;
}

void editor_view_each_waiting(
	const struct editor_view *view, void (*visit)(void *arg, const char *prompt_id), void *arg)
{
	list_for_each(link, &view->waits) {
		struct editor_wait *wait = list_entry(link, struct editor_wait, link);
		if (wait->kind == WAIT_PROMPT && !wait->turn) {
			visit(arg, wait->name);
		}
	}
}

size_t editor_view_count_prompts(const struct editor_view *view)
{
	size_t count = 0;
	list_for_each(link, &view->waits) {
		count += list_entry(link, struct editor_wait, link)->kind == WAIT_PROMPT;
	}
	return count;
}

bool editor_view_is_at_work(const struct editor_view *view)
{
	bool any = false;
	list_for_each(link, &view->waits) {
		any = any || list_entry(link, struct editor_wait, link)->turn;
	}
	return any;
}

const char *editor_view_prompt_of(
	const struct editor_view *view, const char *id, enum json_rpc_likeness likeness)
{
	list_for_each(link, &view->waits) {
		struct editor_wait *wait = list_entry(link, struct editor_wait, link);
		if (wait->kind == WAIT_PROMPT && json_rpc_same_id_text(wait->id, id, likeness)) {
			return wait->name;
		}
	}
	return NULL;
}

void editor_view_end_prompt(struct editor_view *view, const char *prompt_id, enum error_code code,
	const char *error, struct buffer *out)
{
	list_for_each_safe(link, tmp, &view->waits) {
		struct editor_wait *wait = list_entry(link, struct editor_wait, link);
		if (wait->kind != WAIT_PROMPT || strcmp(wait->name, prompt_id) != 0) {
			continue;
		}
		if (error) {
			editor_put_error(out, wait->id, code, error);
		} else {
			put_stop(out, wait->id, "cancelled");
		}
		drop(view, wait);
	}
}

void editor_waits_see_prompt(struct editor_view *view, const char *prompt_id, uint64_t turn)
{
	list_for_each(link, &view->waits) {
		struct editor_wait *wait = list_entry(link, struct editor_wait, link);
		if (prompt_id && wait->kind == WAIT_PROMPT && strcmp(wait->name, prompt_id) == 0) {
			wait->turn = turn;
		}
	}
}

/** Whether ACP has this stop reason; other ends of a turn are reported as errors. */
static bool is_stop_reason(const char *reason)
{
	static const char *const reasons[] = {
		"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"};
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		if (strcmp(reasons[i], reason) == 0) {
			return true;
		}
	}
	return false;
}

void editor_waits_see_turn_end(
	struct editor_view *view, uint64_t turn, const struct json_span *data, struct buffer *out)
{
	const char *reason = json_span_string(data, "stop_reason");
	const char *message = json_span_string(data, "message");
	reason = reason ? reason : "end_turn";
	list_for_each_safe(link, tmp, &view->waits) {
		struct editor_wait *wait = list_entry(link, struct editor_wait, link);
		if (wait->kind != WAIT_PROMPT || !turn || wait->turn != turn) {
			continue;
		}
		if (is_stop_reason(reason)) {
			put_stop(out, wait->id, reason);
		} else {
			editor_put_error(out, wait->id, ERROR_agent_error,
				message                                ? message
				: strcmp(reason, "agent_stopped") == 0 ? "the agent stopped"
								       : reason);
		}
		drop(view, wait);
	}
}

/* --- settings --- */

static void put_settled(const struct editor_view *view, const char *id, enum editor_setting kind,
	struct buffer *out)
{
	struct buffer result = {0};
	buffer_append_char(&result, '{');
	if (kind == EDITOR_OPTION) {
		buffer_append_str(&result, "\"configOptions\":");
		buffer_append(&result, view->options.len ? view->options.data : "[]",
			view->options.len ? view->options.len : 2);
	}
	buffer_append_char(&result, '}');
	editor_put_result(out, id, result.data, result.len);
	buffer_finish(&result);
}

/** Whether the option is known to have this value already. */
static bool has_option(const struct editor_view *view, const char *name, const char *value)
{
	bool has = false;
	struct json_spans spans = {0};
	if (!view->options.len ||
		json_spans_read(view->options.data, view->options.len, &spans) < 0) {
		return false;
	}
	if (json_span_is(spans.all, JSON_ARRAY)) {
		json_span_each(option, spans.all) {
			const struct json_span *current = json_span_get(option, "currentValue");
			struct buffer text = {0};
			if (current && json_span_says(json_span_get(option, "id"), name)) {
				json_span_write(&text, current);
				has = strcmp(buffer_cstr(&text), value) == 0;
			}
			buffer_finish(&text);
		}
	}
	json_spans_finish(&spans);
	return has;
}

/**
 * Whether not to wait: the value is already set, or the current one is unknown, so that a change
 * might not be reported.
 */
static bool is_settled(const struct editor_view *view, enum editor_setting kind, const char *name,
	const char *value)
{
	struct buffer wanted = {0};
	const struct buffer *now = kind == EDITOR_MODE    ? &view->mode
				   : kind == EDITOR_MODEL ? &view->model
							  : &view->options;
	buffer_append_json(&wanted, name, strlen(name));
	bool is_set =
		kind == EDITOR_OPTION
			? has_option(view, name, value)
			: now->len == wanted.len && memcmp(now->data, wanted.data, wanted.len) == 0;
	buffer_finish(&wanted);
	return now->len == 0 || is_set;
}

bool editor_view_add_setting(struct editor_view *view, const char *id, enum editor_setting kind,
	const char *name, const char *value, bool waits, struct buffer *out)
{
	if (!waits || is_settled(view, kind, name, value)) {
		put_settled(view, id, kind, out);
		return true;
	}
	struct editor_wait *wait = add(view, WAIT_SETTING, id, name);
	if (wait) {
		wait->setting = kind;
	}
	return wait != NULL;
}

void editor_waits_see_setting(
	struct editor_view *view, enum editor_setting kind, const char *current, struct buffer *out)
{
	list_for_each_safe(link, tmp, &view->waits) {
		struct editor_wait *wait = list_entry(link, struct editor_wait, link);
		bool is_it = wait->kind == WAIT_SETTING && wait->setting == kind &&
			     (!current || strcmp(current, wait->name) == 0);
		if (is_it) {
			put_settled(view, wait->id, kind, out);
			drop(view, wait);
		}
	}
}

void editor_waits_see_error(
	struct editor_view *view, const struct error_notice *in, struct buffer *out)
{
	static const enum error_about of[] = {[EDITOR_MODE] = ABOUT_MODE,
		[EDITOR_MODEL] = ABOUT_MODEL,
		[EDITOR_OPTION] = ABOUT_OPTION};
	const char *id = in->detail ? in->detail->id : NULL;
	list_for_each_safe(link, tmp, &view->waits) {
		struct editor_wait *wait = list_entry(link, struct editor_wait, link);
		bool is_it = id && wait->kind == WAIT_SETTING &&
			     in->detail->about == of[wait->setting] && strcmp(id, wait->name) == 0;
		if (is_it) {
			editor_put_error(out, wait->id, in->code, in->message);
			drop(view, wait);
		}
	}
}

/* --- the load --- */

void editor_waits_answer_load(struct editor_view *view, struct buffer *out)
{
	struct buffer result = {0};
	if (!view->load_id) {
		return;
	}
	buffer_append_char(&result, '{');
	if (view->names_session) {
		buffer_append_member(&result, "sessionId", view->session_id);
		buffer_append_char(&result, ',');
	}
	buffer_append_str(&result, "\"_meta\":{\"holdfast\":{");
	editor_put_place(view, &result, view->told_seq);
	if (view->reset) {
		buffer_append_member(&result, "reset", view->reset);
	}
	buffer_append_str(&result, "}}");
	if (view->modes.len && view->mode.len) {
		buffer_append_str(&result, ",\"modes\":{\"currentModeId\":");
		buffer_append(&result, view->mode.data, view->mode.len);
		buffer_append_str(&result, ",\"availableModes\":");
		buffer_append(&result, view->modes.data, view->modes.len);
		buffer_append_char(&result, '}');
	}
	if (view->options.len) {
		buffer_append_str(&result, ",\"configOptions\":");
		buffer_append(&result, view->options.data, view->options.len);
	}
	buffer_append_char(&result, '}');
	editor_put_result(out, view->load_id, result.data, result.len);
	buffer_finish(&result);
	free(view->load_id);
	view->load_id = NULL;
}
