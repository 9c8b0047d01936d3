/*
 * A scripted life of three sessions, step by step, each of which is durable before the next begins;
 * and what is known after each step, so that a recovery can be held against it.
 */
#ifndef HOLDFAST_TESTS_WORKLOAD_H
#define HOLDFAST_TESTS_WORKLOAD_H

#include "rig.h"

#define WORKLOAD_SESSIONS 3
#define WORKLOAD_STEPS    44

/** A session as it must be again after a crash. */
struct session_mark {
	bool exists;
	uint64_t epoch;
	uint64_t max_seq;
	uint64_t open_seq; /* of the text that is still coming in */
	uint64_t open_hash;
	size_t queue_length;
	char status[16];
	bool is_prompting;
};

/** What is certain once the journal's newest segment is so long. */
struct mark {
	uint64_t segment;
	size_t size;
	struct session_mark sessions[WORKLOAD_SESSIONS];
};

extern const char *const workload_ids[WORKLOAD_SESSIONS];

/**
 * Does steps `from` to `to` - 1; marks[step + 1] is what is known after a step (marks may be NULL).
 */
void workload_run(struct rig *rig, size_t from, size_t to, struct mark *marks);
void workload_mark_session(struct rig *rig, const char *id, struct session_mark *ret);
/** Fails the test if anything is different. */
void workload_assert_same(const struct session_mark *got, const struct session_mark *want);
/**
 * The number of the newest journal segment, and where its batches end; its path goes to `path` (may
 * be NULL).
 */
void workload_newest_segment(
	const char *dir, uint64_t *ret_number, size_t *ret_size, struct buffer *path);
/** Where the batches of a segment end; what is behind that is room. */
size_t workload_segment_end(const char *path);

#endif
