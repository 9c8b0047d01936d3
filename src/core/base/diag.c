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

/** Prints a line; no level: of diag_say(). `left_out` like it were suppressed before. */
__attribute__((format(printf, 3, 0))) static void print_line(
	const char *level, uint64_t left_out, const char *fmt, va_list args)
{
	char text[2048];
	struct buffer clean = {0};
	struct buffer out = {0};
	int len = vsnprintf(text, sizeof(text), fmt, args);
	/* Parts of a message can come from outside. */
	diag_clean(&clean, text, len < 0 ? 0 : strnlen(text, sizeof(text)));
	const char *shown = buffer_cstr(&clean);
	if (diag_is_json) {
		append_time(&out);
		buffer_printf(&out, ",\"level\":\"%s\",\"msg\":", level ? level : "info");
		buffer_append_json(&out, shown, clean.len);
		append_session(&out, shown);
		append_trace(&out, shown);
		if (left_out) {
			buffer_printf(&out, ",\"left_out\":%" PRIu64, left_out);
		}
		buffer_append_char(&out, '}');
	} else {
		buffer_printf(
			&out, "holdfast: %s%s%s", level ? level : "", level ? ": " : "", shown);
		if (left_out) {
			buffer_printf(
				&out, " (and %" PRIu64 " more like this before it)", left_out);
		}
	}
	buffer_append_char(&out, '\n');
	/* One call, so that lines of several threads do not mix. */
	fwrite(out.data, 1, out.len, stderr);
	buffer_finish(&clean);
	buffer_finish(&out);
}

void diag_say(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	print_line(NULL, 0, fmt, args);
	va_end(args);
}

static const char *const names[] = {"error", "warning", "info", "debug"};

void diag(enum diag_level level, const char *fmt, ...)
{
	if (level > diag_max) {
		return;
	}
	va_list args;
	va_start(args, fmt);
	print_line(names[level], 0, fmt, args);
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
	print_line(names[level], left_out, fmt, args);
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
