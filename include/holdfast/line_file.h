/*
 * Appends to and rewrites files of sealed lines (sealed_line.h), which several processes can share:
 * each locks the file. A torn line left by a crash is cut off by the next writer; a last line that
 * is whole but for its newline counts, and gets it. A rewrite replaces the file. All functions block; errors are negative errnos.
 */
#ifndef HOLDFAST_LINE_FILE_H
#define HOLDFAST_LINE_FILE_H

#include "holdfast/buffer.h"

/* The most bytes of such a file; a larger one is not read. */
#define LINE_FILE_MAX ((size_t)1 << 30)

/**
 * Appends whole lines and syncs them; on failure the previous contents stay. Creates the file (mode
 * 0600).
 */
int line_file_append(const char *path, const char *lines, size_t len);
/** Reads the whole file and mends its end; a missing file reads as empty. */
int line_file_read(const char *path, struct buffer *ret);
/** Gives the last line its newline if it has lost it, and is whole. */
void line_file_mend(struct buffer *bytes);
/** How many bytes are behind the last newline: a line that a crash has cut, or damage. */
size_t line_file_torn(const struct buffer *bytes);
/**
 * Opens and locks the file for appending and reading, creating it if needed. Returns the
 * descriptor; closing it releases the lock.
 */
int line_file_lock(const char *path);
/** Reads the whole of an open file. */
int line_file_read_all(int fd, struct buffer *ret);
/** Replaces the file by one with these lines, durably. Hold the lock if others can append. */
int line_file_replace(const char *path, const struct buffer *lines);
/**
 * Under the lock, passes the file's whole lines to `change` and replaces the file by *ret_kept,
 * unless `change` returns nonzero. Returns 0 or a negative errno, that of `change` included.
 */
int line_file_change(const char *path,
	int (*change)(void *arg, const struct buffer *lines, struct buffer *ret_kept), void *arg);

#endif
