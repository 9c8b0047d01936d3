#include "acp_internal.h"

#include "holdfast/json_text.h"
#include "holdfast/requests.h"

#include <string.h>

/* A buffer that held a long line is given back when it is empty. */
#define LINES_KEEP_BYTES ((size_t)256 * 1024)
/* Kept of a line that is too long. */
#define HEAD_MAX ((size_t)4096)
#define TAIL_MAX ((size_t)256)

void acp_lines_init(struct acp_lines *l, size_t line_max)
{
	*l = (struct acp_lines){.line_max = line_max};
}

void acp_lines_finish(struct acp_lines *l)
{
	buffer_finish(&l->bytes);
	buffer_finish(&l->head);
	buffer_finish(&l->tail);
	acp_lines_init(l, l->line_max);
}

static void lines_compact(struct acp_lines *l)
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

static void begin_skipping(struct acp_lines *l, bool has_ended)
{
	buffer_clear(&l->head);
	buffer_clear(&l->tail);
	l->skipping = !has_ended;
	l->skipped = has_ended;
	l->too_deep = false;
}

static void keep_ends(struct acp_lines *l, const char *bytes, size_t len)
{
	size_t head = HEAD_MAX - l->head.len < len ? HEAD_MAX - l->head.len : len;
	buffer_append(&l->head, bytes, head);
	size_t rest = len < TAIL_MAX ? len : TAIL_MAX;
	buffer_append(&l->tail, bytes + len - rest, rest);
	if (l->tail.len > TAIL_MAX) {
		buffer_consume(&l->tail, l->tail.len - TAIL_MAX);
	}
}

void acp_lines_push(struct acp_lines *l, const char *bytes, size_t len)
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

enum acp_line acp_lines_next(struct acp_lines *l, char **ret_line, size_t *ret_len)
{
	if (l->skipped) {
		l->skipped = false;
		return ACP_LINE_SKIPPED;
	}
	size_t unscanned = l->bytes.len - l->scanned;
	char *end = unscanned ? memchr(l->bytes.data + l->scanned, '\n', unscanned) : NULL;
	char *line = l->bytes.data + l->start;
	if (!end) {
		l->scanned = l->bytes.len;
		if (l->bytes.len - l->start <= l->line_max) {
			return ACP_LINE_NONE;
		}
		begin_skipping(l, false);
		keep_ends(l, line, l->bytes.len - l->start);
		l->start = l->bytes.len;
		return ACP_LINE_TOO_LONG;
	}
	size_t len = (size_t)(end - line);
	l->start += len + 1;
	l->scanned = l->start;
	bool too_long = len > l->line_max;
	if (too_long || json_is_deep(line, len)) {
		begin_skipping(l, true);
		l->too_deep = !too_long;
		keep_ends(l, line, len);
		return ACP_LINE_TOO_LONG;
	}
	if (len > 0 && line[len - 1] == '\r') {
		len--;
	}
	*ret_line = line;
	*ret_len = len;
	return ACP_LINE_READY;
}

/* What is seen of a line that was too long. */

static size_t space_length(const char *text, size_t len)
{
	size_t n = 0;
	while (n < len && text[n] && strchr(" \t\r\n", text[n])) {
		n++;
	}
	return n;
}

/** The length of the string at `text`, with its quotes; 0 if it does not end here. */
static size_t string_length(const char *text, size_t len)
{
	for (size_t i = 1; i < len; i++) {
		if (text[i] == '"') {
			return i + 1;
		}
		i += text[i] == '\\';
	}
	return 0;
}

/** The length of the JSON value at `text`; 0 if it does not end here. */
static size_t value_length(const char *text, size_t len)
{
	size_t depth = 0;
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '"') {
			size_t n = string_length(text + i, len - i);
			if (n == 0) {
				return 0;
			}
			i += n - 1;
		}
		depth += text[i] == '{' || text[i] == '[';
		if (depth == 0 && (text[i] == ',' || text[i] == '}' || text[i] == ']')) {
			return i;
		}
		depth -= text[i] == '}' || text[i] == ']';
	}
	return 0;
}

static void take_member(
	json_t *out, const char *key, size_t key_len, const char *value, size_t value_len)
{
	bool is_id = key_len == 4 && !memcmp(key, "\"id\"", 4);
	if (is_id || (key_len == 8 && !memcmp(key, "\"method\"", 8))) {
		json_t *json = json_read(value, value_len, JSON_DECODE_ANY, NULL, NULL);
		if (json && !json_is_object(json) && !json_is_array(json)) {
			json_object_set(out, is_id ? "id" : "method", json);
		}
		json_decref(json);
	}
}

/** Takes the members of the message up to the one that does not end here. */
static void take_head(json_t *out, const char *text, size_t len)
{
	size_t at = space_length(text, len);
	while (at < len && (text[at] == '{' || text[at] == ',')) {
		at++;
		at += space_length(text + at, len - at);
		size_t key_len = at < len ? string_length(text + at, len - at) : 0;
		const char *key = text + at;
		at += key_len;
		at += space_length(text + at, len - at);
		if (key_len == 0 || at == len || text[at] != ':') {
			return;
		}
		at++;
		size_t value_len = value_length(text + at, len - at);
		if (value_len == 0) {
			return;
		}
		take_member(out, key, key_len, text + at, value_len);
		at += value_len;
	}
}

/** Some put the id last. */
static void take_tail(json_t *out, const char *text, size_t len)
{
	size_t at = len;
	while (at > 0 && (len - at < 4 || memcmp(text + at, "\"id\"", 4) != 0)) {
		at--;
	}
	if (at == 0) {
		return;
	}
	const char *key = text + at;
	at += 4;
	at += space_length(text + at, len - at);
	at += at < len && text[at] == ':';
	size_t value_len = value_length(text + at, len - at);
	size_t end = at + value_len + 1;
	if (value_len > 0 && text[at + value_len] == '}' &&
		space_length(text + end, len - end) == len - end) {
		take_member(out, key, 4, text + at, value_len);
	}
}

json_t *acp_lines_peek(const struct acp_lines *l)
{
	json_t *out = json_object();
	take_head(out, l->head.data, l->head.len);
	if (!json_object_get(out, "id") && l->tail.len > 0) {
		take_tail(out, l->tail.data, l->tail.len);
	}
	return out;
}
