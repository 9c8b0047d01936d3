/*
 * JSON texts, read and written with their numbers as they came. jansson has numbers as int64 and
 * double only: 1.50 would come out as 1.5, and 12345678901234567890 would not come in. How such a
 * number was written is remembered beside it, by its json_t, which therefore has to be the one
 * that was read (a shallow copy keeps it, a deep copy does not).
 */
#ifndef HOLDFAST_JSON_TEXT_H
#define HOLDFAST_JSON_TEXT_H

#include "holdfast/buffer.h"

#include <jansson.h>

/** Numbers whose text is not what their value is written as. */
struct json_numbers;

struct json_numbers *json_numbers_create(void);
/** Accepts NULL. */
void json_numbers_destroy(struct json_numbers *numbers);
/** Forgets the numbers that nobody else has any more. Costs nothing if none came since. */
void json_numbers_sweep(struct json_numbers *numbers);

/**
 * json_loadb(), but a number of any size is good: one beyond int64 or double is a real next to it.
 * With `numbers` (may be NULL) the text of each is remembered. `error` may be NULL.
 */
json_t *json_read(const char *text, size_t len, size_t flags, struct json_numbers *numbers,
	json_error_t *error);
/**
 * Appends a value as compact JSON. A number that `numbers` (may be NULL) does not have is written
 * as the shortest text that is read as the same value.
 */
void json_write(struct buffer *out, const json_t *value, const struct json_numbers *numbers);
/** The same as a string of its own. */
char *json_text(const json_t *value, const struct json_numbers *numbers);

#endif
