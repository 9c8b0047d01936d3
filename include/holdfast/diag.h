/*
 * Holdfast's own messages, on stderr: `holdfast: LEVEL: text`, or objects of JSON with the time.
 * ("log" always means the event log.) A module that returns an error does not print it; relay/, net/
 * and agent/ print, once. Level and form are the program's only static state.
 */
#ifndef HOLDFAST_DIAG_H
#define HOLDFAST_DIAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buffer;

enum diag_level { DIAG_SILENT = -1, DIAG_ERROR, DIAG_WARN, DIAG_INFO, DIAG_DEBUG };

/** A message that may repeat without end has one of these; all zero at first. */
struct diag_limit {
	int64_t next_ms; /* CLOCK_MONOTONIC: before this no line goes out */
	uint64_t left_out; /* since the last line */
};

/* How many messages of one kind were let through in the current minute; all zero at first. */
struct diag_rate {
	uint64_t window_ms;
	unsigned count;
	unsigned dropped;
};

/** Messages above this level are dropped (DIAG_SILENT: all of them); DIAG_INFO at start. */
void diag_set_level(enum diag_level level);
/** Whether one of this level goes out, for messages that take work to make. */
bool diag_shows(enum diag_level level);
/**
 * Each message is `{"ts", "level", "msg", "session"?, "traceparent"?}` from now on, `ts` in UTC; at start it is
 * text.
 */
void diag_set_json(bool json);
/** A line without a level, `holdfast: text`, or one of level "info": for what people wait for. */
__attribute__((format(printf, 1, 2))) void diag_say(const char *fmt, ...);
/** Writes one line; name the session, seq and client it speaks of, never a pointer. */
__attribute__((format(printf, 2, 3))) void diag(enum diag_level level, const char *fmt, ...);
/**
 * The same, but of all lines with this limit at most one in ten seconds goes out. It says how many
 * were left out before it.
 */
__attribute__((format(printf, 3, 4))) void diag_limited(
	struct diag_limit *limit, enum diag_level level, const char *fmt, ...);
/** Whether a line may go out at `now_ms`, and how many were left out before it. */
bool diag_limit_take(struct diag_limit *limit, int64_t now_ms, uint64_t *ret_left_out);
/** Whether one more may go out; *ret_dropped is how many were dropped in the minute before. */
bool diag_rate_take(
	struct diag_rate *r, unsigned per_minute, uint64_t now_ms, unsigned *ret_dropped);
/**
 * Appends text made fit for a terminal: no escape sequences, no control characters, valid UTF-8.
 */
void diag_clean(struct buffer *out, const char *text, size_t len);

#endif
