#include "holdfast/json_rpc.h"

#include "holdfast/bytes.h"
#include "holdfast/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DESCRIPTION_MAX ((size_t)1024)
/* The unit of a half that there are several of; `marks` is 0 then. */
#define UNCLEAR 1

/** Returns the value of the four hexadecimal digits of a \u escape, or -1. */
static int hex_unit(const char *s, size_t len)
{
	int unit = 0;
	for (size_t i = 0; i < 4; i++) {
		int digit = i < len ? bytes_hex_digit(s[i]) : -1;
		if (digit < 0) {
			return -1;
		}
		unit = unit * 16 + digit;
	}
	return unit;
}

static bool is_low_surrogate_escape(const char *s, size_t len)
{
	int unit = len >= 6 && s[0] == '\\' && s[1] == 'u' ? hex_unit(s + 2, len - 2) : -1;
	return unit >= 0xdc00 && unit <= 0xdfff;
}

/** Notes a half; a second one in the line makes both unclear, and neither counts. */
static void note_half(struct json_rpc_half *half, const struct json_rpc_half *found)
{
	if (half->unit == UNCLEAR) {
		return;
	}
	*half = half->marks ? (struct json_rpc_half){.unit = UNCLEAR} : *found;
}

static void note_unit(
	const char *line, const char *s, const char *end, int unit, struct json_rpc_halves *halves)
{
	struct json_rpc_half half = {.marks = 1, .unit = (unsigned)unit};
	bool opens = s - line >= 2 && s[-1] == '"' && s[-2] != '\\';
	bool closes = end - s > 6 && s[6] == '"';
	if (closes && unit <= 0xdbff) {
		note_half(&halves->back, &half);
	} else if (opens && unit >= 0xdc00) {
		note_half(&halves->front, &half);
	}
}

/**
 * Replaces escapes that a C string or UTF-8 cannot hold. The length stays the same, so it works in
 * place.
 */
static void fix_escapes(char *line, size_t len, struct json_rpc_halves *halves)
{
	char *end = line + len;
	char *s = line;
	while (end - s >= 2 && (s = memchr(s, '\\', (size_t)(end - s) - 1))) {
		int unit = s[1] == 'u' ? hex_unit(s + 2, (size_t)(end - s) - 2) : -1;
		if (unit < 0) {
			s += 2;
			continue;
		}
		bool is_surrogate = unit >= 0xd800 && unit <= 0xdfff;
		if (is_surrogate && unit <= 0xdbff &&
			is_low_surrogate_escape(s + 6, (size_t)(end - s) - 6)) {
			s += 12;
			continue;
		}
		if (is_surrogate) {
			note_unit(line, s, end, unit, halves);
		}
		if (unit == 0 || is_surrogate) {
			memcpy(s + 2, "fffd", 4);
		}
		s += 6;
	}
}

/** Notes invalid bytes that begin at `at` and may be half a character. */
static void note_bytes(const char *line, size_t len, size_t at, struct json_rpc_halves *halves)
{
	struct json_rpc_half half = {.bytes = {line[at]}, .marks = 1};
	while (half.marks < 3 && at + half.marks < len && !utf8_is_start(line[at + half.marks])) {
		half.bytes[half.marks] = line[at + half.marks];
		half.marks++;
	}
	char next = at + half.marks < len ? line[at + half.marks] : '\0';
	if ((unsigned char)line[at] >= 0xc2 && next == '"') {
		note_half(&halves->back, &half);
	} else if (!utf8_is_start(line[at]) && at >= 2 && line[at - 1] == '"' &&
		   line[at - 2] != '\\' && utf8_is_start(next)) {
		note_half(&halves->front, &half);
	}
}

/** Appends a line with invalid UTF-8 replaced. */
static void repair_line(
	struct buffer *out, const char *line, size_t len, struct json_rpc_halves *halves)
{
	bool in_string = false;
	size_t i = 0;
	while (i < len) {
		size_t n = utf8_length(line + i, len - i);
		if (n == 0) {
			note_bytes(line, len, i, halves);
			buffer_append_str(out, UTF8_REPLACEMENT);
			i++;
			continue;
		}
		bool escape =
			in_string && line[i] == '\\' && i + 1 < len && (line[i + 1] & 0x80) == 0;
		in_string ^= line[i] == '"';
		n = escape ? 2 : n;
		buffer_append(out, line + i, n);
		i += n;
	}
}

size_t json_rpc_join(
	const struct json_rpc_half *back, const struct json_rpc_half *front, char ret[4])
{
	size_t len = back->marks + front->marks;
	if (!back->marks || !front->marks || !back->unit != !front->unit || len > 4) {
		return 0;
	}
	if (back->unit) {
		unsigned code = 0x10000 + ((back->unit - 0xd800) << 10) + (front->unit - 0xdc00);
		ret[0] = (char)(0xf0 | code >> 18);
		ret[1] = (char)(0x80 | (code >> 12 & 0x3f));
		ret[2] = (char)(0x80 | (code >> 6 & 0x3f));
		ret[3] = (char)(0x80 | (code & 0x3f));
		return 4;
	}
	memcpy(ret, back->bytes, back->marks);
	memcpy(ret + back->marks, front->bytes, front->marks);
	return utf8_length(ret, len) == len ? len : 0;
}

json_t *json_rpc_parse_cut(char *line, size_t len, struct json_numbers *numbers,
	struct json_rpc_halves *ret_halves, json_error_t *ret_error)
{
	*ret_halves = (struct json_rpc_halves){0};
	if (memmem(line, len, "\\u", 2)) {
		fix_escapes(line, len, ret_halves);
	}
	json_t *message = json_read(line, len, 0, numbers, ret_error);
	if (message || json_error_code(ret_error) != json_error_invalid_utf8) {
		return message;
	}
	struct buffer repaired = {0};
	repair_line(&repaired, line, len, ret_halves);
	message = json_read(repaired.data, repaired.len, 0, numbers, ret_error);
	buffer_finish(&repaired);
	return message;
}

json_t *json_rpc_parse(
	char *line, size_t len, struct json_numbers *numbers, json_error_t *ret_error)
{
	struct json_rpc_halves halves;
	return json_rpc_parse_cut(line, len, numbers, &halves, ret_error);
}

enum json_rpc_message json_rpc_classify(const json_t *message)
{
	const json_t *method = json_object_get(message, "method");
	if (json_is_string(method)) {
		return json_object_get(message, "id") ? JSON_RPC_REQUEST : JSON_RPC_NOTIFICATION;
	}
	bool answers = json_object_get(message, "result") || json_object_get(message, "error");
	return (!method || json_is_null(method)) && answers ? JSON_RPC_RESPONSE : JSON_RPC_INVALID;
}

bool json_rpc_same_id(const json_t *a, const json_t *b, enum json_rpc_likeness likeness)
{
	json_int_t number;
	if (likeness == JSON_RPC_EQUAL) {
		return a && b && json_equal(a, b);
	}
	return json_whole(a, &number) && json_rpc_is_id(b, number);
}

bool json_rpc_is_id(const json_t *id, json_int_t number)
{
	json_int_t other;
	return json_whole(id, &other) && other == number;
}

bool json_rpc_same_id_text(const char *a, const char *b, enum json_rpc_likeness likeness)
{
	if (likeness == JSON_RPC_EQUAL) {
		return strcmp(a, b) == 0;
	}
	json_t *x = json_read(a, strlen(a), JSON_DECODE_ANY, NULL, NULL);
	json_t *y = json_read(b, strlen(b), JSON_DECODE_ANY, NULL, NULL);
	bool is_same = json_rpc_same_id(x, y, likeness);
	json_decref(x);
	json_decref(y);
	return is_same;
}

static int append_chunk(const char *bytes, size_t len, void *out)
{
	buffer_append(out, bytes, len);
	return 0;
}

void json_rpc_encode(struct buffer *out, const json_t *value)
{
	/* ASCII, because some agents treat U+2028 as a line ending. */
	json_dump_callback(
		value, append_chunk, out, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_ENCODE_ANY);
}

void json_rpc_put(struct buffer *out, json_t *message)
{
	json_rpc_encode(out, message);
	buffer_append_char(out, '\n');
	json_decref(message);
}

void json_rpc_request(struct buffer *out, json_int_t id, const char *method, json_t *params)
{
	json_rpc_put(out, json_pack("{s:s, s:I, s:s, s:o}", "jsonrpc", "2.0", "id", id, "method",
				  method, "params", params));
}

void json_rpc_notification(struct buffer *out, const char *method, json_t *params)
{
	json_rpc_put(out,
		json_pack("{s:s, s:s, s:o}", "jsonrpc", "2.0", "method", method, "params", params));
}

void json_rpc_result(struct buffer *out, const json_t *id, json_t *result)
{
	json_rpc_put(
		out, json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id, "result", result));
}

void json_rpc_error(struct buffer *out, const json_t *id, int code, const char *message)
{
	json_rpc_put(out, json_pack("{s:s, s:o, s:{s:i, s:s}}", "jsonrpc", "2.0", "id",
				  id ? json_incref((json_t *)id) : json_null(), "error", "code",
				  code, "message", message));
}

static void describe_part(struct buffer *out, const char *before, const json_t *text)
{
	const char *words = json_string_value(text);
	if (words && *words) {
		buffer_append_str(out, out->len ? before : "");
		buffer_append(
			out, words, utf8_prefix(words, json_string_length(text), DESCRIPTION_MAX));
	}
}

void json_rpc_describe_error(struct buffer *out, const json_t *error)
{
	/* The message is often just "Internal error"; the cause is in one of the others. */
	const json_t *data = json_object_get(error, "data");
	size_t start = out->len;
	describe_part(out, "", json_object_get(error, "message"));
	describe_part(out, ": ", data);
	describe_part(out, ": ", json_object_get(data, "details"));
	describe_part(out, ": ", json_object_get(data, "message"));
	if (out->len == start) {
		buffer_append_str(out, "an error without a message");
	}
}
