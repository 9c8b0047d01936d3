/*
 * The journal as a whole: which of its segments count, what is damaged, and which of its records
 * count for a session. Recovery, the check, a migration, and the replay while the server runs decide
 * by this.
 */
#ifndef HOLDFAST_JOURNAL_VIEW_H
#define HOLDFAST_JOURNAL_VIEW_H

#include "journal_read.h"

#include "holdfast/hash.h"

/* --- segments --- */

/** A segment of the chain that the headers form. */
struct journal_segment {
	uint64_t number;
	size_t end; /* how many bytes count, as the next header says; SIZE_MAX: all; 0: none */
	bool is_newest;
};

enum journal_damage {
	JOURNAL_UNBEGUN, /* the newest segment has neither a good header nor a batch */
	JOURNAL_NEWEST_HEADLESS, /* it has no good header, but a batch */
	JOURNAL_LACKS_HEADER, /* another segment has no good header */
	JOURNAL_UNREADABLE, /* a segment cannot be read: journal_place.error */
	JOURNAL_HEADER_DAMAGED, /* the batches are good; all segments before it may count */
	JOURNAL_BATCH_DAMAGED, /* a batch's header or trailer; the records are good */
	JOURNAL_RECORD_DAMAGED, /* of a session whose hash is known: journal_place.session */
	JOURNAL_TORN, /* the newest segment ends with an incomplete batch */
	JOURNAL_REST_DAMAGED, /* which sessions the rest of the segment concerns is unknown */
	JOURNAL_CUT, /* the segment is shorter than the next header says */
};

/** Where a record or damage is. Valid during the call. */
struct journal_place {
	const struct journal_segment *segment;
	struct journal_reader *reader;
	size_t at; /* offset of the record or batch */
	uint64_t session;
	int error;
};

/** Returns 0, or a negative errno, which ends the walk. */
struct journal_visitor {
	int (*record)(void *arg, const struct record *record, const struct journal_place *place);
	/** 0: goes on behind the damage. */
	int (*damage)(void *arg, enum journal_damage damage, const struct journal_place *place);
	/** Called before a segment's records are read; may lower reader->end. NULL: nothing. */
	void (*opened)(void *arg, const struct journal_place *place);
	void *arg;
};

/** What a walk over a segment has found. */
struct journal_extent {
	size_t len; /* the good part */
	size_t last_batch; /* offset of the last good batch; 0: none */
};

/** Visits the records of one segment. */
int journal_segment_walk(int dir_fd, const struct journal_segment *segment,
	const struct journal_visitor *visitor, struct journal_extent *ret);

/* --- sessions --- */

/** A session, one of those that had the same id, that the journal has records of. */
struct journal_life {
	uint64_t epoch;
	bool is_created;
	bool is_deleted;
	int64_t created_at; /* if is_created: ts and data of its RECORD_CREATE */
	struct buffer data;
	uint64_t segment; /* the last segment read that has a record of it */
	size_t first; /* offset of the first one there */
	char id[];
};

/** What a start does with the folder of a session, as far as the journal decides. */
enum journal_folder {
	FOLDER_IS_UNKNOWN, /* the journal has neither its creation nor its deletion */
	FOLDER_IS_CREATED, /* the journal has its creation, and so all of it */
	FOLDER_IS_DELETED, /* it is that of a session that was deleted: it is removed */
};

struct journal_view {
	int dir_fd;
	uint64_t *numbers; /* segments on disk, ascending */
	size_t number_count;
	struct journal_segment *chain; /* those that count, oldest first */
	size_t chain_count;
	uint64_t missing; /* a segment that the chain's oldest one names, and that is gone; or 0 */
	struct journal_extent newest; /* of the chain's newest segment, by the last walk */
	struct hash *lives; /* struct journal_life, by epoch and id */
	struct hash *ids; /* struct journal_id, by id */
	struct hash *damaged; /* a set: journal_session_hash() of sessions with damaged records */
	struct buffer key; /* of the last life that was looked up */
};

/** `dir_fd` stays the caller's. */
void journal_view_begin(struct journal_view *view, int dir_fd);
void journal_view_finish(struct journal_view *view);
/** Lists the segments on disk: view->numbers. */
int journal_view_list(struct journal_view *view);
/**
 * Follows the headers from the newest listed segment back: view->chain. The other segments have
 * only batches that were refused (a write failed, and the next segment names the one before it), or
 * were about to be deleted. Calls visitor->damage() for headers.
 */
int journal_view_find(struct journal_view *view, const struct journal_visitor *visitor);
/** Whether a segment belongs to the chain. */
bool journal_view_counts(const struct journal_view *view, uint64_t number);
/** Whether a listed segment is of no use, so that a start may delete it. */
bool journal_view_is_useless(const struct journal_view *view, uint64_t number);
/** Visits all records that count, in order. */
int journal_view_walk(struct journal_view *view, const struct journal_visitor *visitor);

/** Notes the life that a record belongs to. NULL: no session can have its id, it counts for nothing. */
struct journal_life *journal_view_note(
	struct journal_view *view, const struct record *record, const struct journal_place *place);
/** The session with this id and epoch, or NULL. */
struct journal_life *journal_view_life(
	struct journal_view *view, const char *id, size_t id_len, uint64_t epoch);
bool journal_view_has_id(const struct journal_view *view, const char *id);
/** The session that the id's last creation or deletion is of, or NULL. */
struct journal_life *journal_view_newest(const struct journal_view *view, const char *id);
/** Decides by the epoch in metadata.json; `epoch` NULL: that cannot be read. */
enum journal_folder journal_view_folder(
	struct journal_view *view, const char *id, const uint64_t *epoch);
/** Calls `visit` for each journal_view_newest(), in unspecified order. */
void journal_view_each_newest(const struct journal_view *view,
	void (*visit)(struct journal_life *life, void *arg), void *arg);
/** Whether a session's state depends on a record of its epoch. */
bool journal_record_counts(const struct record *record);
bool journal_record_is_of(const struct record *record, const char *id);

/** Notes that a session (its journal_session_hash()) has a damaged record. */
void journal_view_note_damaged(struct journal_view *view, uint64_t session);
/** Whether journal_view_note_damaged() was called for this session. */
bool journal_view_is_damaged(struct journal_view *view, const char *id, uint64_t epoch);
/** How many damaged sessions journal_view_is_damaged() has not been asked about. */
size_t journal_view_count_unknown(const struct journal_view *view);
void journal_view_forget_damaged(struct journal_view *view);

#endif
