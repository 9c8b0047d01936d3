#include "holdfast/diag.h"

#include <stdarg.h>
#include <stdio.h>

static enum diag_level diag_max = DIAG_INFO;

void diag_set_level(enum diag_level level)
{
	diag_max = level;
}

void diag(enum diag_level level, const char *fmt, ...)
{
	static const char *const names[] = {"error", "warning", "info", "debug"};
	if (level > diag_max) {
		return;
	}
	char text[2048];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	fprintf(stderr, "holdfast: %s: %s\n", names[level], text);
}
