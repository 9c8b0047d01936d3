#include "holdfast/ai_turn.h"

#include "ai_tools.h"

#include "holdfast/json_span.h"

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
	char *why;
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

enum ai_progress ai_turn_follow(struct ai_turn *turn, const struct ai_turn *leader)
{
	struct ai_tools *tools = turn->tools;
	memcpy(&turn->at, &leader->at, sizeof(turn->at));
	turn->tools = ai_tools_ref(leader->tools);
	ai_tools_unref(tools);
	return turn->at.is_over ? AI_ENDED : AI_GOES_ON;
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

static void take_own(
	struct ai_turn *turn, struct buffer *out, const char *type, const struct json_span *data)
{
	if (strcmp(type, "x-acp-content") == 0) {
		take_content(turn, out, data);
	} else if (strncmp(type, "x-acp-", 6) != 0) {
		put_data(turn, out, type, NULL, data);
	}
}

/** Handles events about tool calls and questions. Returns false for others. */
static bool take_tools(
	struct ai_turn *turn, struct buffer *out, const char *type, const struct json_span *data)
{
	bool is_tool = strcmp(type, "tool_call") == 0 || strcmp(type, "tool_call_update") == 0;
	struct buffer *shown = turn->at.is_muted ? NULL : out;
	if (!is_tool && strncmp(type, "permission_", 11) != 0) {
		return false;
	}
	turn->tools = ai_tools_own(turn->tools);
	if (is_tool) {
		ai_tools_take(turn->tools, data, shown);
	} else if (strcmp(type, "permission_request") == 0) {
		if (ai_tools_ask(turn->tools, data, shown) && turn->at.is_muted) {
			turn->at.is_muted = false; /* the client has everything up to here */
			begin(turn, out);
		}
	} else if (strcmp(type, "permission_resolved") == 0) {
		ai_tools_resolve(turn->tools, data, shown);
	}
	return true;
}

/** Handles an event that ends the current part. */
static void take_other(
	struct ai_turn *turn, struct buffer *out, const char *type, const struct json_span *data)
{
	end_part(turn, out);
	if (take_tools(turn, out, type, data)) {
		return;
	}
	if (strcmp(type, "plan") == 0) {
		put_data(turn, out, "plan", "plan", data);
	} else if (strcmp(type, "usage") == 0) {
		put_data(turn, out, "usage", "usage", data);
	} else if (strcmp(type, "turn_end") == 0) {
		end_turn(turn, out, data);
	} else if (strncmp(type, "x-", 2) == 0) {
		take_own(turn, out, type, data);
	}
}

static bool is_beginning(const struct ai_turn *turn, const char *type, const struct json_span *data)
{
	const char *prompt_id = json_span_string(data, "prompt_id");
	return turn->prompt_id && !turn->at.turn && strcmp(type, "user_prompt") == 0 && prompt_id &&
	       strcmp(prompt_id, turn->prompt_id) == 0;
}

static void take_event(struct ai_turn *turn, struct buffer *out, const struct json_span *event)
{
	uint64_t seq = 0;
	uint64_t number = 0;
	const char *type = json_span_string(event, "type");
	const struct json_span *data = json_span_get(event, "data");
	json_span_count(json_span_get(event, "seq"), &seq);
	json_span_count(json_span_get(event, "turn"), &number);
	if (!type || turn->at.is_over) {
		return;
	}
	if (is_beginning(turn, type, data)) {
		turn->at.turn = number;
	}
	if (!turn->at.turn || number != turn->at.turn) {
		return;
	}
	begin(turn, out);
	if (json_span_get(event, "redacted")) {
		end_part(turn, out);
	} else if (strcmp(type, "agent_message") == 0) {
		take_block(turn, out, PART_TEXT, seq, json_span_get(data, "markdown"));
	} else if (strcmp(type, "agent_thought") == 0) {
		take_block(turn, out, PART_REASONING, seq, json_span_get(data, "text"));
	} else if (strcmp(type, "user_prompt") != 0) {
		take_other(turn, out, type, data);
	}
}

/* --- frames --- */

/**
 * Writes text of an unfinished event, unless a piece before it is missing. With `is_all`, `data`
 * has the text from its beginning.
 */
static void take_delta(
	struct ai_turn *turn, struct buffer *out, const struct json_span *data, bool is_all)
{
	uint64_t seq = 0;
	uint64_t offset = 0;
	const char *type = json_span_string(data, "type");
	const struct json_span *text = json_span_get(data, "text");
	json_span_count(json_span_get(data, "seq"), &seq);
	json_span_count(json_span_get(data, "offset"), &offset);
	bool is_thought = type && strcmp(type, "agent_thought") == 0;
	bool is_text = type && strcmp(type, "agent_message") == 0;
	if (!turn->at.turn || turn->at.is_over || (!is_thought && !is_text) ||
		!json_span_is(text, JSON_STRING)) {
		return;
	}
	if (turn->at.open_seq != seq) {
		turn->at.open_seq = seq;
		turn->at.open_told = 0;
	}
	if (is_all ? turn->at.open_told : turn->at.open_told != offset) {
		return;
	}
	begin(turn, out);
	put_text(turn, out, is_thought ? PART_REASONING : PART_TEXT, seq, text->text, text->len);
	turn->at.open_told += text->len;
}

static void take_events(struct ai_turn *turn, struct buffer *out, const struct json_span *data)
{
	const struct json_span *events = json_span_get(data, "events");
	uint64_t last = 0;
	uint64_t max_seq = 0;
	if (!json_span_is(events, JSON_ARRAY)) {
		return;
	}
	json_span_each(event, events) {
		json_span_count(json_span_get(event, "seq"), &last);
		take_event(turn, out, event);
	}
	json_span_count(json_span_get(data, "max_seq"), &max_seq);
	const struct json_span *open = json_span_get(data, "open");
	if (open) {
		take_delta(turn, out, open, true);
	}
	if (!turn->at.is_over && turn->at.has_begun && last == max_seq &&
		ai_tools_wait(turn->tools)) {
		finish(turn, out, "tool-calls"); /* the chat expects it */
	}
}

static enum ai_progress fail(struct ai_turn *turn, const char *why, const char **ret_why)
{
	free(turn->why);
	turn->why = xstrdup(why ? why : "the server ended the stream");
	turn->at.is_over = true;
	*ret_why = turn->why;
	return AI_FAILED;
}

static void note_epoch(struct ai_turn *turn, const struct json_span *data)
{
	const char *epoch = json_span_string(data, "epoch");
	if (epoch && strlen(epoch) == 16) {
		memcpy(turn->at.epoch, epoch, 16);
		turn->at.epoch[16] = '-';
	}
}

static enum ai_progress take_frame(struct ai_turn *turn, const struct json_span *frame,
	struct buffer *out, const char **ret_why)
{
	const char *type = json_span_string(frame, "type");
	const struct json_span *data = json_span_get(frame, "data");
	if (!type) {
		return AI_GOES_ON;
	}
	if (strcmp(type, "connected") == 0) {
		note_epoch(turn, data);
	} else if (strcmp(type, "events_loaded") == 0 && json_span_get(data, "reset")) {
		return fail(turn, "the beginning of the turn is no longer available", ret_why);
	} else if (strcmp(type, "events") == 0 || strcmp(type, "events_loaded") == 0) {
		take_events(turn, out, data);
	} else if (strcmp(type, "delta") == 0) {
		take_delta(turn, out, data, false);
	} else if (strcmp(type, "session_gone") == 0) {
		return fail(turn, "the session has been deleted", ret_why);
	} else if (strcmp(type, "error") == 0) {
		return fail(turn, json_span_string(data, "message"), ret_why);
	}
	return turn->at.is_over ? AI_ENDED : AI_GOES_ON;
}

enum ai_progress ai_turn_take(struct ai_turn *turn, const char *frame, size_t len,
	struct buffer *out, const char **ret_why)
{
	struct json_spans spans = {0};
	if (turn->at.is_over || json_spans_read(frame, len, &spans) < 0) {
		return turn->at.is_over ? AI_ENDED : AI_GOES_ON;
	}
	enum ai_progress progress = take_frame(turn, spans.all, out, ret_why);
	json_spans_finish(&spans);
	return progress;
}
