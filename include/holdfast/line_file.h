/*
 * Files of sealed lines (sealed_line.h) that are appended to, by several processes too, each with a lock on the file;
 * what a crash left of the last line is cut off by the next one that writes. A file that has grown is put anew in
 * its own place. All of it blocks. Errors are negative errnos.
 */
#ifndef HOLDFAST_LINE_FILE_H
#define HOLDFAST_LINE_FILE_H

#include "holdfast/buffer.h"

/** Appends whole lines and syncs them. If that fails, what was there stays. Makes the file (mode 0600). */
int line_file_append(const char *path, const char *lines, size_t len);
/** Reads all of it; one that is not there is empty. */
int line_file_read(const char *path, struct buffer *ret);
/** Opens the file and locks it, for appending and reading: the caller closes it. */
int line_file_lock(const char *path);
/** Reads an open one. */
int line_file_read_all(int fd, struct buffer *ret);
/** Puts these lines in the file's place, for good: with the lock, if others may append. */
int line_file_replace(const char *path, const struct buffer *lines);
/**
 * Has the lock on the file while `change` makes *ret_kept of its whole lines, which comes in their
 * place; unless that returns a negative errno. Blocks.
 */
int line_file_change(const char *path,
	int (*change)(void *arg, const struct buffer *lines, struct buffer *ret_kept), void *arg);

#endif
