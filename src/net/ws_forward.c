/*
 * A WebSocket about a session that another node has. Its client's end is here: the handshake, the token,
 * the pings and the limits; a socket of our own goes to the other node, and whole messages pass, both ways.
 * What one side does not take is not read from the other. If the other node is lost, the client comes back
 * and finds out who has the session then.
 */
#include "node_internal.h"

#include "holdfast/node_identity.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* A message of another node has at most so many bytes, and the head of its answer. */
#define MESSAGE_MAX     ((size_t)256 * 1024 * 1024)
#define ANSWER_HEAD_MAX ((size_t)16 * 1024)
/* A frame that renews a token is not longer. */
#define TOKEN_FRAME_MAX ((size_t)64 * 1024)

struct ws_forward {
	struct conn *conn;
	struct node_link *link; /* NULL: it is over */
	char *address;
	enum request_side side;
	bool may_renew; /* clients of its kind send token frames */
	bool is_open; /* the other node has taken it */
	struct buffer head; /* of its answer, until it is whole */
	struct ws_reader reader;
	struct buffer message; /* that is not whole yet */
	struct buffer control;
	bool is_pinged; /* and not heard since */
	int64_t heard_ms; /* when the other node was heard last, on the loop's clock */
};

static int64_t now_ms(const struct conn *conn)
{
	return (int64_t)uv_now(conn->server->loop);
}

static void read_random(void *bytes, size_t len)
{
	if (getrandom(bytes, len, 0) != (ssize_t)len) {
		memset(bytes, 0x55, len); /* between nodes there is no proxy that a mask protects */
	}
}

/* --- there --- */

static void send_frame(
	struct ws_forward *forward, enum ws_opcode opcode, const char *bytes, size_t len)
{
	unsigned char mask[4];
	struct buffer out = {0};
	read_random(mask, sizeof(mask));
	ws_append_masked(&out, opcode, bytes, len, mask);
	node_link_write(forward->link, out.data, out.len);
	buffer_finish(&out);
}

/** Whether a message renews the token: its client is known here, so that is looked at here. */
static bool take_token(struct conn *conn, const char *text, size_t len)
{
	struct request request;
	struct refusal refusal;
	if (!conn->forward->may_renew || len > TOKEN_FRAME_MAX ||
		!memmem(text, len, "\"token\"", 7) ||
		request_parse(text, len, conn->server->limits, conn->forward->side,
			session_table_numbers(conn->server->sessions), &request, &refusal) < 0) {
		return false;
	}
	bool is_token = request.type == REQUEST_TOKEN;
	if (is_token) {
		ws_take_token(conn, &request);
	}
	request_finish(&request);
	return is_token;
}

static void forward_message(struct conn *conn, const char *text, size_t len)
{
	struct ws_forward *forward = conn->forward;
	if (!forward->link || take_token(conn, text, len)) {
		return;
	}
	send_frame(forward, WS_TEXT, text, len);
	if (node_link_is_choked(forward->link)) {
		conn->is_parked = true;
		conn_update_flow(conn);
	}
}

void ws_forward_renew(struct conn *conn)
{
	struct buffer frame = {0};
	if (!conn->forward->link) {
		return;
	}
	buffer_append_str(&frame, "{\"type\":\"token\",\"data\":{\"token\":\"");
	node_append_identity(conn, &frame, NULL, conn->session_id);
	buffer_append_str(&frame, "\"}}");
	send_frame(conn->forward, WS_TEXT, frame.data, frame.len);
	buffer_finish(&frame);
}

/* --- its end --- */

/** Nothing more goes to the other node, or comes from it. */
static void leave(struct ws_forward *forward)
{
	node_link_leave(forward->link);
	forward->link = NULL;
	buffer_finish(&forward->message);
	sending_count(forward->conn);
}

static void close_client(struct ws_forward *forward, unsigned code, const char *reason)
{
	struct conn *conn = forward->conn;
	leave(forward);
	conn->is_parked = false;
	conn_close(conn, code, reason);
	conn_resume(conn);
}

static void lose(struct ws_forward *forward, const char *why)
{
	metrics_add(forward->conn->server->metrics, METRIC_NODE_FAILURES, 1);
	node_warn(forward->conn->server, forward->address, why);
	close_client(forward, WS_CLOSE_GOING_AWAY, "owner gone");
}

static void handle_ended(void *owner, const char *why)
{
	struct ws_forward *forward = owner;
	forward->link = NULL;
	if (!forward->conn->is_dead) {
		lose(forward, why);
	}
}

/** The client's end is closed, or about to be: the other node is told. */
static void say_goodbye(struct ws_forward *forward)
{
	if (forward->link && forward->is_open) {
		send_frame(forward, WS_CLOSE, "\x03\xe9", 2); /* 1001 */
	}
	leave(forward);
}

static void forward_closed(struct conn *conn)
{
	struct ws_forward *forward = conn->forward;
	say_goodbye(forward);
	metrics_add(conn->server->metrics, METRIC_NODE_SOCKETS, (uint64_t)-1);
	buffer_finish(&forward->head);
	buffer_finish(&forward->control);
	free(forward->address);
	free(forward);
	conn->forward = NULL;
}

/* --- and back --- */

static void pass_back(struct conn *conn, const char *text, size_t len)
{
	if (!conn->is_closing) {
		struct frame *frame = frame_of_text(text, len);
		conn_write(conn, frame);
		frame_unref(frame);
	}
}

/** The other node's close frame: its code and reason are for the client. */
static void take_close(struct ws_forward *forward)
{
	int code = ws_close_code(forward->control.data, forward->control.len);
	char *reason = forward->control.len > 2
			       ? xstrndup(forward->control.data + 2, forward->control.len - 2)
			       : xstrdup("");
	send_frame(forward, WS_CLOSE, forward->control.data, code > 0 ? 2 : 0);
	close_client(forward, code < 0 ? WS_CLOSE_GOING_AWAY : (unsigned)code, reason);
	free(reason);
}

/** False: it was the end. */
static bool take_control(struct ws_forward *forward, const struct ws_piece *piece)
{
	buffer_append(&forward->control, piece->bytes, piece->len);
	if (!piece->is_last) {
		return true;
	}
	if (piece->opcode == WS_CLOSE) {
		take_close(forward);
		return false;
	}
	if (piece->opcode == WS_PING) {
		send_frame(forward, WS_PONG, forward->control.data, forward->control.len);
	}
	buffer_finish(&forward->control);
	return true;
}

static void take_data(struct ws_forward *forward, const struct ws_piece *piece)
{
	struct conn *conn = forward->conn;
	if (piece->is_first && piece->is_last) {
		pass_back(conn, piece->bytes, piece->len); /* in one piece: no copy */
		return;
	}
	buffer_append(&forward->message, piece->bytes, piece->len);
	if (piece->is_last) {
		pass_back(conn, forward->message.data, forward->message.len);
		buffer_finish(&forward->message);
	}
	sending_count(conn);
}

static void take_frames(struct ws_forward *forward, char *bytes, size_t len)
{
	struct conn *conn = forward->conn;
	struct ws_piece piece;
	int r = 0;
	while (forward->link && !conn->is_dead &&
		(r = ws_read(&forward->reader, &bytes, &len, MESSAGE_MAX, &piece)) > 0) {
		if (piece.opcode < WS_CLOSE) {
			take_data(forward, &piece);
		} else if (!take_control(forward, &piece)) {
			return;
		}
	}
	if (r < 0) {
		lose(forward, "what it sends are no frames");
	} else if (forward->link && sock_is_choked(&conn->sock)) {
		node_link_pause(forward->link, true);
		sock_want_writable(&conn->sock);
	}
}

/** Its answer to the handshake is whole: false if it does not take the socket. */
static bool take_answer(struct ws_forward *forward)
{
	static const char good[] = "HTTP/1.1 101 ";
	if (strncmp(buffer_cstr(&forward->head), good, sizeof(good) - 1) != 0) {
		lose(forward, "it does not take the WebSocket");
		return false;
	}
	forward->is_open = true;
	forward->conn->is_parked = false;
	return true;
}

static void handle_received(void *owner, char *bytes, size_t len)
{
	struct ws_forward *forward = owner;
	struct conn *conn = forward->conn;
	if (conn->is_dead) {
		return;
	}
	forward->heard_ms = now_ms(conn);
	forward->is_pinged = false;
	if (forward->is_open) {
		take_frames(forward, bytes, len);
		return;
	}
	size_t had = forward->head.len;
	buffer_append(&forward->head, bytes, len);
	char *end = memmem(forward->head.data, forward->head.len, "\r\n\r\n", 4);
	if (!end && forward->head.len > ANSWER_HEAD_MAX) {
		lose(forward, "its answer has no end");
	} else if (end) {
		size_t used = (size_t)(end + 4 - forward->head.data) - had; /* of these bytes */
		if (take_answer(forward)) {
			buffer_finish(&forward->head);
			take_frames(forward, bytes + used, len - used);
			conn_resume(conn);
		}
	}
}

/* --- the socket --- */

static void append_key(struct buffer *out)
{
	unsigned char bytes[16];
	char key[32];
	read_random(bytes, sizeof(bytes));
	EVP_EncodeBlock((unsigned char *)key, bytes, sizeof(bytes));
	buffer_append_str(out, key);
}

static void handle_connected(void *owner)
{
	struct ws_forward *forward = owner;
	struct conn *conn = forward->conn;
	struct buffer out = {0};
	if (conn->is_dead) {
		return;
	}
	buffer_printf(&out,
		"GET %s HTTP/1.1\r\nhost: %s\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
		"sec-websocket-version: 13\r\nsec-websocket-key: ",
		conn->ws->target, forward->address);
	append_key(&out);
	buffer_append_str(&out, "\r\n" NODE_IDENTITY_FIELD ": ");
	node_append_identity(conn, &out, "GET", conn->ws->target);
	buffer_append_str(&out, "\r\n\r\n");
	node_link_write(forward->link, out.data, out.len);
	buffer_finish(&out);
	forward->heard_ms = now_ms(conn);
}

/** The other node takes more. */
static void handle_writable(void *owner)
{
	struct ws_forward *forward = owner;
	struct conn *conn = forward->conn;
	if (forward->is_open && conn->is_parked && !conn->is_dead) {
		conn->is_parked = false;
		conn_resume(conn);
	}
}

static const struct node_link_ops link_ops = {
	.connected = handle_connected,
	.received = handle_received,
	.writable = handle_writable,
	.ended = handle_ended,
};

/** The client takes more. */
static void forward_writable(struct conn *conn)
{
	conn_flush(conn);
	if (conn->forward->link && !sock_is_choked(&conn->sock)) {
		node_link_pause(conn->forward->link, false);
	}
}

void ws_forward_sweep(struct conn *conn)
{
	struct ws_forward *forward = conn->forward;
	int64_t silent = now_ms(conn) - forward->heard_ms;
	int64_t most = conn->server->limits->node_silence_ms;
	if (conn->is_closing) {
		say_goodbye(forward);
	} else if (!forward->link || !forward->heard_ms || sock_is_choked(&conn->sock)) {
		forward->heard_ms = forward->heard_ms ? now_ms(conn) : 0; /* nothing is read */
	} else if (silent > 2 * most) {
		metrics_limit(conn->server->metrics, LIMIT_node_silence_ms);
		lose(forward, "it does not answer any more");
	} else if (silent > most && forward->is_open && !forward->is_pinged) {
		forward->is_pinged = true;
		send_frame(forward, WS_PING, "", 0);
	}
}

size_t ws_forward_kept(const struct conn *conn)
{
	return conn->forward ? conn->forward->message.cap : 0;
}

/* What a kind of socket is to its client, it is here too. */
#define FORWARD_OPS(...)                                                  \
	{                                                                 \
		.message = forward_message, .writable = forward_writable, \
		.closed = forward_closed, __VA_ARGS__                     \
	}
static const struct conn_ops observer_ops = FORWARD_OPS();
static const struct conn_ops producer_ops = FORWARD_OPS(.is_producer = true);
static const struct conn_ops ai_ops = FORWARD_OPS(.takes_bodies = true);

void ws_forward(struct conn *conn, const char *address)
{
	struct ws_forward *forward = xcalloc(1, sizeof(*forward));
	forward->conn = conn;
	forward->address = xstrdup(address);
	forward->reader.is_client = true;
	forward->may_renew = conn->ops != &ai_conn_ops;
	forward->side = conn->ops == &producer_conn_ops ? SIDE_PRODUCER : SIDE_OBSERVER;
	conn->ops = conn->ops == &observer_conn_ops   ? &observer_ops
		    : conn->ops == &producer_conn_ops ? &producer_ops
						      : &ai_ops;
	conn->forward = forward;
	metrics_add(conn->server->metrics, METRIC_NODE_SOCKETS, 1);
	forward->link = node_link_open(conn->server, address, &link_ops, forward);
	if (!forward->link) {
		struct refusal refusal = {0};
		refuse_limit(&refusal, LIMIT_node_sockets,
			"too many WebSockets are passed on to other nodes; try again in a moment");
		conn_send_refusal(conn, &refusal);
		close_client(forward, WS_CLOSE_TRY_LATER, refusal.code);
	}
}
