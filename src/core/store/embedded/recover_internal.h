/*
 * Shared by the files of recovery: recover_journal.c walks the journal, recover.c makes the
 * decisions.
 */
#ifndef HOLDFAST_RECOVER_INTERNAL_H
#define HOLDFAST_RECOVER_INTERNAL_H

#include "embedded.h"

struct recovery {
	struct store *store;
	const char *only; /* recover only this session; NULL: all */
	struct hash *fates; /* struct fate, by id */
	struct hash *deleted; /* a set: epoch and id of each deleted session */
	struct hash *damaged; /* a set: journal_session_hash() of sessions with damaged records */
	uint64_t *segments; /* numbers on disk, ascending */
	size_t segment_count;
	uint64_t next_segment; /* number for the next segment: behind all found */
	uint64_t last_segment; /* the newest segment that counts; 0: none */
	size_t last_len; /* its good bytes */
	bool only_looks; /* change nothing on disk */
	uint64_t walked_segment; /* the segment of the record being visited */
	size_t last_batch; /* offset of the last good batch of the newest segment; 0: none */
	int error; /* of make_missing() */
	struct hash *kept; /* a set: ids of sessions replayed from records kept in their folders */
	struct hash *in_journal; /* a set: ids that the journal has records of; NULL: unread */
	char **ret_why;
};

/** A segment of the chain that the headers form, from the newest segment backwards. */
struct link_of_chain {
	uint64_t number;
	size_t end; /* number of bytes that count; SIZE_MAX: all */
};

#define RECORD_DAMAGED "a record of it in the journal is damaged"

typedef int (*visit_record)(struct recovery *rec, const struct record *record);

/** Applies a record to its session, if that is in memory. A visit_record. */
int recover_replay(struct recovery *rec, const struct record *record);
/** Whether the folder of a session has no log, or an empty one. */
bool recover_log_is_empty(struct store *store, const char *id);
/** Whether this is a repair, and of this session. */
bool recover_is_to_repair(const struct recovery *rec, const char *id);
/** Repair, once the journal has been walked: notes a damaged record of a session, and lost names. */
void recover_note_last(const struct recovery *rec, struct session_log *log);
struct recovery recovery_begin(struct store *store, char **ret_why);
void recovery_finish(struct recovery *rec);
/**
 * Reads a session that was left out at the start into a store of its own (rec->only must be its
 * id), and visits the records that the journal had at the start. Afterwards the store has no log if
 * the session was damaged or deleted. Runs on any thread.
 */
int recover_left_out(struct recovery *rec, const char *id, visit_record visit);
/** Sets *rec->ret_why to the reason why the server does not start. Returns `error`. */
__attribute__((format(printf, 3, 4))) int recover_refuse(
	struct recovery *rec, int error, const char *fmt, ...);
/** The same for a file whose format this program does not know. Returns -ENOTSUP. */
int recover_refuse_foreign(
	struct recovery *rec, const char *dir, const char *name, const struct buffer *what);
/**
 * Moves a file or folder into set-aside/, under the first free name, and logs `why`. Returns
 * whether it was moved.
 */
bool recover_set_aside(struct store *store, int from_fd, const char *name, const char *why);
/** Returns -ENOTSUP if any segment on disk, whether it counts or not, has an unknown format. */
int recover_look_at_segments(struct recovery *rec);
/** Lists the segments on disk in rec->segments. */
int recover_list_segments(struct recovery *rec);
/**
 * Visits all records in order. Unless rec->only_looks, cuts off a torn tail and deletes newer
 * segments that do not count.
 */
int recover_walk_journal(struct recovery *rec, visit_record visit);
/**
 * Makes durable what the journal contains: the server that wrote it may have been stopped before
 * its sync. The next steps (a folder removed, the next segment's header) rely on these bytes.
 */
int recover_sync_journal(struct recovery *rec);
/** Visits the records of one segment. *ret_valid is the length of its good part. */
int recover_walk_segment(struct recovery *rec, struct link_of_chain link, bool may_be_torn,
	visit_record visit, size_t *ret_valid);
/** Notes that a record of this session (its journal_session_hash()) is damaged. */
void recover_note_damage(struct recovery *rec, uint64_t session);
/** Returns whether recover_note_damage() was called for this session. */
bool recover_is_damaged(const struct recovery *rec, const char *id, uint64_t epoch);
/** Says that there is damage of sessions that nobody has asked for by recover_is_damaged(). */
void recover_tell_unknown(const struct recovery *rec);

#endif
