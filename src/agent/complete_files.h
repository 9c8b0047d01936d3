/* The files and directories below a session's directory whose names begin as a person types them. */
#ifndef HOLDFAST_COMPLETE_FILES_H
#define HOLDFAST_COMPLETE_FILES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define FILES_MAX ((size_t)200) /* in one list */

struct files_query {
	const char *dir; /* of the session */
	const char *private_dir; /* of the server; NULL: none */
	const char *prefix; /* what was typed; UTF-8 */
	size_t most; /* paths, at most FILES_MAX */
	const atomic_bool *is_unwanted; /* set by another thread: nobody waits any more */
};

/**
 * Paths below the directory, directories with a slash at their end, the best ones first: what lies where the
 * prefix says and begins like it, then what begins so further below, then what has it in its name. Ended by
 * NULL; the caller frees with agent_env_free(). Blocks, but looks at a bounded part of the tree in a bounded
 * time; *ret_has_more also says that there may be others. Symlinks out of the directory lead nowhere.
 */
char **complete_files(const struct files_query *query, bool *ret_has_more);

#endif
