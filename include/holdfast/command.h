/* Shared by the commands: progress and tokens. */
#ifndef HOLDFAST_COMMAND_H
#define HOLDFAST_COMMAND_H

#include "holdfast/options.h"
#include "holdfast/tools.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOOL_FAILED 2 /* the exit code of a command that failed */

/** A progress bar: a line on stderr that is redrawn in place. Shown on a terminal only. */
struct progress {
	bool is_shown;
	const char *unit; /* "B" for bytes, which are shown as KiB, MiB or GiB; or a word */
	uint64_t total;
	uint64_t done;
	int64_t began_ms;
	int64_t drawn_ms;
};

void progress_begin(struct progress *progress, const char *unit, uint64_t total);
void progress_add(struct progress *progress, uint64_t count);
/** Erases the line, so that something else can be printed; the next progress_add() redraws it. */
void progress_hide(struct progress *progress);
void progress_end(struct progress *progress);

/**
 * Finds the token for a command (caller frees): in `token_file`, or else in the data directory, or
 * else in HOLDFAST_TOKEN. If none of them is given, *ret_token is NULL. Returns 0, or a negative
 * errno after reporting that the token cannot be read.
 */
int tool_find_token(const char *token_file, const char *data_dir, char **ret_token);

#endif
