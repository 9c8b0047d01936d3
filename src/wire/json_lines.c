#include "holdfast/json_lines.h"

#include "holdfast/json_text.h"
#include "holdfast/requests.h"

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
	if (too_long || json_is_deep(line, len)) {
		begin_skipping(l, true);
		l->too_deep = !too_long;
		keep_ends(l, line, len);
		return JSON_LINE_TOO_LONG;
	}
	if (len > 0 && line[len - 1] == '\r') {
		len--;
	}
	*ret_line = line;
	*ret_len = len;
	return JSON_LINE_READY;
}
