/*
 * Durable Streams (protocol draft 1.0), read side: session positions as offsets, and the content of
 * its streams of server-sent events. Pure.
 */
#ifndef HOLDFAST_DS_H
#define HOLDFAST_DS_H

#include "holdfast/event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Where a client wants to start reading. */
struct ds_offset {
	enum { DS_BEGIN, DS_NOW, DS_AT } kind; /* "-1", "now", or an earlier offset */
	uint64_t epoch;
	uint64_t seq; /* the client has everything up to this event */
};

/*
 * Size of an offset with its NUL: an epoch, an underscore, 16 digits. Within an epoch offsets sort
 * as text.
 */
#define DS_OFFSET_SIZE 34

/** Parses an offset. Returns false if it is malformed. */
bool ds_offset_read(const char *text, size_t len, struct ds_offset *ret);
void ds_offset_write(char ret[DS_OFFSET_SIZE], uint64_t epoch, uint64_t seq);

/**
 * Returns the number of the current 20-second interval, by which caches distinguish responses of
 * different times; at least `least`. `now_ms` is in ms since 1970.
 */
uint64_t ds_cursor(int64_t now_ms, uint64_t least);
/**
 * Returns the `least` for ds_cursor() from the cursor that a client sent: one later than that by a
 * `random` amount if the client has the current interval's already, so that it never asks for the
 * same URL twice; 0 if its cursor is older or malformed.
 */
uint64_t ds_cursor_behind(const char *text, int64_t now_ms, unsigned random);

/** Appends the events as a JSON array: the content of a page. */
void ds_append_events(struct buffer *out, struct event **events, size_t count,
	enum event_format format, unsigned hide);
/** Appends the SSE event named `data` with that array. */
void ds_append_data(struct buffer *out, struct event **events, size_t count,
	enum event_format format, unsigned hide);
/** Appends the SSE event named `control` that follows it. */
void ds_append_control(
	struct buffer *out, uint64_t epoch, uint64_t seq, uint64_t cursor, bool is_up_to_date);

#endif
