/*
 * Checks and lists the directories that sessions can have, and completes paths of files in them
 * while a person types. All of it runs on a thread of its own, one job at a time, so that a file
 * system that hangs delays only those who ask for directories and files.
 */
#ifndef HOLDFAST_AGENT_DIRS_H
#define HOLDFAST_AGENT_DIRS_H

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <uv.h>

struct agent_dirs;
struct agent_dirs_job;

#define AGENT_DIRS_MAX 200 /* paths in one list */

struct agent_dirs_found {
	/* of agent_dirs_check(): resolved; NULL: not a directory, or outside of the roots */
	char *path;
	char **paths; /* of agent_dirs_list(), sorted, or of agent_dirs_files(); ended by NULL */
	bool has_more;
};

/** Called once, on the loop, unless the job is cancelled; `found` is borrowed. */
typedef void agent_dirs_done(void *arg, const struct agent_dirs_found *found);

/** The thread is started by the first job. */
struct agent_dirs *agent_dirs_create(uv_loop_t *loop);
/**
 * Accepts no more jobs. Those that wait are still done unless they are cancelled; then the thread
 * ends.
 */
void agent_dirs_close(struct agent_dirs *dirs);
/** Call it after agent_dirs_close(), when the loop has ended. Accepts NULL. */
void agent_dirs_free(struct agent_dirs *dirs);
/**
 * Checks whether an absolute path is a directory below `roots` once its symlinks are resolved.
 * Returns NULL if too many jobs wait or it is closed; so do the next two functions.
 */
struct agent_dirs_job *agent_dirs_check(struct agent_dirs *dirs, char *const *roots,
	const char *path, agent_dirs_done *done, void *arg);
/**
 * Lists the directories below the roots whose path begins with `prefix`; "" gives the roots
 * themselves. Symlinks are left out, and so are names that begin with a dot unless the prefix has
 * that dot.
 */
struct agent_dirs_job *agent_dirs_list(struct agent_dirs *dirs, char *const *roots,
	const char *prefix, agent_dirs_done *done, void *arg);
/**
 * Finds at most `most` files and directories in a session's directory `dir` that a person who types
 * `prefix` may mean, best matches first; none of them in `private_dir` (the server's data
 * directory; NULL: none). See complete_files.h.
 */
struct agent_dirs_job *agent_dirs_files(struct agent_dirs *dirs, const char *dir,
	const char *private_dir, const char *prefix, size_t most, agent_dirs_done *done, void *arg);
/** Cancels a job that has not been answered yet: `done` is not called. */
void agent_dirs_cancel(struct agent_dirs_job *job);

#endif
