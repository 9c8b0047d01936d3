/* What the commands share: their arguments, and how they show that they are at work. */
#ifndef HOLDFAST_TOOLS_INTERNAL_H
#define HOLDFAST_TOOLS_INTERNAL_H

#include "holdfast/tools.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOOL_FAILED 2 /* exit code: it could not be done */

/* --- arguments (options.c) --- */

struct tool_option {
	const char *flag;
	const char *argument; /* NULL: it takes none */
	const char *help;
};

struct tool {
	const char *usage; /* behind "holdfast " */
	const char *help;
	const struct tool_option *options; /* ended by one without a flag */
	size_t words_min;
	size_t words_max;
};

/**
 * Sorts arguments into `words` (room for words_max, NULL where there is none) and `values` (one for
 * each option; of one without an argument its flag). Returns 0; 1 if --help has been answered; or
 * -EINVAL after saying what is wrong.
 */
int tool_parse(
	const struct tool *tool, int argc, char **argv, const char *words[], const char *values[]);
/** Says that an option's value is not good; returns -EINVAL. */
int tool_bad_value(const struct tool_option *option, const char *value);
/** A whole number in decimal; false if it is none. */
bool tool_parse_u64(const char *text, uint64_t *ret);

/* --- progress (progress.c) --- */

/** One line on stderr, drawn over itself while the work goes on; only on a terminal. */
struct progress {
	bool is_shown;
	const char *unit; /* "B" for bytes, which are written as KiB, MiB or GiB; else a word */
	uint64_t total;
	uint64_t done;
	int64_t began_ms;
	int64_t drawn_ms;
};

void progress_begin(struct progress *progress, const char *unit, uint64_t total);
void progress_add(struct progress *progress, uint64_t count);
/** Takes the line away, so that something else can be printed; the next step draws it again. */
void progress_hide(struct progress *progress);
void progress_end(struct progress *progress);

#endif
