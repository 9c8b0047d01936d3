/* Shared by the files that serve raw streams (http_raw*.c). */
#ifndef HOLDFAST_NET_RAW_INTERNAL_H
#define HOLDFAST_NET_RAW_INTERNAL_H

#include "holdfast/http_exchange.h"

#include "holdfast/raw.h"
#include "raw_wire.h"

/** The state of a request about a raw stream, which may wait for the disk or for news. */
struct http_raw {
	struct answer answer;
	char *name;
	bool is_over; /* it has been answered */
	/* Of a PUT, POST or DELETE. */
	struct raw_wait wait;
	struct raw_answer outcome;
	bool has_producer;
	char *type; /* of a PUT or POST; NULL: none */
	char *source; /* of a PUT; NULL: it is not a fork */
	char *seq; /* of a POST; NULL: none */
	char *producer;
	char *expires;
	struct raw_create create;
	struct raw_append append;
	struct buffer bytes; /* as they are stored */
	/* Of a GET. */
	struct raw_read *read; /* also of a PUT that looks for the place of a fork; NULL: none */
	struct raw_watch watch;
	bool polls;
	bool has_offset;
	struct raw_offset offset;
	uint64_t from;
	uint64_t id; /* of the stream that is read; 0: not looked up yet */
	uint64_t least_cursor;
};

/* http_raw.c */
/** Headers of all answers about a stream; each adds its own cache-control. */
#define RAW_HEADERS FILE_OF_OTHERS
/** Creates the state of a request about the stream `name`, which is its answer. */
struct http_raw *raw_begin(struct conn *conn, const char *name);
/** The state of the current request. */
static inline struct http_raw *raw_of(const struct conn *conn)
{
	return list_entry(http_answer(conn), struct http_raw, answer);
}

/** The streams of the server of the current request; NULL: they are off. */
static inline struct raw_store *raw_store_of(const struct conn *conn)
{
	return http_door_state(conn);
}

/** Refuses the request as `result` says. Returns false if it is not a failure. */
bool raw_refuse_result(struct conn *conn, enum raw_result result, const struct raw_answer *answer);
void raw_append_offset(struct buffer *out, uint64_t at);

/* http_raw_write.c */
void raw_put(struct conn *conn, const char *name);
void raw_post(struct conn *conn, const char *name);
void raw_remove_stream(struct conn *conn, const char *name);

/* http_raw_read.c */
void raw_head(struct conn *conn, const char *name);
void raw_get(struct conn *conn, const char *name);
/** Ends a long poll without news. */
void raw_end_poll(struct conn *conn);

/* http_raw_sse.c */
void raw_open_sse(struct conn *conn, const char *name, const struct raw_offset *offset,
	uint64_t least_cursor, const struct raw_view *view);

#endif
