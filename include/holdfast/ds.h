/*
 * Durable Streams (protocol draft 1.0), read side: positions in a session as offsets, and what its
 * streams of server-sent events carry. Pure.
 */
#ifndef HOLDFAST_DS_H
#define HOLDFAST_DS_H

#include "holdfast/frames.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Where a client begins to read. */
struct ds_offset {
	enum { DS_BEGIN, DS_NOW, DS_AT } kind; /* "-1", "now", or one that it was given */
	uint64_t epoch;
	uint64_t seq; /* it has everything up to this event */
};

/* An offset and its NUL: an epoch, an underscore, 16 digits. Within an epoch they sort as text. */
#define DS_OFFSET_SIZE 34

/** False: it is none. */
bool ds_offset_read(const char *text, size_t len, struct ds_offset *ret);
void ds_offset_write(char ret[DS_OFFSET_SIZE], uint64_t epoch, uint64_t seq);

/**
 * The number of the interval of 20 s, by which caches tell answers of different times apart; at least
 * `least`. `now_ms`: since 1970.
 */
uint64_t ds_cursor(int64_t now_ms, uint64_t least);
/**
 * The least cursor of a client that says which one it had: if it had this interval's already, a later one, by
 * `random`, so that it never asks for the same twice. 0: what it says is none, or an earlier one.
 */
uint64_t ds_cursor_behind(const char *text, int64_t now_ms, unsigned random);

/**
 * Events as an event of the name `data`, an array of JSON; nothing at all if there are none. One reference,
 * the caller's.
 */
struct frame *ds_events(
	struct event **events, size_t count, enum event_format format, unsigned hide);
/** The array in such a frame; `[]` if it has none. */
const char *ds_events_json(const struct frame *frame, size_t *ret_len);
/** The event of the name `control` behind it. */
struct frame *ds_control(uint64_t epoch, uint64_t seq, uint64_t cursor, bool is_up_to_date);

#endif
