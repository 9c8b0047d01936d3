/*
 * Bytes in the store's files: read, written and synced through struct disk_ops. All of it blocks:
 * it is for the thread pool, the journal's thread, starts and tools. Functions that return an int
 * return 0 or a negative errno.
 */
#ifndef HOLDFAST_DISK_IO_H
#define HOLDFAST_DISK_IO_H

#include "holdfast/buffer.h"
#include "holdfast/disk.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* disk_io.c */
/**
 * The names in a directory that are wanted (NULL: all), sorted; hidden ones are not there. The
 * caller frees them with disk_list_free().
 */
int disk_list(int dir_fd, const char *name, bool (*is_wanted)(const char *name), char ***ret_names,
	size_t *ret_count);
void disk_list_free(char **names, size_t count);
/** Reads a file, or its first `most` bytes and maybe more. */
int disk_read_file(int dir_fd, const char *name, size_t most, struct buffer *out);
/** Reads all of it; -EBADMSG if the file ends before. */
int disk_read_at(int fd, uint64_t offset, void *bytes, size_t len);
int disk_write_all(int fd, const void *bytes, size_t len);
/** An append to a file of which only some bytes count. */
struct file_append {
	const char *name; /* borrowed */
	struct buffer bytes; /* owned, and so is the head: file_append_finish() */
	struct buffer head; /* what the file begins with */
	uint64_t size; /* of the bytes that count */
	bool is_seen; /* else what is behind them is cut off first */
	bool is_new;
	int status; /* -EBADMSG: it is not that file; -ECANCELED: nobody has tried */
};
/** Does it in a session's folder, unless there is nothing to append. */
void file_append_run(struct file_append *append, int sessions_fd, const char *id);
void file_append_finish(struct file_append *append);
/** Syncs a file, or with O_DIRECTORY a directory, that is not open. `flags` are openat()'s. */
int disk_sync(int dir_fd, const char *name, int flags);
/**
 * Writes a file beside the one of that name and puts it in its place: a reader sees one or the
 * other, and with `sync` so does whoever comes after a power cut.
 */
int disk_replace(int dir_fd, const char *name, const struct buffer *bytes, bool sync);

/* rewrite.c */
/**
 * Writes the lines of a log between two offsets once more, in their place. -EBADMSG if what is read
 * back are not the lines that were written. For the thread pool.
 */
int log_rewrite(int dir_fd, uint64_t from, uint64_t to);
/** The same with some bytes of a journal segment, which have been checked. */
int journal_rewrite(int dir_fd, const char *name, uint64_t from, uint64_t to);
/** The same with the two files beside it. */
int log_keys_rewrite(int dir_fd, uint64_t from, uint64_t to);
int log_index_rewrite(int dir_fd, uint64_t from, uint64_t to);

#endif
