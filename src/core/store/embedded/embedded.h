/*
 * The embedded engine: a data directory. Its part of a log and of a store, and what its files share.
 * Nothing above the seam (engine.h) includes this.
 */
#ifndef HOLDFAST_EMBEDDED_H
#define HOLDFAST_EMBEDDED_H

#include "core/store/html/html_follow.h"
#include "journal_read.h"
#include "left_out.h"
#include "rewrite.h"
#include "core/store/store_internal.h"
#include "versions.h"

#include "holdfast/store_files.h"
#include "holdfast/worker.h"

#define JOURNAL_MAGIC_FAMILY   "HFJRNL" /* a digit and a newline follow */
#define JOURNAL_FLAGS_MAY_SKIP 0xffffffff00000000u /* a reader must know the others */
#define JOURNAL_FLAG_RELAXED   0x100000000u /* its batches are not synced one by one */
#define JOURNAL_HEADER_SIZE    48
#define BATCH_MAGIC            0x54424648u /* "HFBT" */
#define BATCH_HEADER_SIZE      32 /* magic 4, count 4, length 8, number 8, checksum 8 */
#define BATCH_ENTRY_SIZE       12 /* session 8, length 4: one for each record, in the trailer */
#define BATCH_TRAILER_SIZE     12 /* after the entries: count 4, checksum 8 */
#define RECORD_HEADER_SIZE     16 /* checksum 8, body length 4, kind 2, id length 2 */

/**
 * The write side of the journal: one segment is open, one batch is in flight (being written and
 * synced by the journal's thread), the next one gathers.
 */
struct journal {
	struct store *store;
	enum store_durability durability;
	int dir_fd;
	int fd; /* the open segment; -1 before the first batch */
	uint64_t segment; /* number of the segment for gathered records */
	uint64_t fd_segment; /* number of the open one */
	_Atomic uint64_t oldest_segment; /* the oldest one still on disk; any thread may read it */
	size_t segment_len; /* bytes of the open segment that are known to be good */
	size_t room; /* allocated length of its file, ahead of its batches */
	bool has_no_room; /* allocating ahead does not work */
	uint64_t batch_number; /* of the gathering batch, in its segment */
	/* Where the history before the open segment ends, for the header of the next segment. */
	uint64_t before_segment;
	size_t before_len;
	uint64_t open_before_segment; /* the same, as the open segment's own header has it */
	size_t open_before_len;
	size_t snapshot_len; /* length of the snapshots at the start of the newest segment */
	struct buffer gather;
	size_t gather_start; /* offset of the batch in `gather`, after a segment's header */
	struct buffer entries; /* of the gathering batch's trailer */
	uint32_t gather_count;
	struct buffer flight;
	/* Other work of the journal's thread: see log_write.c. */
	struct list gather_writes; /* struct log_write */
	struct list flight_writes;
	struct list gather_removals; /* struct removal */
	struct list flight_removals;
	bool wants_run; /* run the thread even without a batch */
	bool has_batch; /* the current run has one */
	struct checkpoint *checkpoint; /* which the current run writes for, or NULL */
	uint64_t gather_lsn; /* of the gathering group */
	uint64_t flight_lsn; /* of the group that is or was in flight */
	uint32_t flight_count;
	uint64_t flight_ns; /* how long the thread took for it */
	uint64_t folders_ns; /* how long this run has spent on sessions' folders */
	bool in_flight; /* the thread is running */
	uv_timer_t *revive_timer;
	int result; /* of the batch in flight */
	bool is_in_doubt; /* the batch has failed, and its bytes could not be removed again */
	bool rotated; /* the batch in flight is the first of its segment */
	struct worker *writer; /* the journal's own thread, so that no other work delays it */
};

/** The state of events.index. */
enum index_state {
	INDEX_UNSEEN, /* the file has not been checked */
	INDEX_GOOD, /* it has `count` entries */
	INDEX_LOST, /* it cannot be used: the next cold read rebuilds it */
	INDEX_BUILDING, /* it is being rebuilt */
};

/** How much of a file beside the log is durable. */
struct durable_part {
	bool is_unsynced; /* the file has more than `certain` */
	bool is_suspect; /* a sync of it has failed: rewrite what it should have written */
	uint64_t certain; /* bytes that are durable */
};

struct log_index {
	enum index_state state;
	struct durable_part disk;
	bool was_built; /* it was rebuilt from the log since the start */
	bool build_is_due; /* rebuild it as soon as the log is not frozen or being written */
	uint64_t count; /* entries in the file */
	struct buffer fresh; /* entries that follow, in memory */
};

/** keys.jsonl of a log. */
struct keys_file {
	bool is_seen; /* it was checked: it is log->keys.size bytes long */
	struct durable_part disk;
};

/** The engine's part of a log: session_log.engine_data. */
struct embedded_log {
	struct session_log *log;
	/* Used by the journal's thread only. */
	struct list fd_link; /* embedded_store.open_logs, newest last; alone if fd is -1 */
	int fd; /* of events.jsonl, or -1 */
	bool has_torn_end; /* an append has failed: the file may have more bytes than it should */

	bool is_unconfirmed; /* its RECORD_CREATE is not durable: it has no metadata.json yet */
	bool lacks_folder; /* its folder has not been made yet, or could not be */
	bool is_moved; /* events.jsonl was replaced, and must be opened again */
	bool is_writing; /* the journal's thread is using its files */
	bool has_new_files; /* since its last checkpoint: its folder must be synced, too */
	bool is_frozen; /* a checkpoint is pruning it, and may replace its file */
	/*
	 * A sync has failed, in this run of the server or in the last one: the bytes after
	 * `certain_size` may be in the page cache only, and the next sync would not write them.
	 */
	bool is_suspect;
	uint64_t certain_size; /* bytes of the file that are durable */
	struct buffer unwritten; /* lines that are not in the file yet */
	struct buffer first_metadata; /* metadata.json of a folder to be made, without events */
	struct log_write *write; /* work for the next run of the journal's thread, or NULL */
	struct log_index index;
	struct list waiting; /* struct cold_read: waits for the index */
	struct keys_file keys;
	struct html_log html;
	struct list wanted_link; /* embedded_store.wanted: a checkpoint of its own is due */
	uint64_t round; /* the last round of checkpoints that it was in */
	struct repair *repair; /* repair.h; NULL: it is not being repaired */
};

/** The engine's state: store.engine_state. */
struct embedded_store {
	int sessions_fd;
	int lock_fd;
	struct journal journal;
	struct pool logs; /* struct embedded_log */
	struct list open_logs; /* struct embedded_log, of the journal's thread */
	size_t open_count;
	/* Checkpoints: one portion of logs is in progress at a time. */
	bool checkpointing;
	struct list wanted; /* struct embedded_log */
	uint64_t round; /* number of the newest round: a checkpoint of all changed logs */
	uint64_t round_segment; /* the current round then drops older segments; 0: no round */
	bool round_is_good;
	uint64_t drop_before; /* the same, of the next round; 0: none is due */
	/*
	 * A session's folder differs from what the journal says, and could not be corrected: no
	 * segment is dropped until the next start has corrected it.
	 */
	bool has_leftover;
	/*
	 * Sessions whose folder could not be moved away, by id. The value is the store if the
	 * session was deleted, &leftovers if the folder is damaged and must be kept.
	 */
	struct hash *leftovers;
	/*
	 * Sessions that could not be read and are retried: char * by id. The journal keeps their
	 * records.
	 */
	struct hash *left_out;
	uv_timer_t *left_out_timer;
	int64_t left_out_ms; /* the next interval between retries */
	unsigned looking_back; /* left-out sessions that the thread pool is trying to read */
	uint64_t found_segment; /* the newest segment at the start; 0: the journal was empty */
	unsigned reads_running; /* cold reads on the pool */
	struct list reads_due; /* struct cold_read: those that wait */
	struct html_follower *html;
	const struct store_repair *repair; /* NULL: damaged sessions are set aside */
};

static inline struct embedded_store *embedded_of(const struct store *store)
{
	return store->engine_state;
}

static inline struct embedded_log *embedded_log_of(const struct session_log *log)
{
	return log->engine_data;
}

/* embedded.c */
/** Completes a data directory once it is known to be ours: trash/, set-aside/, the lock's owner. */
int store_settle(struct store *store, char **ret_why);

/** Fills in the state, and gives it to the store. */
void embedded_begin(struct embedded_store *emb, struct store *store);
void embedded_finish(struct embedded_store *emb);
/** Makes a log with the engine's part; see session_log_new(). */
struct session_log *embedded_log_new(
	struct store *store, const char *id, uint64_t epoch, int64_t created_at, void *facts);

/* journal.c */
/** Members of struct store_engine. */
void journal_launch(struct store *store);
size_t journal_backlog(const struct store *store);
/** Gathers a record; returns the lsn of its batch. */
int64_t journal_append(struct journal *journal, const struct record *record);
void journal_init(struct journal *journal, struct store *store, enum store_durability durability);
void journal_finish(struct journal *journal);
/** Writes and syncs what is gathered. Blocks; for start and shutdown. */
int journal_sync_now(struct journal *journal);
/** Runs the thread's other work without a batch. Blocks. */
void journal_run_now(struct journal *journal);
/** The journal cannot be written: schedules another attempt. */
void journal_revive_later(struct journal *journal);
/** Before closing: cuts off the space allocated after the last batch of the open segment. */
void journal_give_room_back(struct journal *journal);
/**
 * Deletes the segments `from` up to, but not including, `to`. Each deletion is made durable before
 * the next one, because a journal with a hole would bring deleted sessions back. That of the last
 * one only if `sync_last`; else the sync of the next new segment does it, and a crash before that
 * may bring the segment back, complete. Returns the number of the oldest segment left: if one
 * cannot be deleted, the next checkpoint of all logs tries again. Any thread.
 */
uint64_t journal_drop(int dir_fd, uint64_t from, uint64_t to, bool sync_last);
/** Notes the oldest segment that is left. */
void journal_dropped(struct journal *journal, uint64_t oldest);

/**
 * Makes the first segment of a directory that no server has used yet, for journal_append() only.
 */
struct journal *journal_make(void);
/** Writes what was appended, if anything, and frees the journal. */
int journal_make_end(struct journal *journal, int dir_fd);

/* store_files.c */
/** The ids of the sessions that have a folder, sorted; disk_list_free() frees them. */
int store_list_ids(int sessions_fd, char ***ret_ids, size_t *ret_count);

/* log_write.c */
struct checkpoint_item;
/** Members of struct store_engine. */
struct log_part *log_write_part(struct session_log *log);
void log_write_remove(struct session_log *log);
int log_write_rest(struct session_log *log);
void log_write_replayed(struct session_log *log, struct event *event, int64_t ts);
/** The gathering batch has the log's RECORD_CREATE. */
void log_write_create(struct session_log *log);
/** Has the folder of a log without events made by the next run of the journal's thread that can. */
void log_write_wants_folder(struct session_log *log);
/** Has the next run write everything that the log's files lack; `item` (or NULL) is notified. */
void log_write_whole(struct session_log *log, struct checkpoint_item *item);
/** Has the next run close the log's file until it is needed again. */
void log_write_close(struct session_log *log);
/** Member of struct store_engine. */
void log_write_drop(struct session_log *log);
/** The gathering batch is refused: drops the events that it would complete. */
void log_writes_forget_events(struct journal *journal);
/** Hands the gathered work to the run that begins. */
void log_writes_launch(struct journal *journal);
/** On the journal's thread: the work before the batch, and, if that is durable, after it. */
void log_writes_before(struct journal *journal);
void log_writes_after(struct journal *journal);
/** Back on the loop: updates the logs with what the run has done. */
void log_writes_land(struct journal *journal, bool is_synced);
/** On the journal's thread, or on the loop while that thread is idle. */
void log_file_close(struct session_log *log);

/* log_scan.c */
/**
 * Called for a line of `len` bytes, including its newline; `view` is NULL if its checksum or format
 * is wrong. Returns a value other than 0 to end the scan.
 */
typedef int (*log_scan_line)(void *arg, const struct event_view *view, uint64_t offset, size_t len);
/**
 * Calls `see` for each line between two offsets, up to the last newline. Returns what it returned
 * last, or a negative errno. Any thread.
 */
int log_scan(int fd, uint64_t from, uint64_t to, log_scan_line see, void *arg);
/** Returns 0 if the line of this event ends at `size`, -EBADMSG if not, or another error. */
int log_check_last(int fd, uint64_t size, uint64_t seq);

/* log_index.c */
/** Adds the entry of the log's next event, whose line starts at `offset`. */
void log_index_add(struct session_log *log, uint64_t offset);
/** Prepares an append of the entries in memory, if there are enough of them, or `all`. */
void log_index_launch(struct session_log *log, bool all, struct file_append *ret);
/** Takes the result of that append; returns a negative errno if it failed. */
int log_index_land(struct session_log *log, const struct file_append *append);
/** The size of the file in bytes. */
uint64_t log_index_size(const struct log_index *index);
/** The index cannot be continued: the next cold read rebuilds it. */
void log_index_lose(struct log_index *index);
/** Takes an index that log_index_make() has just made for a frozen log. */
void log_index_take(struct session_log *log, uint64_t count);
/** A log, for use on the thread pool, which must not touch a struct session_log. */
struct index_source {
	uint64_t epoch;
	uint64_t first_seq; /* of the first line in the file */
	uint64_t last_seq; /* of the last line that counts */
	uint64_t end; /* where that line ends */
	int fd; /* of the file */
	int dir_fd; /* of its folder */
};
/** The first line that cannot be read. */
struct index_damage {
	uint64_t seq; /* the event that should be there; 0: no line is damaged */
	uint64_t offset;
};
/** Writes and syncs events.index of a log. Any thread. */
int log_index_make(const struct index_source *source, struct index_damage *ret_damage);
/** Rebuilds the index once the log's files are not in use; log_reads_resume() follows. */
void log_index_build(struct session_log *log);
/** The log's files are not in use any more: begins a rebuild that waited for that. */
void log_index_resume(struct session_log *log);
/** The first seq whose entry is in memory. */
uint64_t log_index_first_fresh(const struct session_log *log);
/** The offset of an event whose entry is in memory. */
uint64_t log_index_fresh_at(const struct session_log *log, uint64_t seq);
/** Reads `count` entries, that of `from` first. -ESTALE if the file ends before. Any thread. */
int log_index_read(int fd, uint64_t first_seq, uint64_t from, uint64_t *offsets, size_t count);
/** Reads the header; -EBADMSG if it is damaged, -ESTALE if the file is too short. */
int log_index_read_header(int fd, uint64_t *ret_epoch, uint64_t *ret_first_seq);

/* cold_read.c */
/** Member of struct store_engine. */
void cold_read_start(struct session_log *log, struct log_read *read);
/** The index was rebuilt, or status < 0: continues the reads that waited for it, or ends them. */
void log_reads_resume(struct session_log *log, int status);

/* keys_file.c */
/** Has the names written if many are unwritten. */
void keys_file_flush(struct session_log *log);
/** Prepares an append of the unwritten names, if there are enough of them, or `all`. */
void keys_file_launch(struct session_log *log, bool all, struct file_append *ret);
/**
 * Takes the result of that append. Returns a negative errno if it failed, -EBUSY if the file is
 * being read or rebuilt.
 */
int keys_file_land(struct session_log *log, struct file_append *append);
/** Member of struct store_engine. */
int keys_file_load(struct session_log *log, bool now);
/** The log's files are not in use any more: begins to read names that somebody waits for. */
void keys_file_resume(struct session_log *log);

/* prune_file.c */
/** Member of struct store_engine. */
void prune_look(struct store *store);
/** Determines what to prune of a log that is being checkpointed; if anything, freezes the log. */
void prune_begin(struct session_log *log, struct prune *ret);
/**
 * Moves first_seq in `meta` beyond the events that may be pruned; changes nothing else. `fd` is the
 * log's file. Thread pool.
 */
int prune_find(const struct prune *prune, int fd, struct metadata *meta);
/** Whether the file has enough pruned lines to rewrite it. */
bool prune_is_due(const struct prune *prune, const struct metadata *meta);
/** Rewrites events.jsonl without the pruned lines, and updates `meta`. Thread pool. */
int prune_rewrite(int dir_fd, int fd, struct metadata *meta);
/**
 * Updates the log after pruning, and thaws it. `meta` is NULL if nothing was pruned;
 * `has_new_file`: the file was rewritten.
 */
void prune_end(struct session_log *log, const struct metadata *meta, bool has_new_file);

/* checkpoint.c */
/** Members of struct store_engine. */
void checkpoint_log(struct session_log *log);
int checkpoint_epoch(
	struct session_log *log, uint64_t epoch, int64_t ts, const struct buffer *snapshot);
/** Checkpoints all logs that have changed, and then drops the segments before `segment`. */
void checkpoint_all(struct store *store, uint64_t segment);
/**
 * Begins the next portion of logs, unless one is in progress. The run being launched writes them.
 */
struct checkpoint *checkpoint_begin(struct store *store);
/** The run has written one log, or failed with `status`. Takes over the descriptors. */
void checkpoint_item_written(
	struct checkpoint_item *item, struct session_log *log, int status, int dir_fd, int fd);
/** The run has written all of them: continues on the thread pool. Accepts NULL. */
void checkpoint_go(struct checkpoint *cp);
/** Checkpoints all dirty logs. Blocks. */
int checkpoint_now(struct store *store);
/* recover_session.c */
/**
 * Makes a log, *ret_log, from a session's folder. Returns -EBADMSG, with *ret_why set, if the
 * folder is damaged, or another error if it cannot be read.
 */
int recover_session(struct store *store, const char *id, struct metadata *meta,
	struct session_log **ret_log, const char **ret_why);
/** Deletes a session's folder with its files; returns whether it is gone. */
bool remove_folder(int dir_fd, const char *name);

/* recover.c */
int recover(struct store *store, char **ret_why);

#endif
