/*
 * The directories that sessions may have: checked, and listed for those who choose one; and the files in
 * them, for those who type a path. On a thread of its own, one after the other, so that a file system that
 * hangs delays nobody but those who ask for directories and files.
 */
#ifndef HOLDFAST_AGENT_DIRS_H
#define HOLDFAST_AGENT_DIRS_H

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <uv.h>

struct agent_dirs;
struct agent_dirs_job;

#define AGENT_DIRS_MAX 200 /* in one list */

struct agent_dirs_found {
	char *path; /* of agent_dirs_check(): resolved; NULL: it is none, or out of the roots */
	char **paths; /* of agent_dirs_list(), sorted, or of agent_dirs_files(); ended by NULL */
	bool has_more;
};

/** Called on the loop, once, unless it is cancelled; what was found is borrowed. */
typedef void agent_dirs_done(void *arg, const struct agent_dirs_found *found);

struct agent_dirs *agent_dirs_create(uv_loop_t *loop);
/** Nothing is asked for any more. What waits is still answered, or cancelled by whoever waits for it. */
void agent_dirs_close(struct agent_dirs *dirs);
/** When it is closed and the loop has nothing more to do. */
void agent_dirs_free(struct agent_dirs *dirs);
/**
 * Whether a path (absolute) is a directory below `roots`, wherever its symlinks lead. NULL: too much
 * is asked for at once.
 */
struct agent_dirs_job *agent_dirs_check(struct agent_dirs *dirs, char *const *roots,
	const char *path, agent_dirs_done *done, void *arg);
/**
 * The directories whose path begins with `prefix`, below the roots: "" gives the roots themselves.
 * Symlinks are left out, and so are names that begin with a dot unless the prefix has that dot.
 */
struct agent_dirs_job *agent_dirs_list(struct agent_dirs *dirs, char *const *roots,
	const char *prefix, agent_dirs_done *done, void *arg);
/**
 * At most `most` files and directories of a session's directory `dir` that a person may mean who types
 * `prefix`, the best ones first; none in `private_dir` (the server's; NULL: none). See complete_files.h.
 */
struct agent_dirs_job *agent_dirs_files(struct agent_dirs *dirs, const char *dir,
	const char *private_dir, const char *prefix, size_t most, agent_dirs_done *done, void *arg);
/** Nobody waits for it any more. */
void agent_dirs_cancel(struct agent_dirs_job *job);

#endif
