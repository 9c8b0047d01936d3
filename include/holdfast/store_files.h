/*
 * Reads the files of a data directory without opening it as a store: nothing is written, nothing is
 * recovered. For tools that inspect a directory, also while a server uses it.
 */
#ifndef HOLDFAST_STORE_FILES_H
#define HOLDFAST_STORE_FILES_H

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <stdint.h>

struct store_files {
	int dir_fd;
	int sessions_fd;
	int journal_fd;
	int lock_fd;
	bool in_use; /* see store_files_hold() */
};

/**
 * Opens a data directory for reading. On failure returns a negative errno and an explanation in
 * *ret_why, which the caller frees. The struct must be closed in either case.
 */
int store_files_open(const char *dir, struct store_files *files, char **ret_why);
void store_files_close(struct store_files *files);
/**
 * Keeps servers from starting in the directory until it is closed, so that it does not change. Sets
 * `in_use` if one is running there already.
 */
void store_files_hold(struct store_files *files);

/** Lists the ids of the sessions, sorted. The caller frees each and the array. */
int store_files_list_sessions(const struct store_files *files, char ***ret_ids, size_t *ret_count);
/** Lists the numbers of the journal's segments, ascending. The caller frees the array. */
int store_files_list_segments(
	const struct store_files *files, uint64_t **ret_segments, size_t *ret_count);
/** The size of a file below the data directory; 0 if it does not exist. */
uint64_t store_files_size(int dir_fd, const char *path);

/** The contents of metadata.json (proto/store-format.md). */
struct store_metadata {
	uint64_t epoch;
	uint64_t first_seq;
	uint64_t first_at; /* offset of its line in events.jsonl */
	uint64_t base_seq; /* of the file's first line: events from here to first_seq are pruned */
	uint64_t max_seq;
	uint64_t log_size;
	uint64_t keys_size;
	uint64_t input_names; /* how many names given by inputs those bytes have */
	const struct store_facts *facts_ops;
	void *facts; /* NULL: they were not read */
};

/**
 * Reads a session's metadata.json, with the owner's facts unless `facts` is NULL. On failure sets
 * *ret_why (static text) and returns -ENOENT, -EBADMSG if it is damaged, -ENOTSUP if this program
 * does not read its format, or another negative errno.
 */
int store_files_read_metadata(const struct store_files *files, const char *id,
	const struct store_facts *facts, struct store_metadata *ret, const char **ret_why);
void store_metadata_finish(struct store_metadata *metadata);

/** Reads a file of a session line by line, with no more than a line and a block in memory. */
struct log_lines {
	int fd;
	struct buffer bytes;
	size_t at; /* offset of the next line in `bytes` */
	uint64_t offset; /* offset of the next line in the file */
	uint64_t end; /* nothing beyond this offset is read */
	uint64_t number; /* of the line that was returned last, from 1 */
};

/** Begins to read the range between two offsets; `fd` remains the caller's. */
void log_lines_begin(struct log_lines *lines, int fd, uint64_t from, uint64_t to);
/** Opens events.jsonl. */
int log_lines_open(const struct store_files *files, const char *id, struct log_lines *lines);
/** Opens another file of the session. */
int log_lines_open_file(
	const struct store_files *files, const char *id, const char *file, struct log_lines *lines);
void log_lines_close(struct log_lines *lines);
/**
 * Gets the next line without its newline, borrowed until the next call. Returns 1, 0 at the end, or
 * a negative errno: -EMSGSIZE for a line that is longer than any event can be.
 */
int log_lines_next(struct log_lines *lines, const char **ret_line, size_t *ret_len);
/** At the end: the number of bytes after the last newline. */
size_t log_lines_rest(const struct log_lines *lines);

#endif
