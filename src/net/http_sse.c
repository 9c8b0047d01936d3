/*
 * Server-sent events: an endless answer in which each frame of a WebSocket is an event (sse.h).
 * Behind it is the same observer or feed as behind a WebSocket, but nothing comes in. An error that
 * reconnecting cannot cure is an HTTP status, at which EventSource gives up; any other is an event
 * followed by the end of the stream, after which EventSource reconnects.
 */
#include "http_internal.h"
#include "placement.h"

#include "holdfast/loop.h"
#include "holdfast/sse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/*
 * Clients reconnect after one to two times this delay (ms), at random so as not to come all at
 * once.
 */
#define RETRY_MS 500
/* The same after a refusal that passes by itself. */
#define REFUSED_RETRY_MS 1000

bool http_wants_sse(const struct conn *conn)
{
	static const char *const others[] = {"application/json", "application/*", "*/*"};
	const struct http_head *head = conn->http->head;
	int sse = http_head_weight(head, "accept", "text/event-stream");
	int json = -1;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]) && json < 0; i++) {
		json = http_head_weight(head, "accept", others[i]);
	}
	return conn->http->method == HTTP_GET && sse > 0 && sse >= json;
}

static int64_t now_ms(const struct conn *conn)
{
	return loop_now_ms(conn->server->loop);
}

/* --- sending --- */

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

/* --- opening --- */

static int64_t at_random(int64_t ms)
{
	unsigned short more = 0;
	if (getrandom(&more, sizeof(more), GRND_NONBLOCK) != (ssize_t)sizeof(more)) {
		more = 0;
	}
	return ms + more % RETRY_MS;
}

void sse_say_retry(struct conn *conn, int64_t ms)
{
	write_own(conn, sse_retry(at_random(ms)));
}

void http_respond_ended(struct conn *conn, const char *error, size_t len)
{
	struct buffer text = {0};
	buffer_printf(&text,
		"retry: %lld\n\nevent: ended\ndata: ", (long long)at_random(REFUSED_RETRY_MS));
	buffer_append(&text, error, len);
	buffer_append_str(&text, "\n\n");
	http_respond_text(conn, "text/event-stream", text.data, text.len);
	buffer_finish(&text);
}

void http_begin_sse(
	struct conn *conn, const struct conn_ops *ops, const char *headers, bool says_retry)
{
	bool packs = http_takes_gzip(conn);
	bool is_chunked = !conn->http->head->is_http_1_0; /* tells an end from a lost connection */
	struct buffer all = {0};
	buffer_printf(&all, "%s%s%svary: accept-encoding\r\n", headers,
		is_chunked ? "transfer-encoding: chunked\r\n" : "",
		packs ? "content-encoding: gzip\r\n" : "");
	http_begin_stream(conn, "text/event-stream", buffer_cstr(&all));
	buffer_finish(&all);
	conn->sse = xcalloc(1, sizeof(*conn->sse));
	conn->sse->packs = packs;
	conn->sse->is_chunked = is_chunked;
	conn->sse->spoken_ms = conn->sse->looked_ms = conn->sse->heard_ms = now_ms(conn);
	conn->ws = xcalloc(1, sizeof(*conn->ws));
	list_init(&conn->ws->outbox);
	conn->ws->config.encoder = &sse_encoder;
	ws_make_client_id(conn);
	conn->ops = ops;
	http_finish(conn);
	conn->phase = PHASE_SOCKET;
	conn_set_deadline(conn, DEADLINE_NONE, 0);
	if (packs) {
		put_bytes(conn, GZIP_HEAD, GZIP_HEAD_SIZE);
	}
	if (says_retry) {
		sse_say_retry(conn, RETRY_MS);
	}
}

static void begin_stream(struct conn *conn, const struct conn_ops *ops)
{
	http_begin_sse(conn, ops, "", true);
}

/** Refuses a request with a body, which would arrive after the stream has begun. */
static bool has_body(struct conn *conn)
{
	if (conn->http->framing.body != HTTP_NO_BODY) {
		http_refuse(conn, "bad_request", "a request for a stream of events has no body");
		return true;
	}
	return false;
}

void http_open_sse(struct conn *conn)
{
	struct observer_config config = {0};
	struct load_request load = {0};
	const char *bad = query_read_stream(conn, &config, &load);
	if (bad) {
		http_refuse(conn, "bad_request", bad);
		return;
	}
	if (has_body(conn)) {
		return;
	}
	begin_stream(conn, placement_stream_ops(conn));
	conn->ws->config.format = config.format;
	conn->ws->config.deltas = config.deltas;
	ws_begin(conn);
	if (conn->ws->observer) {
		observer_load(conn->ws->observer, &load);
	}
}

void http_open_sse_feed(struct conn *conn)
{
	const char *bad = query_check(conn, (const char *const[]){NULL});
	if (bad) {
		http_refuse(conn, "bad_request", bad);
	} else if (!has_body(conn)) {
		begin_stream(conn, &feed_conn_ops);
		ws_begin(conn);
	}
}

void http_drain_sse(struct conn *conn)
{
	if (has_body(conn)) {
		return;
	}
	begin_stream(conn, &feed_conn_ops);
	room_note_known(conn);
	sse_say_retry(conn, conn->server->limits->drain_retry_ms);
	conn_send(conn, frame_draining(conn->server->limits->drain_retry_ms));
	conn_close(conn, 1001, "the server is shutting down");
}
