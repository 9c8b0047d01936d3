/*
 * Raw streams: the second kind of log in a data directory, for clients of Durable Streams that write
 * (docs/durable-streams.md#streams-of-your-own). A stream is bytes under a name, or JSON messages; it is appended to, read from any
 * position, forked, closed, and deleted, by somebody or when its time is over.
 *
 *   DIR/streams/journal/<number>.raw   what was done, in the order in which it was; a batch, one fdatasync
 *   DIR/streams/data/<id>              the bytes of each stream, behind those that it has of another one
 *
 * As with sessions, a change counts when the batch that it is in is on disk: raw_wait() says when, and
 * readers are shown nothing before. All functions run on the loop's thread and none waits for the
 * disk but raw_open() and raw_close(). The formats are in proto/store-format.md.
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

/* The most bytes of a name, of a content type, of a Producer-Id and of a Stream-Seq. */
#define RAW_NAME_MAX 512
#define RAW_TYPE_MAX 200
#define RAW_ID_MAX   200
#define RAW_SEQ_MAX  200
/* A fork of a fork of … has at most so many streams in front of it. */
#define RAW_DEPTH_MAX 64
/* A page has about so many bytes: one message at least. */
#define RAW_PAGE_SIZE ((size_t)256 * 1024)

struct raw_config {
	uv_loop_t *loop;
	const struct limits *limits;
	const struct clock *clock;
	const char *dir; /* the data directory, which is there and ours */
	bool is_relaxed; /* a batch counts when the kernel has it */
	/** Whether more may be written. */
	bool (*has_room)(void *arg);
	/** So many bytes more are on the disk. */
	void (*wrote)(void *arg, uint64_t bytes);
	void *arg;
};

/**
 * Reads what is there. Blocks. What cannot be read or written is said, tried again by itself, and
 * until then everything is refused with RAW_FAILED; only what no try can mend fails.
 */
int raw_open(const struct raw_config *config, struct raw_store **ret, char **ret_why);
/** Makes durable what is gathered, ends all work and frees it. Nobody reads or waits any more. Accepts NULL. */
void raw_close(struct raw_store *store);
/** The end of a loop tick: hands what is gathered to the disk. */
void raw_end_tick(struct raw_store *store);
/** Streams that have a name. */
size_t raw_count(const struct raw_store *store);
/** Bytes that wait for the disk. */
size_t raw_backlog(const struct raw_store *store);

enum raw_result {
	RAW_DONE,
	RAW_SAME, /* it was so before: a stream with this configuration, or an append that is stored */
	RAW_NOT_FOUND,
	RAW_NO_SOURCE, /* the stream to be forked is not there */
	RAW_GONE, /* it is deleted, and forks of it are not */
	RAW_TAKEN, /* the name is another stream's; or of one that is RAW_GONE */
	RAW_BAD_OFFSET, /* the source does not have it */
	RAW_OTHER_TYPE, /* its content type is another one */
	RAW_CLOSED,
	RAW_OLD_SEQ, /* Stream-Seq is not behind the last one */
	RAW_STALE, /* Producer-Epoch is behind the newest one */
	RAW_EPOCH_START, /* a new Producer-Epoch begins with another Producer-Seq than 0 */
	RAW_GAP, /* Producer-Seq leaves some out */
	RAW_LIMIT, /* raw_answer.limit */
	RAW_FAILED, /* the disk does not take it, or give it */
};

/** Says what became of a request. It rests on all that came before: told when `lsn` is on disk. */
struct raw_answer {
	enum raw_result result;
	enum limit limit;
	uint64_t lsn;
	uint64_t tail; /* position of its end */
	bool is_closed;
	uint64_t epoch; /* RAW_STALE: the newest one; RAW_SAME of a producer: its own */
	uint64_t seq; /* RAW_GAP: the one to come; RAW_SAME: the last one stored */
};

/** What a new stream is like. Texts are borrowed; a length of 0 or NULL: none. */
struct raw_create {
	const char *name;
	const char *type; /* NULL, of a fork: that of its source */
	bool is_json; /* by its type */
	bool has_ttl;
	int64_t ttl_s; /* of silence, after which it is deleted */
	int64_t expires_ms; /* wall clock; 0: never */
	const char *expires; /* as it was given */
	bool closes;
	const char *source; /* it is a fork of this one; NULL: it is none */
	bool has_offset; /* else it begins at the end of the source */
	uint64_t offset;
	uint64_t sub_offset; /* as it was given */
	uint64_t fork_at; /* the position that both of them mean; !has_offset: is not looked at */
	const char *bytes; /* as they are stored */
	size_t len;
};
void raw_create(struct raw_store *store, const struct raw_create *create, struct raw_answer *ret);

struct raw_append {
	const char *name;
	const char *type; /* NULL: nothing is appended, it is only closed */
	const char *seq; /* Stream-Seq; NULL: none */
	const char *producer; /* Producer-Id; NULL: none */
	uint64_t producer_epoch;
	uint64_t producer_seq;
	bool closes;
	const char *bytes; /* as they are stored */
	size_t len;
};
/** Whether it would be taken, with all but its bytes: these may make no sense, and then nothing has happened. */
void raw_check_append(
	struct raw_store *store, const struct raw_append *append, struct raw_answer *ret);
void raw_append(struct raw_store *store, const struct raw_append *append, struct raw_answer *ret);
void raw_delete(struct raw_store *store, const char *name, struct raw_answer *ret);

/** Whoever waits for a batch. Zeroed, it waits for nothing. */
struct raw_wait {
	struct list link;
	uint64_t lsn;
	/** Once, not inside raw_wait(); status < 0: it is not on disk, and is taken back, if possible. */
	void (*done)(struct raw_wait *wait, int status);
};
/** False: it is on disk already, and done() is not called. */
bool raw_wait(struct raw_store *store, struct raw_wait *wait);
void raw_wait_cancel(struct raw_wait *wait);

/** What readers are shown of a stream. Texts are lent until the next turn of the loop. */
struct raw_view {
	const char *type;
	bool is_json;
	bool is_closed;
	uint64_t id; /* no other stream has or had it */
	uint64_t tail;
	bool has_ttl;
	int64_t ttl_s;
	const char *expires; /* NULL: never */
};
/** RAW_DONE, RAW_NOT_FOUND, RAW_GONE or RAW_FAILED. `touches`: somebody uses it, so that its ttl begins anew. */
enum raw_result raw_look(
	struct raw_store *store, const char *name, bool touches, struct raw_view *ret);

/** Bytes that were read, shared by all who read the same. */
struct raw_page {
	unsigned refs;
	uint64_t from;
	uint64_t to;
	struct buffer bytes;
	void *shown; /* what the owner of the first reader made of it */
	void (*drop_shown)(void *shown);
};
void raw_page_unref(struct raw_page *page);

struct raw_read;
/**
 * Reads a page from a position on, to the end of a message of JSON. done() is called once, later, with a reference to the
 * page; NULL: -EINVAL, the position is none of a message of JSON, or beyond the end; -ENOENT, the stream is gone; another errno, the disk does
 * not give it. `keeps_text`: no character of UTF-8 is cut where more follows.
 */
struct raw_read *raw_read(struct raw_store *store, const char *name, uint64_t from, bool keeps_text,
	void (*done)(void *arg, struct raw_page *page, int status), void *arg);
/**
 * Finds the position `count` messages behind another one. done() has it in page->to, or -EINVAL if there
 * are not so many.
 */
struct raw_read *raw_find(struct raw_store *store, const char *name, uint64_t from, uint64_t count,
	void (*done)(void *arg, struct raw_page *page, int status), void *arg);
/** done() is not called any more. */
void raw_read_cancel(struct raw_read *read);

/** Whoever is to hear what is new of a stream. */
struct raw_watch {
	struct list link;
	/**
	 * There is more of it, or it is closed; `page` has what is new, if it is as short as a page. `is_over`: it is
	 * gone, and so is the watch.
	 */
	void (*news)(struct raw_watch *watch, struct raw_page *page, bool is_over);
};
/** The stream is there: raw_look() has just said so. */
void raw_watch_begin(struct raw_store *store, const char *name, struct raw_watch *watch);
void raw_watch_end(struct raw_watch *watch);

#endif
