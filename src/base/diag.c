#include "holdfast/diag.h"

#include "holdfast/clock.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define LIMIT_MS       10000
#define RATE_WINDOW_MS 60000

static enum diag_level diag_max = DIAG_INFO;

void diag_set_level(enum diag_level level)
{
	diag_max = level;
}

/** `left_out` lines like this one were not printed. */
static void print_line(enum diag_level level, uint64_t left_out, const char *fmt, va_list args)
{
	static const char *const names[] = {"error", "warning", "info", "debug"};
	char text[2048];
	char more[64] = "";
	vsnprintf(text, sizeof(text), fmt, args);
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
