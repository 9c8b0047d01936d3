/*
 * JSON from outside, read in one pass without a tree: a list of its values, in the order of the
 * text, that says where each is. What is only passed on is never taken apart. It takes and refuses
 * what json_parse() does, which holds it against jansson (tests/unit/test_json_span.c).
 */
#ifndef HOLDFAST_JSON_SPAN_H
#define HOLDFAST_JSON_SPAN_H

#include "holdfast/buffer.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/** One value. The values inside of it follow: of an object a name, its value, the next name, … */
struct json_span {
	json_type type; /* JSON_REAL: a number with a fraction or an exponent, of any size */
	bool is_compact; /* the text is as json_span_write() would write it; not of strings */
	uint32_t size; /* how many values it is, with those inside of it */
	const char *text; /* of a string what it says, with a NUL behind it; else the JSON */
	size_t len;
};

struct json_spans {
	struct json_span *all; /* the first is the whole text */
	size_t count;
	size_t cap;
	char *strings;
};

/**
 * Reads one JSON value of any kind: valid UTF-8, no NUL in strings, no member twice, at most
 * JSON_DEPTH_MAX levels deep. The spans borrow `text`. -EINVAL if it is anything else; then `ret`
 * is as it was, or zeroed.
 */
int json_spans_read(const char *text, size_t len, struct json_spans *ret);
/** Zeroed ones are fine. */
void json_spans_finish(struct json_spans *spans);

/** What follows the value and all that is inside of it. */
static inline const struct json_span *json_span_next(const struct json_span *span)
{
	return span + span->size;
}

/** Each value of an array, or each name of an object; its value is `span + 1`. */
#define json_span_each(span, array)                                                    \
	for (const struct json_span *span = (array) + 1; span < json_span_next(array); \
		span = json_span_next(span))
#define json_span_each_name(span, object)                                                \
	for (const struct json_span *span = (object) + 1; span < json_span_next(object); \
		span = json_span_next(span + 1))

/** A member of an object; NULL if it has none of that name, or is NULL, or no object. */
const struct json_span *json_span_get(const struct json_span *object, const char *name);
/** How many values an array has; 0 if it is NULL, or none. */
size_t json_span_array_size(const struct json_span *array);
static inline bool json_span_is(const struct json_span *span, json_type type)
{
	return span && span->type == type;
}
static inline bool json_span_says(const struct json_span *span, const char *text)
{
	return json_span_is(span, JSON_STRING) && strcmp(span->text, text) == 0;
}
/** A whole number from 0 to 2^53 - 1; false, and *ret as it was, if it is NULL, or anything else. */
bool json_span_count(const struct json_span *span, uint64_t *ret);

/** Appends a value as json_write() would: compact, numbers as they came, the fewest escapes. */
void json_span_write(struct buffer *out, const struct json_span *span);

#endif
