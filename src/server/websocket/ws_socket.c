/*
 * A WebSocket (RFC 6455): messages, control frames and the closing handshake. Each kind of socket
 * handles the messages in a file of its own (struct conn_ops).
 */
#include "server/http_internal.h"

#include "holdfast/deflate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes gathered for a producer beyond which nothing more is read from it. */
#define GATHERED_MAX ((size_t)64 * 1024)
/* How long a peer has to take our close frame, and to answer it (ms). */
#define CLOSE_SEND_MS 5000
#define CLOSE_WAIT_MS 2000

struct queued_frame {
	struct list link;
	struct frame *frame;
};

/* --- sending --- */

/* A socket that is not choked takes a whole frame: what the kernel does not take is kept. */
bool conn_is_writable(struct conn *conn)
{
	return !conn->is_closing && !sock_is_choked(&conn->sock);
}

static void handle_frame_sent(void *frame)
{
	frame_unref(frame);
}

void conn_write(struct conn *conn, struct frame *frame)
{
	if (conn->sse) {
		sse_write(conn, frame);
		return;
	}
	/* The header goes into the frame's headroom; it is the same for every receiver. */
	unsigned char header[WS_HEADER_MAX];
	const struct buffer *deflated =
		conn->ws->deflates ? frame_deflated(frame, conn->server->deflater) : NULL;
	const struct buffer *bytes = deflated ? deflated : &frame->buf;
	size_t len = bytes->len - FRAME_HEADROOM;
	size_t n = ws_header(WS_TEXT, len, header);
	header[0] |= deflated ? WS_DEFLATED : 0;
	char *begin = bytes->data + FRAME_HEADROOM - n;
	if (memcmp(begin, header, n) != 0) { /* do not write where another thread may be reading */
		memcpy(begin, header, n);
	}
	conn_put_later(conn, begin, n + len, handle_frame_sent, frame_ref(frame));
}

static void append_frame(struct buffer *out, enum ws_opcode opcode, const char *bytes, size_t len)
{
	unsigned char header[WS_HEADER_MAX];
	buffer_append(out, header, ws_header(opcode, len, header));
	buffer_append(out, bytes, len);
}

static void gather(struct conn *conn, const struct frame *frame)
{
	append_frame(&conn->ws->gathered, WS_TEXT, frame_text(frame), frame_len(frame));
	conn->ws->is_held = conn->ws->is_held || conn->ws->gathered.len > GATHERED_MAX;
	conn_at_end_of_tick(conn);
}

/** Writes everything gathered with one call. */
static void flush_gathered(struct conn *conn)
{
	struct buffer *out = &conn->ws->gathered;
	if (out->len && conn_is_writable(conn)) {
		char *bytes = out->data;
		conn_put_later(conn, bytes, out->len, free, bytes);
		buffer_init(out);
	}
	if (conn->is_closing) {
		return;
	}
	sending_count(conn);
	if (out->len) {
		sock_want_writable(&conn->sock);
	} else {
		conn->ws->is_held = false;
	}
	conn_update_flow(conn);
}

static void drop_queued(struct conn *conn, struct queued_frame *queued)
{
	list_remove(&queued->link);
	conn->ws->outbox_count--;
	conn->ws->outbox_size -= frame_len(queued->frame);
	frame_unref(queued->frame);
	free(queued);
}

/* How sockets are closed. Other codes, which a peer can invent, count as the last one. */
static const char *const closes[] = {"1000", "1001", "1002", "1003", "1005", "1006", "1007", "1008",
	"1009", "1011", "1013", "4401", "4403", "4404", "other"};
#define CLOSES (sizeof(closes) / sizeof(closes[0]))

void ws_show_closes(struct metrics *metrics)
{
	for (size_t i = 0; i < CLOSES; i++) {
		metrics_add_word(metrics, WORDS_CLOSES, closes[i], 0);
	}
}

static void count_close(const struct conn *conn)
{
	const struct ws_socket *ws = conn->ws;
	unsigned code = !ws->close_sent ? 1006 : ws->close_code ? ws->close_code : 1005;
	char text[16];
	size_t i = 0;
	snprintf(text, sizeof(text), "%u", code);
	while (i < CLOSES - 1 && strcmp(closes[i], text) != 0) {
		i++;
	}
	metrics_add_word(conn->server->metrics, WORDS_CLOSES, closes[i], 1);
}

void ws_finish(struct conn *conn)
{
	struct ws_socket *ws = conn->ws;
	if (!ws) {
		return;
	}
	if (!conn->sse || ws->close_sent) { /* how a client ends a stream has no meaning */
		count_close(conn);
	}
	free(conn->sse);
	conn->sse = NULL;
	list_for_each_safe(link, tmp, &ws->outbox) {
		drop_queued(conn, list_entry(link, struct queued_frame, link));
	}
	buffer_finish(&ws->gathered);
	buffer_finish(&ws->control);
	buffer_finish(&ws->pong);
	free(ws->cookies);
	free(ws->target);
	free(ws->close_reason);
	free(ws);
	conn->ws = NULL;
}

void conn_flush(struct conn *conn)
{
	if (conn->ops->is_producer) {
		flush_gathered(conn);
		return;
	}
	while (conn->ws->outbox_count && conn_is_writable(conn)) {
		struct queued_frame *queued =
			list_entry(conn->ws->outbox.next, struct queued_frame, link);
		conn_write(conn, queued->frame);
		drop_queued(conn, queued);
	}
	if (conn->ws->outbox_count && !conn->is_closing) {
		sock_want_writable(&conn->sock);
	}
}

void conn_send(struct conn *conn, struct frame *frame)
{
	if (conn->is_closing) {
		frame_unref(frame);
		return;
	}
	if (conn->ops->tell) {
		conn->ops->tell(conn, frame);
		return;
	}
	if (conn->ops->is_producer) {
		gather(conn, frame);
		frame_unref(frame);
		return;
	}
	if (!conn->ws->outbox_count && conn_is_writable(conn)) {
		conn_write(conn, frame);
		frame_unref(frame);
		return;
	}
	if (conn->ws->outbox_count >= conn->server->limits->outbox_frames) {
		frame_unref(frame);
		metrics_limit(conn->server->metrics, LIMIT_outbox_frames);
		conn_close(conn, WS_CLOSE_POLICY, "too many requests without reading the answers");
		return;
	}
	struct queued_frame *queued = xcalloc(1, sizeof(*queued));
	queued->frame = frame;
	list_append(&conn->ws->outbox, &queued->link);
	conn->ws->outbox_count++;
	conn->ws->outbox_size += frame_len(frame);
	sending_count(conn);
	sock_want_writable(&conn->sock);
}

/* --- closing --- */

/** Ends a stream, once the socket is writable. */
static void send_end(struct conn *conn)
{
	if (conn->ws->close_sent || conn->is_dead) {
		return;
	}
	if (sock_is_choked(&conn->sock)) {
		sock_want_writable(&conn->sock);
		return;
	}
	conn->ws->close_sent = true;
	conn_set_deadline(conn, DEADLINE_END, CLOSE_WAIT_MS);
	sse_end(conn);
}

/** Sends the close frame, once the socket is writable, and waits for the peer's. */
static void send_close(struct conn *conn)
{
	struct buffer frame = {0};
	char payload[WS_CONTROL_MAX];
	if (conn->sse) {
		send_end(conn);
		return;
	}
	const char *reason = conn->ws->close_reason ? conn->ws->close_reason : "";
	size_t len = strlen(reason);
	if (conn->ws->close_sent || conn->is_dead) {
		return;
	}
	if (sock_is_choked(&conn->sock)) {
		sock_want_writable(&conn->sock);
		return;
	}
	len = len < sizeof(payload) - 2 ? len : sizeof(payload) - 2;
	payload[0] = (char)(conn->ws->close_code >> 8);
	payload[1] = (char)conn->ws->close_code;
	memcpy(payload + 2, reason, len);
	append_frame(&frame, WS_CLOSE, payload, conn->ws->close_code ? len + 2 : 0);
	conn->ws->close_sent = true;
	conn_put(conn, frame.data, frame.len);
	buffer_finish(&frame);
	if (conn->ws->is_deaf) {
		conn_send_fin(conn); /* an answer could not be read, so show the peer the end */
	}
	conn_set_deadline(conn, DEADLINE_END, CLOSE_WAIT_MS);
}

void conn_close(struct conn *conn, unsigned code, const char *reason)
{
	if (conn->is_closing) {
		return;
	}
	if (conn->ops->is_producer) {
		flush_gathered(conn);
	}
	if (conn->is_dead) {
		return;
	}
	conn->is_closing = true;
	conn->ws->close_code = code;
	conn->ws->close_reason = xstrdup(reason);
	/* A peer that does not read is cut off then. */
	conn_set_deadline(conn, DEADLINE_END, CLOSE_SEND_MS);
	send_close(conn);
}

void conn_close_refused(struct conn *conn, enum error_code code)
{
	conn_close(conn, error_code_close(code), error_code_text(code));
}

/** Closes because the peer broke the protocol; nothing after that can be parsed. */
static void fail(struct conn *conn, unsigned code, const char *reason)
{
	conn->ws->is_deaf = true;
	conn_keep_nothing(conn);
	conn_close(conn, code, reason);
}

static void fail_refused(struct conn *conn, enum error_code code)
{
	fail(conn, error_code_close(code), error_code_text(code));
}

/** Handles the peer's close frame: answers it, unless it is the answer to ours. */
static void handle_close(struct conn *conn, const char *payload, size_t len)
{
	int code = ws_close_code(payload, len);
	if (!conn->is_closing) {
		conn_close(conn, (unsigned)(code < 0 ? -code : code),
			code == -WS_CLOSE_NOT_UTF8 ? "the reason is not UTF-8"
			: code < 0                 ? "an invalid close frame"
						   : "");
	}
	if (conn->is_dead) {
		return;
	}
	conn->ws->is_deaf = true;
	if (conn->ws->close_sent) {
		conn_send_fin(conn);
		conn->phase = PHASE_LINGER;
	}
}

/* --- receiving --- */

bool ws_is_unfinished(const struct conn *conn)
{
	return conn->ws->reader.message || conn->ws->reader.header_len;
}

static void handle_ping(struct conn *conn, const char *payload, size_t len)
{
	if (conn->is_closing) {
		return;
	}
	if (conn->ws->gathered.len) {
		append_frame(&conn->ws->gathered, WS_PONG, payload, len); /* in order */
		return;
	}
	buffer_clear(&conn->ws->pong);
	append_frame(&conn->ws->pong, WS_PONG, payload, len);
	if (sock_is_choked(&conn->sock)) {
		sock_want_writable(&conn->sock); /* only the newest ping is answered then */
		return;
	}
	conn_put(conn, conn->ws->pong.data, conn->ws->pong.len);
	buffer_finish(&conn->ws->pong);
}

void ws_ping(struct conn *conn)
{
	static const unsigned char ping[] = {0x80 | WS_PING, 0};
	if (conn_is_writable(conn)) {
		conn_put(conn, ping, sizeof(ping));
	}
}

/** Handles a piece of a control frame, which can come between pieces of a message. */
static void take_control(struct conn *conn, const struct ws_piece *piece)
{
	struct buffer *control = &conn->ws->control;
	buffer_append(control, piece->bytes, piece->len);
	if (!piece->is_last) {
		return;
	}
	if (piece->opcode == WS_PING) {
		handle_ping(conn, control->data, control->len);
	} else if (piece->opcode == WS_CLOSE) {
		handle_close(conn, control->data, control->len);
	}
	buffer_finish(control);
}

static void refuse_binary(struct conn *conn)
{
	struct refusal refusal = {.request = ""};
	refuse(&refusal, ERROR_bad_request, "frames are text, not binary");
	conn_send_refusal(conn, &refusal);
}

static void take_message(struct conn *conn, const char *text, size_t len)
{
	if (conn->denial != DENIED_NOTHING) {
		return; /* it is about to be closed */
	}
	if (conn->grant) {
		conn->ops->message(conn, text, len);
	} else {
		ws_take_first(conn, text, len);
	}
}

static bool takes_bodies(const struct conn *conn)
{
	return conn->ops->is_producer || conn->ops->takes_bodies;
}

/**
 * The size limit of a message; lower before authentication. Messages after a wrong token are
 * dropped, so they need no lower limit.
 */
static size_t message_max(const struct conn *conn)
{
	const struct limits *limits = conn->server->limits;
	size_t most = takes_bodies(conn) ? limits->body_size : limits->frame_size;
	bool is_known = conn->grant || conn->denial != DENIED_NOTHING;
	return is_known || most < WITHOUT_TOKEN_MAX ? most : WITHOUT_TOKEN_MAX;
}

static void refuse_frame(struct conn *conn, int error, size_t max);

/** Handles a compressed message. The rate is charged for its uncompressed size. */
static void take_deflated(struct conn *conn, const char *bytes, size_t len)
{
	struct buffer text = {0};
	if (conn->denial != DENIED_NOTHING) {
		return; /* it is about to be closed */
	}
	int r = inflate_message(conn->server->deflater, bytes, len, message_max(conn), &text);
	if (text.len > len) {
		rate_take_bytes(conn, text.len - len);
	}
	if (r == -EMSGSIZE) {
		refuse_frame(conn, -WS_CLOSE_TOO_LARGE, message_max(conn));
	} else if (r < 0 || !utf8_is_valid(text.data, text.len)) {
		fail(conn, WS_CLOSE_NOT_UTF8,
			r < 0 ? "a message is not valid deflate data" : "a message is not UTF-8");
	} else {
		take_message(conn, buffer_cstr(&text), text.len);
	}
	buffer_finish(&text);
}

static void end_message(struct conn *conn, const struct ws_piece *piece)
{
	if (piece->opcode == WS_BINARY) {
		refuse_binary(conn);
	} else if (piece->is_deflated) {
		const struct buffer *rx = &conn->rx;
		take_deflated(conn, piece->is_first ? piece->bytes : rx->data,
			piece->is_first ? piece->len : rx->len);
	} else if (!utf8_is_whole(&conn->ws->utf8)) {
		fail(conn, WS_CLOSE_NOT_UTF8, "a message is not UTF-8");
	} else if (piece->is_first) {
		take_message(conn, piece->bytes, piece->len); /* in one piece: not copied */
	} else {
		take_message(conn, buffer_cstr(&conn->rx), conn->rx.len);
	}
	if (conn->rx.cap > 4096) {
		conn_keep_nothing(conn); /* an idle connection keeps no large buffer */
	}
	buffer_clear(&conn->rx);
}

static void refuse_busy(struct conn *conn)
{
	struct refusal refusal = {.request = ""};
	refuse_limit(&refusal, LIMIT_receive_size,
		"too many large messages are being received; send it again in a moment");
	conn_send_refusal(conn, &refusal);
	fail_refused(conn, ERROR_server_busy);
}

static void take_data(struct conn *conn, const struct ws_piece *piece)
{
	if (piece->is_first) {
		conn->ws->utf8 = (struct utf8_state){0};
		buffer_clear(&conn->rx);
	}
	if (piece->opcode == WS_TEXT && !piece->is_deflated &&
		!utf8_check(&conn->ws->utf8, piece->bytes, piece->len)) {
		fail(conn, WS_CLOSE_NOT_UTF8, "a message is not UTF-8");
		return;
	}
	bool is_whole = piece->is_first && piece->is_last;
	if (!is_whole && piece->opcode == WS_TEXT && !conn_keep(conn, piece->bytes, piece->len)) {
		refuse_busy(conn);
		return;
	}
	if (piece->is_last) {
		end_message(conn, piece);
	}
}

static void refuse_frame(struct conn *conn, int error, size_t max)
{
	if (error == -WS_CLOSE_TOO_LARGE && !conn->is_closing) {
		struct refusal refusal = {.request = ""};
		refuse_limit(&refusal, takes_bodies(conn) ? LIMIT_body_size : LIMIT_frame_size,
			"a frame may have at most %zu bytes", max);
		conn_send_refusal(conn, &refusal);
		fail_refused(conn, ERROR_too_large);
	} else {
		fail(conn, WS_CLOSE_PROTOCOL_ERROR, "not a WebSocket frame (RFC 6455)");
	}
}

size_t ws_receive(struct conn *conn, char *bytes, size_t len)
{
	size_t had = len;
	struct ws_piece piece;
	if (conn->sse) {
		return len; /* a stream takes no requests */
	}
	while (!conn->ws->is_deaf && !conn->is_dead && !conn->is_parked && !conn->is_slowed) {
		if (!ws_is_unfinished(conn)) {
			conn->message_ms = conn->received_ms; /* of the next message */
		}
		size_t max = message_max(conn);
		int r = ws_read(&conn->ws->reader, &bytes, &len, max, &piece);
		if (r == 0) {
			break;
		}
		if (r > 0 && piece.is_last) {
			rate_take_message(conn, conn->ops->is_producer);
		}
		if (r < 0) {
			refuse_frame(conn, r, max);
		} else if (piece.opcode >= WS_CLOSE) {
			take_control(conn, &piece);
		} else if (!conn->is_closing) {
			take_data(conn, &piece);
		}
	}
	return conn->is_parked || conn->is_slowed ? had - len : had;
}

void ws_writable(struct conn *conn)
{
	if (conn->is_closing) {
		send_close(conn);
		if (conn->ws->is_deaf) {
			conn_send_fin(conn);
		}
		return;
	}
	if (conn->ws->pong.len && conn_is_writable(conn)) {
		conn_put(conn, conn->ws->pong.data, conn->ws->pong.len);
		buffer_finish(&conn->ws->pong);
	}
	conn->ops->writable(conn);
	sending_count(conn);
}
