/*
 * Internals of the store: the structs of logs and of the embedded engine, and what its files share.
 */
#ifndef HOLDFAST_STORE_INTERNAL_H
#define HOLDFAST_STORE_INTERNAL_H

#include "ages.h"
#include "aside.h"
#include "checksum.h"
#include "disk_io.h"
#include "engine.h"
#include "html_follow.h"
#include "journal_read.h"
#include "left_out.h"
#include "metadata.h"
#include "names.h"
#include "prune.h"

#include "holdfast/buffer.h"
#include "holdfast/disk.h"
#include "holdfast/hash.h"
#include "holdfast/list.h"
#include "holdfast/pool.h"
#include "holdfast/store.h"
#include "holdfast/store_files.h"
#include "holdfast/worker.h"

/*
 * The format of a journal segment (a digit in its magic) and that of a session's folder. Each is
 * raised when a reader has to know about a change; the version before always remains readable. See
 * "Versions" in proto/store-format.md.
 */
#define JOURNAL_FORMAT         3
#define JOURNAL_FORMAT_OLDEST  2
#define FOLDER_FORMAT          2
#define FOLDER_FORMAT_OLDEST   1
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

/** The names of a log: keys.jsonl. */
struct log_keys {
	bool is_seen; /* the file was checked: it is `size` bytes long */
	struct durable_part disk;
	uint64_t size; /* bytes of the file that count */
	uint64_t input_names; /* the number of names given by inputs over the session's life */
	struct buffer unwritten; /* lines that are not in the file yet */
	struct name_table names; /* all names, or none: they are not in memory */
	void *job; /* of the engine, which reads the names; or NULL */
	int error; /* of the last attempt to read them; 0: it succeeded */
	struct list waits; /* struct names_wait */
	struct buffer found; /* the result of the last lookup */
	bool is_told; /* that some are lost; it counts as damaged */
	bool is_remade; /* the file was damaged, and was made anew */
	uint64_t recovered; /* names whose lines were lost, and that the journal had */
	/* Recovery: the names of inputs that gave events up to this one are in the file, or replayed. */
	uint64_t known_to;
	uint64_t doubtful; /* a repair: names that may have been in records that are gone */
};

struct session_log {
	struct store *store;
	struct list link; /* store.logs */
	struct list fd_link; /* store.open_logs, newest last; linked to itself if fd is -1 */
	void *owner;
	char *id;
	uint64_t epoch;
	int64_t created_at;
	int64_t updated_at;
	/* Used by the journal's thread only. */
	int fd; /* of events.jsonl, or -1 */
	bool has_torn_end; /* an append has failed: the file may have more bytes than it should */

	uint64_t snapshot_round; /* the store.snapshot_round of its newest snapshot */
	uint64_t fence; /* grows with each server that takes the session over */
	uint64_t last_record; /* the number of its newest record, from 1 */
	void *engine_data; /* of engines other than the embedded one */
	bool rewind; /* see session_log_rewind() */
	bool is_hidden; /* it is not found by its id any more */
	bool is_removed; /* it is in no table or list any more */
	bool is_mirror; /* another server has the session: see session_log_mirror() */
	bool is_unconfirmed; /* its RECORD_CREATE is not durable: it has no metadata.json yet */
	bool dirty; /* changed since its last checkpoint */
	bool lacks_folder; /* its folder has not been made yet, or could not be */
	struct buffer first_metadata; /* metadata.json for that folder, without events */
	bool is_moved; /* events.jsonl was replaced, and must be opened again */
	bool is_writing; /* the journal's thread is using its files */
	bool has_new_files; /* since its last checkpoint: its folder must be synced, too */

	uint64_t first_seq; /* the first event that is not pruned */
	uint64_t first_at; /* offset of its line in the file */
	int64_t first_ts; /* its ts; 0 if the log is empty */
	uint64_t base_seq; /* of the first line in the file */
	uint64_t last_seq;
	uint64_t size; /* of the log, including unwritten lines */
	uint64_t written; /* bytes that are in the file */
	bool wants_prune; /* prune with its next checkpoint */
	bool is_frozen; /* a checkpoint is pruning it, and may replace its file */
	struct buffer unwritten; /* lines that are not in the file yet */
	struct log_write *write; /* work for the next run of the journal's thread, or NULL */
	void *facts; /* see store.ops->facts */
	struct log_index index;
	struct log_keys keys;
	struct list waiting; /* struct cold_read: waits for the index */

	/* The hot tail: the newest events, up to last_seq (a ring). */
	struct event **hot;
	size_t hot_capacity;
	size_t hot_head;
	size_t hot_count;
	size_t hot_size; /* bytes of JSON */
	uint64_t hot_offset; /* offset of the line of its first event */

	uint64_t certain_size; /* bytes of the file that are durable */
	/*
	 * A sync has failed, in this run of the server or in the last one: the bytes that follow
	 * may be in the page cache only, and the next sync would not write them.
	 */
	bool is_suspect;
	uint64_t digest; /* of its id, for store.by_id */
	struct session_log *next_in_chain;
	struct html_log html;
	struct list wanted_link; /* store.wanted: a checkpoint of its own is due */
	uint64_t round; /* the last round of checkpoints that it was in */

	uint64_t damage_from; /* the range that the newest read with damage found; 0: none has */
	uint64_t damage_to;
	struct repair *repair; /* repair.h; NULL: it is not being repaired */

	char room[40]; /* holds the id if it fits */
};

/** Logs by their ids: a hash table with chains, and the pool that the logs live in. */
struct log_table {
	struct session_log **chains; /* `chain_count` of them, a power of two */
	size_t chain_count;
	size_t count;
	uint64_t seed;
	struct pool pool; /* struct session_log */
};

/** What is written to the data directory: store_room.c. */
struct store_use {
	uint64_t written; /* bytes of groups that the engine has written */
	uint64_t others; /* bytes written by others: store_note_others() */
	struct store_room *room; /* NULL: max_disk is not set */
};

/** How the wall clock was set: store_clock.c. */
struct store_clock {
	struct ages ages;
	bool is_unwritten; /* `ages` has changes that are not in clock.json yet */
	bool is_writing; /* clock.json is being written */
	bool is_unknown; /* clock.json could not be read: it is not overwritten */
};

struct store {
	uv_loop_t *loop;
	const struct limits *limits;
	const struct store_ops *ops;
	void *owner;
	struct metrics *metrics; /* NULL: nothing is counted */
	struct store_use use;
	enum store_durability durability;
	int dir_fd;
	int sessions_fd;
	int lock_fd;
	struct journal journal;
	struct list logs;
	struct log_table by_id;
	struct list open_logs;
	size_t open_count;
	/* Checkpoints: one portion of logs is in progress at a time. */
	bool checkpointing;
	struct list wanted; /* struct session_log */
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
	 * session was deleted, &store->leftovers if the folder is damaged and must be kept.
	 */
	struct hash *leftovers;
	/*
	 * Sessions that could not be read and are retried: char * by id. The journal keeps their
	 * records.
	 */
	struct hash *left_out;
	struct hash *aside; /* struct aside, by id */
	uv_timer_t *left_out_timer;
	int64_t left_out_ms; /* the next interval between retries */
	uint64_t found_segment; /* the newest segment at the start; 0: the journal was empty */
	uv_timer_t *prune_timer;
	unsigned jobs; /* on the thread pool and the renderer's thread, and queued pages */
	unsigned reads_running; /* cold reads on the pool */
	struct list reads_due; /* struct cold_read: those that wait */
	struct renderer *renderer;
	struct html_follower *html;
	struct blobs blobs;
	struct store_clock clock;
	unsigned looking_back; /* left-out sessions that the thread pool is trying to read */
	const struct store_engine *engine;
	void *engine_state; /* of engines other than the embedded one */
	uint64_t synced_lsn; /* of the newest group that is durable */
	int error; /* negative errno while groups cannot be made durable */
	uint64_t snapshot_round; /* grows when every session needs a new snapshot */
	bool takes_snapshots; /* snapshots may be appended even while inputs are refused */
	bool is_rewinding; /* the engine reads the records for session_log_rewind() */
	bool is_replaying; /* events and names that the owner adds are in the journal already */
	const struct store_repair *repair; /* NULL: damaged sessions are set aside */
	bool takes_older; /* see struct store_place */
	bool journal_is_damaged; /* see store_journal_is_damaged() */
	size_t damaged; /* see store_count_damaged() */
	bool opening; /* recovery is in progress: everything runs on this thread and blocks */
	struct server_life *life;
};

/* embedded.c */
extern const struct store_engine store_embedded;
/** Completes a data directory once it is known to be ours: trash/, set-aside/, the lock's owner. */
int store_settle(struct store *store, char **ret_why);

/* journal.c */
/** Members of struct store_engine. */
void journal_launch(struct store *store);
size_t journal_backlog(const struct store *store);
/** Gathers a record; returns the lsn of its batch. */
int64_t journal_append(struct journal *journal, const struct record *record);
void journal_init(struct journal *journal, struct store *store);
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

/* versions.c */
/** Whether this program knows the record's kind; if not, whether a reader may skip the record. */
bool record_is_known(const struct record *record);
bool record_may_be_left_out(const struct record *record);
/** Appends why this program cannot read a segment for which journal_reader returned -ENOTSUP. */
void versions_tell_segment(const struct journal_reader *reader, struct buffer *out);
/**
 * Appends why this program cannot read a record, and returns true; or returns false if it can.
 * `is_foreign` NULL: every snapshot can be read.
 */
bool versions_tell_record(
	snapshot_is_foreign *is_foreign, const struct record *record, struct buffer *out);
/** The same for a session's folder. */
bool versions_tell_folder(int sessions_fd, const char *id, struct buffer *out);

/* store.c */
/** Adds to the number of sessions known to be damaged; `count` may be negative. */
void store_add_damaged(struct store *store, int count);

/* session_log.c */
/** Makes a log, and adds it to the store. Takes over the facts. */
struct session_log *session_log_new(
	struct store *store, const char *id, uint64_t epoch, int64_t created_at, void *facts);
void session_log_free(struct session_log *log);
/** Gets the log with this id and epoch; NULL if it is gone, or another session has the id now. */
struct session_log *session_log_of(struct store *store, const char *id, uint64_t epoch);
/** Removes the log from the table: it is not found by its id any more, and another may have it. */
void session_log_hide(struct session_log *log);
/** Removes the log from all tables and lists, before it is freed. */
void session_log_unlist(struct session_log *log);
/** Adds the next event, which is durable, to the log in memory. */
void session_log_take(struct session_log *log, struct event *event, int64_t ts);
/** Drops the oldest events of the hot tail beyond its limit, except those not in the file yet. */
void session_log_trim(struct session_log *log);
/** Adds the log's newest event to the hot tail; takes a reference of its own. */
void session_log_keep(struct session_log *log, struct event *event);
/** Updates the log's facts, names and numbers for its next event, a line of `len` bytes. */
void session_log_count(struct session_log *log, const struct event_view *view, size_t len);
/** Drops events before `seq`, which are in the file, from the hot tail. */
void session_log_forget_before(struct session_log *log, uint64_t seq);
/** The first seq of the hot tail; last + 1 if it is empty. */
uint64_t session_log_hot_first(const struct session_log *log);
/** The last seq whose line is completely in the file; *ret_end is the offset of its end. */
uint64_t session_log_last_written(const struct session_log *log, uint64_t *ret_end);
/** An event of the hot tail. */
struct event *session_log_hot_at(const struct session_log *log, uint64_t seq);

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
/** Member of struct store_engine: drops the work for the log, and cancels reads that wait. */
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

/* log_table.c */
void log_table_init(struct log_table *table);
/** The table must be empty. */
void log_table_finish(struct log_table *table);
struct session_log *log_table_get(const struct log_table *table, const char *id, size_t len);
void log_table_put(struct log_table *table, struct session_log *log);
void log_table_remove(struct log_table *table, struct session_log *log);

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
struct gap;
/** On the loop: a read found this gap in the log. The session counts as damaged from then on. */
void log_note_damage(struct session_log *log, const struct gap *gap);

/* log_keys.c */
/** Adds a name; `log` is a struct session_log. */
void log_keys_add(void *log, const struct log_name *name);
/**
 * Adds the nth name given by inputs, unless the log has it; its input is durable. While the store is
 * opened, also one that the log should have and lacks.
 */
void log_keys_add_input(struct session_log *log, uint64_t nth, const struct log_name *name);
/** Recovery has replayed the inputs up to this event, and so has their names. */
void log_keys_note_replayed(struct session_log *log, uint64_t seq);
/**
 * After a replay that lacks records: the log may have events behind them, whose inputs may have given
 * names. As many names count as lost as there are such events.
 */
void log_keys_doubt(struct session_log *log);
/** Says, once the store is open, that names are lost: appends that need them are refused. */
void log_keys_tell_missing(struct session_log *log);
/** Before the log is freed: ends the waits for its names. */
void log_keys_finish(struct log_keys *keys);
/** Drops the names from memory; they are read again for the next lookup. */
void log_keys_rest(struct log_keys *keys);

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

/* store_clock.c */
/** Member of struct store_engine. */
int64_t store_clock_now(struct store *store);
/* What a start says of the journal, and holdfast verify. */
#define RECORD_UNKNOWN \
	"it is not known of which session, as neither a folder nor a record tells its id. What is lost is an input of it, or the whole session"
#define JOURNAL_HEADLESS "has no good header, although batches follow"
/* What a start says of it, and holdfast verify. */
#define CLOCK_DAMAGED "its record of when the clock was set is lost, and it is made anew"
#define CLOCK_UNREAD  "no events are pruned by age until it can be read, or is removed, at a start"
/** Returns 0, -ENOENT if there is no clock.json, -EBADMSG if it is damaged, or another errno. */
int store_clock_read(int dir_fd, struct ages *ret);
/** Reads clock.json; at the start. */
void store_clock_begin(struct store *store);
/** Writes clock.json if it is outdated. Blocks; at the start and before closing. */
void store_clock_write(struct store *store);
/** Whether the wall clock is trusted enough to prune events by age. */
bool store_clock_is_trusted(struct store *store);

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

/* store_room.c */
/** Called once the store is recovered. Measures the data directory, which blocks. */
void store_room_begin(struct store *store);
void store_room_finish(struct store *store);

#endif
