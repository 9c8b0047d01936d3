/*
 * Searches for text in events. Each text is scanned once (Knuth-Morris-Pratt), so that no search
 * text can make it slow.
 */
#include "holdfast/event_search.h"

#include "holdfast/json_span.h"
#include "holdfast/utf8.h"

#include <ctype.h>
#include <locale.h>
#include <stdlib.h>
#include <wctype.h>

/* Bytes of a snippet before the match, and from its beginning on. */
#define SNIPPET_BEFORE ((size_t)80)
#define SNIPPET_BEHIND ((size_t)240)
#define ELLIPSIS       "\xe2\x80\xa6"

struct needle {
	uint32_t *chars; /* case-folded */
	size_t *borders; /* for each prefix: length of its longest proper border */
	size_t count;
	locale_t locale; /* 0: only ASCII letters are folded */
};

/* --- characters --- */

/** Decodes the next character of valid UTF-8. */
static uint32_t next_char(const char **at, const char *end)
{
	size_t len = utf8_length(*at, (size_t)(end - *at));
	uint32_t c = (unsigned char)**at;
	if (len > 1) {
		c &= 0xffU >> (len + 1);
		for (size_t i = 1; i < len; i++) {
			c = c << 6 | ((unsigned char)(*at)[i] & 0x3f);
		}
	}
	*at += len ? len : 1;
	return c;
}

static uint32_t fold(const struct needle *needle, uint32_t c)
{
	if (c < 0x80) {
		return c <= ' ' ? ' ' : c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
	}
	return needle->locale ? (uint32_t)towlower_l((wint_t)c, needle->locale) : c;
}

/* --- search text --- */

struct needle *needle_create(const char *text, size_t len)
{
	struct needle *needle = xcalloc(1, sizeof(*needle));
	const char *end = text + len;
	needle->locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	needle->chars = xcalloc(len + 1, sizeof(*needle->chars));
	needle->borders = xcalloc(len + 1, sizeof(*needle->borders));
	while (text < end) {
		needle->chars[needle->count++] = fold(needle, next_char(&text, end));
	}
	size_t border = 0;
	for (size_t i = 1; i < needle->count; i++) {
		while (border && needle->chars[i] != needle->chars[border]) {
			border = needle->borders[border - 1];
		}
		border += needle->chars[i] == needle->chars[border];
		needle->borders[i] = border;
	}
	return needle;
}

void needle_destroy(struct needle *needle)
{
	if (!needle) {
		return;
	}
	if (needle->locale) {
		freelocale(needle->locale);
	}
	free(needle->chars);
	free(needle->borders);
	free(needle);
}

/** Returns the end of the first match, or NULL. */
static const char *find_end(const struct needle *needle, const char *text, size_t len)
{
	const char *end = text + len;
	size_t matched = 0;
	while (text < end) {
		uint32_t c = fold(needle, next_char(&text, end));
		while (matched && c != needle->chars[matched]) {
			matched = needle->borders[matched - 1];
		}
		matched += c == needle->chars[matched];
		if (matched == needle->count) {
			return text;
		}
	}
	return NULL;
}

/* --- snippets --- */

static void append_line(struct buffer *out, const char *text, const char *end)
{
	for (; text < end; text++) {
		unsigned char c = (unsigned char)*text;
		bool is_space = c <= ' ' || c == 0x7f;
		if (!is_space) {
			buffer_append_char(out, (char)c);
		} else if (out->len && out->data[out->len - 1] != ' ') {
			buffer_append_char(out, ' ');
		}
	}
}

static void append_snippet(const struct needle *needle, const char *text, size_t len,
	const char *found_end, struct buffer *out)
{
	const char *found = found_end;
	for (size_t i = 0; i < needle->count; i++) {
		do {
			found--;
		} while (!utf8_is_start(*found));
	}
	size_t at = (size_t)(found - text);
	size_t from = at > SNIPPET_BEFORE ? utf8_ceil(text, len, at - SNIPPET_BEFORE) : 0;
	size_t least = (size_t)(found_end - text);
	size_t to = at + SNIPPET_BEHIND > least ? at + SNIPPET_BEHIND : least;
	to = to < len ? utf8_floor(text, len, to) : len;
	struct buffer line = {0};
	append_line(&line, text + from, text + to);
	buffer_append_str(out, from ? ELLIPSIS : "");
	buffer_append(out, line.data, line.len);
	buffer_append_str(out, to < len ? ELLIPSIS : "");
	buffer_finish(&line);
}

/* --- in events --- */

/**
 * Whether people see the string in a member of this name. Objects are searched member by member.
 */
static bool is_seen(const char *name)
{
	static const char *const names[] = {"markdown", "text", "message", "title", "content",
		"path", "output", "stdout", "stderr", "error", "command", "cmd", "old_text",
		"new_text", "name", "description", "detail", "raw_output", "oldText", "newText",
		"rawOutput"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(names[i], name) == 0) {
			return true;
		}
	}
	return false;
}

/** Recurses at most JSON_DEPTH_MAX levels deep. */
static bool search_value(const struct json_span *value, bool seen, const struct needle *needle,
	struct buffer *snippet)
{
	if (value->type == JSON_STRING && seen) {
		const char *end = find_end(needle, value->text, value->len);
		if (end) {
			append_snippet(needle, value->text, value->len, end, snippet);
		}
		return end != NULL;
	}
	if (value->type == JSON_OBJECT) {
		json_span_each_name(name, value) {
			if (search_value(name + 1, is_seen(name->text), needle, snippet)) {
				return true;
			}
		}
	} else if (value->type == JSON_ARRAY) {
		json_span_each(span, value) {
			if (search_value(span, seen, needle, snippet)) {
				return true;
			}
		}
	}
	return false;
}

bool event_search(
	const struct event_view *view, const struct needle *needle, struct buffer *ret_snippet)
{
	struct json_spans spans = {0};
	bool found = false;
	if (json_spans_read(view->data, view->data_len, &spans) == 0) {
		found = search_value(spans.all, false, needle, ret_snippet);
	}
	json_spans_finish(&spans);
	return found;
}
