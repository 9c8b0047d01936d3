/*
 * Checks a data directory and reports everything wrong in it: all checksums, the sequence of
 * events, and that the files agree with each other (where each event starts, and which names lead
 * to which events). It only reads, and its memory does not grow with the logs: it holds one journal
 * segment at a time.
 *
 * A problem is something that no ordinary crash leaves. Remains of a crash that the next start of
 * the server removes are reported as notes: an incomplete line or batch at the very end, an
 * incomplete session. So is an index that is missing, too short or of another epoch, since it is
 * rebuilt when needed. Changes that a running server makes during the check are neither.
 */
#ifndef HOLDFAST_STORE_CHECK_H
#define HOLDFAST_STORE_CHECK_H

#include "holdfast/store.h"
#include "holdfast/store_files.h"

struct store_check_ops {
	/**
	 * `place`: a file below the data directory, possibly with line and byte. Strings are
	 * borrowed.
	 */
	void (*problem)(void *owner, const char *place, const char *what);
	void (*note)(void *owner, const char *place, const char *what);
	/** Called when `bytes` more of store_check_size() have been read. */
	void (*progress)(void *owner, uint64_t bytes);
	snapshot_is_foreign *is_foreign; /* NULL: versions of snapshots are not checked */
	const struct store_facts *facts; /* NULL: nor are facts in metadata.json and names */
};

struct store_check_counts {
	uint64_t sessions;
	uint64_t events;
	uint64_t blobs;
	uint64_t streams; /* raw streams */
	uint64_t segments;
	uint64_t records;
	uint64_t problems;
};

/**
 * Returns about how many bytes store_check() will read. `session` NULL: all sessions and raw
 * streams.
 */
uint64_t store_check_size(const struct store_files *files, const char *session);
/**
 * Checks the journal and one session, or, with `session` NULL, all sessions and raw streams.
 * Blocks. Returns 0, with the problems counted, or a negative errno if it cannot check: -ENOENT if
 * the session does not exist.
 */
int store_check(const struct store_files *files, const char *session,
	const struct store_check_ops *ops, void *owner, struct store_check_counts *counts);

#endif
