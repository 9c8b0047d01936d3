/* What the files of the embedded engine share. */
#ifndef HOLDFAST_STORE_INTERNAL_H
#define HOLDFAST_STORE_INTERNAL_H

#include "holdfast/buffer.h"
#include "holdfast/disk.h"
#include "holdfast/hash.h"
#include "holdfast/list.h"
#include "holdfast/store.h"

#define JOURNAL_MAGIC       "HFJRNL2\n"
#define JOURNAL_HEADER_SIZE 48
#define BATCH_MAGIC         0x54424648u /* "HFBT" */
#define BATCH_HEADER_SIZE   32 /* magic 4, count 4, length 8, number 8, checksum 8 */
#define BATCH_ENTRY_SIZE    12 /* session 8, length 4: one for each record, in the trailer */
#define BATCH_TRAILER_SIZE  12 /* behind the entries: count 4, checksum 8 */
#define RECORD_HEADER_SIZE  16 /* checksum 8, body length 4, kind 2, id length 2 */

/** The write side of the journal: one segment open, one batch in flight, one gathering. */
struct journal {
	struct store *store;
	int dir_fd;
	int fd; /* the open segment; -1 before the first batch */
	uint64_t segment; /* number that gathered records go to */
	uint64_t fd_segment; /* number of the open one */
	uint64_t oldest_segment; /* still on disk */
	size_t segment_len; /* bytes of the open segment that are known good */
	uint64_t batch_number; /* of the batch that is gathering, in its segment */
	/* Where the history in front of the open segment ends: the next one begins with it. */
	uint64_t before_segment;
	size_t before_len;
	uint64_t open_before_segment; /* the same, as the open segment's own header has it */
	size_t open_before_len;
	size_t snapshot_len; /* bytes that the newest segment began with */
	struct buffer gather;
	size_t gather_start; /* where the batch begins in it: behind a segment's header */
	struct buffer entries; /* of the gathering batch's trailer */
	uint32_t gather_count;
	struct buffer flight;
	uint64_t gather_lsn; /* of the newest record */
	uint64_t flight_lsn;
	uint64_t synced_lsn;
	bool in_flight;
	int error; /* negative errno while it cannot be written */
	bool reviving; /* the batch that gathers or is in flight is to end that */
	uv_timer_t *revive_timer;
	int result; /* of the batch in flight */
	bool rotated; /* the batch in flight is the first of its segment */
	uv_work_t work;
};

struct session_log {
	struct store *store;
	struct list link; /* store.logs */
	struct list fd_link; /* store.open_logs, newest last; self when fd is -1 */
	void *owner;
	char *id;
	char *title;
	uint64_t epoch;
	int64_t created_at;
	int64_t updated_at;
	int fd;

	/* The index: where each event's line starts. offsets[i] is of seq first_seq + i. */
	uint64_t first_seq;
	uint64_t *offsets;
	size_t count;
	size_t capacity;
	uint64_t size; /* of the log, with what is unwritten */
	struct buffer unwritten; /* lines that are not in the file yet */

	/* The hot tail: the newest events, hot[i] is of seq last - hot_count + 1 + i (a ring). */
	struct event **hot;
	size_t hot_capacity;
	size_t hot_head;
	size_t hot_count;
	size_t hot_size; /* bytes of JSON */

	bool rewind; /* see recover_rewind() */
	bool dirty; /* changed since its last checkpoint */
	struct list wanted_link; /* store.wanted: a checkpoint of its own is due */
	uint64_t round; /* the last round of checkpoints that it was in */
};

struct store {
	uv_loop_t *loop;
	const struct limits *limits;
	const struct store_ops *ops;
	void *owner;
	enum store_durability durability;
	int dir_fd;
	int sessions_fd;
	int lock_fd;
	struct journal journal;
	struct list logs;
	struct hash *by_id; /* struct session_log */
	struct list open_logs;
	size_t open_count;
	/* Checkpoints: one portion is under way at a time. */
	bool checkpointing;
	struct list wanted; /* struct session_log */
	uint64_t round; /* counts the checkpoints of all logs */
	uint64_t round_segment; /* the one under way: segments before this go in its end; 0: none */
	bool round_is_good;
	uint64_t drop_before; /* another one is due; 0: none */
	unsigned jobs; /* on the thread pool, but for the journal's batch */
	bool opening; /* recovery is under way: nothing is left to the thread pool */
	bool closing;
};

/* journal.c */
void journal_init(struct journal *journal, struct store *store);
void journal_finish(struct journal *journal);
/** Writes what is gathered and waits; for start and shutdown. */
int journal_sync_now(struct journal *journal);
/** Forgets segments before `segment` on disk. */
void journal_drop_before(struct journal *journal, uint64_t segment);

/** Names a session within a journal: XXH3_64 of its id, seeded with its epoch. */
uint64_t journal_session_hash(const char *id, size_t id_len, uint64_t epoch);

/* journal_read.c */
struct journal_reader {
	struct buffer bytes; /* the whole segment */
	uint64_t before_segment; /* what its header tells of the one before it; 0: none */
	size_t before_len;
	size_t end; /* bytes that belong to it */
	bool may_be_torn; /* the newest: its last batch may be incomplete */
	size_t valid; /* up to where batches are good */
	uint64_t batch_number; /* the next one's */
	size_t damaged_batch; /* the last one that had to do without its header or trailer; 0: none
			       */
	/* The batch being read. */
	size_t at; /* its next record */
	const char *entry; /* of that record */
	uint32_t left; /* records */
};
/** What journal_reader_next() found. */
enum journal_found {
	JOURNAL_END, /* no more; what is behind `valid` is torn */
	JOURNAL_RECORD,
	JOURNAL_DAMAGED, /* a record of a session cannot be read */
	JOURNAL_LOST, /* damage so large that it does not tell which sessions it concerns */
};
/** Reads a segment; -EBADMSG if its header is not ours. The reader is to be closed in any case. */
int journal_reader_open(struct journal_reader *reader, int dir_fd, const char *name);
void journal_reader_close(struct journal_reader *reader);
/** *ret_session is journal_session_hash() of the session that a damaged record is of. */
enum journal_found journal_reader_next(
	struct journal_reader *reader, struct record *ret_record, uint64_t *ret_session);
/** The XXH3_64 that guards what is in a segment. */
uint64_t journal_checksum(const char *bytes, size_t len);

/* session_log.c */
struct session_log *session_log_new(
	struct store *store, const char *id, uint64_t epoch, const char *title, int64_t created_at);
void session_log_free(struct session_log *log);
/** The file, opened if need be; a negative errno if that fails. */
int session_log_fd(struct session_log *log);
/** Notes that the next event's line begins at the log's end and is `len` bytes long. */
void session_log_index_add(struct session_log *log, size_t len);

/* checkpoint.c */
/** Checkpoints all logs that have changed, and then drops the segments before `segment`. */
void checkpoint_all(struct store *store, uint64_t segment);
/** The same for all dirty logs, at once. */
int checkpoint_now(struct store *store);
/** Writes metadata.json of a log into its folder (not synced). */
int metadata_write(struct session_log *log, bool sync);

/* recover.c */
int recover(struct store *store, char **ret_why);
/**
 * Gives the owner of each log whose `rewind` is set the journal's records of it again, up to the
 * last good batch.
 */
int recover_rewind(struct store *store);

#endif
