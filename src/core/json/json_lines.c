#include "holdfast/json_lines.h"

#include "holdfast/json_text.h"
#include "core/base/terminal_sequence.h"

#include <string.h>

/* Largest memory of an empty buffer that is kept. */
#define LINES_KEEP_BYTES ((size_t)256 * 1024)
/* Bytes kept of the head and the tail of a skipped line. */
#define HEAD_MAX ((size_t)4096)
#define TAIL_MAX ((size_t)256)

void json_lines_init(struct json_lines *l, size_t line_max)
{
	*l = (struct json_lines){.line_max = line_max};
}

void json_lines_finish(struct json_lines *l)
{
	buffer_finish(&l->bytes);
	buffer_finish(&l->head);
	buffer_finish(&l->tail);
	json_lines_init(l, l->line_max);
}

static void lines_compact(struct json_lines *l)
{
	if (l->start > 0) {
		buffer_consume(&l->bytes, l->start);
		l->scanned -= l->start;
		l->start = 0;
	}
	if (l->bytes.len == 0 && l->bytes.cap > LINES_KEEP_BYTES) {
		buffer_finish(&l->bytes);
	}
}

static void begin_skipping(struct json_lines *l, bool has_ended)
{
	buffer_clear(&l->head);
	buffer_clear(&l->tail);
	l->skipping = !has_ended;
	l->skipped = has_ended;
	l->too_deep = false;
}

static void keep_ends(struct json_lines *l, const char *bytes, size_t len)
{
	size_t head = HEAD_MAX - l->head.len < len ? HEAD_MAX - l->head.len : len;
	buffer_append(&l->head, bytes, head);
	size_t rest = len < TAIL_MAX ? len : TAIL_MAX;
	buffer_append(&l->tail, bytes + len - rest, rest);
	if (l->tail.len > TAIL_MAX) {
		buffer_consume(&l->tail, l->tail.len - TAIL_MAX);
	}
}

void json_lines_push(struct json_lines *l, const char *bytes, size_t len)
{
	lines_compact(l);
	if (l->skipping) {
		const char *end = memchr(bytes, '\n', len);
		keep_ends(l, bytes, end ? (size_t)(end - bytes) : len);
		if (!end) {
			return;
		}
		l->skipping = false;
		l->skipped = true;
		len -= (size_t)(end + 1 - bytes);
		bytes = end + 1;
	}
	buffer_append(&l->bytes, bytes, len);
}

static size_t noise_length(const char *text, size_t len, bool *ret_is_cut)
{
	static const char mark[] = "\xef\xbb\xbf";
	size_t at = 0;
	*ret_is_cut = false;
	while (at < len) {
		size_t n = terminal_sequence_length(text + at, len - at, ret_is_cut);
		if (n == 0 && text[at] == ' ') {
			n = 1;
		} else if (n == 0 && len - at >= 3 && memcmp(text + at, mark, 3) == 0) {
			n = 3;
		}
		if (n == 0) {
			break;
		}
		at += n;
	}
	return at;
}

size_t json_noise_length(const char *text, size_t len)
{
	bool is_cut;
	return noise_length(text, len, &is_cut);
}

void json_unwrap(const char **text, size_t *len)
{
	bool is_cut;
	size_t before = noise_length(*text, *len, &is_cut);
	const char *json = *text + before;
	size_t left = *len - before;
	if (!left && !is_cut) {
		*len = 0;
	}
	if (!left || (*json != '{' && *json != '[')) {
		return;
	}
	int deepest;
	size_t length = json_nesting(json, left, &deepest);
	if (length && json_noise_length(json + length, left - length) == left - length) {
		*text = json;
		*len = length;
	}
}

enum json_line json_lines_next(struct json_lines *l, char **ret_line, size_t *ret_len)
{
	if (l->skipped) {
		l->skipped = false;
		return JSON_LINE_SKIPPED;
	}
	size_t unscanned = l->bytes.len - l->scanned;
	char *end = unscanned ? memchr(l->bytes.data + l->scanned, '\n', unscanned) : NULL;
	char *line = l->bytes.data + l->start;
	if (!end) {
		l->scanned = l->bytes.len;
		if (l->bytes.len - l->start <= l->line_max) {
			return JSON_LINE_NONE;
		}
		begin_skipping(l, false);
		keep_ends(l, line, l->bytes.len - l->start);
		l->start = l->bytes.len;
		return JSON_LINE_TOO_LONG;
	}
	size_t len = (size_t)(end - line);
	l->start += len + 1;
	l->scanned = l->start;
	bool too_long = len > l->line_max;
	const char *json = line;
	size_t json_len = len;
	if (!too_long) {
		json_unwrap(&json, &json_len);
	}
	bool is_json = json_len && (*json == '{' || *json == '[');
	if (too_long || (is_json && json_is_deep(json, json_len))) {
		begin_skipping(l, true);
		l->too_deep = !too_long;
		keep_ends(l, line, len);
		return JSON_LINE_TOO_LONG;
	}
	if (json_len > 0 && json[json_len - 1] == '\r') {
		json_len--;
	}
	*ret_line = line + (json - line);
	*ret_len = json_len;
	return JSON_LINE_READY;
}
