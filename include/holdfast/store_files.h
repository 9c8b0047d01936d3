/*
 * The files of a data directory as they are, read without opening it as a store: nothing is
 * written, nothing is recovered. For the tools that look at one, also beside a running server.
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
 * Opens a data directory for reading. A negative errno if there is none (and *ret_why says so,
 * caller frees); the struct is to be closed in any case.
 */
int store_files_open(const char *dir, struct store_files *files, char **ret_why);
void store_files_close(struct store_files *files);
/**
 * Keeps servers from starting in it until it is closed, so that it stays as it is; if one is at
 * work in it already, sets `in_use`.
 */
void store_files_hold(struct store_files *files);

/** The ids of the sessions, sorted. The caller frees each and the array. */
int store_files_list_sessions(const struct store_files *files, char ***ret_ids, size_t *ret_count);
/** The numbers of the journal's segments, ascending. The caller frees the array. */
int store_files_list_segments(
	const struct store_files *files, uint64_t **ret_segments, size_t *ret_count);
/** The size of a file below the data directory; 0 if there is none. */
uint64_t store_files_size(int dir_fd, const char *path);

/** What metadata.json says. */
struct store_metadata {
	uint64_t epoch;
	uint64_t first_seq;
	uint64_t first_at; /* where its line starts */
	uint64_t base_seq; /* of the first line in the file: those before first_seq are pruned */
	uint64_t max_seq;
	uint64_t log_size;
	uint64_t keys_size;
	const struct store_facts *facts_ops;
	void *facts; /* NULL: nobody has looked at them */
};

/** Reads it, with the owner's facts unless `facts` is NULL; -EBADMSG if it is not what the format says, with *ret_why set to why (static text). */
int store_files_read_metadata(const struct store_files *files, const char *id,
	const struct store_facts *facts, struct store_metadata *ret, const char **ret_why);
void store_metadata_finish(struct store_metadata *metadata);

/** Reads a file of a session line by line, in pieces: the memory it takes is a line's. */
struct log_lines {
	int fd;
	struct buffer bytes;
	size_t at; /* in `bytes`: where the next line begins */
	uint64_t offset; /* the same in the file */
	uint64_t end; /* nothing behind it is read */
	uint64_t number; /* of the line that was given last, from 1 */
};

/** Begins to read what is between two offsets; the file stays the caller's. */
void log_lines_begin(struct log_lines *lines, int fd, uint64_t from, uint64_t to);
/** Opens events.jsonl. */
int log_lines_open(const struct store_files *files, const char *id, struct log_lines *lines);
/** The same with another of the session's files. */
int log_lines_open_file(
	const struct store_files *files, const char *id, const char *file, struct log_lines *lines);
void log_lines_close(struct log_lines *lines);
/**
 * Gives the next line, lent until the next call, without its newline. Returns 1; 0 at the end; or a
 * negative errno: -EMSGSIZE for a line that is longer than any event can be.
 */
int log_lines_next(struct log_lines *lines, const char **ret_line, size_t *ret_len);
/** At the end: how many bytes there are behind the last newline. */
size_t log_lines_rest(const struct log_lines *lines);

#endif
