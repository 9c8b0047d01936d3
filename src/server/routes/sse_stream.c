/*
 * A stream of server-sent events as bytes: the frames of a WebSocket as events, in chunks, and packed
 * if the client accepts that. What is behind it is in http_sse.c, and in the doors that stream.
 */
#include "server/net_internal.h"

#include "holdfast/loop.h"
#include "holdfast/sse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct sse_stream {
	bool packs; /* it is compressed */
	bool is_chunked;
	struct gzip_end end;
	int64_t spoken_ms; /* when something was last sent, on the loop's clock */
	int64_t looked_ms; /* when `taken` was last compared, on the loop's clock */
	int64_t heard_ms; /* when the peer was last seen to take something, on the loop's clock */
	uint64_t taken; /* sock_taken() at that time */
};

static int64_t now_ms(const struct conn *conn)
{
	return loop_now_ms(conn->server->loop);
}

static void handle_sent(void *frame)
{
	frame_unref(frame);
}

/* Room in front of a frame for the head of a chunk: the size and "\r\n". */
#define CHUNK_HEAD_MAX 24
_Static_assert(CHUNK_HEAD_MAX <= FRAME_HEADROOM, "a frame has room for the head of a chunk");

/**
 * Sends bytes that have FRAME_HEADROOM in front of them and SSE_CHUNK_END behind them, as a whole
 * chunk: many clients deliver a chunk only once they have read its end.
 */
static void put_chunk(struct conn *conn, struct frame *frame, const struct buffer *bytes)
{
	char head[CHUNK_HEAD_MAX];
	size_t len = bytes->len - FRAME_HEADROOM;
	char *begin = bytes->data + FRAME_HEADROOM;
	if (!len) {
		return; /* a page without events; an empty chunk would end the body */
	}
	if (conn->sse->is_chunked) {
		size_t n = (size_t)snprintf(head, sizeof(head), "%zx\r\n", len);
		memcpy(begin - n, head, n);
		begin -= n;
		len += n + SSE_CHUNK_END_SIZE;
	}
	conn_put_later(conn, begin, len, handle_sent, frame_ref(frame));
}

void sse_write(struct conn *conn, struct frame *socket_frame)
{
	struct sse_stream *sse = conn->sse;
	struct frame *frame = sse_frame(socket_frame);
	const struct buffer *bytes = &frame->buf;
	if (sse->packs) {
		bytes = sse_packed(frame, conn->server->deflater);
		gzip_end_add(&sse->end, &frame->piece);
	}
	sse->spoken_ms = now_ms(conn);
	put_chunk(conn, frame, bytes);
}

/** Sends bytes that are not an event, such as the head of gzip. */
static void put_bytes(struct conn *conn, const char *bytes, size_t len)
{
	struct frame *frame = sse_text(bytes, len);
	put_chunk(conn, frame, &frame->buf);
	frame_unref(frame);
}

static void write_own(struct conn *conn, struct frame *frame)
{
	sse_write(conn, frame);
	frame_unref(frame);
}

void sse_end(struct conn *conn)
{
	struct buffer end = {0};
	if (conn->sse->packs) {
		gzip_end_append(&conn->sse->end, &end);
		put_bytes(conn, end.data, end.len);
		buffer_finish(&end);
	}
	if (conn->sse->is_chunked) {
		conn_put(conn, "0\r\n\r\n", 5);
	}
	conn->ws->is_deaf = true;
	conn->phase = PHASE_LINGER;
	conn_send_fin(conn);
}

/**
 * A peer of an event stream sends nothing, so a dead one is recognized by taking nothing of what is
 * sent to it; comments see to it that something is.
 */
void sse_sweep(struct conn *conn)
{
	const struct limits *limits = conn->server->limits;
	struct sse_stream *sse = conn->sse;
	int64_t now = now_ms(conn);
	if (now - sse->spoken_ms >= limits->comment_ms && conn_is_writable(conn)) {
		write_own(conn, sse_comment());
	}
	if (now - sse->looked_ms < limits->comment_ms) {
		return;
	}
	uint64_t taken = sock_taken(&conn->sock);
	sse->looked_ms = now;
	if (taken != sse->taken || !taken) {
		sse->taken = taken;
		sse->heard_ms = now;
	} else if (now - sse->heard_ms > limits->ping_ms + limits->pong_ms) {
		conn_kill(conn);
	}
}

int64_t sse_spread(int64_t ms)
{
	unsigned short more = 0;
	if (getrandom(&more, sizeof(more), GRND_NONBLOCK) != (ssize_t)sizeof(more)) {
		more = 0;
	}
	return ms + more % SSE_SPREAD_MS;
}

void sse_say_retry(struct conn *conn, int64_t ms)
{
	write_own(conn, sse_retry(sse_spread(ms)));
}

void sse_drop_frame(struct conn *conn, struct frame *frame)
{
	(void)conn;
	frame_unref(frame);
}

void sse_begin(struct conn *conn, bool packs, bool is_chunked)
{
	struct sse_stream *sse = xcalloc(1, sizeof(*sse));
	sse->packs = packs;
	sse->is_chunked = is_chunked;
	sse->spoken_ms = sse->looked_ms = sse->heard_ms = now_ms(conn);
	conn->sse = sse;
	if (packs) {
		put_bytes(conn, GZIP_HEAD, GZIP_HEAD_SIZE);
	}
}
