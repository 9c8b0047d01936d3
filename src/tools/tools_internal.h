/* What the commands share: how they show that they are at work. */
#ifndef HOLDFAST_TOOLS_INTERNAL_H
#define HOLDFAST_TOOLS_INTERNAL_H

#include "holdfast/options.h"
#include "holdfast/tools.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOOL_FAILED 2 /* exit code: it could not be done */

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

struct store_files;
/** holdfast verify on an open directory, of one session or (NULL) all; returns its exit code. */
int tool_verify_files(const struct store_files *files, const char *dir, const char *session);
struct store_database;
/** The same of a database. */
int tool_verify_database(struct store_database *database, const char *address, const char *session);
/** holdfast new-epoch; `tells`: each session's epochs are printed. 0 or a negative errno, which has been said. */
int tool_give_epochs(const char *dir, const char *only, bool tells);

/**
 * The token of a command (caller frees): of a file, else of a data directory, else of
 * HOLDFAST_TOKEN; *ret_token is NULL if there is none. Says what is wrong if it cannot be read.
 */
int tool_find_token(const char *token_file, const char *data_dir, char **ret_token);

#endif
