#include "holdfast/diag.h"

#include "holdfast/buffer.h"
#include "holdfast/clock.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define LIMIT_MS       10000
#define RATE_WINDOW_MS 60000

static enum diag_level diag_max = DIAG_INFO;
static bool diag_is_json;

void diag_set_level(enum diag_level level)
{
	diag_max = level;
}

bool diag_shows(enum diag_level level)
{
	return level <= diag_max;
}

void diag_set_json(bool json)
{
	diag_is_json = json;
}

static void append_time(struct buffer *out)
{
	struct timespec now;
	struct tm tm;
	char text[32];
	clock_gettime(CLOCK_REALTIME, &now);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", gmtime_r(&now.tv_sec, &tm));
	buffer_printf(out, "{\"ts\":\"%s.%03ldZ\"", text, now.tv_nsec / 1000000);
}

/** Appends the ID of a message that starts with `session ID:` as a member of its own. */
static void append_session(struct buffer *out, const char *text)
{
	static const char front[] = "session ";
	size_t begin = sizeof(front) - 1;
	size_t all = strlen(text);
	if (all <= begin || memcmp(text, front, begin) != 0) {
		return;
	}
	/* Not strcspn(): under UBSan, gcc 14 warns that the pointer could be NULL. */
	const char *colon = memchr(text + begin, ':', all - begin);
	size_t len = colon ? (size_t)(colon - text) - begin : 0;
	if (len && !memchr(text + begin, ' ', len)) {
		buffer_append_str(out, ",\"session\":");
		buffer_append_json(out, text + begin, len);
	}
}

/** Likewise the ID of a message that ends with ` (traceparent ID)`. */
static void append_trace(struct buffer *out, const char *text)
{
	static const char front[] = " (traceparent ";
	const char *at = strstr(text, front);
	if (!at) {
		return;
	}
	const char *id = at + sizeof(front) - 1;
	size_t len = strcspn(id, ")");
	if (len && strcmp(id + len, ")") == 0) {
		buffer_append_str(out, ",\"traceparent\":");
		buffer_append_json(out, id, len);
	}
}

/** Writes the line with one call, so that lines of several threads do not mix. */
static void print_json(const char *level, const char *text, uint64_t left_out)
{
	struct buffer out = {0};
	struct buffer clean = {0};
	diag_clean(&clean, text, strlen(text));
	append_time(&out);
	buffer_printf(&out, ",\"level\":\"%s\",\"msg\":", level);
	buffer_append_json(&out, clean.data ? clean.data : "", clean.len);
	append_session(&out, text);
	append_trace(&out, text);
	if (left_out) {
		buffer_printf(&out, ",\"left_out\":%" PRIu64, left_out);
	}
	buffer_append_str(&out, "}\n");
	fwrite(out.data, 1, out.len, stderr);
	buffer_finish(&clean);
	buffer_finish(&out);
}

void diag_say(const char *fmt, ...)
{
	char text[2048];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (diag_is_json) {
		print_json("info", text, 0);
	} else {
		fprintf(stderr, "holdfast: %s\n", text);
	}
}

/** Prints a line; `left_out` like it were suppressed before. */
static void print_line(enum diag_level level, uint64_t left_out, const char *fmt, va_list args)
{
	static const char *const names[] = {"error", "warning", "info", "debug"};
	char text[2048];
	char more[64] = "";
	vsnprintf(text, sizeof(text), fmt, args);
	if (diag_is_json) {
		print_json(names[level], text, left_out);
		return;
	}
	if (left_out > 0) {
		snprintf(more, sizeof(more), " (and %" PRIu64 " more like this before it)",
			left_out);
	}
	fprintf(stderr, "holdfast: %s: %s%s\n", names[level], text, more);
}

void diag(enum diag_level level, const char *fmt, ...)
{
	if (level > diag_max) {
		return;
	}
	va_list args;
	va_start(args, fmt);
	print_line(level, 0, fmt, args);
	va_end(args);
}

bool diag_limit_take(struct diag_limit *limit, int64_t now_ms, uint64_t *ret_left_out)
{
	if (now_ms < limit->next_ms) {
		limit->left_out++;
		return false;
	}
	*ret_left_out = limit->left_out;
	*limit = (struct diag_limit){.next_ms = now_ms + LIMIT_MS};
	return true;
}

void diag_limited(struct diag_limit *limit, enum diag_level level, const char *fmt, ...)
{
	uint64_t left_out;
	if (level > diag_max || !diag_limit_take(limit, clock_steady_ms(), &left_out)) {
		return;
	}
	va_list args;
	va_start(args, fmt);
	print_line(level, left_out, fmt, args);
	va_end(args);
}

bool diag_rate_take(
	struct diag_rate *r, unsigned per_minute, uint64_t now_ms, unsigned *ret_dropped)
{
	*ret_dropped = 0;
	if (now_ms - r->window_ms >= RATE_WINDOW_MS) {
		*ret_dropped = r->dropped;
		*r = (struct diag_rate){.window_ms = now_ms};
	}
	if (r->count >= per_minute) {
		r->dropped++;
		return false;
	}
	r->count++;
	return true;
}
