/*
 * Looks through a data directory and tells all that is wrong in it: every checksum, the numbers of
 * the events, and that what one file says of another is so: where each event starts, and by which
 * names events are found. It reads only, and the memory it takes
 * does not grow with the logs (one segment of the journal is held at a time).
 *
 * A problem is something that no ordinary crash leaves. What one does leave, and the next start of
 * the server removes by itself, is told as a note: a line or batch at the very end that was not
 * written whole, a session that was being made. So is an index that is missing, too short or of
 * another epoch: it is made again when it is needed. Beside a running server, what that one changes
 * meanwhile is neither.
 */
#ifndef HOLDFAST_STORE_CHECK_H
#define HOLDFAST_STORE_CHECK_H

#include "holdfast/store.h"
#include "holdfast/store_files.h"

struct store_check_ops {
	/** `place` is a file below the data directory, with line, byte or segment. */
	void (*problem)(void *owner, const char *place, const char *what);
	void (*note)(void *owner, const char *place, const char *what);
	/** So many bytes more have been read, of store_check_size(). */
	void (*progress)(void *owner, uint64_t bytes);
	snapshot_is_foreign *is_foreign; /* NULL: the versions of snapshots are not looked at */
	const struct store_facts *facts; /* NULL: nor is what these say in metadata.json */
};

struct store_check_counts {
	uint64_t sessions;
	uint64_t events;
	uint64_t blobs;
	uint64_t streams; /* raw ones */
	uint64_t segments;
	uint64_t records;
	uint64_t problems;
};

/** About how many bytes there are to read. `session` NULL: those of all sessions and raw streams. */
uint64_t store_check_size(const struct store_files *files, const char *session);
/**
 * Checks the journal, and one session, or all and raw streams. Returns 0, with the problems counted, or a negative
 * errno if it could not be done: -ENOENT if there is no such session.
 */
int store_check(const struct store_files *files, const char *session,
	const struct store_check_ops *ops, void *owner, struct store_check_counts *counts);

#endif
