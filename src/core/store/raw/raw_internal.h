/* Types and functions shared by the files that implement raw streams. */
#ifndef HOLDFAST_RAW_INTERNAL_H
#define HOLDFAST_RAW_INTERNAL_H

#include "core/store/disk_io.h"

#include "holdfast/diag.h"
#include "holdfast/hash.h"
#include "holdfast/pack.h"
#include "holdfast/raw.h"
#include "holdfast/worker.h"

#define RAW_SEGMENT_MAGIC      "HFRAW1\n" /* with its NUL; the digit is the format version */
#define RAW_SEGMENT_MAGIC_SIZE 8
#define RAW_BATCH_MAGIC        0x42524648u /* "HFRB" */
#define RAW_BATCH_HEADER_SIZE  28 /* magic 4, length 8, number 8, checksum 8 */
#define RAW_FILE_NAME_SIZE     24

/*
 * A use is journaled only if 1/RAW_TOUCH_PART of the TTL has passed since the last one journaled.
 */
#define RAW_TOUCH_PART 8

enum raw_kind {
	RAW_RESET = 1, /* first record of a segment: a full snapshot follows, up to RAW_BEGIN */
	RAW_STREAM = 2, /* a whole stream: in a snapshot, or newly created */
	RAW_APPEND = 3,
	RAW_DELETE = 4,
	RAW_TOUCH = 5, /* the stream was used, which restarts its TTL */
	RAW_BEGIN = 6, /* ends the snapshot */
};

/* In RAW_RESET: the segment's batches are not synced one by one. */
enum {
	RAW_SEGMENT_RELAXED = 1,
	/* A stream may be missing: its creation was in a batch that is lost. */
	RAW_SEGMENT_INCOMPLETE = 2
};
enum { RAW_FLAG_CLOSES = 1, RAW_FLAG_PRODUCER = 2, RAW_FLAG_SEQ = 4 };

struct raw_producer {
	char *id;
	uint64_t epoch;
	uint64_t seq;
	int64_t used_ms; /* wall clock */
};

/** A stream: its state after all records so far, and how much of that is durable. */
struct raw_stream {
	struct list link; /* in state.streams, in order of creation */
	struct list changed_link; /* in store.changed or store.in_flight; self otherwise */
	uint64_t id;
	char *name;
	char *type;
	char *expires; /* NULL: never */
	int64_t expires_ms;
	bool is_json;
	bool has_ttl;
	bool is_closed;
	bool is_deleted; /* kept only because it has forks */
	bool is_removed; /* no longer in the state */
	bool is_damaged; /* its file is too short */
	bool is_hurt; /* damage to the journal may have hit it; stays so until it is deleted */
	int64_t ttl_s;
	int64_t used_ms; /* last use, wall clock */
	bool may_be_newer; /* recovered: a use after used_ms may not be in the journal */
	int64_t noted_ms; /* last use that is in the journal */
	struct raw_stream *source; /* NULL: not a fork */
	uint64_t source_id; /* 0: not a fork */
	uint64_t fork_offset; /* as requested */
	uint64_t fork_sub;
	uint64_t start; /* position where its own bytes, and its file, begin */
	uint64_t length; /* position of its end, including the bytes of its sources */
	unsigned depth; /* number of sources in its chain */
	size_t forks; /* number of its direct forks */
	char *seq; /* the last Stream-Seq; NULL: none */
	struct hash *producers; /* struct raw_producer; NULL: none */
	char *closed_by; /* the producer whose append closed it; NULL: none */
	uint64_t closed_epoch;
	uint64_t closed_seq;
	bool is_cut; /* recovery: its file has been checked, and cut to the length known then */

	/* Only in a running store. */
	uint64_t lsn; /* of the newest batch that changes it */
	bool is_dirty; /* its file has bytes that no checkpoint has synced */
	bool is_shown; /* its creation is durable; readers see the shown_* state */
	bool shown_closed;
	uint64_t shown_length;
	bool flight_closed; /* the state that the batch in flight makes durable */
	uint64_t flight_length;
	struct list watches; /* struct raw_watch */
};

/** All streams. */
struct raw_state {
	struct list streams;
	struct hash *names; /* by name, including deleted streams that have forks */
	struct hash *ids;
	size_t count;
	uint64_t next_id;
	bool is_incomplete; /* any name that is not known may be that of a stream that is lost */
};

/** A parsed record. Strings point into its bytes and are not terminated. */
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
	struct unpack rest; /* body of RAW_STREAM and RAW_RESET */
};

/* raw_state.c */
struct raw_state *raw_state_create(void);
/** Frees the state and its streams, which must have no watches. Accepts NULL. */
void raw_state_destroy(struct raw_state *state);
struct raw_stream *raw_state_get(const struct raw_state *state, const char *name);
struct raw_stream *raw_state_by_id(const struct raw_state *state, uint64_t id);
struct raw_stream *raw_stream_new(uint64_t id, const char *name, size_t len);
void raw_stream_free(struct raw_stream *stream);
/** Adds a complete stream; the state owns it. */
void raw_state_add(struct raw_state *state, struct raw_stream *stream);
/** Applies RAW_APPEND. */
void raw_state_append(struct raw_stream *stream, const struct raw_record *record);
/**
 * Applies RAW_DELETE. Removes the stream, unless it has forks, and every deleted source whose last
 * fork that was. `gone` is called with each removed stream, and then owns it.
 */
void raw_state_delete(struct raw_state *state, struct raw_stream *stream,
	void (*gone)(void *arg, struct raw_stream *stream), void *arg);

/* raw_record.c */
/* raw_put_…() append one record to `out`. raw_put_stream() also updates stream->noted_ms. */
void raw_put_stream(struct buffer *out, struct raw_stream *stream);
/**
 * Appends a snapshot of the state: the records RAW_RESET to RAW_BEGIN. `flags`: RAW_SEGMENT_… of
 * the segment that it begins.
 */
void raw_put_state(struct buffer *out, const struct raw_state *state, unsigned flags);
void raw_put_append(struct buffer *out, const struct raw_record *record);
void raw_put_delete(struct buffer *out, uint64_t id);
void raw_put_touch(struct buffer *out, uint64_t id, int64_t now_ms);
/** Fills in the header of the batch that begins at `at` and extends to the buffer's end. */
void raw_batch_close(struct buffer *batch, size_t at, uint64_t number);
/**
 * Reads the next record of a batch. Returns false at the end, or with in->failed set if it is
 * damaged.
 */
bool raw_record_next(struct unpack *in, struct raw_record *ret);
/**
 * Makes the stream of a RAW_STREAM and finds its source. Returns NULL if the record is
 * inconsistent.
 */
struct raw_stream *raw_record_stream(
	const struct raw_state *state, const struct raw_record *record);

/* raw_recover.c */
struct raw_dirs {
	int dir_fd; /* DIR/streams */
	int journal_fd;
	int data_fd;
};
/** Opens the directories and creates missing ones. On failure the caller still closes `ret`. */
int raw_dirs_open(const char *dir, struct raw_dirs *ret);
void raw_dirs_close(struct raw_dirs *dirs);
void raw_data_name(char ret[RAW_FILE_NAME_SIZE], uint64_t id);
void raw_segment_name(char ret[RAW_FILE_NAME_SIZE], uint64_t number);
/**
 * Parses a file name: 16 hexadecimal digits followed by `end`. Returns false for others and for 0.
 */
bool raw_read_name(const char *name, const char *end, uint64_t *ret);
/** Filters for disk_list(). */
bool raw_is_segment(const char *name);
bool raw_is_data(const char *name);
/** Result of recovery. */
struct raw_found {
	struct raw_state *state;
	uint64_t oldest; /* numbers of the oldest and the newest segment; 0: no segments */
	uint64_t newest;
	uint64_t batch; /* number of the last batch */
	size_t loose; /* bytes after that batch in the newest segment: an incomplete batch */
	size_t unsure_from; /* bytes of the newest segment whose sync may have failed: from here … */
	size_t unsure_to; /* … to here */
	bool is_hurt; /* the journal is damaged; the streams that it may have hit are marked */
	size_t files; /* on failure because of damage: the number of files of streams */
	/* On failure, or if is_hurt: the reason, owned by the caller; NULL: only an errno. */
	char *why;
};
/**
 * Reads the journal and makes the files of streams match it. Blocks. Returns 0 and the state, which
 * the caller owns, or a negative errno.
 */
int raw_recover(const struct raw_dirs *dirs, struct raw_found *ret);
/** The file of a stream and its size. */
struct raw_size {
	uint64_t id;
	uint64_t bytes;
};
struct raw_sizes {
	struct raw_size *sizes; /* sorted by id */
	size_t count;
};
/** The size of the file of a stream; 0 if there is none. */
uint64_t raw_size_of(const struct raw_sizes *sizes, uint64_t id);
/** Takes the sizes of the wanted files of a directory; the caller frees ret->sizes. */
uint64_t raw_sizes_read(int dir_fd, bool (*is_wanted)(const char *name), struct raw_sizes *ret);
/**
 * Does the same as raw_recover() without changing anything. `sizes` must have been taken before
 * this reads the journal, since files only grow. The caller owns ret->state even on failure; it
 * then has what could be read.
 */
int raw_inspect(const struct raw_dirs *dirs, const struct raw_sizes *sizes, struct raw_found *ret);

/* raw_damage.c */
/**
 * Whether a batch of `len` bytes, whose header does not fit, has whole records: only the header is
 * damaged. Sets its number.
 */
bool raw_batch_is_good(const char *bytes, size_t len, uint64_t expected, uint64_t *ret_number);
/** Returns the length, with header, of the batch that begins at `at`; 0: it is not whole. */
size_t raw_batch_len(const struct buffer *bytes, size_t at, uint64_t *ret_number);
/**
 * Returns whether a whole batch follows the one at `at`, which is not whole and has the number
 * `expected`, and where: then it is damage, not a torn write. The bytes in a batch are a client's,
 * and may look like another batch: these count for nothing.
 */
bool raw_later_batch(const struct buffer *bytes, size_t at, uint64_t expected, size_t *ret_next);
/** Marks the streams that these bytes, which are no batch any more, may have changed. */
void raw_batch_lost(struct raw_found *found, const char *bytes, size_t len);
/** Marks the streams whose files do not have just the bytes that the journal says. */
void raw_compare_sizes(struct raw_found *found, const struct raw_sizes *sizes);
/** Opens streams/set-aside/, and makes it. Returns a descriptor or a negative errno. */
int raw_open_aside(const struct raw_dirs *dirs);
#define RAW_ASIDE_NAME_SIZE 64
/** Finds a name for the file in streams/set-aside/: NAME, or NAME.N if that is taken. */
void raw_aside_name(int aside, const char *name, char ret[RAW_ASIDE_NAME_SIZE]);
/** Keeps the segments, and files that no stream has, in streams/set-aside/. */
int raw_keep_damaged(const struct raw_dirs *dirs, struct raw_found *found);

/* raw_journal.c */
/** Bytes of a batch that go to a stream's file. */
struct raw_piece {
	uint64_t id;
	size_t at; /* offset in the batch */
	size_t len;
};

/** The writing side. One batch is in flight, on the worker's thread, while the next one gathers. */
struct raw_journal {
	struct raw_dirs dirs;
	bool is_relaxed;
	struct worker *worker;
	bool is_at_work;
	bool reopens; /* the work is raw_recover() */
	struct raw_found found; /* its result; the worker's while it is at work */
	int result;
	int begin_result; /* result of beginning a segment after the batch */
	int fd; /* of the open segment; -1: none before recovery has begun one */
	uint64_t segment; /* number of the newest segment */
	uint64_t oldest; /* number of the oldest segment that might be on disk */
	uint64_t size; /* bytes of the open segment */
	uint64_t most; /* bytes after which the next segment begins */
	uint64_t begun_size; /* bytes of the open segment's snapshot */
	uint64_t batch; /* the last batch number given */
	struct buffer gather; /* begins with space for the header */
	struct buffer flight;
	struct buffer begin; /* start of the segment that follows the batch in flight, or empty */
	struct raw_piece *pieces; /* of the gathering batch */
	size_t piece_count;
	size_t piece_cap;
	struct raw_piece *flight_pieces;
	size_t flight_count;
	uint64_t *removals; /* ids of streams whose files are deleted after the gathering batch */
	size_t removal_count;
	uint64_t *flight_removals;
	size_t flight_removal_count;
	struct raw_checkpoint *checkpoint; /* prepared or running; NULL: none */
};
/** Empties the gathering batch. */
void raw_journal_clear(struct raw_journal *journal);
void raw_journal_finish(struct raw_journal *journal);
/** Notes that the last `len` gathered bytes are also appended to the file of stream `id`. */
void raw_journal_piece(struct raw_journal *journal, uint64_t id, size_t len);
/** Notes that the file of stream `id` is deleted once the gathering batch is on disk. */
void raw_journal_remove(struct raw_journal *journal, uint64_t id);
bool raw_journal_is_empty(const struct raw_journal *journal);
/** Returns whether a new segment is due after the next batch. */
bool raw_journal_wants_segment(const struct raw_journal *journal);
/**
 * Turns the gathered batch into the one in flight. `begin_with`: a new segment with this state
 * follows it.
 */
void raw_journal_take_off(struct raw_journal *journal, const struct raw_state *begin_with);
/** Runs on the worker's thread: writes the batch in flight, or recovers if `reopens`. */
void raw_journal_run(void *arg);

/**
 * Syncs files of streams on the thread pool, and then removes the segments that are no longer
 * needed.
 */
struct raw_checkpoint {
	uv_work_t work;
	struct raw_store *store;
	int data_fd;
	int journal_fd;
	uint64_t *ids;
	size_t count;
	uint64_t from; /* segments from this one to the one before `to` are removed */
	uint64_t to;
	int result;
};
void raw_checkpoint_run(uv_work_t *work);

/* raw.c */
struct raw_store {
	struct raw_config config;
	struct raw_journal journal;
	struct raw_state *state;
	uint64_t lsn; /* of the gathering batch */
	uint64_t flight_lsn;
	uint64_t durable_lsn;
	struct list waits; /* struct raw_wait */
	struct list changed; /* by the gathering batch: struct raw_stream.changed_link */
	struct list in_flight; /* by the batch in flight */
	struct list removed; /* streams that the gathering batch removed from the state */
	struct list removed_flight;
	bool is_failing; /* a write failed: no more writes until recovery has succeeded */
	bool is_damaged; /* is_failing: the journal is damaged, and nothing is known of any stream */
	size_t damaged; /* is_failing: streams that were damaged when it was last known */
	struct diag_limit warned;
	uv_timer_t *retry;
	uv_timer_t *sweep;
	size_t reads; /* running on the thread pool */
};
/**
 * Finds a stream by its name and deletes it first if it has expired. `is_shown`: only if its
 * creation is durable. Returns RAW_DONE, RAW_NOT_FOUND, RAW_GONE or RAW_FAILED; *ret is unset if
 * the store is failing.
 */
enum raw_result raw_find_stream(
	struct raw_store *store, const char *name, bool is_shown, struct raw_stream **ret);
int64_t raw_now(const struct raw_store *store);
/** Notes that the stream was used, which restarts its TTL. */
void raw_touch(struct raw_store *store, struct raw_stream *stream);
/** Notes that the gathering batch changes the stream. */
void raw_changed(struct raw_store *store, struct raw_stream *stream);
/** Journals the deletion of the stream and applies it. */
void raw_remove(struct raw_store *store, struct raw_stream *stream);

/* raw_commit.c */
void raw_handle_done(void *arg);
void raw_handle_retry(uv_timer_t *timer);
/** Hands the gathered batch to the worker, if it is free. */
void raw_launch(struct raw_store *store);
/** Takes over the state that recovery has found. Returns its result. */
int raw_take_found(struct raw_store *store);
/** Ends all watches of a stream that is gone. */
void raw_end_watches(struct raw_stream *stream);

/* raw_read.c */
struct raw_page *raw_page_new(uint64_t from, const char *bytes, size_t len);

#endif
