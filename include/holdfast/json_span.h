/*
 * Parses untrusted JSON in one pass and without a tree, into a list of values in text order. Values
 * that are only passed on need no further work. Accepts exactly what json_parse() accepts, which
 * tests/unit/test_json_span.c checks against jansson.
 */
#ifndef HOLDFAST_JSON_SPAN_H
#define HOLDFAST_JSON_SPAN_H

#include "holdfast/buffer.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/**
 * One value, followed by the values inside it; for an object: a name, its value, the next name, …
 */
struct json_span {
	json_type type; /* JSON_REAL: a number of any size with a fraction or an exponent */
	bool is_compact; /* not of strings: json_span_write() would write the text as it is */
	uint32_t size; /* number of values, including those inside it */
	const char *text; /* a string's content, NUL-terminated; else the JSON */
	size_t len;
};

struct json_spans {
	struct json_span *all; /* the first is the whole text */
	size_t count;
	size_t cap;
	char *strings;
};

/**
 * Parses one JSON value of any kind: valid UTF-8, no NUL in strings, no duplicate members, at most
 * JSON_DEPTH_MAX levels deep. The spans borrow `text`. Returns 0, or -EINVAL; then `ret` is
 * unchanged or zeroed. Free with json_spans_finish().
 */
int json_spans_read(const char *text, size_t len, struct json_spans *ret);
/** Accepts zeroed spans. */
void json_spans_finish(struct json_spans *spans);

/** Returns the value after this one, skipping those inside it. */
static inline const struct json_span *json_span_next(const struct json_span *span)
{
	return span + span->size;
}

/**
 * Iterate over the values of an array, or over the names of an object; the value of a name is `span
 * + 1`.
 */
#define json_span_each(span, array)                                                    \
	for (const struct json_span *span = (array) + 1; span < json_span_next(array); \
		span = json_span_next(span))
#define json_span_each_name(span, object)                                                \
	for (const struct json_span *span = (object) + 1; span < json_span_next(object); \
		span = json_span_next(span + 1))

/**
 * Returns the value of a member, or NULL if `object` has no such member, is NULL, or is not an
 * object.
 */
const struct json_span *json_span_get(const struct json_span *object, const char *name);
/** Returns the text of a member that is a string; else NULL. */
const char *json_span_string(const struct json_span *object, const char *name);
/** Returns the length of an array; 0 if it is NULL or not an array. */
size_t json_span_array_size(const struct json_span *array);
static inline bool json_span_is(const struct json_span *span, json_type type)
{
	return span && span->type == type;
}
static inline bool json_span_says(const struct json_span *span, const char *text)
{
	return json_span_is(span, JSON_STRING) && strcmp(span->text, text) == 0;
}
/**
 * Reads a whole number from 0 to 2^53 - 1. Returns false and leaves *ret alone if the span is NULL
 * or anything else.
 */
bool json_span_count(const struct json_span *span, uint64_t *ret);

/** Appends a value as json_write() would: compact, numbers verbatim, with the fewest escapes. */
void json_span_write(struct buffer *out, const struct json_span *span);

#endif
