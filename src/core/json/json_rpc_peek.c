/* Finds the id and the method in a line that is skipped, or cannot be read. */
#include "holdfast/json_rpc.h"

#include "holdfast/json_lines.h"

#include <string.h>

static size_t space_length(const char *text, size_t len)
{
	size_t n = 0;
	while (n < len && text[n] && strchr(" \t\r\n", text[n])) {
		n++;
	}
	return n;
}

/** Returns the length of the string at `text`, including quotes; 0 if its end is missing. */
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

/** Returns the length of the JSON value at `text`; 0 if its end is missing. */
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
	bool is_id = key_len == 4 && memcmp(key, "\"id\"", 4) == 0;
	if (is_id || (key_len == 8 && memcmp(key, "\"method\"", 8) == 0)) {
		json_t *json = json_read(value, value_len, JSON_DECODE_ANY, NULL, NULL);
		if (json && !json_is_object(json) && !json_is_array(json)) {
			json_object_set(out, is_id ? "id" : "method", json);
		}
		json_decref(json);
	}
}

/** Takes the members of the message up to the first incomplete one. */
static void take_head(json_t *out, const char *text, size_t len)
{
	size_t at = json_noise_length(text, len);
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

/** Takes an id at the end of the message, where some agents put it. */
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
		json_noise_length(text + end, len - end) == len - end) {
		take_member(out, key, 4, text + at, value_len);
	}
}

static json_t *peek(const char *head, size_t head_len, const char *tail, size_t tail_len)
{
	json_t *out = json_object();
	take_head(out, head, head_len);
	if (!json_object_get(out, "id") && tail_len > 0) {
		take_tail(out, tail, tail_len);
	}
	return out;
}

json_t *json_rpc_peek(const struct json_lines *l)
{
	return peek(l->head.data, l->head.len, l->tail.data, l->tail.len);
}

json_t *json_rpc_peek_line(const char *line, size_t len)
{
	const char *from = memchr(line, '{', len);
	size_t left = from ? len - (size_t)(from - line) : 0;
	return peek(from, left, from, left);
}
