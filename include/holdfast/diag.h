/*
 * Holdfast's diagnostic messages on stderr: `holdfast: LEVEL: text`, or JSON objects with the time.
 * ("log" always means the event log.) A function that returns an error does not print it; the one
 * that ends the matter does, once. All text is made safe for a terminal (diag_clean()). Level and
 * format are process-wide state.
 */
#ifndef HOLDFAST_DIAG_H
#define HOLDFAST_DIAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buffer;

enum diag_level { DIAG_SILENT = -1, DIAG_ERROR, DIAG_WARN, DIAG_INFO, DIAG_DEBUG };

/** Rate limit of a message that can repeat endlessly. Zero-initialise. */
struct diag_limit {
	int64_t next_ms; /* CLOCK_MONOTONIC; no line is printed before it */
	uint64_t left_out; /* lines suppressed since the last one printed */
};

/* Counts messages of one kind in the current minute. Zero-initialise. */
struct diag_rate {
	uint64_t window_ms;
	unsigned count;
	unsigned dropped;
};

/**
 * Messages above this level are dropped (DIAG_SILENT drops all). The initial level is DIAG_INFO.
 */
void diag_set_level(enum diag_level level);
/** Whether messages of this level are printed; ask before building an expensive one. */
bool diag_shows(enum diag_level level);
/**
 * With `json`, each message is printed as `{"ts", "level", "msg", "session"?, "traceparent"?,
 * "left_out"?}`, `ts` in UTC. The default is text.
 */
void diag_set_json(bool json);
/**
 * Prints a line that people wait for, whatever the level: `holdfast: text` without a level (in
 * JSON, level "info").
 */
__attribute__((format(printf, 1, 2))) void diag_say(const char *fmt, ...);
/** Prints one line. Name the session, seq and client it is about, never a pointer. */
__attribute__((format(printf, 2, 3))) void diag(enum diag_level level, const char *fmt, ...);
/**
 * Like diag(), but prints at most one line in ten seconds per `limit`, and says how many were
 * suppressed before it.
 */
__attribute__((format(printf, 3, 4))) void diag_limited(
	struct diag_limit *limit, enum diag_level level, const char *fmt, ...);
/**
 * Returns whether a line can be printed at `now_ms` (CLOCK_MONOTONIC), and if so, how many were
 * suppressed before it.
 */
bool diag_limit_take(struct diag_limit *limit, int64_t now_ms, uint64_t *ret_left_out);
/**
 * Returns whether one more message is allowed in this minute. *ret_dropped is nonzero for the first
 * message of a new minute, if some were dropped in the one before.
 */
bool diag_rate_take(
	struct diag_rate *r, unsigned per_minute, uint64_t now_ms, unsigned *ret_dropped);

/* --- what a terminal may get --- */

/**
 * Returns the length of the character that begins the text if a terminal must not get it, or 0: an
 * invalid byte, a control character (newlines and tabs too), or one that is invisible or changes
 * how others are shown (utf8_is_hidden()). All that shows text of others asks here.
 */
size_t diag_unsafe(const char *text, size_t len);
/**
 * Appends text made safe for a terminal, in one line: no escape sequences, no control characters,
 * nothing invisible, valid UTF-8.
 */
void diag_clean(struct buffer *out, const char *text, size_t len);
/** Likewise, with each byte made visible that a terminal must not get: `\x1b`. */
void diag_show(struct buffer *out, const char *text, size_t len);
/** Like diag_clean(), JSON without a change of its values: what a terminal must not get is escaped. */
void diag_clean_json(struct buffer *out, const char *json, size_t len);
/** Writes bytes to stdout that are safe already. */
void diag_print_bytes(const char *bytes, size_t len);
/** Likewise text of this program, without a newline at its end. */
__attribute__((format(printf, 1, 2))) void diag_print_text(const char *fmt, ...);
/**
 * Flushes stdout. Returns 0, or the negative errno of the first write to it that has failed; what a
 * command has printed is then incomplete.
 */
int diag_flush(void);
/** Prints a line on stdout, made safe by diag_clean(): what a command answers. */
__attribute__((format(printf, 1, 2))) void diag_print(const char *fmt, ...);
/** Likewise JSON, made safe by diag_clean_json(). */
void diag_print_json(const char *json, size_t len);

#endif
