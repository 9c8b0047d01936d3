/*
 * Raw streams: the second kind of log in a data directory, for clients of Durable Streams that
 * write (docs/durable-streams.md#streams-of-your-own). A stream has a name and holds either bytes
 * or JSON messages. It can be appended to, read from any position, forked, closed and deleted; it
 * is also deleted when it expires.
 *
 *   DIR/streams/journal/<number>.raw   all changes in order, in batches; one fdatasync for each
 *   DIR/streams/data/<id>              the bytes of one stream; of a fork, those after its start
 *
 * As with sessions, a change counts once its batch is durable. raw_wait() reports that moment, and
 * readers see nothing earlier. All functions run on the loop's thread; only raw_open() and
 * raw_close() wait for the disk. proto/store-format.md describes the formats.
 */
#ifndef HOLDFAST_RAW_H
#define HOLDFAST_RAW_H

#include "holdfast/buffer.h"
#include "holdfast/clock.h"
#include "holdfast/limits.h"
#include "holdfast/list.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct raw_store;
struct raw_stream;

/* Maximum lengths in bytes: a name, a content type, a Producer-Id and a Stream-Seq. */
#define RAW_NAME_MAX 512
#define RAW_TYPE_MAX 200
#define RAW_ID_MAX   200
#define RAW_SEQ_MAX  200
/* Longest chain of sources that a fork can have. */
#define RAW_DEPTH_MAX 64
/* Bytes of a page. A page of JSON ends with a whole message, so it is larger if one message is. */
#define RAW_PAGE_SIZE ((size_t)256 * 1024)

struct raw_config {
	/* What is lost with a batch of the journal is given up: unknown names are free again. */
	bool forgets_lost;
	uv_loop_t *loop;
	const struct limits *limits;
	const struct clock *clock;
	const char *dir; /* the data directory; exists and is locked by this process */
	bool is_relaxed; /* do not sync batches: one counts once the kernel has it */
	/** Returns whether the disk quota allows more writes. NULL: always. */
	bool (*has_room)(void *arg);
	/** Called when `bytes` more have been written to the disk. NULL: not reported. */
	void (*wrote)(void *arg, uint64_t bytes);
	void *arg;
};

/**
 * Opens the store and recovers its streams. Blocks. If the disk cannot be read or written, the
 * error is logged and recovery is retried every `journal_retry_ms`; until it succeeds, all requests
 * get RAW_FAILED.
 */
struct raw_store *raw_open(const struct raw_config *config);
/**
 * Commits the gathered changes, waits for running work and frees the store. No read and no wait may
 * be left. Accepts NULL.
 */
void raw_close(struct raw_store *store);
/** Ends a loop tick: starts writing the gathered batch unless another one is being written. */
void raw_end_tick(struct raw_store *store);
/** Number of streams, including deleted ones that still have forks. */
size_t raw_count(const struct raw_store *store);
/** The number of streams that are refused as damaged. */
size_t raw_count_damaged(const struct raw_store *store);
/** Bytes of journal records that are not yet durable. */
size_t raw_backlog(const struct raw_store *store);

enum raw_result {
	RAW_DONE,
	RAW_SAME, /* nothing to do: the stream has this configuration, or the append is stored */
	RAW_NOT_FOUND,
	RAW_NO_SOURCE, /* the stream to fork does not exist */
	RAW_GONE, /* the stream is deleted, but forks of it exist */
	RAW_TAKEN, /* the name is in use by another stream, or by one that is RAW_GONE */
	RAW_BAD_OFFSET, /* the offset is beyond the end of the source */
	RAW_OTHER_TYPE, /* the content type differs from the stream's */
	RAW_CLOSED,
	RAW_OLD_SEQ, /* Stream-Seq is not greater than the last one */
	RAW_STALE, /* Producer-Epoch is older than the newest one */
	RAW_EPOCH_START, /* the first Producer-Seq of a new Producer-Epoch is not 0 */
	RAW_GAP, /* Producer-Seq skips numbers */
	RAW_LIMIT, /* a limit is reached: raw_answer.limit */
	RAW_FAILED, /* the disk cannot be written or read */
	RAW_DAMAGED, /* the stream, or the whole journal of streams, is damaged; it can be deleted */
};

/** The result of a request. It depends on earlier changes: send it once `lsn` is durable. */
struct raw_answer {
	enum raw_result result;
	enum limit limit; /* RAW_LIMIT */
	uint64_t lsn;
	uint64_t tail; /* position of the stream's end */
	bool is_closed;
	uint64_t epoch; /* RAW_STALE: the newest one; RAW_SAME of a producer: its own */
	uint64_t seq; /* RAW_GAP: the one expected; RAW_SAME: the last one stored */
};

/** Configuration and first bytes of a new stream. Strings are borrowed; NULL: not given. */
struct raw_create {
	const char *name;
	const char *type; /* NULL in a fork: the type of its source */
	bool is_json; /* by its type */
	bool has_ttl;
	int64_t ttl_s; /* deleted after this time without use */
	int64_t expires_ms; /* wall clock; 0: never */
	const char *expires; /* Stream-Expires-At as given */
	bool closes;
	const char *source; /* name of the stream to fork; NULL: not a fork */
	bool has_offset; /* `offset` is given; a fork without offsets begins at the end */
	uint64_t offset;
	uint64_t sub_offset; /* as given */
	uint64_t fork_at; /* position given by the two offsets; ignored if neither is given */
	const char *bytes; /* in the form that is stored */
	size_t len;
};
/** Creates a stream. The answer is final once `ret->lsn` is durable. */
void raw_create(struct raw_store *store, const struct raw_create *create, struct raw_answer *ret);

struct raw_append {
	const char *name;
	const char *type; /* NULL: nothing to append, only to close */
	const char *seq; /* Stream-Seq; NULL: not given */
	const char *producer; /* Producer-Id; NULL: not given */
	uint64_t producer_epoch;
	uint64_t producer_seq;
	bool closes;
	const char *bytes; /* in the form that is stored */
	size_t len;
};
/**
 * Checks an append except for its bytes and the limits, and appends nothing. So a caller can report
 * these errors before it looks at the bytes.
 */
void raw_check_append(
	struct raw_store *store, const struct raw_append *append, struct raw_answer *ret);
/** Appends to a stream, closes it, or both. The answer is final once `ret->lsn` is durable. */
void raw_append(struct raw_store *store, const struct raw_append *append, struct raw_answer *ret);
/**
 * Deletes a stream, also a damaged one. The result is RAW_DONE, RAW_NOT_FOUND, RAW_GONE or
 * RAW_FAILED, and is final once `ret->lsn` is durable.
 */
void raw_delete(struct raw_store *store, const char *name, struct raw_answer *ret);

/** A wait for the batch `lsn` to become durable. Zeroed: idle. */
struct raw_wait {
	struct list link;
	uint64_t lsn;
	/**
	 * Called once, never from raw_wait(). status < 0: the batch failed and was rolled back if
	 * possible.
	 */
	void (*done)(struct raw_wait *wait, int status);
};
/**
 * Begins to wait for wait->lsn. Returns false if the batch is durable already; done() is then not
 * called.
 */
bool raw_wait(struct raw_store *store, struct raw_wait *wait);
/** Ends a wait without a call of done(). Does nothing if it is idle. */
void raw_wait_cancel(struct raw_wait *wait);

/** The durable state of a stream, as readers see it. Strings are valid until the next loop tick. */
struct raw_view {
	const char *type;
	bool is_json;
	bool is_closed;
	uint64_t id; /* never reused */
	uint64_t tail;
	bool has_ttl;
	int64_t ttl_s;
	const char *expires; /* NULL: never */
};
/**
 * Looks up a stream. Returns RAW_DONE, RAW_NOT_FOUND, RAW_GONE, RAW_FAILED or RAW_DAMAGED. `touches`: this
 * counts as use and restarts the TTL.
 */
enum raw_result raw_look(
	struct raw_store *store, const char *name, bool touches, struct raw_view *ret);

/** Bytes of a stream, shared by the readers of the same part and counted by reference. */
struct raw_page {
	unsigned refs;
	uint64_t from; /* positions in the stream */
	uint64_t to;
	struct buffer bytes;
	void *shown; /* encoded form that one reader made for all; NULL: not yet */
	void (*drop_shown)(void *shown);
};
/** Drops a reference; the last one frees the page. */
void raw_page_unref(struct raw_page *page);

struct raw_read;
/**
 * Reads a page from position `from` on the thread pool; in a JSON stream it ends with a whole
 * message. done() is called once, later, with a page that the receiver must unref, or with NULL and
 * a negative errno: -EINVAL, `from` is not the beginning of a JSON message or is beyond the end;
 * -ENOENT, the stream does not exist; any other, the read failed. `keeps_text`: if more bytes
 * follow, the page does not end inside a UTF-8 character.
 */
struct raw_read *raw_read(struct raw_store *store, const char *name, uint64_t from, bool keeps_text,
	void (*done)(void *arg, struct raw_page *page, int status), void *arg);
/**
 * Finds the position `count` messages after `from`. done() gets it in page->to, or an
 * error as in raw_read(); -EINVAL also if the stream has fewer messages.
 */
struct raw_read *raw_find(struct raw_store *store, const char *name, uint64_t from, uint64_t count,
	void (*done)(void *arg, struct raw_page *page, int status), void *arg);
/** Cancels a read: done() will not be called. The read frees itself. */
void raw_read_cancel(struct raw_read *read);

/** A subscription to news of one stream. While one exists, the stream's TTL does not run out. */
struct raw_watch {
	struct list link;
	/**
	 * Called when durable bytes were added or the stream was closed. `page` has the new bytes,
	 * or is NULL if they are more than a page or none; it is lent for the call. `is_over`: the
	 * stream is gone or the store failed, and the watch has ended.
	 */
	void (*news)(struct raw_watch *watch, struct raw_page *page, bool is_over);
};
/** Begins a watch. raw_look() must just have returned RAW_DONE for `name`. */
void raw_watch_begin(struct raw_store *store, const char *name, struct raw_watch *watch);
/** Ends a watch. Does nothing if it has not begun (zeroed) or has ended. */
void raw_watch_end(struct raw_watch *watch);

#endif
