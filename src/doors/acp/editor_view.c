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

bool editor_view_was_own(const struct editor_view *view)
{
	return view->is_own;
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

/** Writes the updates of an event; `type` is its name. */
static void tell_event(struct editor_view *view, struct buffer *out, const struct event *event,
	const char *type, const struct place *place, const struct json_span *data)
{
	switch (event->type) {
	case EVENT_AGENT_MESSAGE:
		put_block(view, out, "agent_message_chunk", place, json_span_get(data, "markdown"));
		break;
	case EVENT_AGENT_THOUGHT:
		put_block(view, out, "agent_thought_chunk", place, json_span_get(data, "text"));
		break;
	case EVENT_USER_PROMPT:
		put_prompt(view, out, place, data);
		break;
	case EVENT_TOOL_CALL:
	case EVENT_TOOL_CALL_UPDATE:
	case EVENT_PLAN:
		put_object(view, out, type, place, data);
		break;
	case EVENT_USAGE:
		put_usage(view, out, place, data);
		break;
	case EVENT_CUSTOM:
		put_own(view, out, type, place, data);
		break;
	default:
		break;
	}
}

/** A new agent has no state yet, unless it goes on with the session. */
static void see_started(struct editor_view *view, const struct json_span *data)
{
	if (!json_span_is(json_span_get(data, "resumed"), JSON_TRUE)) {
		buffer_clear(&view->modes);
		buffer_clear(&view->mode);
		buffer_clear(&view->model);
		buffer_clear(&view->options);
	}
}

/**
 * Tracks what an event means for waiting requests and questions, even if the editor already has it.
 */
static void note_event(struct editor_view *view, struct buffer *out, const struct event *event,
	const char *type, bool is_told, const struct json_span *data)
{
	switch (event->type) {
	case EVENT_USER_PROMPT:
		editor_waits_see_prompt(view, json_span_string(data, "prompt_id"), event->turn);
		break;
	case EVENT_TURN_END:
		editor_waits_see_turn_end(view, event->turn, data, out);
		break;
	case EVENT_PERMISSION_REQUEST:
		editor_questions_see_request(view, EDITOR_PERMISSION, event->seq, data);
		break;
	case EVENT_ELICITATION_REQUEST:
		editor_questions_see_request(view, EDITOR_ELICITATION, event->seq, data);
		break;
	case EVENT_PERMISSION_RESOLVED:
	case EVENT_ELICITATION_RESOLVED:
		editor_questions_see_resolved(view, data, is_told, out);
		break;
	case EVENT_AGENT_STARTED:
		see_started(view, data);
		break;
	case EVENT_CUSTOM:
		see_state(view, type, data, out);
		break;
	default:
		break;
	}
}

/**
 * Whether what is made of such an event is the same for all editors. Other events concern a client,
 * or change state outside the place.
 */
static bool is_for_all(enum event_type type)
{
	switch (type) {
	case EVENT_AGENT_MESSAGE:
	case EVENT_AGENT_THOUGHT:
	case EVENT_AGENT_STOPPED:
	case EVENT_TOOL_CALL:
	case EVENT_TOOL_CALL_UPDATE:
	case EVENT_PLAN:
	case EVENT_USAGE:
		return true;
	default:
		return false;
	}
}

static void take_event(
	struct editor_view *view, struct buffer *out, struct event *event, unsigned hide)
{
	size_t len;
	struct json_spans spans = {0};
	bool is_told = event->seq > view->told_seq;
	bool is_hidden = event_hides(event, hide);
	view->is_own |= !is_for_all(event->type);
	if (!is_hidden) {
		const char *json = event_json(event, FORMAT_MARKDOWN, &len);
		json_spans_read(json, len, &spans);
	}
	const char *type = json_span_string(spans.all, "type");
	const struct json_span *data = json_span_get(spans.all, "data");
	struct place place = {.seq = event->seq,
		.ts = json_span_get(spans.all, "ts"),
		.message_id = json_span_string(spans.all, "message_id")};
	if (is_told && type) {
		tell_event(view, out, event, type, &place, data);
	}
	view->seen_seq = event->seq;
	view->told_seq = is_told ? event->seq : view->told_seq;
	if (type) {
		note_event(view, out, event, type, is_told, data);
	}
	json_spans_finish(&spans);
}

/* --- output of an observer --- */

/**
 * Writes text of an unfinished event, unless a piece before it is missing. With `is_all`, it has the
 * text from its beginning.
 */
static void take_growing(
	struct editor_view *view, struct buffer *out, const struct open_part *in, bool is_all)
{
	bool is_thought = in->type == EVENT_AGENT_THOUGHT;
	if (in->seq <= view->told_seq || (!is_thought && in->type != EVENT_AGENT_MESSAGE)) {
		return;
	}
	if (view->open_seq != in->seq) {
		view->open_seq = in->seq;
		view->open_told = 0;
	}
	size_t skipped = is_all ? view->open_told : 0;
	if ((!is_all && view->open_told != in->offset) || skipped >= in->len) {
		return;
	}
	while (skipped && (in->text[skipped] & 0xc0) == 0x80) {
		skipped--;
	}
	view->open_told = is_all ? in->len : view->open_told + in->len;
	put_text(view, out, is_thought ? "agent_thought_chunk" : "agent_message_chunk",
		&(struct place){.seq = in->seq}, in->text + skipped, in->len - skipped);
}

static void become_live(struct editor_view *view, struct buffer *out)
{
	view->is_live = true;
	view->tells_own = false;
	editor_waits_answer_load(view, out);
	editor_questions_ask(view, out);
}

void editor_view_page(struct editor_view *view, const struct loaded_frame *in, struct buffer *out)
{
	view->is_own = true;
	for (size_t i = 0; i < in->count; i++) {
		take_event(view, out, in->events[i], in->hide);
	}
	if (in->open.seq) {
		take_growing(view, out, &in->open, true);
	}
	/* has_more of a page after a reset refers to older events, so it is the last one, too. */
	bool is_last = !in->has_more || in->reset;
	if (is_last && !view->is_live) {
		become_live(view, out);
	} else if (view->is_live) {
		editor_questions_ask(view, out);
	}
}

void editor_view_events(struct editor_view *view, const struct live_events *in, struct buffer *out)
{
	view->is_own = false;
	for (size_t i = 0; i < in->count; i++) {
		take_event(view, out, in->events[i], in->hide);
	}
	if (view->is_live) {
		editor_questions_ask(view, out);
	}
}

void editor_view_delta(struct editor_view *view, const struct open_part *in, struct buffer *out)
{
	view->is_own = false;
	take_growing(view, out, in, false);
}

void editor_view_fail(
	struct editor_view *view, enum error_code code, const char *why, struct buffer *out)
{
	view->is_own = true;
	editor_waits_fail(view, code, why, out);
	editor_questions_take_back(view, out);
}

void editor_view_error(struct editor_view *view, const struct error_notice *in, struct buffer *out)
{
	if (in->request && strcmp(in->request, "load_events") != 0) {
		view->is_own = true;
		editor_waits_see_error(view, in, out);
	} else {
		editor_view_fail(view, in->code, in->message, out);
	}
}
