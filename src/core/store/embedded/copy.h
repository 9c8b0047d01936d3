/* Shared by the files that copy a data directory (store_copy.h). */
#ifndef HOLDFAST_COPY_H
#define HOLDFAST_COPY_H

#include "holdfast/store_copy.h"

struct copying {
	const struct store_files *files;
	struct store_copy *copy;
	int to_sessions_fd;
	int before_sessions_fd; /* sessions/ of an earlier copy; -1: none */
	char *bytes; /* buffer of copy_opened() */
	char **ret_why;
	char file[320]; /* that is foreign, see file_is_foreign(); empty: none */
	void (*between)(void *arg); /* called after each piece of a file; may be NULL */
	void *between_arg;
};

/** Sets *ret_why to say that `path` cannot be copied. Returns `error`. */
int copy_fail(struct copying *c, int error, const char *path);
/** Opens a directory and creates it if it is missing. Returns a descriptor or a negative errno. */
int copy_make_dir(int dir_fd, const char *name);
/**
 * Copies the first `most` bytes of a file, or all of it if `most` is UINT64_MAX. Returns 0 or a
 * negative errno: -ENOENT if the file does not exist, -EBADMSG if it is shorter.
 */
int copy_file(struct copying *c, int from_fd, int to_fd, const char *path, uint64_t most);
/** The same for an open file, which may have been deleted. `path` is that of the copy. */
int copy_opened(struct copying *c, int from, int to_fd, const char *path, uint64_t most);

/* copy_streams.c */
/** Copies raw streams, if there are any. */
int copy_streams(struct copying *c);

#endif
