/* Shared by the commands on a store: checks and new epochs. */
#ifndef HOLDFAST_ADMIN_H
#define HOLDFAST_ADMIN_H

#include "holdfast/command.h"

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
struct store_database;
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
/** The same for a database. */
int tool_verify_database(struct store_database *database, const char *address, const char *session);
/**
 * Gives one session or all (NULL) a new epoch, and with `tells` prints the old and new epochs.
 * Returns 0, or a negative errno after reporting the error.
 */
int tool_give_epochs(const char *dir, const char *only, bool tells);

#endif
