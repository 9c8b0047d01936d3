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
	bool reviving; /* the batch in flight is to end that */
	bool takes_snapshots; /* they are being gathered for that batch; inputs are refused */
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
	bool is_unconfirmed; /* the journal has no record of it on disk yet: it has no metadata */
	bool dirty; /* changed since its last checkpoint */
	bool is_placed; /* the names of its files are on disk */
	uint64_t certain_size; /* bytes of the file that are on disk */
	/*
	 * What stands behind them may be in memory only though no sync would write it: one has
	 * failed, in this run of the server or in the last one.
	 */
	bool is_suspect;
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
	/*
	 * A folder is not as the journal has it, and could not be brought in order: no segment goes
	 * until the next start has done it.
	 */
	bool has_leftover;
	struct hash *leftovers; /* the store itself, by the id of each session deleted in vain */
	unsigned jobs; /* on the thread pool, but for the journal's batch */
	bool opening; /* recovery is under way: nothing is left to the thread pool */
	bool closing;
};

/* journal.c */
void journal_init(struct journal *journal, struct store *store);
void journal_finish(struct journal *journal);
/** Writes what is gathered and waits; for start and shutdown. */
int journal_sync_now(struct journal *journal);
/** Deletes the oldest segment; `sync`: for good. If that fails, it is the oldest still. */
int journal_drop_oldest(struct journal *journal, bool sync);

/** Names a session within a journal: XXH3_64 of its id, seeded with its epoch. */
uint64_t journal_session_hash(const char *id, size_t id_len, uint64_t epoch);

/* journal_read.c */
struct journal_reader {
	struct buffer bytes; /* the whole segment */
	uint64_t before_segment; /* what its header tells of the one before it; 0: none; or */
#define JOURNAL_BEFORE_UNKNOWN UINT64_MAX /* the header is damaged */
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
/**
 * Forgets segments before `segment`, the oldest one for good before the next: a journal without its
 * middle would bring deleted sessions back. Where one cannot be deleted, the next checkpoint of all
 * logs tries again.
 */
void checkpoint_drop_before(struct store *store, uint64_t segment);
/** Writes metadata.json of a log into its folder (not synced). */
int metadata_write(struct session_log *log, bool sync);

/* The end of metadata.json: the checksum of all that stands before it, as in a line of a log. */
#define METADATA_CHECK_FORMAT ",\"xxh\":\"%016llx\"}\n"
#define METADATA_CHECK_LEN    27

/* metadata.c */
struct metadata {
	uint64_t epoch;
	uint64_t first_seq;
	uint64_t max_seq;
	int64_t created_at;
	char *title;
};
/**
 * Reads a session's metadata.json. -ENOENT if there is none, -EBADMSG if it is damaged, other
 * errors if that is not known.
 */
int metadata_read(struct store *store, const char *id, struct metadata *meta);
struct json_t;
/** Whether the file's checksum fits its bytes; files of before there was one have none. */
bool metadata_seal_is_good(const struct buffer *bytes, const struct json_t *json);
/** The next bytes of a file, put behind what is in `bytes`; 0 at its end, a negative errno. */
ssize_t store_read_more(int fd, struct buffer *bytes);

/* rewrite.c */
/**
 * Writes the lines of a log between two offsets once more, in their place. -EBADMSG if what is read
 * back are not the lines that were written. For the thread pool.
 */
int log_rewrite(int dir_fd, uint64_t from, uint64_t to);

/* recover.c */
int recover(struct store *store, char **ret_why);
/**
 * Gives the owner of each log whose `rewind` is set the journal's records of it again, up to the
 * last good batch.
 */
int recover_rewind(struct store *store);

#endif
