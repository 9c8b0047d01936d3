/*
 * The wire format of raw Durable Streams (protocol draft 1.0): names; numbers in headers;
 * the stored form of JSON; and the content of their server-sent events. Pure.
 */
#ifndef HOLDFAST_RAW_WIRE_H
#define HOLDFAST_RAW_WIRE_H

#include "holdfast/frames.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The path of raw streams. */
#define RAW_PATH "/v1/stream/"

/**
 * Returns the name in a decoded path: parts separated by slashes, of printable UTF-8 without
 * backslashes, none of them "." or "..", at most `most` bytes. Returns NULL if it is invalid, or has
 * the part "__ds", which the protocol reserves for what it says about streams, such as subscriptions.
 */
const char *raw_name(const char *path, size_t most);

/** Where a client wants to start reading. */
struct raw_offset {
	enum { RAW_BEGIN, RAW_NOW, RAW_AT } kind; /* "-1", "now", or an earlier offset */
	uint64_t at;
};
/* Size of an offset with its NUL: 16 zeros, an underscore, 16 digits. Offsets sort as text. */
#define RAW_OFFSET_SIZE 34
/** Parses an offset. Returns false if it is malformed. */
bool raw_offset_read(const char *text, struct raw_offset *ret);
void raw_offset_write(char ret[RAW_OFFSET_SIZE], uint64_t at);

/**
 * Reads a decimal number up to 2^53 - 1, of digits alone. With `plain`, without leading zeros, as the
 * protocol asks for Stream-TTL (5.1); of producers' numbers (5.2.1) it does not. Returns false if it is
 * malformed.
 */
bool raw_number_read(const char *text, bool plain, uint64_t *ret);

/** Whether a content type begins with a type and a subtype and is printable ASCII. */
bool raw_type_is_valid(const char *type);
/** Whether a content type is application/json, with or without parameters. */
bool raw_type_is_json(const char *type);
/** Whether server-sent events carry this type verbatim; otherwise in base64. */
bool raw_type_is_text(const char *type);

/**
 * Appends JSON in its stored form: each message on a line; the elements of an array are the
 * messages. Returns 0, -EINVAL if the text is not JSON, or -ENODATA if the array is empty.
 */
int raw_json_store(const char *text, size_t len, struct buffer *out);
/** Appends such lines as the array that readers get. */
void raw_json_show(const char *lines, size_t len, struct buffer *out);

/** How bytes are carried in server-sent events. */
enum raw_mode { RAW_MODE_TEXT, RAW_MODE_JSON, RAW_MODE_BASE64 };
enum raw_mode raw_mode_of(const char *type);
/** The position of a reader. */
struct raw_place {
	uint64_t at; /* it has everything up to this offset */
	uint64_t cursor;
	bool is_up_to_date;
	bool is_closed; /* the stream is closed */
};
/**
 * Makes an SSE event named `data` with the bytes, unless there are none, followed by one named
 * `control`. One reference, the caller's.
 */
struct frame *raw_events(
	const char *bytes, size_t len, enum raw_mode mode, const struct raw_place *place);

#endif
