/* What the files of raw streams share. */
#ifndef HOLDFAST_RAW_INTERNAL_H
#define HOLDFAST_RAW_INTERNAL_H

#include "disk_io.h"

#include "holdfast/hash.h"
#include "holdfast/pack.h"
#include "holdfast/raw.h"
#include "holdfast/worker.h"

#define RAW_SEGMENT_MAGIC      "HFRAW1\n" /* and its NUL; the digit is raised when the format changes */
#define RAW_SEGMENT_MAGIC_SIZE 8
#define RAW_BATCH_MAGIC        0x42524648u /* "HFRB" */
#define RAW_BATCH_HEADER_SIZE  28 /* magic 4, length 8, number 8, checksum 8 */
#define RAW_FILE_NAME_SIZE     24

/* A use is noted on disk when so large a part of the ttl is over since the last one. */
#define RAW_TOUCH_PART 8

enum raw_kind {
	RAW_RESET =
		1, /* a segment begins: all that follows in this batch makes the state from nothing */
	RAW_STREAM = 2, /* a stream as it is; it is new, outside of a batch with RAW_RESET */
	RAW_APPEND = 3,
	RAW_DELETE = 4,
	RAW_TOUCH = 5, /* somebody has used it */
	RAW_BEGIN = 6, /* ends what RAW_RESET began */
};

enum { RAW_FLAG_CLOSES = 1, RAW_FLAG_PRODUCER = 2, RAW_FLAG_SEQ = 4 };

struct raw_producer {
	char *id;
	uint64_t epoch;
	uint64_t seq;
	int64_t used_ms; /* wall clock */
};

/** A stream: as the records so far make it, and what of that is on disk. */
struct raw_stream {
	struct list link; /* state.streams, in the order in which they were made */
	struct list changed_link; /* store.changed; self otherwise */
	uint64_t id;
	char *name;
	char *type;
	char *expires; /* NULL: never */
	int64_t expires_ms;
	bool is_json;
	bool has_ttl;
	bool is_closed;
	bool is_deleted; /* only its forks still use it */
	bool is_removed; /* it is in no list of the state any more */
	bool is_damaged; /* bytes of it are missing */
	int64_t ttl_s;
	int64_t used_ms; /* wall clock */
	int64_t noted_ms; /* the same, as the journal has it */
	struct raw_stream *source; /* NULL: it is no fork */
	uint64_t source_id; /* the same; 0 */
	uint64_t fork_offset; /* as it was asked for */
	uint64_t fork_sub;
	uint64_t start; /* its own bytes begin here */
	uint64_t length; /* of all of them: position of its end */
	unsigned depth; /* streams in front of it */
	size_t forks; /* of it */
	char *seq; /* the last Stream-Seq; NULL: none */
	struct hash *producers; /* struct raw_producer; NULL: none */
	char *closed_by; /* the producer whose append closed it; NULL: none */
	uint64_t closed_epoch;
	uint64_t closed_seq;
	bool is_cut; /* while recovering: nothing is behind its end in its file */

	/* Of the store that runs. */
	uint64_t lsn; /* of the newest batch that changes it */
	bool is_dirty; /* its file has bytes that no checkpoint has synced */
	bool is_shown; /* on disk: that it is there */
	bool shown_closed;
	uint64_t shown_length;
	bool flight_closed; /* the same, in the batch on its way */
	uint64_t flight_length;
	struct list watches; /* struct raw_watch */
};

/** All streams. */
struct raw_state {
	struct list streams;
	struct hash *names; /* also of those that are deleted and have forks */
	struct hash *ids;
	size_t count;
	uint64_t next_id;
};

/** A record, taken apart. Texts point into it. */
struct raw_record {
	enum raw_kind kind;
	uint64_t id;
	int64_t now_ms;
	unsigned flags;
	const char *producer;
	size_t producer_len;
	uint64_t epoch;
	uint64_t producer_seq;
	const char *seq;
	size_t seq_len;
	const char *bytes;
	size_t len;
	struct unpack rest; /* of RAW_STREAM and RAW_RESET */
};

/* raw_state.c */
struct raw_state *raw_state_create(void);
/** Accepts NULL. Nobody watches its streams. */
void raw_state_destroy(struct raw_state *state);
struct raw_stream *raw_state_get(const struct raw_state *state, const char *name);
struct raw_stream *raw_state_by_id(const struct raw_state *state, uint64_t id);
struct raw_stream *raw_stream_new(uint64_t id, const char *name, size_t len);
void raw_stream_free(struct raw_stream *stream);
/** Puts a stream that has all its fields among the others. */
void raw_state_add(struct raw_state *state, struct raw_stream *stream);
/** What RAW_APPEND does. */
void raw_state_append(struct raw_stream *stream, const struct raw_record *record);
/** What RAW_DELETE does: `gone` is called with each stream that is in the state no more, the caller's now. */
void raw_state_delete(struct raw_state *state, struct raw_stream *stream,
	void (*gone)(void *arg, struct raw_stream *stream), void *arg);

/* raw_record.c */
/** Appends a record. */
void raw_put_stream(struct buffer *out, struct raw_stream *stream);
/** A record that makes the state from nothing, up to RAW_BEGIN. */
void raw_put_state(struct buffer *out, const struct raw_state *state);
void raw_put_append(struct buffer *out, const struct raw_record *record);
void raw_put_delete(struct buffer *out, uint64_t id);
void raw_put_touch(struct buffer *out, uint64_t id, int64_t now_ms);
/** Makes a batch's header for what is behind it. */
void raw_batch_close(struct buffer *batch, size_t at, uint64_t number);
/** Takes the next record of a batch; false: there is none, or (in->failed) it is damaged. */
bool raw_record_next(struct unpack *in, struct raw_record *ret);
/** A stream of a RAW_STREAM, with its source; NULL: it makes no sense. */
struct raw_stream *raw_record_stream(
	const struct raw_state *state, const struct raw_record *record);

/* raw_recover.c */
struct raw_dirs {
	int dir_fd; /* DIR/streams */
	int journal_fd;
	int data_fd;
};
/** Opens the directories, which are made if they are missing. */
int raw_dirs_open(const char *dir, struct raw_dirs *ret);
void raw_dirs_close(struct raw_dirs *dirs);
void raw_data_name(char ret[RAW_FILE_NAME_SIZE], uint64_t id);
void raw_segment_name(char ret[RAW_FILE_NAME_SIZE], uint64_t number);
/** Reads 16 hexadecimal digits that `end` follows; 0 is none. */
bool raw_read_name(const char *name, const char *end, uint64_t *ret);
/** For disk_list(). */
bool raw_is_segment(const char *name);
bool raw_is_data(const char *name);
/** What recovery has found. */
struct raw_found {
	struct raw_state *state;
	uint64_t oldest; /* numbers of the oldest and the newest segment; 0: there is none */
	uint64_t newest;
	uint64_t batch; /* number of the last batch */
	size_t loose; /* bytes of the newest segment that are behind it */
	char *why; /* what is wrong; NULL: nothing is */
};
/** Makes the files what the journal says. For a thread that may block. */
int raw_recover(const struct raw_dirs *dirs, struct raw_found *ret);
/** The files of streams, with ids upwards. */
struct raw_size {
	uint64_t id;
	uint64_t bytes;
};
struct raw_sizes {
	struct raw_size *sizes;
	size_t count;
};
/**
 * Finds the same and changes nothing. `sizes` are from before the journal is read. ret->state is the caller's, as far as the
 * journal could be read, also if it fails.
 */
int raw_inspect(const struct raw_dirs *dirs, const struct raw_sizes *sizes, struct raw_found *ret);

/* raw_journal.c */
/** Bytes that are about to get into a stream's file. */
struct raw_piece {
	uint64_t id;
	size_t at; /* in the batch */
	size_t len;
};

/** The side that writes. One batch is on its way and one gathers. */
struct raw_journal {
	struct raw_dirs dirs;
	bool is_relaxed;
	struct worker *worker;
	bool is_at_work;
	bool reopens; /* the work is raw_recover() */
	struct raw_found found; /* by that */
	int result;
	int begin_result; /* of the segment that was to begin behind the batch */
	bool is_in_doubt; /* what failed may be there after a crash */
	int fd; /* of the open segment; -1: none is, until recovery has begun one */
	uint64_t segment; /* number of the newest segment */
	uint64_t oldest; /* that may be on disk */
	uint64_t size; /* bytes of the open one */
	uint64_t most; /* bytes, with which it ends */
	uint64_t begun_size; /* with which it began */
	uint64_t batch; /* number of the last batch that was given one */
	struct buffer gather; /* room for the header in front */
	struct buffer flight;
	struct buffer
		begin; /* with which a segment begins, behind the batch on its way; empty: none does */
	struct raw_piece *pieces; /* of the gathering batch */
	size_t piece_count;
	size_t piece_cap;
	struct raw_piece *flight_pieces;
	size_t flight_count;
	uint64_t *removals; /* ids whose files go, the same */
	size_t removal_count;
	uint64_t *flight_removals;
	size_t flight_removal_count;
	struct raw_checkpoint *checkpoint; /* under way; NULL: none */
};
/** Begins to gather. */
void raw_journal_clear(struct raw_journal *journal);
void raw_journal_finish(struct raw_journal *journal);
/** The gathered record's bytes, the last `len` of it, are appended to a file. */
void raw_journal_piece(struct raw_journal *journal, uint64_t id, size_t len);
void raw_journal_remove(struct raw_journal *journal, uint64_t id);
bool raw_journal_is_empty(const struct raw_journal *journal);
/** Whether a segment ought to begin behind the next batch. */
bool raw_journal_wants_segment(const struct raw_journal *journal);
/** Makes what is gathered what is written next; NULL, or all that there is, with which a segment begins behind it. */
void raw_journal_take_off(struct raw_journal *journal, const struct raw_state *begin_with);
/** On the worker's thread: writes what has taken off, or recovers. */
void raw_journal_run(void *arg);

/** Syncs files of streams on the thread pool, and removes segments of which nothing is needed then. */
struct raw_checkpoint {
	uv_work_t work;
	struct raw_store *store;
	int data_fd;
	int journal_fd;
	uint64_t *ids;
	size_t count;
	uint64_t from; /* segments from this one to below `to` go */
	uint64_t to;
	int result;
};
void raw_checkpoint_run(uv_work_t *work);

/* raw.c */
struct raw_store {
	struct raw_config config;
	struct raw_journal journal;
	struct raw_state *state;
	uint64_t lsn; /* of the batch that gathers */
	uint64_t flight_lsn;
	uint64_t durable_lsn;
	struct list waits; /* struct raw_wait */
	struct list changed; /* by what gathers: struct raw_stream.changed_link */
	struct list in_flight; /* by what is on its way */
	struct list removed; /* streams that are not in the state any more, by what gathers */
	struct list removed_flight;
	bool is_failing; /* the disk does not take it: nothing is written until it is read again */
	uv_timer_t *retry;
	uv_timer_t *sweep;
	size_t reads; /* on the thread pool */
	bool is_closing;
};
/** The stream of a name that readers may have. */
enum raw_result raw_find_stream(
	struct raw_store *store, const char *name, bool is_shown, struct raw_stream **ret);
int64_t raw_now(const struct raw_store *store);
/** Somebody uses it. */
void raw_touch(struct raw_store *store, struct raw_stream *stream);
/** The newest batch changes it. */
void raw_changed(struct raw_store *store, struct raw_stream *stream);
void raw_remove(struct raw_store *store, struct raw_stream *stream);

/* raw_commit.c */
void raw_handle_done(void *arg);
void raw_handle_retry(uv_timer_t *timer);
/** Gives what is gathered to the worker, if that is free. */
void raw_launch(struct raw_store *store);
/** Takes what recovery has found. */
int raw_take_found(struct raw_store *store);
/** Nothing more of it is to be heard: it is gone. */
void raw_end_watches(struct raw_stream *stream);

/* raw_read.c */
struct raw_page *raw_page_new(uint64_t from, const char *bytes, size_t len);

#endif
