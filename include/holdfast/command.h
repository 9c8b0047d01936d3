/* Shared by the commands: progress, checks and tokens. */
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

/* findings.c */
/** Problems that holdfast verify would print. */
struct findings {
	char **lines;
	size_t count;
};
/** Checks a data directory, or its journal and one session. Returns 0 or a negative errno. */
int findings_look(struct findings *findings, const char *dir, const char *session);
void findings_finish(struct findings *findings);

struct store_files;
struct store_check_ops;
struct store_check_counts;
/**
 * Like store_check(), with session NULL also for secrets, access.jsonl and webhooks.jsonl. `dir` is
 * the path of the directory that `files` are in.
 */
int tool_check_dir(const struct store_files *files, const char *dir, const char *session,
	const struct store_check_ops *ops, void *owner, struct store_check_counts *counts);
/** Verifies one session of an open directory or all (NULL). Returns the exit code. */
int tool_verify_files(const struct store_files *files, const char *dir, const char *session);
struct store_database;
/** The same for a database. */
int tool_verify_database(struct store_database *database, const char *address, const char *session);
/**
 * Gives one session or all (NULL) a new epoch, and with `tells` prints the old and new epochs.
 * Returns 0, or a negative errno after reporting the error.
 */
int tool_give_epochs(const char *dir, const char *only, bool tells);

/**
 * Finds the token for a command (caller frees): in `token_file`, or else in the data directory, or
 * else in HOLDFAST_TOKEN. If none of them is given, *ret_token is NULL. Returns 0, or a negative
 * errno after reporting that the token cannot be read.
 */
int tool_find_token(const char *token_file, const char *data_dir, char **ret_token);

#endif
