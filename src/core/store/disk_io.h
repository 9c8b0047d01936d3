/*
 * Reads, writes and syncs the store's files through struct disk_ops. Everything here blocks: it is
 * for the thread pool, the journal's thread, the start and tools. Functions that return an int
 * return 0 or a negative errno.
 */
#ifndef HOLDFAST_DISK_IO_H
#define HOLDFAST_DISK_IO_H

#include "holdfast/buffer.h"
#include "disk.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The most bytes of a segment of a journal; of what it may be given, and a batch. */
#define SEGMENT_FILE_MAX ((size_t)4 << 30)
/* The most bytes of keys.jsonl when all of it is read. */
#define NAMES_FILE_MAX ((size_t)1 << 30)

/* disk_io.c */
/**
 * Lists the names in a directory that `is_wanted` (NULL: all), sorted, without hidden ones. The
 * caller frees them with disk_list_free().
 */
int disk_list(int dir_fd, const char *name, bool (*is_wanted)(const char *name), char ***ret_names,
	size_t *ret_count);
void disk_list_free(char **names, size_t count);
/** Opens a directory to be read. Returns a descriptor, or -1 with errno. */
int disk_open_dir(int dir_fd, const char *name);
/** Appends a file to `out`; of a longer one, at least the first `most` bytes. */
int disk_read_file(int dir_fd, const char *name, size_t most, struct buffer *out);
/** The same; -EFBIG for a file with more than `most` bytes. */
int disk_read_whole(int dir_fd, const char *name, size_t most, struct buffer *out);
/** Reads `len` bytes at an offset; -EBADMSG if the file ends before. */
int disk_read_at(int fd, uint64_t offset, void *bytes, size_t len);
int disk_write_all(int fd, const void *bytes, size_t len);
/** An append to a file whose first `size` bytes count. file_append_finish() frees the buffers. */
struct file_append {
	const char *name; /* borrowed */
	struct buffer bytes; /* to be appended */
	struct buffer head; /* the bytes that the file must begin with */
	uint64_t size;
	bool is_seen; /* the file was checked; else check it, and cut off bytes after `size` */
	bool is_new; /* set if the append may have created the file */
	int status; /* -EBADMSG: the file is missing, too short or another; -ECANCELED: not run */
};
/** Runs the append in a session's folder, unless there is nothing to append. */
void file_append_run(struct file_append *append, int sessions_fd, const char *id);
void file_append_finish(struct file_append *append);
/** Opens and syncs a file, or with O_DIRECTORY a directory. `flags` are those of openat(). */
int disk_sync(int dir_fd, const char *name, int flags);
/**
 * Replaces a file: writes NAME.new and renames it. A reader sees the old file or the new one; with
 * `sync` that also holds after a power cut.
 */
int disk_replace(int dir_fd, const char *name, const struct buffer *bytes, bool sync);
/** The two steps of disk_replace(). */
int disk_write_new(int dir_fd, const char *name, const struct buffer *bytes, bool sync);
int disk_put_new(int dir_fd, const char *name, bool sync);

#endif
