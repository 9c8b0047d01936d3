/*
 * Forwards a producer's or chat's WebSocket to the node that has its session. The client's end
 * stays here: handshake, token, pings and limits. A second WebSocket goes to the other node, and
 * complete messages pass both ways. What one side does not take is not read from the other. If the
 * other node is lost, the client reconnects, and the session's node is looked up again. Observers
 * share one connection instead (node_mirror.c).
 */
#include "node_internal.h"

#include "node_socket.h"

#include <stdlib.h>
#include <string.h>

/* Longest frame that can renew a token. */
#define TOKEN_FRAME_MAX ((size_t)64 * 1024)

struct ws_forward {
	struct conn *conn;
	struct node_socket *socket; /* NULL: it has ended */
	enum request_side side;
	bool may_renew; /* clients of this kind send token frames */
};

/* --- from the client --- */

/**
 * Handles a message that renews the token, because this node authenticates the client. Returns
 * false if it is another message.
 */
static bool take_token(struct conn *conn, const char *text, size_t len)
{
	struct request request;
	struct refusal refusal;
	const struct ws_forward *forward = conn->state;
	if (!forward->may_renew || len > TOKEN_FRAME_MAX || !memmem(text, len, "\"token\"", 7) ||
		request_parse(text, len, conn->server->limits, forward->side,
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
	struct ws_forward *forward = conn->state;
	if (!forward->socket || take_token(conn, text, len)) {
		return;
	}
	node_socket_send(forward->socket, text, len);
	if (node_socket_is_choked(forward->socket)) {
		conn->is_parked = true;
		conn_update_flow(conn);
	}
}

/** The other node confirms. */
static void forward_renewed(struct conn *conn)
{
	struct ws_forward *forward = conn->state;
	struct buffer frame = {0};
	if (!forward->socket) {
		return;
	}
	buffer_append_str(&frame, "{\"type\":\"token\",\"data\":{\"token\":\"");
	node_append_identity(conn, &frame, NULL, conn->session_id);
	buffer_append_str(&frame, "\"}}");
	node_socket_send(forward->socket, frame.data, frame.len);
	buffer_finish(&frame);
}

/* --- closing --- */

static void close_client(struct conn *conn, unsigned code, const char *reason)
{
	sending_count(conn);
	conn->is_parked = false;
	conn_close(conn, code, reason);
	conn_resume(conn);
}

static void handle_closed(void *owner, unsigned code, const char *reason)
{
	struct ws_forward *forward = owner;
	forward->socket = NULL;
	if (!forward->conn->is_dead) {
		close_client(forward->conn, code, reason);
	}
}

/** Closes the other node's end, as the client's is closed or about to be. */
static void say_goodbye(struct ws_forward *forward)
{
	node_socket_leave(forward->socket);
	forward->socket = NULL;
}

static void forward_closed(struct conn *conn)
{
	say_goodbye(conn->state);
	free(conn->state);
	conn->state = NULL;
}

/* --- from the other node --- */

static void handle_opened(void *owner)
{
	struct ws_forward *forward = owner;
	forward->conn->is_parked = false;
	conn_resume(forward->conn);
}

static void handle_message(void *owner, const char *text, size_t len)
{
	struct ws_forward *forward = owner;
	struct conn *conn = forward->conn;
	if (conn->is_dead || conn->is_closing) {
		return;
	}
	struct frame *frame = frame_of_text(text, len);
	conn_write(conn, frame);
	frame_unref(frame);
	sending_count(conn);
	if (sock_is_choked(&conn->sock)) {
		node_socket_pause(forward->socket, true);
		sock_want_writable(&conn->sock);
	}
}

/** The other node can take more. */
static void handle_writable(void *owner)
{
	struct ws_forward *forward = owner;
	if (forward->conn->is_parked && !forward->conn->is_dead) {
		forward->conn->is_parked = false;
		conn_resume(forward->conn);
	}
}

static const struct node_socket_ops socket_ops = {
	.opened = handle_opened,
	.message = handle_message,
	.writable = handle_writable,
	.closed = handle_closed,
};

/** The client can take more. */
static void forward_writable(struct conn *conn)
{
	const struct ws_forward *forward = conn->state;
	conn_flush(conn);
	if (forward->socket && !sock_is_choked(&conn->sock)) {
		node_socket_pause(forward->socket, false);
	}
}

static void forward_sweep(struct conn *conn)
{
	struct ws_forward *forward = conn->state;
	if (conn->is_closing) {
		say_goodbye(forward);
	} else if (forward->socket) {
		node_socket_sweep(forward->socket);
	}
}

/** Bytes of incomplete messages. */
static size_t forward_kept(const struct conn *conn)
{
	const struct ws_forward *forward = conn->state;
	return forward && forward->socket ? node_socket_kept(forward->socket) : 0;
}

/** Drops frames that the server sends to all sockets, which the protocol of a chat does not have. */
static void forward_tell(struct conn *conn, struct frame *frame)
{
	frame_unref(frame);
}

/* Forwarded sockets keep the limits and flow control of their kind. */
#define FORWARD_OPS                                                                         \
	.message = forward_message, .writable = forward_writable, .closed = forward_closed, \
	.sweep = forward_sweep, .kept = forward_kept, .renewed = forward_renewed
static const struct conn_ops producer_ops = {FORWARD_OPS, .is_producer = true};
static const struct conn_ops chat_ops = {FORWARD_OPS, .tell = forward_tell, .takes_bodies = true};

void ws_forward(struct conn *conn, const char *address)
{
	struct ws_forward *forward = xcalloc(1, sizeof(*forward));
	struct buffer identity = {0};
	forward->conn = conn;
	forward->may_renew = conn->ops->renewed != NULL;
	forward->side = conn->ops->is_producer ? SIDE_PRODUCER : SIDE_OBSERVER;
	conn->ops = conn->ops->is_producer ? &producer_ops : &chat_ops;
	conn->state = forward;
	node_append_identity(conn, &identity, "GET", conn->ws->target);
	forward->socket = node_socket_open(conn->server,
		&(struct node_socket_config){.address = address,
			.target = conn->ws->target,
			.identity = buffer_cstr(&identity)},
		&socket_ops, forward);
	buffer_finish(&identity);
	if (!forward->socket) {
		ws_refuse_node_sockets(conn);
	}
}

void ws_refuse_node_sockets(struct conn *conn)
{
	struct refusal refusal = {0};
	refuse_limit(&refusal, LIMIT_node_sockets,
		"too many WebSockets are passed on to other nodes; try again in a moment");
	conn_send_refusal(conn, &refusal);
	close_client(conn, error_code_close(refusal.code), error_code_text(refusal.code));
}
