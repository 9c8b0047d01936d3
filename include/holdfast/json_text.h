/*
 * Reads and writes JSON with numbers spelled as they were received. jansson has only int64 and
 * double: 1.50 would come out as 1.5, and 12345678901234567890 would be refused. The spelling of
 * such a number is remembered by the address of its json_t, so pass on the json_t that was read (a
 * shallow copy keeps it, a deep copy does not).
 */
#ifndef HOLDFAST_JSON_TEXT_H
#define HOLDFAST_JSON_TEXT_H

#include "holdfast/buffer.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* 2^53 - 1, the largest whole number that every JSON reader keeps exact (JavaScript's safe ones). */
#define JSON_SAFE_MAX INT64_C(9007199254740991)
/* How deep JSON from outside may nest: a parser recurses as deep. */
#define JSON_DEPTH_MAX 64

/** The numbers whose spelling differs from the canonical one, with references to their json_t. */
struct json_numbers;

/** Owned by the caller. */
struct json_numbers *json_numbers_create(void);
/** Accepts NULL. */
void json_numbers_destroy(struct json_numbers *numbers);
/**
 * Forgets the numbers to which nobody else holds a reference. Costs nothing when none are
 * remembered.
 */
void json_numbers_sweep(struct json_numbers *numbers);

/**
 * Like json_loadb(), but accepts numbers of any size: one beyond the range of int64 or double
 * becomes the nearest real. The spelling of numbers is remembered in `numbers`. `numbers` and
 * `error` may be NULL.
 */
json_t *json_read(const char *text, size_t len, size_t flags, struct json_numbers *numbers,
	json_error_t *error);
/**
 * Appends a value as compact JSON. A number that is not in `numbers` (may be NULL) is written as
 * the shortest text that reads back as the same value.
 */
void json_write(struct buffer *out, const json_t *value, const struct json_numbers *numbers);
/** Like json_write(), but returns a new string, which the caller frees. */
char *json_text(const json_t *value, const struct json_numbers *numbers);
/**
 * Reads a whole number in any of the spellings that others use for one: 7, 7.0, 7e0, or one of these as
 * a string. Returns false if the value is none, or beyond what they all can say (JSON_SAFE_MAX).
 */
bool json_whole(const json_t *value, json_int_t *ret);
/** Gets a member that is an integer of 0 or more; false, with 0 or a wrong value, if it is not. */
bool json_take_number(const json_t *json, const char *name, uint64_t *ret);
/**
 * Returns the length of the first array or object in `text`, with what is in front of it; 0 if its
 * end is missing. Sets `ret_deepest` to how deep it nests.
 */
size_t json_nesting(const char *text, size_t len, int *ret_deepest);
/** Whether that is deeper than JSON_DEPTH_MAX; a parser would recurse as deep. */
bool json_is_deep(const char *text, size_t len);

#endif
