/*
 * Finds the files and directories in a session's directory that match a path as a person types it.
 */
#ifndef HOLDFAST_COMPLETE_FILES_H
#define HOLDFAST_COMPLETE_FILES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define FILES_MAX ((size_t)200) /* paths in one list */

struct files_query {
	const char *dir; /* the session's directory */
	const char *private_dir; /* the server's data directory; NULL: none */
	const char *prefix; /* what was typed; UTF-8 */
	size_t most; /* paths, at most FILES_MAX */
	const atomic_bool *is_unwanted; /* set by another thread to cancel the search */
};

/**
 * Returns paths relative to the directory, best matches first; directories end with a slash. First
 * come names in the directory given by the prefix that begin with its last part, then such names
 * further below, then names that contain it. The list ends with NULL; the caller frees it with
 * agent_env_free(). Blocks, but searches a bounded part of the tree in bounded time; *ret_has_more
 * is set if there may be other matches. Symlinks out of the directory are not followed.
 */
char **complete_files(const struct files_query *query, bool *ret_has_more);

#endif
