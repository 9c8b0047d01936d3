#include "ai_turn.h"

#include "ai_tools.h"

#include "holdfast/json_span.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** The kind of the current part of the message. */
enum part { PART_NONE, PART_TEXT, PART_REASONING };
_Static_assert(sizeof(struct ai_place) == 72, "places are compared by their bytes");

struct ai_turn {
	char *prompt_id; /* NULL: the turn is known */
	char *session_id;
	struct ai_place at;
	struct ai_tools *tools;
	char *why; /* it failed; NULL: it did not */
};

struct ai_turn *ai_turn_create(const struct ai_turn_config *config)
{
	struct ai_turn *turn = xcalloc(1, sizeof(*turn));
	turn->prompt_id = config->prompt_id ? xstrdup(config->prompt_id) : NULL;
	turn->at.turn = config->turn;
	turn->session_id = xstrdup(config->session_id);
	turn->tools = ai_tools_create();
	return turn;
}

void ai_turn_destroy(struct ai_turn *turn)
{
	if (!turn) {
		return;
	}
	ai_tools_unref(turn->tools);
	free(turn->prompt_id);
	free(turn->session_id);
	free(turn->why);
	free(turn);
}

uint64_t ai_turn_number(const struct ai_turn *turn)
{
	return turn->at.turn;
}

bool ai_turn_is_over(const struct ai_turn *turn)
{
	return turn->at.is_over;
}

const char *ai_turn_why(const struct ai_turn *turn)
{
	return turn->why;
}

void ai_turn_answered(struct ai_turn *turn, const char *request_id)
{
	turn->at.is_muted = true;
	turn->tools = ai_tools_own(turn->tools);
	ai_tools_note_answered(turn->tools, request_id);
}

/* --- turns at the same place --- */

bool ai_turn_place(const struct ai_turn *turn, struct ai_place *ret)
{
	if (!turn->at.turn || turn->at.is_over) {
		return false; /* it waits for its own prompt, or is over */
	}
	memcpy(ret, &turn->at, sizeof(*ret));
	ai_tools_sum(turn->tools, ret->tools);
	return true;
}

struct ai_turn *ai_turn_copy(const struct ai_turn *turn)
{
	struct ai_turn *copy = xcalloc(1, sizeof(*copy));
	memcpy(&copy->at, &turn->at, sizeof(copy->at));
	copy->tools = ai_tools_ref(turn->tools);
	return copy;
}

void ai_turn_follow(struct ai_turn *turn, const struct ai_turn *leader)
{
	struct ai_tools *tools = turn->tools;
	memcpy(&turn->at, &leader->at, sizeof(turn->at));
	turn->tools = ai_tools_ref(leader->tools);
	ai_tools_unref(tools);
}

/* --- chunks --- */

static void put(struct ai_turn *turn, struct buffer *out, const char *chunk)
{
	if (!turn->at.is_muted) {
		buffer_append_str(out, chunk);
		buffer_append_char(out, '\n');
	}
}

static const char *part_name(const struct ai_turn *turn)
{
	return turn->at.part == PART_TEXT ? "text" : "reasoning";
}

/** Writes `{"type":"text-start","id":"text-7"}`, or the same with `end`. */
static void put_part(struct ai_turn *turn, struct buffer *out, const char *what)
{
	const char *name = part_name(turn);
	if (!turn->at.is_muted) {
		buffer_printf(out, "{\"type\":\"%s-%s\",\"id\":\"%s-%llu\"}\n", name, what, name,
			(unsigned long long)turn->at.part_seq);
	}
}

static void end_part(struct ai_turn *turn, struct buffer *out)
{
	if (turn->at.part != PART_NONE) {
		put_part(turn, out, "end");
		turn->at.part = PART_NONE;
	}
}

static void put_text(struct ai_turn *turn, struct buffer *out, enum part part, uint64_t seq,
	const char *text, size_t len)
{
	if (turn->at.part != part) {
		end_part(turn, out);
		turn->at.part = part;
		turn->at.part_seq = seq;
		put_part(turn, out, "start");
	}
	if (!turn->at.is_muted && len) {
		const char *name = part_name(turn);
		buffer_printf(out, "{\"type\":\"%s-delta\",\"id\":\"%s-%llu\",\"delta\":", name,
			name, (unsigned long long)turn->at.part_seq);
		buffer_append_json(out, text, len);
		buffer_append_str(out, "}\n");
	}
}

/** Starts the message, whose id is the same each time it is sent. */
static void begin(struct ai_turn *turn, struct buffer *out)
{
	if (turn->at.has_begun || turn->at.is_muted) {
		return;
	}
	turn->at.has_begun = true;
	buffer_printf(out, "{\"type\":\"start\",\"messageId\":\"turn-%s%llu\"}\n", turn->at.epoch,
		(unsigned long long)turn->at.turn);
}

static void finish(struct ai_turn *turn, struct buffer *out, const char *reason)
{
	turn->at.is_muted = false;
	begin(turn, out);
	end_part(turn, out);
	put(turn, out, "{\"type\":\"finish-step\"}");
	buffer_printf(out, "{\"type\":\"finish\",\"finishReason\":\"%s\"}\n", reason);
	turn->at.is_over = true;
}

/* --- events --- */

/** Writes a block, except a beginning that was already sent as it grew. */
static void take_block(struct ai_turn *turn, struct buffer *out, enum part part, uint64_t seq,
	const struct json_span *text)
{
	if (!json_span_is(text, JSON_STRING)) {
		return;
	}
	size_t told = turn->at.open_seq == seq ? turn->at.open_told : 0;
	if (told < text->len) {
		put_text(turn, out, part, seq, text->text + told, text->len - told);
	}
}

static void put_span(struct buffer *out, const char *name, const struct json_span *value)
{
	if (value) {
		buffer_printf(out, ",\"%s\":", name);
		json_span_write(out, value);
	}
}

/** Writes a custom data part: `{"type":"data-plan","id":"plan","data":…}`. */
static void put_data(struct ai_turn *turn, struct buffer *out, const char *name, const char *id,
	const struct json_span *data)
{
	if (!turn->at.is_muted) {
		buffer_append_str(out, "{\"type\":");
		struct buffer type = {0};
		buffer_printf(&type, "data-%s", name);
		buffer_append_json(out, type.data, type.len);
		buffer_finish(&type);
		if (id) {
			buffer_append_member(out, "id", id);
		}
		put_span(out, "data", data);
		buffer_append_str(out, "}\n");
	}
}

/** Writes an image or other non-text content: by its URL, or inline. */
static void take_content(struct ai_turn *turn, struct buffer *out, const struct json_span *data)
{
	const struct json_span *content = json_span_get(data, "content");
	const char *mime_type = json_span_string(content, "mime_type");
	const char *blob = json_span_string(content, "blob");
	const char *bytes = json_span_string(content, "data");
	mime_type = mime_type ? mime_type : json_span_string(content, "mimeType");
	if (!mime_type || (!blob && !bytes) || turn->at.is_muted) {
		return;
	}
	struct buffer url = {0};
	if (blob) {
		buffer_printf(&url, "/api/sessions/%s/blobs/%s", turn->session_id, blob);
	} else {
		buffer_printf(&url, "data:%s;base64,%s", mime_type, bytes);
	}
	buffer_append_str(out, "{\"type\":\"file\"");
	buffer_append_member(out, "mediaType", mime_type);
	buffer_append_member(out, "url", buffer_cstr(&url));
	buffer_append_str(out, "}\n");
	buffer_finish(&url);
}

static void end_turn(struct ai_turn *turn, struct buffer *out, const struct json_span *data)
{
	const char *reason = json_span_string(data, "stop_reason");
	const char *message = json_span_string(data, "message");
	reason = reason ? reason : "end_turn";
	if (strcmp(reason, "end_turn") == 0) {
		finish(turn, out, "stop");
	} else if (strcmp(reason, "max_tokens") == 0) {
		finish(turn, out, "length");
	} else if (strcmp(reason, "refusal") == 0) {
		finish(turn, out, "content-filter");
	} else if (strcmp(reason, "cancelled") == 0) {
		turn->at.is_muted = false;
		begin(turn, out);
		end_part(turn, out);
		put(turn, out, "{\"type\":\"abort\",\"reason\":\"cancelled\"}");
		turn->at.is_over = true;
	} else if (strcmp(reason, "max_turn_requests") == 0) {
		finish(turn, out, "other");
	} else {
		turn->at.is_muted = false;
		begin(turn, out);
		end_part(turn, out);
		buffer_append_str(out, "{\"type\":\"error\"");
		bool has_stopped = strcmp(reason, "agent_stopped") == 0;
		buffer_append_member(out, "errorText",
			message       ? message
			: has_stopped ? "the agent stopped"
				      : reason);
		buffer_append_str(out, "}\n");
		turn->at.is_over = true;
	}
}

/** Handles an event of a producer, or of an agent (x-acp-…). */
static void take_own(struct ai_turn *turn, struct buffer *out, const struct event_view *event,
	const struct json_span *data)
{
	char *type = xstrndup(event->type_name, event->type_len);
	if (strcmp(type, "x-acp-content") == 0) {
		take_content(turn, out, data);
	} else if (strncmp(type, "x-acp-", 6) != 0) {
		put_data(turn, out, type, NULL, data);
	}
	free(type);
}

static void take_tool(struct ai_turn *turn, struct buffer *out, const struct json_span *data)
{
	turn->tools = ai_tools_own(turn->tools);
	ai_tools_take(turn->tools, data, turn->at.is_muted ? NULL : out);
}

static void take_question(struct ai_turn *turn, struct buffer *out, const struct json_span *data)
{
	turn->tools = ai_tools_own(turn->tools);
	if (ai_tools_ask(turn->tools, data, turn->at.is_muted ? NULL : out) && turn->at.is_muted) {
		turn->at.is_muted = false; /* the client has everything up to here */
		begin(turn, out);
	}
}

static void take_answer(struct ai_turn *turn, struct buffer *out, const struct json_span *data)
{
	turn->tools = ai_tools_own(turn->tools);
	ai_tools_resolve(turn->tools, data, turn->at.is_muted ? NULL : out);
}

/** Handles an event that ends the current part. */
static void take_other(struct ai_turn *turn, struct buffer *out, const struct event_view *event,
	const struct json_span *data)
{
	end_part(turn, out);
	switch (event->type) {
	case EVENT_TOOL_CALL:
	case EVENT_TOOL_CALL_UPDATE:
		take_tool(turn, out, data);
		break;
	case EVENT_PERMISSION_REQUEST:
		take_question(turn, out, data);
		break;
	case EVENT_PERMISSION_RESOLVED:
		take_answer(turn, out, data);
		break;
	case EVENT_PLAN:
		put_data(turn, out, "plan", "plan", data);
		break;
	case EVENT_USAGE:
		put_data(turn, out, "usage", "usage", data);
		break;
	case EVENT_TURN_END:
		end_turn(turn, out, data);
		break;
	case EVENT_CUSTOM:
		take_own(turn, out, event, data);
		break;
	default:
		break;
	}
}

static bool is_beginning(
	const struct ai_turn *turn, const struct event *event, const struct json_span *data)
{
	return turn->prompt_id && !turn->at.turn && event->type == EVENT_USER_PROMPT &&
	       json_span_says(json_span_get(data, "prompt_id"), turn->prompt_id);
}

/** `data` is NULL if it cannot be read. */
static void take_shown(struct ai_turn *turn, struct buffer *out, const struct event_view *event,
	const struct json_span *data)
{
	if (event->type == EVENT_AGENT_MESSAGE) {
		take_block(turn, out, PART_TEXT, event->seq, json_span_get(data, "markdown"));
	} else if (event->type == EVENT_AGENT_THOUGHT) {
		take_block(turn, out, PART_REASONING, event->seq, json_span_get(data, "text"));
	} else if (event->type != EVENT_USER_PROMPT) {
		take_other(turn, out, event, data);
	}
}

static void take_event(struct ai_turn *turn, struct buffer *out, struct event *event, unsigned hide)
{
	struct json_spans spans = {0};
	struct event_view view;
	bool may_begin = turn->prompt_id && !turn->at.turn && event->type == EVENT_USER_PROMPT;
	if (turn->at.is_over || (!may_begin && (!turn->at.turn || event->turn != turn->at.turn))) {
		return;
	}
	event_get_view(event, &view);
	json_spans_read(view.data, view.data_len, &spans);
	if (is_beginning(turn, event, spans.all)) {
		turn->at.turn = event->turn;
	}
	if (turn->at.turn && event->turn == turn->at.turn) {
		begin(turn, out);
		if (event_hides(event, hide)) {
			end_part(turn, out);
		} else {
			take_shown(turn, out, &view, spans.all);
		}
	}
	json_spans_finish(&spans);
}

/* --- output of an observer --- */

/**
 * Writes text of an unfinished event, unless a piece before it is missing. With `is_all`, it has the
 * text from its beginning.
 */
static void take_growing(
	struct ai_turn *turn, struct buffer *out, const struct open_part *in, bool is_all)
{
	bool is_thought = in->type == EVENT_AGENT_THOUGHT;
	if (!turn->at.turn || turn->at.is_over ||
		(!is_thought && in->type != EVENT_AGENT_MESSAGE)) {
		return;
	}
	if (turn->at.open_seq != in->seq) {
		turn->at.open_seq = in->seq;
		turn->at.open_told = 0;
	}
	if (is_all ? turn->at.open_told : turn->at.open_told != in->offset) {
		return;
	}
	begin(turn, out);
	put_text(turn, out, is_thought ? PART_REASONING : PART_TEXT, in->seq, in->text, in->len);
	turn->at.open_told += in->len;
}

/** `open` is NULL, or the unfinished text behind the events. */
static void take_events(struct ai_turn *turn, const struct live_events *in,
	const struct open_part *open, struct buffer *out)
{
	uint64_t last = in->count ? in->events[in->count - 1]->seq : 0;
	for (size_t i = 0; i < in->count; i++) {
		take_event(turn, out, in->events[i], in->hide);
	}
	if (open) {
		take_growing(turn, out, open, true);
	}
	if (!turn->at.is_over && turn->at.has_begun && last == in->now->max_seq &&
		ai_tools_wait(turn->tools)) {
		finish(turn, out, "tool-calls"); /* the chat expects it */
	}
}

void ai_turn_connected(struct ai_turn *turn, uint64_t epoch)
{
	snprintf(turn->at.epoch, sizeof(turn->at.epoch), "%016" PRIx64 "-", epoch);
}

void ai_turn_events(struct ai_turn *turn, const struct live_events *in, struct buffer *out)
{
	take_events(turn, in, NULL, out);
}

void ai_turn_page(struct ai_turn *turn, const struct loaded_frame *in, struct buffer *out)
{
	const struct connected_frame now = {.max_seq = in->max_seq};
	const struct live_events events = {in->events, in->count, in->format, in->hide, &now};
	if (in->reset) {
		ai_turn_fail(turn, "the beginning of the turn is no longer available");
	} else {
		take_events(turn, &events, in->open.seq ? &in->open : NULL, out);
	}
}

void ai_turn_delta(struct ai_turn *turn, const struct open_part *in, struct buffer *out)
{
	take_growing(turn, out, in, false);
}

void ai_turn_fail(struct ai_turn *turn, const char *why)
{
	if (!turn->at.is_over) {
		turn->why = xstrdup(why);
		turn->at.is_over = true;
	}
}
