/* A data directory as kill -9 leaves it, and ways to spoil it. */
#ifndef HOLDFAST_TESTS_POINT_H
#define HOLDFAST_TESTS_POINT_H

#include "workload.h"

/** A directory at one moment of the workload, and everything that is known of it. */
struct point {
	char *dir;
	size_t step;
	struct mark marks[WORKLOAD_STEPS + 1];
	struct buffer logs[WORKLOAD_SESSIONS]; /* events.jsonl of each session */
	uint64_t certain[WORKLOAD_SESSIONS]; /* max_seq of its metadata */
	uint64_t segment;
	size_t segment_size;
};

enum damage {
	CUT, /* the file ends there */
	BLANK, /* it is as long as it was, with zeros from there on */
	FLIP, /* a bit of that byte is turned over */
};

/** Runs the workload up to a step, and takes a copy of its directory while the server is running.
 */
void point_take(struct point *p, size_t step, size_t segment_size);
void point_free(struct point *p);
/** Opens the table on such a directory again. */
void point_open(struct rig *rig, const char *dir);

/**
 * The directories of this test are made in memory, where that can be: thousands of them are made,
 * and none has to outlive the machine.
 */
void point_use_memory(void);

/** The path of a file of a session, NUL-terminated, in place of what is in `out`. */
void log_path(struct buffer *out, const char *dir, const char *id, const char *file);
/** Reads a whole file in place of what is in `out`; false if there is none. */
bool file_read(const char *path, struct buffer *out);
/** Puts bytes in place of what is in a file, which is there. */
void file_write(const char *path, const struct buffer *bytes);
/** Puts bytes behind what is in a file. */
void file_append(const char *path, const char *bytes, size_t len);
/** Puts bytes into a file, over what stands at that place. */
void file_put(const char *path, size_t at, const char *bytes, size_t len);
/** Damages a file at a byte. */
void file_spoil(const char *path, enum damage damage, size_t at);

#endif
