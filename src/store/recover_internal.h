/* What the two files of recovery share: recover_journal.c walks the journal, recover.c decides. */
#ifndef HOLDFAST_RECOVER_INTERNAL_H
#define HOLDFAST_RECOVER_INTERNAL_H

#include "store_internal.h"

struct recovery {
	struct store *store;
	struct hash *fates; /* by id */
	struct hash
		*deleted; /* the store itself, by epoch and id of each session that was deleted */
	struct hash *damaged; /* the store itself, by journal_session_hash() of each session */
	uint64_t *segments; /* numbers on disk, ascending */
	size_t segment_count;
	uint64_t next_segment; /* number behind all that were found */
	uint64_t last_segment; /* the newest that counts, and its good bytes; 0: none */
	size_t last_len;
	int error; /* of make_missing() */
	char **ret_why;
};

/** A segment of the chain that leads back from the newest one. */
struct link_of_chain {
	uint64_t number;
	size_t end; /* bytes that count; SIZE_MAX: all */
};

typedef int (*visit_record)(struct recovery *rec, const struct record *record);

/** Says why the server does not start; returns `error`. */
__attribute__((format(printf, 3, 4))) int recover_refuse(
	struct recovery *rec, int error, const char *fmt, ...);
/**
 * Moves a file or folder into set-aside/, under the first name that is free there, and tells so.
 * Whether it is moved.
 */
bool recover_set_aside(struct store *store, int from_fd, const char *name, const char *why);
/** Finds the segments that are on disk. */
int recover_list_segments(struct recovery *rec);
/** Visits all records in order, and cuts off what was never acknowledged. */
int recover_walk_journal(struct recovery *rec, visit_record visit);
/** Visits the records of one segment; *ret_valid is how many bytes of it are good. */
int recover_walk_segment(struct recovery *rec, struct link_of_chain link, bool may_be_torn,
	visit_record visit, size_t *ret_valid);
/** Whether the walk has met a damaged record of this session. */
bool recover_is_damaged(const struct recovery *rec, const char *id, uint64_t epoch);

#endif
