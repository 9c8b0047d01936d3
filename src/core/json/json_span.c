#include "holdfast/json_span.h"

#include "holdfast/bytes.h"
#include "holdfast/json_text.h"
#include "holdfast/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Up to this many members are compared pairwise for duplicates; more are sorted. */
#define FEW_MEMBERS 16

struct reader {
	const char *at;
	const char *end;
	const char *odd; /* the last byte that json_span_write() would write differently */
	char *strings; /* where the next string goes */
	struct json_spans *spans;
	int depth;
};

static bool read_value(struct reader *r);

/* --- list --- */

static size_t add(struct reader *r, json_type type)
{
	struct json_spans *spans = r->spans;
	if (spans->count == spans->cap) {
		spans->cap *= 2;
		spans->all = xrealloc(spans->all, spans->cap * sizeof(*spans->all));
	}
	spans->all[spans->count] = (struct json_span){.type = type, .size = 1, .text = r->at};
	return spans->count++;
}

/** Completes a value that is not a string. */
static void end(struct reader *r, size_t index)
{
	struct json_span *span = &r->spans->all[index];
	span->size = (uint32_t)(r->spans->count - index);
	span->len = (size_t)(r->at - span->text);
	span->is_compact = !r->odd || r->odd < span->text;
}

static int compare_names(const void *a, const void *b)
{
	const struct json_span *x = *(const struct json_span *const *)a;
	const struct json_span *y = *(const struct json_span *const *)b;
	if (x->len != y->len) {
		return x->len < y->len ? -1 : 1;
	}
	return memcmp(x->text, y->text, x->len);
}

static bool has_twice_few(const struct json_span *object)
{
	json_span_each_name(name, object) {
		for (const struct json_span *had = object + 1; had < name;
			had = json_span_next(had + 1)) {
			if (compare_names(&had, &name) == 0) {
				return true;
			}
		}
	}
	return false;
}

static bool has_twice_many(const struct json_span *object, size_t count)
{
	const struct json_span **names = xmalloc(count * sizeof(*names));
	size_t n = 0;
	bool found = false;
	json_span_each_name(name, object) {
		names[n++] = name;
	}
	qsort(names, n, sizeof(struct json_span *), compare_names);
	for (size_t i = 1; i < n && !found; i++) {
		found = compare_names(&names[i - 1], &names[i]) == 0;
	}
	free(names);
	return found;
}

/* --- strings --- */

/** Copies up to the first byte that is special in a string, a control character or DEL. */
static void copy_plain(struct reader *r)
{
	while ((size_t)(r->end - r->at) >= BYTES_WORD) {
		uint64_t word = bytes_load(r->at);
		uint64_t found = bytes_below(word, 0x20) | bytes_equal(word, '"') |
				 bytes_equal(word, '\\') | bytes_equal(word, 0x7f);
		size_t len = found ? bytes_first(found) : BYTES_WORD;
		memcpy(r->strings, r->at, BYTES_WORD);
		r->strings += len;
		r->at += len;
		if (found) {
			return;
		}
	}
	while (r->at < r->end && (unsigned char)*r->at >= 0x20 && *r->at != '"' && *r->at != '\\' &&
		*r->at != 0x7f) {
		*r->strings++ = *r->at++;
	}
}

/** Reads the four digits of a \u escape; returns -1 if they are malformed. */
static int read_hex(struct reader *r)
{
	int value = 0;
	if (r->end - r->at < 4) {
		return -1;
	}
	for (int i = 0; i < 4; i++) {
		int digit = bytes_hex_digit(*r->at++);
		if (digit < 0) {
			return -1;
		}
		value = value * 16 + digit;
	}
	return value;
}

static void put_character(struct reader *r, int c)
{
	char *to = r->strings;
	if (c < 0x80) {
		*to++ = (char)c;
	} else {
		if (c < 0x800) {
			*to++ = (char)(0xc0 | c >> 6);
		} else if (c < 0x10000) {
			*to++ = (char)(0xe0 | c >> 12);
			*to++ = (char)(0x80 | (c >> 6 & 0x3f));
		} else {
			*to++ = (char)(0xf0 | c >> 18);
			*to++ = (char)(0x80 | (c >> 12 & 0x3f));
			*to++ = (char)(0x80 | (c >> 6 & 0x3f));
		}
		*to++ = (char)(0x80 | (c & 0x3f));
	}
	r->strings = to;
}

/** Reads the code of a \u escape. Refuses NUL and unpaired surrogates. */
static bool read_unicode(struct reader *r)
{
	int c = read_hex(r);
	if (c >= 0xd800 && c <= 0xdbff) {
		if (r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u') {
			return false;
		}
		r->at += 2;
		int low = read_hex(r);
		if (low < 0xdc00 || low > 0xdfff) {
			return false;
		}
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	} else if (c <= 0 || (c >= 0xdc00 && c <= 0xdfff)) {
		return false;
	}
	put_character(r, c);
	return true;
}

static bool read_escape(struct reader *r)
{
	static const char names[] = "\"\\nrt/bf";
	static const char meanings[] = "\"\\\n\r\t/\b\f";
	const char *escape = r->at++;
	if (r->at == r->end || !*r->at) {
		return false;
	}
	const char *found = strchr(names, *r->at++);
	if (found) {
		*r->strings++ = meanings[found - names];
	}
	if (!found || *found == '/' || *found == 'b' || *found == 'f') {
		r->odd = escape;
	}
	return found || (r->at[-1] == 'u' && read_unicode(r));
}

static bool read_string(struct reader *r)
{
	size_t index = add(r, JSON_STRING);
	char *from = r->strings;
	r->at++;
	for (;;) {
		copy_plain(r);
		if (r->at == r->end) {
			return false;
		}
		if (*r->at == '"') {
			break;
		}
		if (*r->at == 0x7f) {
			r->odd = r->at;
			*r->strings++ = *r->at++;
		} else if (*r->at != '\\' || !read_escape(r)) {
			return false;
		}
	}
	r->at++;
	r->spans->all[index].text = from;
	r->spans->all[index].len = (size_t)(r->strings - from);
	*r->strings++ = '\0';
	return true;
}

/* --- other values --- */

static bool read_digits(struct reader *r)
{
	const char *from = r->at;
	while (r->at < r->end && *r->at >= '0' && *r->at <= '9') {
		r->at++;
	}
	return r->at > from;
}

/** Skips one byte if it is `a` or `b`. */
static bool skip(struct reader *r, char a, char b)
{
	bool is = r->at < r->end && (*r->at == a || *r->at == b);
	r->at += is;
	return is;
}

static bool read_number(struct reader *r)
{
	size_t index = add(r, JSON_INTEGER);
	skip(r, '-', '-');
	if (!skip(r, '0', '0') && !read_digits(r)) {
		return false;
	}
	if (skip(r, '.', '.')) {
		r->spans->all[index].type = JSON_REAL;
		if (!read_digits(r)) {
			return false;
		}
	}
	if (skip(r, 'e', 'E')) {
		r->spans->all[index].type = JSON_REAL;
		skip(r, '+', '-');
		if (!read_digits(r)) {
			return false;
		}
	}
	end(r, index);
	return true;
}

static bool read_literal(struct reader *r, json_type type, const char *text)
{
	size_t len = strlen(text);
	if ((size_t)(r->end - r->at) < len || memcmp(r->at, text, len) != 0) {
		return false;
	}
	size_t index = add(r, type);
	r->at += len;
	end(r, index);
	return true;
}

static void skip_blanks(struct reader *r)
{
	while (r->at < r->end &&
		(*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t')) {
		r->odd = r->at++;
	}
}

static bool read_member(struct reader *r)
{
	if (r->at == r->end || *r->at != '"' || !read_string(r)) {
		return false;
	}
	skip_blanks(r);
	return skip(r, ':', ':') && read_value(r);
}

/** Reads an object or an array. */
static bool read_inside(struct reader *r, json_type type, char closing)
{
	size_t index = add(r, type);
	size_t count = 0;
	bool good = ++r->depth <= JSON_DEPTH_MAX;
	r->at++;
	skip_blanks(r);
	if (good && !skip(r, closing, closing)) {
		do {
			skip_blanks(r);
			good = type == JSON_OBJECT ? read_member(r) : read_value(r);
			count++;
			skip_blanks(r);
		} while (good && skip(r, ',', ','));
		good = good && skip(r, closing, closing);
	}
	r->depth--;
	if (!good) {
		return false;
	}
	end(r, index);
	const struct json_span *span = &r->spans->all[index];
	return type == JSON_ARRAY ||
	       !(count > FEW_MEMBERS ? has_twice_many(span, count) : has_twice_few(span));
}

static bool read_value(struct reader *r)
{
	skip_blanks(r);
	if (r->at == r->end) {
		return false;
	}
	switch (*r->at) {
	case '{':
		return read_inside(r, JSON_OBJECT, '}');
	case '[':
		return read_inside(r, JSON_ARRAY, ']');
	case '"':
		return read_string(r);
	case 't':
		return read_literal(r, JSON_TRUE, "true");
	case 'f':
		return read_literal(r, JSON_FALSE, "false");
	case 'n':
		return read_literal(r, JSON_NULL, "null");
	default:
		return read_number(r);
	}
}

int json_spans_read(const char *text, size_t len, struct json_spans *ret)
{
	if (!utf8_is_valid(text, len) || len > UINT32_MAX) {
		return -EINVAL;
	}
	*ret = (struct json_spans){.cap = 32};
	ret->all = xmalloc(ret->cap * sizeof(*ret->all));
	/*
	 * A string with its NUL is shorter than with its quotes. The extra word is for copying by
	 * words.
	 */
	ret->strings = xmalloc(len + BYTES_WORD);
	struct reader r = {.at = text, .end = text + len, .strings = ret->strings, .spans = ret};
	bool good = read_value(&r);
	skip_blanks(&r);
	if (!good || r.at < r.end) {
		json_spans_finish(ret);
		return -EINVAL;
	}
	return 0;
}

void json_spans_finish(struct json_spans *spans)
{
	free(spans->all);
	free(spans->strings);
	*spans = (struct json_spans){0};
}

/* --- access --- */

const struct json_span *json_span_get(const struct json_span *object, const char *name)
{
	size_t len = strlen(name);
	if (!json_span_is(object, JSON_OBJECT)) {
		return NULL;
	}
	json_span_each_name(span, object) {
		if (span->len == len && memcmp(span->text, name, len) == 0) {
			return span + 1;
		}
	}
	return NULL;
}

const char *json_span_string(const struct json_span *object, const char *name)
{
	const struct json_span *value = json_span_get(object, name);
	return json_span_is(value, JSON_STRING) ? value->text : NULL;
}

size_t json_span_array_size(const struct json_span *array)
{
	size_t count = 0;
	if (json_span_is(array, JSON_ARRAY)) {
		json_span_each(span, array) {
			count++;
		}
	}
	return count;
}

bool json_span_count(const struct json_span *span, uint64_t *ret)
{
	uint64_t value = 0;
	if (!json_span_is(span, JSON_INTEGER)) {
		return false;
	}
	const char *digit = span->text + (span->text[0] == '-');
	for (; digit < span->text + span->len && value <= JSON_SAFE_MAX; digit++) {
		value = value * 10 + (uint64_t)(*digit - '0');
	}
	bool is_count = value == 0 || (span->text[0] != '-' && value <= JSON_SAFE_MAX);
	if (is_count) {
		*ret = value;
	}
	return is_count;
}

/** Also writes a name of an object. */
void json_span_write(struct buffer *out, const struct json_span *span)
{
	bool is_object = span->type == JSON_OBJECT;
	if (span->type == JSON_STRING) {
		buffer_append_json(out, span->text, span->len);
		return;
	}
	if (span->is_compact || !(is_object || span->type == JSON_ARRAY)) {
		buffer_append(out, span->text, span->len);
		return;
	}
	buffer_append_char(out, is_object ? '{' : '[');
	const char *separator = "";
	for (const struct json_span *at = span + 1; at < json_span_next(span);
		at = json_span_next(at)) {
		buffer_append_str(out, separator);
		json_span_write(out, at);
		if (is_object) {
			buffer_append_char(out, ':');
			json_span_write(out, ++at);
		}
		separator = ",";
	}
	buffer_append_char(out, is_object ? '}' : ']');
}
