/*
 * Shared by the files of the check of a data directory (store_check.h); each of them checks one kind
 * of file. What a database's check shares with them is in store_checking.h.
 */
#ifndef HOLDFAST_CHECK_H
#define HOLDFAST_CHECK_H

#include "embedded.h"
#include "journal_view.h"

#include "holdfast/hash.h"
#include "holdfast/store_checking.h"

/* check_journal.c */
/**
 * Checks all segments and fills check->journal. Returns 0, or a negative errno if it cannot list
 * them.
 */
int check_journal(struct check *check);
/** Checks that the sessions in the journal exist. Called after all sessions were checked. */
void check_lives(struct check *check);

/* check_streams.c */
void check_streams(struct check *check);
/** Returns the total size of raw streams and their journal. */
uint64_t check_streams_size(const struct store_files *files);

/* check_index.c */
/** The check of a session's events.index, done while its log is read. */
struct index_check {
	struct check *check;
	const char *id;
	const struct store_metadata *meta;
	int fd; /* -1: nothing to compare */
	/* A window of entries; the first is that of seq `from`. */
	uint64_t from;
	size_t count;
	uint64_t offsets[512];
	/* Number of wrong entries, and details of the first one. */
	uint64_t wrong;
	uint64_t wrong_seq;
	uint64_t wrong_offset;
	uint64_t right_offset;
};
/** Begins the check. `meta` NULL: unknown, so nothing is compared. Must be ended in any case. */
void check_index_begin(struct index_check *index, struct check *check, const char *id,
	const struct store_metadata *meta);
/** Compares the entry of the log's next event, whose line starts at `offset`. */
void check_index_event(struct index_check *index, uint64_t seq, uint64_t offset);
/** Ends the check. Reports wrong entries only if the log agrees with metadata.json. */
void check_index_end(struct index_check *index, bool log_is_good);

/* check_blobs.c */
void check_blobs(struct check *check, const char *id);

/* check_aside.c */
/** Checks the folders of one session in set-aside/, or all. Returns whether there are some. */
bool check_aside(struct check *check, const char *session);

/* check_session.c */
void check_session(struct check *check, const char *id);

#endif
