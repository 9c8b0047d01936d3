/* What the files of the copy share. */
#ifndef HOLDFAST_COPY_INTERNAL_H
#define HOLDFAST_COPY_INTERNAL_H

#include "holdfast/store_copy.h"

struct copying {
	const struct store_files *files;
	struct store_copy *copy;
	int to_sessions_fd;
	int before_sessions_fd; /* -1: none */
	char *bytes; /* for copy_opened() */
	char **ret_why;
	void (*between)(void *arg); /* after each piece of a file; NULL: nothing */
	void *between_arg;
};

/** Says in *ret_why what could not be copied. Returns the error. */
int copy_fail(struct copying *c, int error, const char *path);
/** Opens a directory, which is made if it is missing. */
int copy_make_dir(int dir_fd, const char *name);
/**
 * Copies the first `most` bytes of a file that need not be there: -ENOENT. -EBADMSG if it has fewer, unless `most` is
 * UINT64_MAX.
 */
int copy_file(struct copying *c, int from_fd, int to_fd, const char *path, uint64_t most);
/** The same of a file that is open, which may be deleted by now; `path` is that of the copy. */
int copy_opened(struct copying *c, int from, int to_fd, const char *path, uint64_t most);

/* copy_streams.c */
int copy_streams(struct copying *c);

#endif
