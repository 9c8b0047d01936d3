/*
 * Raw streams of Durable Streams (protocol draft 1.0) on the wire: names, numbers and times of their
 * headers, JSON as it is stored, and what their streams of server-sent events carry. Pure.
 */
#ifndef HOLDFAST_RAW_WIRE_H
#define HOLDFAST_RAW_WIRE_H

#include "holdfast/frames.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where they are. */
#define RAW_PATH "/v1/stream/"

/** Whether a decoded path is one of theirs, or of all of them. */
bool raw_is_path(const char *path);
/**
 * The name in a decoded path: parts with a slash between them, of printable UTF-8, none of them "." or "..", at most `most`
 * bytes. NULL: it is none.
 */
const char *raw_name(const char *path, size_t most);

/** Where a client begins to read. */
struct raw_offset {
	enum { RAW_BEGIN, RAW_NOW, RAW_AT } kind; /* "-1", "now", or one that it was given */
	uint64_t at;
};
/* An offset and its NUL: 16 zeros, an underscore, 16 digits. They sort as text. */
#define RAW_OFFSET_SIZE 34
/** False: it is none. */
bool raw_offset_read(const char *text, struct raw_offset *ret);
void raw_offset_write(char ret[RAW_OFFSET_SIZE], uint64_t at);

/** A whole number in digits, up to 2^53 - 1; `plain`: without zeros in front. False: it is none. */
bool raw_number_read(const char *text, bool plain, uint64_t *ret);
/** A time of RFC 3339, such as 2026-11-27T14:00:00.5+01:00, in ms since 1970. False: it is none. */
bool raw_time_read(const char *text, int64_t *ret);

/** Whether it begins with a type and a subtype and has no control characters. */
bool raw_type_is_valid(const char *type);
bool raw_type_is_json(const char *type);
/** Whether server-sent events carry it as it is; else in base64. */
bool raw_type_is_text(const char *type);

/**
 * JSON as it is stored: each message a line. Of an array its elements are the messages. -EINVAL if it is no JSON, -ENODATA if the array is empty.
 */
int raw_json_store(const char *text, size_t len, struct buffer *out);
/** Such lines as the array that a reader gets. */
void raw_json_show(const char *lines, size_t len, struct buffer *out);

/** How server-sent events carry bytes. */
enum raw_mode { RAW_MODE_TEXT, RAW_MODE_JSON, RAW_MODE_BASE64 };
enum raw_mode raw_mode_of(const char *type);
/** Where a reader is. */
struct raw_place {
	uint64_t at; /* it has everything up to there */
	uint64_t cursor;
	bool is_up_to_date;
	bool is_closed; /* nothing will follow */
};
/**
 * Bytes as an event of the name `data`, if there are any, and one of the name `control` behind it. One
 * reference, the caller's.
 */
struct frame *raw_events(
	const char *bytes, size_t len, enum raw_mode mode, const struct raw_place *place);

#endif
