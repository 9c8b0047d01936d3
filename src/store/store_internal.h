/* What the files of the embedded engine share. */
#ifndef HOLDFAST_STORE_INTERNAL_H
#define HOLDFAST_STORE_INTERNAL_H

#include "ages.h"
#include "disk_io.h"
#include "engine.h"
#include "journal_read.h"
#include "left_out.h"
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
 * The format of a journal segment, a digit in its magic, and that of a session's folder. Each is
 * raised when what is written changes in a way that a reader has to know; the one before is always
 * read. proto/store-format.md, "Versions", says how.
 */
#define JOURNAL_FORMAT         3
#define JOURNAL_FORMAT_OLDEST  2
#define FOLDER_FORMAT          2
#define FOLDER_FORMAT_OLDEST   1
#define JOURNAL_MAGIC_FAMILY   "HFJRNL" /* a digit and a newline follow */
#define JOURNAL_FLAGS_MAY_SKIP 0xffffffff00000000u /* the others, a reader has to know */
#define JOURNAL_FLAG_RELAXED   0x100000000u /* its batches are not synced one by one */
#define JOURNAL_HEADER_SIZE    48
#define BATCH_MAGIC            0x54424648u /* "HFBT" */
#define BATCH_HEADER_SIZE      32 /* magic 4, count 4, length 8, number 8, checksum 8 */
#define BATCH_ENTRY_SIZE       12 /* session 8, length 4: one for each record, in the trailer */
#define BATCH_TRAILER_SIZE     12 /* behind the entries: count 4, checksum 8 */
#define RECORD_HEADER_SIZE     16 /* checksum 8, body length 4, kind 2, id length 2 */

/** The write side of the journal: one segment open, one batch in flight, one gathering. */
struct journal {
	struct store *store;
	int dir_fd;
	int fd; /* the open segment; -1 before the first batch */
	uint64_t segment; /* number that gathered records go to */
	uint64_t fd_segment; /* number of the open one */
	uint64_t oldest_segment; /* still on disk */
	size_t segment_len; /* bytes of the open segment that are known good */
	size_t room; /* how long its file has been made, ahead of its batches */
	bool has_no_room; /* that does not work */
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
	/* What else the thread does: log_write.c. */
	struct list gather_writes; /* struct log_write */
	struct list flight_writes;
	struct list gather_removals; /* struct removal */
	struct list flight_removals;
	bool wants_run; /* also without a batch */
	bool has_batch; /* the run under way */
	struct checkpoint *checkpoint; /* that the run under way writes for; NULL: none */
	uint64_t gather_lsn; /* of the group that gathers, and that is or was in flight */
	uint64_t flight_lsn;
	uint32_t flight_count;
	uint64_t flight_ns; /* how long the thread took */
	uint64_t folders_ns; /* and for the folders of sessions, in this run */
	uint64_t written; /* bytes of batches on disk so far */
	bool in_flight; /* the thread is at work */
	uv_timer_t *revive_timer;
	int result; /* of the batch in flight */
	bool is_in_doubt; /* it has failed, and what it wrote could not be taken back */
	bool rotated; /* the batch in flight is the first of its segment */
	struct worker *writer; /* a thread of its own: nothing else may keep it from the disk */
};

/** What is written of events.index, and what is not yet. */
enum index_state {
	INDEX_UNSEEN, /* the file has not been looked at */
	INDEX_GOOD, /* it has `count` entries */
	INDEX_LOST, /* there is none to go on with: the next cold read makes it again */
	INDEX_BUILDING, /* that is under way */
};

/** How much of a file beside the log is on disk. */
struct durable_part {
	bool is_unsynced; /* there is more in the file */
	bool is_suspect; /* a sync of it has failed: what it was to write is written again */
	uint64_t certain; /* bytes */
};

struct log_index {
	enum index_state state;
	struct durable_part disk;
	bool was_built; /* made again from the log in this life */
	bool build_is_due; /* once the log is not frozen any more */
	uint64_t count; /* entries in the file */
	struct buffer fresh; /* those behind them */
};

/** Names: keys.jsonl. */
struct log_keys {
	bool is_seen; /* the file has been looked at: it is `size` bytes long */
	struct durable_part disk;
	uint64_t size; /* bytes of the file that count */
	uint64_t input_names; /* lines of names that inputs gave, ever */
	struct buffer unwritten; /* lines behind them */
	struct name_table names; /* all of them, or nothing */
	struct names_job *job; /* that is reading them; NULL: none */
	int error; /* why the last one could not; 0: it could */
	struct list waits; /* struct names_wait */
	struct buffer found; /* what was looked up last */
};

struct session_log {
	struct store *store;
	struct list link; /* store.logs */
	struct list fd_link; /* store.open_logs, newest last; self when fd is -1 */
	void *owner;
	char *id;
	uint64_t epoch;
	int64_t created_at;
	int64_t updated_at;
	/* The journal's thread has these two. */
	int fd; /* of events.jsonl; -1 */
	bool has_torn_end; /* its file may have more than it should: an append has failed */

	uint64_t snapshot_round; /* the newest of store.snapshot_round that it has one of */
	uint64_t fence; /* grows with each server that takes the session over */
	uint64_t last_record; /* the number of its newest record, from 1 */
	void *engine_data; /* of another engine than the embedded */
	bool rewind; /* see session_log_rewind() */
	bool is_hidden; /* it is not found by its name any more */
	bool is_removed; /* it is in no table or list any more */
	bool is_mirror; /* another server has it: see session_log_mirror() */
	bool is_unconfirmed; /* the journal has no record of it on disk yet: it has no metadata */
	bool dirty; /* changed since its last checkpoint */
	bool lacks_folder; /* it is new, or there was no room for it */
	struct buffer
		first_metadata; /* for the folder that it lacks: that of a log without events */
	bool is_moved; /* another file is in its place, and is to be opened */
	bool is_writing; /* the journal's thread is at its files */
	bool has_new_files; /* since then: its folder has to be synced, too */

	uint64_t first_seq; /* the first that is not pruned */
	uint64_t first_at; /* where its line starts in the file */
	int64_t first_ts; /* its ts; 0: none */
	uint64_t base_seq; /* of the first line in the file */
	uint64_t last_seq;
	uint64_t size; /* with what is unwritten */
	uint64_t written; /* bytes that are in the file */
	bool wants_prune; /* with its next checkpoint */
	bool is_frozen; /* that is under way, and may put another file in the log's place */
	struct buffer unwritten; /* lines that the file could not take, or not yet */
	struct log_write *write; /* what the next run does to it; NULL: nothing */
	void *facts; /* store.ops->facts */
	struct log_index index;
	struct log_keys keys;
	struct list waiting; /* struct log_read: for the index */

	/* The hot tail: the newest events, up to last_seq (a ring). */
	struct event **hot;
	size_t hot_capacity;
	size_t hot_head;
	size_t hot_count;
	size_t hot_size; /* bytes of JSON */
	uint64_t hot_offset; /* where the line of its first event starts */

	uint64_t certain_size; /* bytes of the file that are on disk */
	/*
	 * What follows them may be in memory only though no sync would write it: one has
	 * failed, in this run of the server or in the last one.
	 */
	bool is_suspect;
	uint64_t digest; /* of its id; of store.logs_by_id */
	struct session_log *next_in_chain;
	struct list html_link; /* renderer.due: events.html is behind */
	uint64_t html_next; /* it has the events before this one, as far as is known */
	bool html_is_anew; /* it has been begun anew, and is not whole yet */
	bool html_is_left; /* it cannot be written, or its log not read */
	struct list wanted_link; /* store.wanted: a checkpoint of its own is due */
	uint64_t round; /* the last round of checkpoints that it was in */

	uint64_t damage_from; /* what the newest read that met damage met; 0: none has */
	uint64_t damage_to;
	struct repair *repair; /* repair.h; NULL: it is not being repaired */

	char room[40]; /* of the id, if it fits */
};

/** Logs by their names. */
struct log_table {
	struct session_log **chains; /* a power of two of them */
	size_t chain_count;
	size_t count;
	uint64_t seed;
	struct pool pool; /* struct session_log */
};

struct store {
	uv_loop_t *loop;
	const struct limits *limits;
	const struct store_ops *ops;
	void *owner;
	struct metrics *metrics; /* NULL: nobody counts */
	uint64_t others; /* bytes that others have written into the data directory */
	struct store_room *room; /* of store_room.c; NULL: the disk is all there is */
	enum store_durability durability;
	int dir_fd;
	int sessions_fd;
	int lock_fd;
	struct journal journal;
	struct list logs;
	struct log_table by_id;
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
	/*
	 * By the id of each session whose folder could not be moved away: the store itself if it
	 * was deleted, this pointer's own place if the folder is damaged and to be kept.
	 */
	struct hash *leftovers;
	/*
	 * Sessions that could not be read, and are tried again: char * by id. The journal keeps
	 * what it has of them.
	 */
	struct hash *left_out;
	uv_timer_t *left_out_timer;
	int64_t left_out_ms; /* until then */
	uint64_t found_segment; /* where the journal ended at the start; 0: there was none */
	uv_timer_t *prune_timer;
	unsigned jobs; /* on the thread pool and the renderer's thread; and pages to be rendered */
	unsigned reads_running; /* of events, on the pool */
	struct list reads_due; /* struct cold_read */
	struct renderer *renderer;
	struct blobs blobs;
	struct ages ages;
	bool ages_unwritten; /* clock.json does not have them yet */
	bool ages_writing; /* that is under way */
	bool ages_unknown; /* clock.json could not be read: it is left alone */
	unsigned looking_back; /* sessions that the thread pool tries to read again */
	const struct store_engine *engine;
	void *engine_state; /* of another one than the embedded */
	uint64_t synced_lsn; /* of the newest group that is durable */
	int error; /* negative errno while groups cannot be made durable */
	uint64_t snapshot_round; /* grows when every session needs a snapshot */
	bool takes_snapshots; /* they are taken also while inputs are refused */
	bool is_rewinding; /* the engine reads what session_log_rewind() asked for */
	bool is_replaying; /* what the owner gives is in the journal already */
	const struct store_repair *repair; /* NULL: damaged sessions are set aside */
	bool takes_older; /* store_place */
	bool journal_is_damaged; /* beyond what one session is concerned with */
	size_t damaged; /* sessions: set aside, or read and found so */
	bool opening; /* recovery is under way: nothing is left to the thread pool */
	bool closing;
};

/* embedded.c */
extern const struct store_engine store_embedded;
/** Makes what a data directory needs besides journal and sessions, once it is known to be ours. */
int store_settle(struct store *store, char **ret_why);

/* journal.c */
/** Of struct store_engine. */
void journal_launch(struct store *store);
size_t journal_backlog(const struct store *store);
/** Gathers a record, and returns its batch's lsn. */
int64_t journal_append(struct journal *journal, const struct record *record);
void journal_init(struct journal *journal, struct store *store);
void journal_finish(struct journal *journal);
/** Writes what is gathered and waits; for start and shutdown. */
int journal_sync_now(struct journal *journal);
/** The same without a batch. */
void journal_run_now(struct journal *journal);
/** It cannot be written: that is tried again, after a while. */
void journal_revive_later(struct journal *journal);
/** Cuts off what the open segment's file has behind its last batch. At the end. */
void journal_give_room_back(struct journal *journal);
/**
 * Deletes the segments from one to another, each for good before the next: a journal without its
 * middle would bring deleted sessions back. The last one too, if `sync_last`; else the sync of the
 * next new segment does that, and until then it may come back, whole. Returns the oldest that is
 * left: where one cannot be deleted, the next checkpoint of all logs tries again. Any thread.
 */
uint64_t journal_drop(int dir_fd, uint64_t from, uint64_t to, bool sync_last);
/** The oldest segment that is left is this one. */
void journal_dropped(struct journal *journal, uint64_t oldest);

/** The first segment of a directory that no server has used yet: for journal_append() alone. */
struct journal *journal_make(void);
/** Writes what was appended, if there is something, and frees it. */
int journal_make_end(struct journal *journal, int dir_fd);

/** Names a session within a journal: XXH3_64 of its id, seeded with its epoch. */
uint64_t journal_session_hash(const char *id, size_t id_len, uint64_t epoch);

/* store_files.c */
/** The ids of the sessions that have a folder, sorted; disk_list_free() frees them. */
int store_list_ids(int sessions_fd, char ***ret_ids, size_t *ret_count);

/* versions.c */
/** Whether we know what such records say. Of the others, some may be left out. */
bool record_is_known(const struct record *record);
bool record_may_be_left_out(const struct record *record);
/** What is not ours to read in a segment whose reader says -ENOTSUP, in words. */
void versions_tell_segment(const struct journal_reader *reader, struct buffer *out);
/**
 * The same of one of its records; `is_foreign` NULL: no snapshot is. Returns false, and tells
 * nothing, if we can read that.
 */
bool versions_tell_record(
	snapshot_is_foreign *is_foreign, const struct record *record, struct buffer *out);
/** The same of a session's folder. */
bool versions_tell_folder(int sessions_fd, const char *id, struct buffer *out);

/* store.c */
/** So many sessions more (or less) are known to be damaged. */
void store_add_damaged(struct store *store, int count);

/* session_log.c */
/** Takes the facts. */
struct session_log *session_log_new(
	struct store *store, const char *id, uint64_t epoch, int64_t created_at, void *facts);
void session_log_free(struct session_log *log);
/** The log of this name and epoch, if it is still there. */
struct session_log *session_log_of(struct store *store, const char *id, uint64_t epoch);
/** It is not found by its name any more, and another one may have that. */
void session_log_hide(struct session_log *log);
/** It is in no table or list any more. */
void session_log_unlist(struct session_log *log);
/** The next event, which is on disk in the journal. */
void session_log_add(struct session_log *log, struct event *event, int64_t ts);
/** The same; the caller sees to its line. */
void session_log_take(struct session_log *log, struct event *event, int64_t ts);
/** Drops the oldest of the hot tail beyond its size; what is not in the file yet stays. */
void session_log_trim(struct session_log *log);
/** Adds the log's newest event to the hot tail, with a reference of its own. */
void session_log_keep(struct session_log *log, struct event *event);
/** The next event is at the log's end, in a line of `len` bytes: everything but the line. */
void session_log_count(struct session_log *log, const struct event_view *view, size_t len);
/** Drops what is in memory of events before `seq`; they are in the file. */
void session_log_forget_before(struct session_log *log, uint64_t seq);
/** The first seq of the hot tail; last + 1 if it is empty. */
uint64_t session_log_hot_first(const struct session_log *log);
/** The last seq whose line is in the file as a whole, and where it ends. */
uint64_t session_log_last_written(const struct session_log *log, uint64_t *ret_end);
/** Adds what is behind that to an index that has just been begun. */
void session_log_index_unwritten(struct session_log *log);

/* log_write.c */
struct checkpoint_item;
/** Of struct store_engine. */
struct log_part *log_write_part(struct session_log *log);
void log_write_remove(struct session_log *log);
int log_write_rest(struct session_log *log);
/** The gathering batch has the log's RECORD_CREATE. */
void log_write_create(struct session_log *log);
/** A log without events gets its folder with the next run that succeeds in that. */
void log_write_wants_folder(struct session_log *log);
/** The next run writes all that the log's files lack; `item` (or NULL) hears of it. */
void log_write_whole(struct session_log *log, struct checkpoint_item *item);
/** The next run closes the log's file until it is needed again. */
void log_write_close(struct session_log *log);
/** The same: the log goes. */
void log_write_drop(struct session_log *log);
/** The gathering batch is refused. */
void log_writes_forget_events(struct journal *journal);
/** What has gathered is the next run's. */
void log_writes_launch(struct journal *journal);
/** In front of the batch, and behind it if it is on disk: the journal's thread. */
void log_writes_before(struct journal *journal);
void log_writes_after(struct journal *journal);
/** The logs take what has been done. */
void log_writes_land(struct journal *journal, bool is_synced);
/** The journal's thread, or the loop while that does nothing. */
void log_file_close(struct session_log *log);

/* log_table.c */
void log_table_init(struct log_table *table);
/** No log may be left. */
void log_table_finish(struct log_table *table);
struct session_log *log_table_get(const struct log_table *table, const char *id, size_t len);
void log_table_put(struct log_table *table, struct session_log *log);
void log_table_remove(struct log_table *table, struct session_log *log);

/* log_scan.c */
/** A line, `len` bytes with its newline; view is NULL if it is not whole. Not 0: that is enough. */
typedef int (*log_scan_line)(void *arg, const struct event_view *view, uint64_t offset, size_t len);
/** Shows the lines between two offsets, up to the last newline. Any thread. */
int log_scan(int fd, uint64_t from, uint64_t to, log_scan_line see, void *arg);
/** Whether a line ends at `size` and is that of this event; else -EBADMSG. */
int log_check_last(int fd, uint64_t size, uint64_t seq);

/* log_index.c */
void log_index_add(struct session_log *log, uint64_t offset);
/** What there is to write, if it is enough, or all of it; and what has become of that. */
void log_index_launch(struct session_log *log, bool all, struct file_append *ret);
int log_index_land(struct session_log *log, const struct file_append *append);
/** Bytes that the file has by now. */
uint64_t log_index_size(const struct log_index *index);
/** It cannot be gone on with: the next cold read makes it again. */
void log_index_lose(struct log_index *index);
/** Takes one that log_index_make() has just made of a frozen log. */
void log_index_take(struct session_log *log, uint64_t count);
/** A log, as the thread pool may know it. */
struct index_source {
	uint64_t epoch;
	uint64_t first_seq; /* of the first line in the file */
	uint64_t last_seq; /* of the last one that counts */
	uint64_t end; /* and where it ends */
	int fd; /* of the file */
	int dir_fd; /* of its folder */
};
/** The first line that cannot be read. */
struct index_damage {
	uint64_t seq; /* the event that should be there; 0: none is damaged */
	uint64_t offset;
};
/** Writes events.index of a log, synced. Any thread. */
int log_index_make(const struct index_source *source, struct index_damage *ret_damage);
/** Begins to make it again, when nobody is at the log's files; log_reads_resume() follows. */
void log_index_build(struct session_log *log);
/** Nobody is any more. */
void log_index_resume(struct session_log *log);
/** The first seq whose entry is in memory, and the entries from there on. */
uint64_t log_index_first_fresh(const struct session_log *log);
uint64_t log_index_fresh_at(const struct session_log *log, uint64_t seq);
/** Reads entries from an open index. Any thread. */
int log_index_read(int fd, uint64_t first_seq, uint64_t from, uint64_t *offsets, size_t count);
/** Reads the header; -EBADMSG if it is damaged, -ESTALE if the file ends before. */
int log_index_read_header(int fd, uint64_t *ret_epoch, uint64_t *ret_first_seq);

/* cold_read.c */
/** Of struct store_engine. */
void cold_read_start(struct session_log *log, struct log_read *read);
/** Reads that waited for the index go on, or fail. */
void log_reads_resume(struct session_log *log, int status);

/* log_keys.c */
/** Takes a name; `log` is a struct session_log. */
void log_keys_add(void *log, const struct log_name *name);
/** Takes the nth name that an input gave, unless it is there; it is on disk in the journal. */
void log_keys_add_input(struct session_log *log, uint64_t nth, const struct log_name *name);
/** Has the names written, if many wait for it. */
void log_keys_flush(struct session_log *log);
/** What there is to write, if it is enough, or all of it. */
void log_keys_launch(struct session_log *log, bool all, struct file_append *ret);
/** What has become of that; -EBUSY: the file is being read or made again. */
int log_keys_land(struct session_log *log, struct file_append *append);
/** Of struct store_engine. */
int log_keys_load(struct session_log *log, bool now);
/** Nobody is at the log's files any more. */
void log_keys_resume(struct session_log *log);
/** The log goes: whoever waits for its names is told. */
void log_keys_finish(struct log_keys *keys);
/** Forgets the names; they are read again when one is looked up. */
void log_keys_rest(struct log_keys *keys);

/* metadata.c */
#define METADATA_MAX   (256 * LIMIT_MIB)
#define METADATA_FRONT "{\"format\":"
struct metadata {
	uint64_t format; /* of the whole folder; the older one does not say it */
	bool is_guessed; /* it could not be read: only `epoch` is right, perhaps (repair.h) */
	uint64_t epoch;
	uint64_t first_seq;
	uint64_t first_at;
	int64_t first_ts;
	uint64_t base_seq;
	uint64_t max_seq;
	uint64_t log_size;
	uint64_t keys_size;
	uint64_t input_names;
	int64_t created_at;
	int64_t updated_at;
	const struct store_facts *facts_ops; /* NULL: nobody has looked at the facts */
	void *facts; /* what was read */
	struct buffer facts_text; /* what is to be written */
};
/**
 * Reads a session's metadata.json. -ENOENT if there is none, -EBADMSG if it is damaged, -ENOTSUP if
 * it is of a format that we do not read (then only `format` is set), other errors if that is not
 * known; *ret_why (static text) says more. `facts` NULL: they are not looked at.
 */
int metadata_read(int sessions_fd, const char *id, const struct store_facts *facts,
	struct metadata *meta, const char **ret_why);
void metadata_finish(struct metadata *meta);
/** What tools are told of it; `ret` has its facts from now on. metadata_finish() comes all the same. */
void metadata_give(struct metadata *meta, struct store_metadata *ret);
/** The same of its text, without a newline. */
int metadata_parse(const char *bytes, size_t len, const char *id, const struct store_facts *facts,
	struct metadata *meta, const char **ret_why);
/**
 * Opens a session's folder, unless it is that of another session of the same name by now: what the
 * handle is of stays what it is. Any thread; the caller closes it.
 */
int metadata_open_folder(int sessions_fd, const char *id, uint64_t epoch);
/** As the log's files are now; metadata_finish() frees what it copies. */
void metadata_take(const struct session_log *log, struct metadata *ret);
void metadata_append(const char *id, const struct metadata *meta, struct buffer *out);

/* store_clock.c */
/** Of struct store_engine. */
int64_t store_clock_now(struct store *store);
/** Reads clock.json; at the start. */
void store_clock_begin(struct store *store);
/** Writes it if that is due. Blocks: at the start and in the end. */
void store_clock_write(struct store *store);
/** Whether the wall clock is to be believed: events may be pruned by their age. */
bool store_clock_is_trusted(struct store *store);

/* checkpoint.c */
/** Of struct store_engine. */
void checkpoint_log(struct session_log *log);
int checkpoint_epoch(
	struct session_log *log, uint64_t epoch, int64_t ts, const struct buffer *snapshot);
/** Checkpoints all logs that have changed, and then drops the segments before `segment`. */
void checkpoint_all(struct store *store, uint64_t segment);
/** The portion that is due, if none is under way: the run that is launched writes for it. */
struct checkpoint *checkpoint_begin(struct store *store);
/** That has been done for one log. */
void checkpoint_item_written(
	struct checkpoint_item *item, struct session_log *log, int status, int dir_fd, int fd);
/** And for all: it goes on, on the thread pool. Accepts NULL. */
void checkpoint_go(struct checkpoint *cp);
/** The same for all dirty logs, at once. */
int checkpoint_now(struct store *store);
/* recover_session.c */
/**
 * Makes a log of a session's folder, *ret_log. -EBADMSG, with *ret_why set, if the folder cannot be
 * trusted; other errors if that is not known.
 */
int recover_session(struct store *store, const char *id, struct metadata *meta,
	struct session_log **ret_log, const char **ret_why);
/** Takes a session's files away, and its folder; returns whether that is gone. */
bool remove_folder(int dir_fd, const char *name);

/* recover.c */
int recover(struct store *store, char **ret_why);

/* store_room.c */
/** Once the store is recovered; measures the data directory, which blocks. */
void store_room_begin(struct store *store);
void store_room_finish(struct store *store);

#endif
