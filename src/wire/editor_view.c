#include "editor_view_internal.h"

#include <stdlib.h>
#include <string.h>

struct editor_view *editor_view_create(const struct editor_view_config *config)
{
	struct editor_view *view = xcalloc(1, sizeof(*view));
	view->session_id = xstrdup(config->session_id);
	view->client_id = xstrdup(config->client_id);
	view->epoch = config->epoch;
	view->told_seq = view->had_seq = config->told_seq;
	view->open_seq = config->open_told ? config->told_seq + 1 : 0;
	view->open_told = (size_t)config->open_told;
	view->tells_own = config->tells_own;
	view->load_id = config->load_id ? xstrdup(config->load_id) : NULL;
	view->names_session = config->names_session;
	view->reset = config->reset ? xstrdup(config->reset) : NULL;
	view->asks = config->asks;
	view->takes_forms = config->takes_forms;
	view->takes_urls = config->takes_urls;
	list_init(&view->waits);
	list_init(&view->questions);
	return view;
}

void editor_view_destroy(struct editor_view *view)
{
	if (!view) {
		return;
	}
	editor_waits_finish(view);
	editor_questions_finish(view);
	buffer_finish(&view->modes);
	buffer_finish(&view->mode);
	buffer_finish(&view->model);
	buffer_finish(&view->options);
	free(view->session_id);
	free(view->client_id);
	free(view->load_id);
	free(view->reset);
	free(view);
}

void editor_view_load_again(struct editor_view *view)
{
	view->is_live = false;
}

bool editor_view_is_live(const struct editor_view *view)
{
	return view->is_live;
}

void editor_put_place(const struct editor_view *view, struct buffer *out, uint64_t seq)
{
	buffer_append_str(out, "\"epoch\":\"");
	buffer_append_hex(out, view->epoch);
	buffer_printf(out, "\",\"seq\":%llu", (unsigned long long)seq);
}

/* --- editors at the same place --- */

_Static_assert(sizeof(struct editor_place) == 56, "places are compared by their bytes");

bool editor_view_place(const struct editor_view *view, struct editor_place *ret)
{
	if (!view->is_live || view->load_id || view->wait_count || view->question_count) {
		return false;
	}
	*ret = (struct editor_place){.epoch = view->epoch,
		.told_seq = view->told_seq,
		.had_seq = view->had_seq,
		.seen_seq = view->seen_seq,
		.open_seq = view->open_seq,
		.open_told = view->open_told,
		.asks = view->asks,
		.takes_forms = view->takes_forms,
		.takes_urls = view->takes_urls,
		.tells_own = view->tells_own};
	return true;
}

uint64_t editor_view_own(const struct editor_view *view)
{
	return view->own;
}

void editor_view_follow(struct editor_view *view, const struct editor_place *after)
{
	view->told_seq = after->told_seq;
	view->seen_seq = after->seen_seq;
	view->open_seq = after->open_seq;
	view->open_told = after->open_told;
}

/* --- updates --- */

/** The position of an update: an event, or (`ts` NULL) the beginning of one. */
struct place {
	uint64_t seq;
	const struct json_span *ts;
	const char *message_id; /* NULL: none */
};

/** Begins an update. Append its members, then call end_update(). */
static void begin_update(const struct editor_view *view, struct buffer *out, const char *kind)
{
	buffer_append_str(out, "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{");
	buffer_append_member(out, "sessionId", view->session_id);
	buffer_append_str(out, ",\"update\":{");
	buffer_append_member(out, "sessionUpdate", kind);
}

static void end_update(
	const struct editor_view *view, struct buffer *out, const struct place *place)
{
	buffer_append_str(out, "},\"_meta\":{\"holdfast\":{");
	editor_put_place(view, out, place->seq);
	if (place->ts) {
		buffer_append_str(out, ",\"ts\":");
		json_span_write(out, place->ts);
	} else {
		buffer_printf(out, ",\"open\":%zu", view->open_told);
	}
	buffer_append_str(out, "}}}}\n");
}

static void put_text(const struct editor_view *view, struct buffer *out, const char *kind,
	const struct place *place, const char *text, size_t len)
{
	begin_update(view, out, kind);
	if (place->message_id) {
		buffer_append_member(out, "messageId", place->message_id);
	}
	buffer_append_str(out, ",\"content\":{\"type\":\"text\",\"text\":");
	buffer_append_json(out, text, len);
	buffer_append_char(out, '}');
	end_update(view, out, place);
}

/** Writes an update with the members of one of our objects. */
static void put_object(const struct editor_view *view, struct buffer *out, const char *kind,
	const struct place *place, const struct json_span *data)
{
	struct buffer object = {0};
	if (!json_span_is(data, JSON_OBJECT) || json_span_get(data, "sessionUpdate")) {
		return;
	}
	acp_names_write(&object, data, view->session_id);
	begin_update(view, out, kind);
	if (object.len > 2) {
		buffer_append_char(out, ',');
		buffer_append(out, object.data + 1, object.len - 2);
	}
	end_update(view, out, place);
	buffer_finish(&object);
}

/**
 * Writes a block, except a beginning that was already sent as it grew. Clients can report a length
 * inside a character; then the whole character is repeated.
 */
static void put_block(struct editor_view *view, struct buffer *out, const char *kind,
	const struct place *place, const struct json_span *text)
{
	if (!json_span_is(text, JSON_STRING)) {
		return;
	}
	size_t told = view->open_seq == place->seq ? view->open_told : 0;
	told = told < text->len ? told : text->len;
	while (told && told < text->len && (text->text[told] & 0xc0) == 0x80) {
		told--;
	}
	if (told < text->len) {
		put_text(view, out, kind, place, text->text + told, text->len - told);
	}
}

static void put_content(const struct editor_view *view, struct buffer *out, const char *kind,
	const struct place *place, const struct json_span *block)
{
	if (!json_span_is(block, JSON_OBJECT)) {
		return;
	}
	begin_update(view, out, kind);
	if (place->message_id) {
		buffer_append_member(out, "messageId", place->message_id);
	}
	buffer_append_str(out, ",\"content\":");
	acp_names_write(out, block, view->session_id);
	end_update(view, out, place);
}

/* --- events --- */

static void put_prompt(const struct editor_view *view, struct buffer *out,
	const struct place *place, const struct json_span *data)
{
	static const char kind[] = "user_message_chunk";
	const char *client_id = json_span_string(data, "client_id");
	const struct json_span *message = json_span_get(data, "message");
	const struct json_span *content = json_span_get(data, "content");
	if (client_id && strcmp(client_id, view->client_id) == 0 && !view->tells_own) {
		return; /* the editor already shows it */
	}
	if (json_span_is(message, JSON_STRING) && message->len) {
		put_text(view, out, kind, place, message->text, message->len);
	}
	if (json_span_is(content, JSON_ARRAY)) {
		json_span_each(block, content) {
			put_content(view, out, kind, place, block);
		}
	}
}

/** Writes the use of the agent's context. ACP has no update for the usage of a prompt. */
static void put_usage(const struct editor_view *view, struct buffer *out, const struct place *place,
	const struct json_span *data)
{
	uint64_t used;
	uint64_t size;
	const struct json_span *cost = json_span_get(data, "cost");
	if (!json_span_count(json_span_get(data, "used"), &used) ||
		!json_span_count(json_span_get(data, "size"), &size)) {
		return;
	}
	begin_update(view, out, "usage_update");
	buffer_printf(out, ",\"used\":%llu,\"size\":%llu", (unsigned long long)used,
		(unsigned long long)size);
	if (json_span_is(cost, JSON_OBJECT)) {
		buffer_append_str(out, ",\"cost\":");
		acp_names_write(out, cost, view->session_id);
	}
	end_update(view, out, place);
}

static void keep_json(
	const struct editor_view *view, struct buffer *kept, const struct json_span *value)
{
	buffer_clear(kept);
	if (value) {
		acp_names_write(kept, value, view->session_id);
	}
}

/**
 * Keeps the agent's state for the answer to a load, and answers requests that wait for a setting.
 */
static void see_state(struct editor_view *view, const char *type, const struct json_span *data,
	struct buffer *out)
{
	const char *mode = json_span_string(data, "current_mode_id");
	const char *model = json_span_string(data, "current_model_id");
	if (strcmp(type, "x-acp-modes") == 0) {
		keep_json(view, &view->modes, json_span_get(data, "available_modes"));
	}
	if (strcmp(type, "x-acp-modes") == 0 || strcmp(type, "x-acp-current_mode_update") == 0) {
		keep_json(view, &view->mode, mode ? json_span_get(data, "current_mode_id") : NULL);
		if (mode) {
			editor_waits_see_setting(view, EDITOR_MODE, mode, out);
		}
	} else if (strcmp(type, "x-acp-models") == 0) {
		keep_json(
			view, &view->model, model ? json_span_get(data, "current_model_id") : NULL);
		if (model) {
			editor_waits_see_setting(view, EDITOR_MODEL, model, out);
		}
	} else if (strcmp(type, "x-acp-config_option_update") == 0) {
		keep_json(view, &view->options, json_span_get(data, "config_options"));
		editor_waits_see_setting(view, EDITOR_OPTION, NULL, out);
	}
}

/** Writes those x-acp-… events that ACP v1 knows; editors validate what they receive. */
static void put_own(const struct editor_view *view, struct buffer *out, const char *type,
	const struct place *place, const struct json_span *data)
{
	static const char *const kinds[] = {"current_mode_update", "config_option_update",
		"available_commands_update", "session_info_update", "notice", "compaction_update",
		"compaction_summary_chunk"};
	if (strcmp(type, "x-acp-content") == 0) {
		bool is_thought = json_span_is(json_span_get(data, "thought"), JSON_TRUE);
		struct place at = *place;
		at.message_id = json_span_string(data, "message_id");
		put_content(view, out, is_thought ? "agent_thought_chunk" : "agent_message_chunk",
			&at, json_span_get(data, "content"));
	}
	const char *done = json_span_string(data, "elicitation_id");
	if (strcmp(type, "x-acp-elicitation_complete") == 0 && done && view->takes_urls) {
		buffer_append_str(out,
			"{\"jsonrpc\":\"2.0\",\"method\":\"elicitation/complete\",\"params\":{");
		buffer_append_member(out, "elicitationId", done);
		buffer_append_str(out, "}}\n");
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strncmp(type, "x-acp-", 6) == 0 && strcmp(type + 6, kinds[i]) == 0) {
			put_object(view, out, kinds[i], place, data);
		}
	}
}

/** Writes the updates of an event. */
static void tell_event(struct editor_view *view, struct buffer *out, const char *type,
	const struct place *place, const struct json_span *data)
{
	if (strcmp(type, "agent_message") == 0) {
		put_block(view, out, "agent_message_chunk", place, json_span_get(data, "markdown"));
	} else if (strcmp(type, "agent_thought") == 0) {
		put_block(view, out, "agent_thought_chunk", place, json_span_get(data, "text"));
	} else if (strcmp(type, "user_prompt") == 0) {
		put_prompt(view, out, place, data);
	} else if (strcmp(type, "tool_call") == 0 || strcmp(type, "tool_call_update") == 0 ||
		   strcmp(type, "plan") == 0) {
		put_object(view, out, type, place, data);
	} else if (strcmp(type, "usage") == 0) {
		put_usage(view, out, place, data);
	} else if (strncmp(type, "x-acp-", 6) == 0) {
		put_own(view, out, type, place, data);
	}
}

/**
 * Tracks what an event means for waiting requests and questions, even if the editor already has it.
 */
static void note_event(struct editor_view *view, struct buffer *out, const char *type, uint64_t seq,
	uint64_t turn, bool is_told, const struct json_span *data)
{
	if (strcmp(type, "user_prompt") == 0) {
		editor_waits_see_prompt(view, json_span_string(data, "prompt_id"), turn);
	} else if (strcmp(type, "turn_end") == 0) {
		editor_waits_see_turn_end(view, turn, data, out);
	} else if (strcmp(type, "permission_request") == 0) {
		editor_questions_see_request(view, EDITOR_PERMISSION, seq, data);
	} else if (strcmp(type, "elicitation_request") == 0) {
		editor_questions_see_request(view, EDITOR_ELICITATION, seq, data);
	} else if (strcmp(type, "permission_resolved") == 0 ||
		   strcmp(type, "elicitation_resolved") == 0) {
		editor_questions_see_resolved(view, data, is_told, out);
	} else if (strcmp(type, "agent_started") == 0 &&
		   !json_span_is(json_span_get(data, "resumed"), JSON_TRUE)) {
		buffer_clear(&view->modes);
		buffer_clear(&view->mode);
		buffer_clear(&view->model);
		buffer_clear(&view->options);
	} else {
		see_state(view, type, data, out);
	}
}

static void take_event(struct editor_view *view, struct buffer *out, const struct json_span *event)
{
	uint64_t seq = 0;
	uint64_t turn = 0;
	const char *type = json_span_string(event, "type");
	const struct json_span *data = json_span_get(event, "data");
	json_span_count(json_span_get(event, "seq"), &seq);
	json_span_count(json_span_get(event, "turn"), &turn);
	if (!type || !seq) {
		return;
	}
	/*
	 * Updates for texts and calls are the same for all editors. Other events concern a client,
	 * or change state outside the place.
	 */
	view->own += strncmp(type, "agent_", 6) != 0 && strncmp(type, "tool_call", 9) != 0 &&
		     strcmp(type, "plan") != 0 && strcmp(type, "usage") != 0;
	view->own += strcmp(type, "agent_started") == 0;
	bool is_told = seq > view->told_seq;
	struct place place = {.seq = seq,
		.ts = json_span_get(event, "ts"),
		.message_id = json_span_string(event, "message_id")};
	if (is_told && place.ts && !json_span_get(event, "redacted")) {
		tell_event(view, out, type, &place, data);
	}
	view->seen_seq = seq;
	view->told_seq = is_told ? seq : view->told_seq;
	if (!json_span_get(event, "redacted")) {
		note_event(view, out, type, seq, turn, is_told, data);
	}
}

/* --- frames --- */

/**
 * Writes text of an unfinished event, unless a piece before it is missing. With `is_all`, `data`
 * has the text from its beginning.
 */
static void take_delta(
	struct editor_view *view, struct buffer *out, const struct json_span *data, bool is_all)
{
	uint64_t seq = 0;
	uint64_t offset = 0;
	const char *type = json_span_string(data, "type");
	const struct json_span *text = json_span_get(data, "text");
	json_span_count(json_span_get(data, "seq"), &seq);
	json_span_count(json_span_get(data, "offset"), &offset);
	bool is_thought = type && strcmp(type, "agent_thought") == 0;
	bool is_text = type && strcmp(type, "agent_message") == 0;
	if (seq <= view->told_seq || (!is_thought && !is_text) ||
		!json_span_is(text, JSON_STRING)) {
		return;
	}
	if (view->open_seq != seq) {
		view->open_seq = seq;
		view->open_told = 0;
	}
	size_t skipped = is_all ? view->open_told : 0;
	if ((!is_all && view->open_told != offset) || skipped >= text->len) {
		return;
	}
	while (skipped && (text->text[skipped] & 0xc0) == 0x80) {
		skipped--;
	}
	view->open_told = is_all ? text->len : view->open_told + text->len;
	put_text(view, out, is_thought ? "agent_thought_chunk" : "agent_message_chunk",
		&(struct place){.seq = seq}, text->text + skipped, text->len - skipped);
}

static void become_live(struct editor_view *view, struct buffer *out)
{
	view->is_live = true;
	view->tells_own = false;
	editor_waits_answer_load(view, out);
	editor_questions_ask(view, out);
}

static void take_events(
	struct editor_view *view, struct buffer *out, const struct json_span *data, bool is_page)
{
	const struct json_span *events = json_span_get(data, "events");
	if (!json_span_is(events, JSON_ARRAY)) {
		return;
	}
	json_span_each(event, events) {
		take_event(view, out, event);
	}
	const struct json_span *open = json_span_get(data, "open");
	if (open) {
		take_delta(view, out, open, true);
	}
	/* has_more of a page after a reset refers to older events, so it is the last one, too. */
	bool is_last = json_span_is(json_span_get(data, "has_more"), JSON_FALSE) ||
		       json_span_get(data, "reset");
	if (is_page && is_last && !view->is_live) {
		become_live(view, out);
	} else if (view->is_live) {
		editor_questions_ask(view, out);
	}
}

void editor_view_fail(
	struct editor_view *view, const char *code, const char *why, struct buffer *out)
{
	editor_waits_fail(view, code, why, out);
	editor_questions_take_back(view, out);
}

static void take_error(struct editor_view *view, struct buffer *out, const struct json_span *data)
{
	const char *request = json_span_string(data, "request");
	const char *code = json_span_string(data, "code");
	const char *message = json_span_string(data, "message");
	if (!code || !message) {
		return;
	}
	if (request && strcmp(request, "load_events") != 0) {
		editor_waits_see_error(view, data, out);
	} else {
		editor_view_fail(view, code, message, out);
	}
}

void editor_view_take(struct editor_view *view, const char *frame, size_t len, struct buffer *out)
{
	struct json_spans spans = {0};
	if (json_spans_read(frame, len, &spans) < 0) {
		return;
	}
	const char *type = json_span_string(spans.all, "type");
	const struct json_span *data = json_span_get(spans.all, "data");
	if (!type) {
		/* not a frame */
	} else if (strcmp(type, "events") == 0) {
		take_events(view, out, data, false);
	} else if (strcmp(type, "events_loaded") == 0) {
		view->own++;
		take_events(view, out, data, true);
	} else if (strcmp(type, "delta") == 0) {
		take_delta(view, out, data, false);
	} else if (strcmp(type, "session_gone") == 0) {
		view->own++;
		editor_view_fail(view, "not_found", "the session has been deleted", out);
	} else if (strcmp(type, "error") == 0) {
		view->own++;
		take_error(view, out, data);
	}
	json_spans_finish(&spans);
}
