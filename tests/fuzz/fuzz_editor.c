/*
 * The door for editors. The first line is what an editor sends, the others are frames of a session: what comes out of
 * them are messages of JSON-RPC, each a line of JSON, and a question is taken back only if it was asked.
 */
#include "fuzz.h"

#include "output.h"

#include "doors/acp/editor_request.h"
#include "doors/acp/editor_view.h"

#define ASKED_MAX 256

struct reader {
	char asked[ASKED_MAX][96];
	size_t asked_count;
	uint64_t seq; /* of the last update that was complete */
	size_t waiting; /* requests that were not answered */
};

static const char *string_of(const struct json_span *object, const char *name)
{
	const struct json_span *value = json_span_get(object, name);
	return json_span_is(value, JSON_STRING) ? value->text : "";
}

static void note_asked(struct reader *reader, const char *id)
{
	if (reader->asked_count < ASKED_MAX) {
		snprintf(reader->asked[reader->asked_count++], 96, "%s", id);
	}
}

static bool was_asked(const struct reader *reader, const char *id)
{
	for (size_t i = 0; i < reader->asked_count; i++) {
		if (strncmp(reader->asked[i], id, 95) == 0) {
			return true;
		}
	}
	return reader->asked_count == ASKED_MAX;
}

static void check_update(struct reader *reader, const struct json_span *params)
{
	uint64_t seq = 0;
	const struct json_span *place = json_span_get(json_span_get(params, "_meta"), "holdfast");
	fuzz_check(string_of(json_span_get(params, "update"), "sessionUpdate")[0],
		"an update has a kind");
	fuzz_check(
		json_span_count(json_span_get(place, "seq"), &seq) && seq, "it says where it is");
	fuzz_check(strlen(string_of(place, "epoch")) == 16, "and in which epoch");
	fuzz_check(seq >= reader->seq, "it goes forward");
	reader->seq = json_span_get(place, "open") ? reader->seq : seq;
}

static void check_message(struct reader *reader, const struct json_span *message)
{
	const char *method = string_of(message, "method");
	const struct json_span *params = json_span_get(message, "params");
	fuzz_check(strcmp(string_of(message, "jsonrpc"), "2.0") == 0, "it is JSON-RPC");
	if (!method[0]) {
		bool has_result = json_span_get(message, "result") != NULL;
		fuzz_check(has_result != (json_span_get(message, "error") != NULL),
			"an answer is a result or an error");
		fuzz_check(reader->waiting-- > 0, "somebody waits for it");
	} else if (strcmp(method, "session/update") == 0) {
		check_update(reader, params);
	} else if (strcmp(method, "$/cancel_request") == 0) {
		fuzz_check(was_asked(reader, string_of(params, "requestId")), "it was asked");
	} else {
		fuzz_check(strcmp(method, "session/request_permission") == 0 ||
				   strcmp(method, "elicitation/create") == 0,
			"it is a question");
		note_asked(reader, string_of(message, "id"));
	}
}

static void check_messages(struct reader *reader, const struct buffer *out)
{
	size_t at = 0;
	while (at < out->len) {
		const char *line = out->data + at;
		const char *end = memchr(line, '\n', out->len - at);
		struct json_spans spans = {0};
		fuzz_check(end, "a message is a line");
		fuzz_check(json_spans_read(line, (size_t)(end - line), &spans) == 0,
			"a message is JSON");
		check_message(reader, spans.all);
		json_spans_finish(&spans);
		at += (size_t)(end - line) + 1;
	}
}

static struct editor_view *make_view(
	const struct editor_request *request, struct reader *reader, struct buffer *out)
{
	const struct editor_view_config config = {.session_id = "s",
		.client_id = "c",
		.epoch = request->epoch,
		.told_seq = request->after_seq,
		.open_told = request->open,
		.tells_own = request->method == EDITOR_LOAD,
		.load_id = request->id,
		.reset = request->has_position ? "epoch" : NULL,
		.asks = true,
		.takes_forms = true,
		.takes_urls = true};
	struct editor_view *view = editor_view_create(&config);
	const char *id = request->id ? request->id : "7";
	reader->waiting = 2 + (request->id != NULL);
	reader->asked_count = request->after_seq ? ASKED_MAX : 0; /* on an earlier connection */
	fuzz_check(editor_view_add_prompt(view, id, "p-1"), "there is room");
	fuzz_check(editor_view_add_setting(view, id, EDITOR_MODE,
			   request->session_id ? request->session_id : "m", NULL, true, out),
		"there is room");
	return view;
}

static void check_request(
	const struct editor_request *request, int r, const struct refusal *refusal)
{
	struct json_spans spans = {0};
	fuzz_check(r == 0 || refusal->code, "a refusal has a code");
	fuzz_check(!request->id || json_spans_read(request->id, strlen(request->id), &spans) == 0,
		"an id is JSON");
	json_spans_finish(&spans);
	fuzz_check(r < 0 || request->method != EDITOR_PROMPT || request->message.len ||
			   json_array_size(request->content),
		"a prompt says something");
	fuzz_check(!request->session_id ||
			   session_id_is_valid(request->session_id, strlen(request->session_id)),
		"a session's id is good");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *at = size ? (const char *)data : "";
	const char *end = at + size;
	struct reader reader = {0};
	struct buffer out = {0};
	struct refusal refusal = {0};
	struct editor_request request;
	const char *newline = memchr(at, '\n', size);
	size_t len = (size_t)((newline ? newline : end) - at);
	int r = editor_request_parse(at, len, limits_default(), &request, &refusal);
	check_request(&request, r, &refusal);
	struct editor_view *view = make_view(&request, &reader, &out);
	check_messages(&reader, &out);
	while (newline) {
		at = newline + 1;
		newline = memchr(at, '\n', (size_t)(end - at));
		len = (size_t)((newline ? newline : end) - at);
		struct frame *messages = output_encode(&output_editor_lines, view, at, len);
		buffer_clear(&out);
		if (messages) {
			buffer_append(&out, frame_text(messages), frame_len(messages));
			frame_unref(messages);
		}
		check_messages(&reader, &out);
	}
	const char *request_id;
	if (request.of) {
		editor_view_answered(view, request.of, &request_id);
	}
	buffer_clear(&out);
	editor_view_fail(view, ERROR_not_found, "it has gone", &out);
	check_messages(&reader, &out);
	fuzz_check(reader.waiting == 0, "everybody has an answer");
	editor_view_destroy(view);
	editor_request_finish(&request);
	buffer_finish(&out);
	return 0;
}
