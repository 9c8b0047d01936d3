/* What the two files of recovery share: recover_journal.c walks the journal, recover.c decides. */
#ifndef HOLDFAST_RECOVER_INTERNAL_H
#define HOLDFAST_RECOVER_INTERNAL_H

#include "store_internal.h"

struct recovery {
	struct store *store;
	const char *only; /* of this session alone; NULL: of all */
	struct hash *fates; /* by id */
	struct hash
		*deleted; /* the store itself, by epoch and id of each session that was deleted */
	struct hash *damaged; /* the store itself, by journal_session_hash() of each session */
	uint64_t *segments; /* numbers on disk, ascending */
	size_t segment_count;
	uint64_t next_segment; /* number behind all that were found */
	uint64_t last_segment; /* the newest that counts, and its good bytes; 0: none */
	size_t last_len;
	bool only_looks; /* nothing is changed: all that is there may yet turn out to be foreign */
	uint64_t walked_segment; /* that a record being visited is in */
	size_t last_batch; /* where the last good batch of the newest segment begins; 0: none */
	int error; /* of make_missing() */
	struct hash *kept; /* the store itself, by the ids of sessions with records of their own */
	char **ret_why;
};

/** A segment of the chain that leads back from the newest one. */
struct link_of_chain {
	uint64_t number;
	size_t end; /* bytes that count; SIZE_MAX: all */
};

typedef int (*visit_record)(struct recovery *rec, const struct record *record);

/** Gives a session that is needed in memory one of its records. */
int recover_replay(struct recovery *rec, const struct record *record);
struct recovery recovery_begin(struct store *store, char **ret_why);
void recovery_finish(struct recovery *rec);
/**
 * Reads one session that was left out into a store of its own, whose `only` it is, and visits the
 * records that the journal had at the start. The log is not there if it was damaged or deleted.
 * Any thread.
 */
int recover_left_out(struct recovery *rec, const char *id, visit_record visit);
/** Says why the server does not start; returns `error`. */
__attribute__((format(printf, 3, 4))) int recover_refuse(
	struct recovery *rec, int error, const char *fmt, ...);
/** The same for a file of a format that we do not read; returns -ENOTSUP. */
int recover_refuse_foreign(
	struct recovery *rec, const char *dir, const char *name, const struct buffer *what);
/**
 * Moves a file or folder into set-aside/, under the first name that is free there, and tells so.
 * Whether it is moved.
 */
bool recover_set_aside(struct store *store, int from_fd, const char *name, const char *why);
/** -ENOTSUP if one of the segments that were found, whether it counts or not, is not ours to read.
 */
int recover_look_at_segments(struct recovery *rec);
/** Finds the segments that are on disk. */
int recover_list_segments(struct recovery *rec);
/** Visits all records in order, and cuts off what was never acknowledged, unless it only looks. */
int recover_walk_journal(struct recovery *rec, visit_record visit);
/**
 * Puts on disk, for good, what the journal was seen to have: whoever wrote it may have been stopped
 * before that. What follows from it (a folder removed, the next segment's header) relies on it.
 */
int recover_sync_journal(struct recovery *rec);
/** Visits the records of one segment; *ret_valid is how many bytes of it are good. */
int recover_walk_segment(struct recovery *rec, struct link_of_chain link, bool may_be_torn,
	visit_record visit, size_t *ret_valid);
/** A record of this session (journal_session_hash()) is damaged. */
void recover_note_damage(struct recovery *rec, uint64_t session);
/** Whether the walk has met a damaged record of this session. */
bool recover_is_damaged(const struct recovery *rec, const char *id, uint64_t epoch);

#endif
