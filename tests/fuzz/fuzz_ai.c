/*
 * The door of the AI SDK. The first line is what a chat sends, the others are frames of a session: what comes
 * out of them are chunks, each a JSON text of a type that the SDK knows, in an order that it takes: a part is
 * open when it grows and when it ends, a question is about a tool that was told, and nothing follows an end.
 */
#include "fuzz.h"

#include "output.h"

#include "doors/ai/ai_request.h"
#include "doors/ai/ai_turn.h"
#include "holdfast/json_span.h"

#define TOOLS_MAX 64

struct reader {
	char open[64]; /* the part that is open; "": none */
	char tools[TOOLS_MAX][64];
	size_t tool_count; /* more are not looked at */
	bool has_begun;
	bool is_over;
};

static const char *string_of(const struct json_span *object, const char *name)
{
	const struct json_span *value = json_span_get(object, name);
	return json_span_is(value, JSON_STRING) ? value->text : "";
}

static bool knows(const struct reader *reader, const char *tool)
{
	for (size_t i = 0; i < reader->tool_count; i++) {
		if (strncmp(reader->tools[i], tool, 63) == 0) {
			return true;
		}
	}
	return reader->tool_count == TOOLS_MAX;
}

static void check_part(struct reader *reader, const char *what, const char *id)
{
	if (strcmp(what, "start") == 0) {
		fuzz_check(!reader->open[0], "one part is open at a time");
		snprintf(reader->open, sizeof(reader->open), "%s", id);
	} else {
		fuzz_check(strcmp(reader->open, id) == 0, "the part is open");
	}
	if (strcmp(what, "end") == 0) {
		reader->open[0] = '\0';
	}
}

static void check_tool(struct reader *reader, const char *type, const char *id)
{
	if (strcmp(type, "tool-input-available") != 0) {
		fuzz_check(knows(reader, id), "the tool was told");
	} else if (reader->tool_count < TOOLS_MAX) {
		snprintf(reader->tools[reader->tool_count++], 64, "%s", id);
	}
}

static void check_chunk(struct reader *reader, const struct json_span *chunk)
{
	const char *type = string_of(chunk, "type");
	fuzz_check(type[0], "a chunk has a type");
	fuzz_check(!reader->is_over, "nothing follows the end");
	fuzz_check(reader->has_begun == (strcmp(type, "start") != 0), "it begins once, first");
	reader->has_begun = true;
	if (strncmp(type, "text-", 5) == 0) {
		check_part(reader, type + 5, string_of(chunk, "id"));
	} else if (strncmp(type, "reasoning-", 10) == 0) {
		check_part(reader, type + 10, string_of(chunk, "id"));
	} else if (strncmp(type, "tool-", 5) == 0 && json_span_get(chunk, "toolCallId")) {
		check_tool(reader, type, string_of(chunk, "toolCallId"));
	}
	reader->is_over = strcmp(type, "finish") == 0 || strcmp(type, "abort") == 0 ||
			  strcmp(type, "error") == 0;
	fuzz_check(!reader->is_over || !reader->open[0], "what is open is ended first");
}

static void check_chunks(struct reader *reader, const struct frame *chunks)
{
	size_t at = 0;
	while (at < frame_len(chunks)) {
		const char *line = frame_text(chunks) + at;
		const char *end = memchr(line, '\n', frame_len(chunks) - at);
		struct json_spans spans = {0};
		fuzz_check(end, "a chunk is a line");
		fuzz_check(json_spans_read(line, (size_t)(end - line), &spans) == 0,
			"a chunk is JSON");
		check_chunk(reader, spans.all);
		json_spans_finish(&spans);
		at += (size_t)(end - line) + 1;
	}
}

static void check_request(const char *text, size_t len, struct ai_turn *turn, struct reader *reader)
{
	for (int is_body = 0; is_body < 2; is_body++) {
		struct ai_request request;
		struct refusal refusal = {0};
		int r = ai_request_parse(
			text, len, is_body, 7, limits_default(), &request, &refusal);
		fuzz_check(r == 0 || refusal.code, "a refusal has a code");
		if (r == 0 && request.type == AI_SEND && !request.answer_count) {
			fuzz_check(
				token_is_valid(request.prompt_id, strlen(request.prompt_id), 128),
				"the prompt has a good id");
			fuzz_check(request.message.len || request.content, "it says something");
		}
		for (size_t i = 0; r == 0 && i < request.answer_count && is_body; i++) {
			ai_turn_answered(turn, request.answers[i].id);
			reader->tool_count = TOOLS_MAX; /* the client has some */
		}
		ai_request_finish(&request);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *at = size ? (const char *)data : "";
	const char *end = at + size;
	struct reader reader = {0};
	struct ai_turn *turn =
		ai_turn_create(&(struct ai_turn_config){.turn = 1, .session_id = "s"});
	for (bool is_first = true; at < end; is_first = false) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t len = (size_t)((newline ? newline : end) - at);
		if (is_first) {
			check_request(at, len, turn, &reader);
		} else {
			struct frame *chunks = output_encode(&ai_socket_encoder, turn, at, len);
			if (chunks) {
				check_chunks(&reader, chunks);
			}
			frame_unref(chunks);
			fuzz_check(ai_turn_is_over(turn) || !reader.is_over, "who ends says so");
		}
		at += len + (newline != NULL);
	}
	ai_turn_destroy(turn);
	return 0;
}
