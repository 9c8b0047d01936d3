/*
 * Raw streams of Durable Streams on the wire. The first line is a header or a path, taken for each of them;
 * what follows is a body: JSON is stored as lines and shown as one array of the same messages, and
 * as server-sent events bytes arrive as they were, in one event.
 */
#include "fuzz.h"

#include "holdfast/json_span.h"
#include "doors/durable_streams/raw_wire.h"
#include "holdfast/rfc3339.h"

#include <stdlib.h>
#include <string.h>

static void check_header(const char *text)
{
	struct raw_offset offset;
	char again[RAW_OFFSET_SIZE];
	uint64_t number;
	int64_t ms;
	if (raw_offset_read(text, &offset) && offset.kind == RAW_AT && offset.at < 1ULL << 53) {
		raw_offset_write(again, offset.at);
		fuzz_check(strcmp(again, text) == 0, "an offset is what was written");
	}
	if (raw_number_read(text, false, &number)) {
		fuzz_check(number < 1ULL << 53, "a number is one of JavaScript's");
		fuzz_check(number == strtoull(text, NULL, 10), "it is what the digits say");
	}
	if (raw_number_read(text, true, &number)) {
		fuzz_check(text[0] != '0' || !text[1], "no zero is in front of it");
	}
	if (rfc3339_read(text, &ms)) {
		fuzz_check(ms > -62300000000000 && ms < 253500000000000,
			"a time has four digits for its year");
	}
	const char *name = raw_name(text, 512);
	if (name) {
		fuzz_check(name == text + strlen(RAW_PATH) &&
				   strncmp(text, RAW_PATH, strlen(RAW_PATH)) == 0 && *name &&
				   strlen(name) <= 512,
			"a name is in a path");
		fuzz_check(!strstr(text, "/../") && !strstr(text, "//"), "it leads nowhere else");
	}
	if (raw_type_is_valid(text)) {
		fuzz_check(strchr(text, '/') && !strpbrk(text, "\r\n"), "a type is a header");
		fuzz_check(!raw_type_is_json(text) || !raw_type_is_text(text), "it is of one kind");
	}
}

static size_t count_lines(const struct buffer *lines)
{
	size_t count = 0;
	for (size_t i = 0; i < lines->len; i++) {
		count += lines->data[i] == '\n';
	}
	return count;
}

static void check_json(const char *text, size_t len)
{
	struct buffer lines = {0};
	struct buffer shown = {0};
	struct json_spans spans = {0};
	int r = raw_json_store(text, len, &lines);
	if (r == 0) {
		raw_json_show(lines.data, lines.len, &shown);
		fuzz_check(json_spans_read(shown.data, shown.len, &spans) == 0, "it is JSON again");
		fuzz_check(json_span_array_size(spans.all) == count_lines(&lines),
			"each message is a line");
		json_spans_finish(&spans);
		struct buffer twice = {0};
		fuzz_check(raw_json_store(shown.data, shown.len, &twice) == 0 &&
				   twice.len == lines.len &&
				   memcmp(twice.data, lines.data, lines.len) == 0,
			"what is stored stays as it is");
		buffer_finish(&twice);
	}
	buffer_finish(&lines);
	buffer_finish(&shown);
}

/** The data of the first event, as a client reads it; what follows. */
static const char *read_event(const char *at, const char *end, struct buffer *out)
{
	static const char head[] = "event: data\n";
	fuzz_check((size_t)(end - at) > sizeof(head) && memcmp(at, head, sizeof(head) - 1) == 0,
		"it is data");
	at += sizeof(head) - 1;
	for (bool is_first = true; at < end && *at != '\n'; is_first = false) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		fuzz_check(newline && memcmp(at, "data:", 5) == 0, "each line is data");
		const char *line = at + 5 + (at[5] == ' ');
		if (!is_first) {
			buffer_append_char(out, '\n');
		}
		buffer_append(out, line, (size_t)(newline - line));
		at = newline + 1;
	}
	return at + 1;
}

static void check_events(const char *bytes, size_t len)
{
	struct buffer seen = {0};
	struct buffer want = {0};
	const struct raw_place place = {.at = len, .cursor = 7, .is_up_to_date = true};
	struct frame *frame = raw_events(bytes, len, RAW_MODE_TEXT, &place);
	const char *end = frame_text(frame) + frame_len(frame);
	const char *rest = read_event(frame_text(frame), end, &seen);
	fuzz_check(rest < end && memcmp(rest, "event: control\n", 15) == 0,
		"one event is in front of control");
	for (size_t i = 0; i < len; i++) {
		bool is_pair = bytes[i] == '\r' && i + 1 < len && bytes[i + 1] == '\n';
		i += is_pair;
		buffer_append_char(&want, bytes[i] == '\r' ? '\n' : bytes[i]);
	}
	fuzz_check(
		seen.len == want.len && (!want.len || memcmp(seen.data, want.data, want.len) == 0),
		"the bytes are what they were, but for ends of lines");
	frame_unref(frame);
	frame = raw_events(bytes, len, RAW_MODE_BASE64, &place);
	fuzz_check(frame_len(frame) > (len + 2) / 3 * 4, "base64 has all of it");
	frame_unref(frame);
	buffer_finish(&seen);
	buffer_finish(&want);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	const char *newline = size ? memchr(text, '\n', size) : NULL;
	size_t len = newline ? (size_t)(newline - text) : size;
	char *line = xstrndup(text ? text : "", len);
	check_header(line);
	free(line);
	if (newline && size > len + 1) {
		check_json(newline + 1, size - len - 1);
		check_events(newline + 1, size - len - 1);
	}
	return 0;
}
