/*
 * Shared by the files of recovery: recover_journal.c walks the journal, recover.c makes the
 * decisions, and struct damage_rules says what to do with damage.
 */
#ifndef HOLDFAST_RECOVER_INTERNAL_H
#define HOLDFAST_RECOVER_INTERNAL_H

#include "embedded.h"
#include "journal_view.h"

struct recovery {
	struct store *store;
	const char *only; /* recover only this session; NULL: all */
	struct journal_view view;
	bool only_looks; /* change nothing on disk */
	bool has_relaxed; /* some segment was written without syncs: logs may have more events */
	bool was_cut; /* a torn batch was cut off, and logs have events of synced batches only */
	int error; /* of make_missing() */
	struct hash *kept; /* a set: ids of sessions replayed from records kept in their folders */
	char **ret_why;
};

#define RECORD_DAMAGED "a record of it in the journal is damaged"

/** The record() of a journal_visitor, whose `arg` is the struct recovery. */
typedef int (*visit_record)(
	void *arg, const struct record *record, const struct journal_place *place);

/**
 * What is done with damage. A start refuses, or sets the session aside as it is; holdfast repair
 * goes on with what is left (repair_rules in repair.h). Functions that are NULL do nothing.
 */
struct damage_rules {
	/** Called before anything is read of the folders. */
	int (*begin)(struct recovery *rec);
	/** A part of the journal is lost, and nobody knows of which sessions. 0: goes on without it. */
	int (*journal)(struct recovery *rec, enum journal_damage damage,
		const struct journal_place *place);
	/** metadata.json is damaged: makes one up. False: the session is set aside. */
	bool (*metadata)(struct store *store, const char *id, struct metadata *ret);
	/** Reads a log behind its certain part. -EBADMSG: damaged, the session is set aside. */
	int (*log)(struct session_log *log, bool is_guessed);
	/** Whether a session with damaged records is recovered; else it is set aside. */
	bool keeps_damaged;
	/** Replays records from elsewhere than the journal, and sets *ret_had: in place of those there. */
	int (*replay)(struct recovery *rec, struct session_log *log, bool *ret_had);
	/** Whether to ignore a record of a session. */
	bool (*ignores)(struct recovery *rec, struct session_log *log);
	/** A record does not fit the log. Ends the log, or leaves it without an owner. */
	void (*misfit)(struct recovery *rec, struct session_log *log);
	/** The journal has been replayed. */
	void (*replayed)(struct recovery *rec, struct session_log *log);
};

/** The rules for a session, or with `id` NULL for the journal. */
const struct damage_rules *recover_rules(const struct store *store, const char *id);
/** A start's journal(): sets *rec->ret_why. */
int recover_refuse_journal(
	struct recovery *rec, enum journal_damage damage, const struct journal_place *place);
/** A start's log(). */
int recover_check_log(struct session_log *log, bool is_guessed);

/** Applies a record to its session, if that is in memory. A visit_record. */
int recover_replay(void *arg, const struct record *record, const struct journal_place *place);
/** Whether the folder of a session has no log, or an empty one. */
bool recover_log_is_empty(struct store *store, const char *id);
/** `journal_fd`: the directory of the journal, or of one that was kept; it stays the caller's. */
struct recovery recovery_begin(struct store *store, int journal_fd, char **ret_why);
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
/** Finds the segments that count; changes nothing. */
int recover_find_segments(struct recovery *rec);
/** Visits all records in order. Unless rec->only_looks, cuts off a torn tail. */
int recover_walk_journal(struct recovery *rec, visit_record visit);
/** Deletes the segments that do not count, unless they were about to be deleted anyway. */
void recover_drop_useless(struct recovery *rec);
/**
 * Makes durable what the journal contains: the server that wrote it may have been stopped before
 * its sync. The next steps (a folder removed, the next segment's header) rely on these bytes.
 */
int recover_sync_journal(struct recovery *rec);
/** Says that there are damaged records of which nobody knows the session. */
void recover_tell_unknown(const struct recovery *rec);

#endif
