/* One connection: what all kinds of WebSocket have in common. */
#include "net_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is gathered for a producer may grow to about this before it is not read from any more. */
#define GATHERED_MAX ((size_t)64 * 1024)

struct queued_frame {
	struct list link;
	struct frame *frame;
};

struct conn *conn_create(struct server *server, struct lws *wsi)
{
	struct conn *conn = xcalloc(1, sizeof(*conn));
	conn->server = server;
	conn->wsi = wsi;
	list_init(&conn->kind_link);
	list_init(&conn->turn_link);
	list_init(&conn->waits);
	list_init(&conn->outbox);
	list_append(&server->conns, &conn->link);
	return conn;
}

static void free_wait(struct conn_wait *wait)
{
	durable_wait_cancel(&wait->wait);
	list_remove(&wait->link);
	free(wait->text);
	free(wait->more);
	free(wait->acks);
	free(wait->counts);
	free(wait->refusal);
	free(wait);
}

static void drop_queued(struct conn *conn, struct queued_frame *queued)
{
	list_remove(&queued->link);
	conn->outbox_count--;
	frame_unref(queued->frame);
	free(queued);
}

void conn_hold_session(struct conn *conn, struct session *session)
{
	conn_drop_session(conn);
	session_hold(session);
	conn->session = session;
}

void conn_drop_session(struct conn *conn)
{
	if (conn->session) {
		session_drop(conn->session);
		conn->session = NULL;
	}
}

void conn_destroy(struct conn *conn)
{
	if (conn->ops && conn->ops->closed) {
		conn->ops->closed(conn);
	}
	if (conn->read) {
		log_read_cancel(conn->read);
	}
	list_for_each_safe(link, tmp, &conn->waits) {
		free_wait(list_entry(link, struct conn_wait, link));
	}
	list_for_each_safe(link, tmp, &conn->outbox) {
		drop_queued(conn, list_entry(link, struct queued_frame, link));
	}
	conn_drop_session(conn);
	http_stream_finish(conn);
	list_remove(&conn->kind_link);
	list_remove(&conn->turn_link);
	list_remove(&conn->link);
	buffer_finish(&conn->rx);
	buffer_finish(&conn->response);
	buffer_finish(&conn->gathered);
	free(conn->title);
	free(conn);
}

static void handle_durable(struct durable_wait *durable, int status)
{
	struct conn_wait *wait = (struct conn_wait *)durable;
	wait->answer(wait, status);
	free_wait(wait);
}

struct conn_wait *conn_wait_create(struct conn *conn, struct session *session,
	void (*answer)(struct conn_wait *wait, int status))
{
	struct conn_wait *wait = xcalloc(1, sizeof(*wait));
	wait->conn = conn;
	wait->answer = answer;
	wait->wait.done = handle_durable;
	list_append(&conn->waits, &wait->link);
	session_wait_durable(session, &wait->wait);
	return wait;
}

/**
 * A socket with nothing of ours left in lws's queue takes a whole frame: what the kernel does not
 * take is kept there, and until it has left we ask for no more.
 */
bool conn_is_writable(struct conn *conn)
{
	return !conn->is_closing && !lws_partial_buffered(conn->wsi);
}

static void fail_write(struct conn *conn)
{
	conn->is_closing = true; /* the close callback follows */
	lws_set_timeout(conn->wsi, PENDING_TIMEOUT_CLOSE_SEND, LWS_TO_KILL_ASYNC);
}

void conn_write(struct conn *conn, struct frame *frame)
{
	/* lws writes its header into the headroom, the same bytes for every receiver. */
	unsigned char *text = (unsigned char *)frame->buf.data + FRAME_HEADROOM;
	if (lws_write(conn->wsi, text, frame_len(frame), LWS_WRITE_TEXT) < 0) {
		fail_write(conn);
	}
}

/** Adds a frame as it is on the wire (RFC 6455, section 5.2): from us, so nothing is masked. */
static void gather(struct conn *conn, const struct frame *frame)
{
	struct buffer *out = &conn->gathered;
	size_t len = frame_len(frame);
	unsigned wide = len < 126 ? 0 : len < 65536 ? 2 : 8;
	if (!out->len) {
		buffer_reserve(out, LWS_PRE + len + 16);
		out->len = LWS_PRE;
	}
	buffer_append_char(out, (char)0x81); /* text, whole */
	buffer_append_char(out, (char)(wide == 0 ? len : wide == 2 ? 126 : 127));
	for (unsigned i = wide; i > 0; i--) {
		buffer_append_char(out, (char)(len >> (8 * (i - 1))));
	}
	buffer_append(out, frame_text(frame), len);
	conn->is_held = conn->is_held || out->len > GATHERED_MAX;
	conn_at_end_of_turn(conn);
}

/** Writes all that is gathered with one call; what the kernel does not take, lws keeps. */
static void flush_gathered(struct conn *conn)
{
	struct buffer *out = &conn->gathered;
	if (out->len && conn_is_writable(conn)) {
		int n = lws_write(conn->wsi, (unsigned char *)out->data + LWS_PRE,
			out->len - LWS_PRE, LWS_WRITE_HTTP);
		if (out->cap > GATHERED_MAX) {
			buffer_finish(out);
		}
		buffer_clear(out);
		if (n < 0) {
			fail_write(conn);
		}
	}
	if (conn->is_closing) {
		return;
	}
	if (out->len || lws_partial_buffered(conn->wsi)) {
		lws_callback_on_writable(conn->wsi);
	} else {
		conn->is_held = false;
	}
	conn_update_flow(conn);
}

void conn_update_flow(struct conn *conn)
{
	bool is_stopped = conn->server->is_paused || conn->is_held;
	if (is_stopped != conn->is_stopped) { /* it costs system calls */
		conn->is_stopped = is_stopped;
		lws_rx_flow_control(conn->wsi, !is_stopped);
	}
}

void conn_at_end_of_turn(struct conn *conn)
{
	if (list_empty(&conn->turn_link)) {
		list_append(&conn->server->turn, &conn->turn_link);
	}
}

void conn_end_turn(struct conn *conn)
{
	if (conn->ops) {
		conn_flush(conn);
	} else if (conn->stream) {
		/* lws would not wait for long; an endless body may be silent as a socket may. */
		lws_set_timeout(conn->wsi, NO_PENDING_TIMEOUT, 0);
	}
}

void conn_flush(struct conn *conn)
{
	if (conn->ops->is_producer) {
		flush_gathered(conn);
		return;
	}
	while (conn->outbox_count && conn_is_writable(conn)) {
		struct queued_frame *queued =
			list_entry(conn->outbox.next, struct queued_frame, link);
		conn_write(conn, queued->frame);
		drop_queued(conn, queued);
	}
	if (conn->outbox_count && !conn->is_closing) {
		lws_callback_on_writable(conn->wsi);
	}
}

void conn_send(struct conn *conn, struct frame *frame)
{
	if (conn->is_closing) {
		frame_unref(frame);
		return;
	}
	if (conn->ops->is_producer) {
		gather(conn, frame);
		frame_unref(frame);
		return;
	}
	if (!conn->outbox_count && conn_is_writable(conn)) {
		conn_write(conn, frame);
		frame_unref(frame);
		return;
	}
	if (conn->outbox_count >= conn->server->limits->outbox_frames) {
		frame_unref(frame);
		conn_close(conn, 1008, "too many requests without reading the answers");
		return;
	}
	struct queued_frame *queued = xcalloc(1, sizeof(*queued));
	queued->frame = frame;
	list_append(&conn->outbox, &queued->link);
	conn->outbox_count++;
	lws_callback_on_writable(conn->wsi);
}

void conn_close(struct conn *conn, unsigned code, const char *reason)
{
	if (conn->is_closing) {
		return;
	}
	if (conn->ops->is_producer) {
		flush_gathered(conn);
	}
	conn->is_closing = true;
	conn->close_code = code;
	snprintf(conn->close_reason, sizeof(conn->close_reason), "%s", reason);
	/*
	 * The close frame goes out when the socket takes it, and a peer that reads nothing is cut
	 * off.
	 */
	lws_set_timeout(conn->wsi, PENDING_TIMEOUT_CLOSE_SEND, 5);
	lws_callback_on_writable(conn->wsi);
}

struct session *conn_find_session(struct conn *conn)
{
	struct session *session = session_table_get(
		conn->server->sessions, conn->session_id, strlen(conn->session_id));
	if (conn->refused) {
		conn_send(conn, frame_error("bad_request", conn->refused, NULL, NULL));
		conn_close(conn, 1008, "bad_request");
		return NULL;
	}
	if (!session || !session_is_there(session)) {
		conn_send(conn, frame_session_gone(conn->session_id, "unknown"));
		conn_close(conn, 4404, "no such session");
		return NULL;
	}
	return session;
}

struct frame *conn_keepalive_ack(const struct conn *conn, const struct request *request)
{
	const char *time =
		request->keepalive.client_time[0] ? request->keepalive.client_time : NULL;
	int64_t now = clock_now_ms(conn->server->clock);
	if (!conn->session) {
		return frame_keepalive_ack(time, now, 0, 0, NULL);
	}
	const struct channel *channel = session_channel(conn->session);
	return frame_keepalive_ack(
		time, now, channel->max_seq, session_log_epoch(channel->log), &channel->status);
}

void conn_send_refusal(struct conn *conn, const struct refusal *refusal, const char *extra)
{
	const char *request = refusal->request[0] ? refusal->request : NULL;
	struct frame *frame = frame_error(refusal->code, refusal->message, request, extra);
	if (conn->observer) {
		observer_send(conn->observer, frame);
	} else {
		conn_send(conn, frame);
	}
}
