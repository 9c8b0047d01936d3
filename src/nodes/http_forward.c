/*
 * Forwards a request about a session to the node that owns it: the body as it arrives, and the
 * answer back the same way. What one side does not take is not read from the other. A request is
 * never sent twice: if its answer is lost, only the client can find out what became of it.
 */
#include "node_internal.h"

#include "holdfast/error_codes.h"
#include "holdfast/loop.h"
#include "node_identity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Most bytes in the head of another node's answer. */
#define ANSWER_HEAD_MAX ((size_t)64 * 1024)

struct http_forward {
	struct answer answer;
	struct node_link *link; /* NULL: it has ended */
	char *address; /* of the other node */
	bool is_connected;
	struct buffer head; /* of the answer, until it is complete */
	bool is_answering; /* the head has been passed on */
	bool has_length; /* the head says how many bytes follow */
	uint64_t left; /* bytes of these that are still to come */
	/* All times are on the loop's clock. */
	int64_t answered_ms; /* when the other node was last heard, or the store asked for it */
	uint64_t taken; /* sock_taken() of the client when it was last compared */
	int64_t heard_ms; /* when the client was last seen to take something */
	int64_t spoken_ms; /* when something was last passed on to the client */
};

static struct http_forward *forward_of(struct answer *answer)
{
	return list_entry(answer, struct http_forward, answer);
}

static int64_t now_ms(const struct conn *conn)
{
	return loop_now_ms(conn->server->loop);
}

/* --- the request --- */

/** Header fields that are passed on: those that the server looks at in requests about a session. */
static const char *const passed_on[] = {"accept", "accept-encoding", "content-type",
	"if-none-match", "last-event-id", "range", "traceparent"};

static void append_fields(struct buffer *out, const struct http_head *head)
{
	for (unsigned i = 0; i < head->field_count; i++) {
		struct http_span name = head->fields[i].name;
		struct http_span value = head->fields[i].value;
		for (size_t n = 0; n < sizeof(passed_on) / sizeof(passed_on[0]); n++) {
			if (strlen(passed_on[n]) == name.len &&
				strncasecmp(passed_on[n], head->text + name.at, name.len) == 0) {
				buffer_printf(out, "%s: ", passed_on[n]);
				buffer_append(out, head->text + value.at, value.len);
				buffer_append_str(out, "\r\n");
			}
		}
	}
}

static void send_head(struct http_forward *forward)
{
	struct conn *conn = forward->answer.conn;
	const struct http_framing *framing = &conn->http->framing;
	const char *method = http_method_name(conn->http->method);
	char *target = http_copy_target(conn->http->head);
	struct buffer out = {0};
	buffer_printf(&out, "%s %s HTTP/1.%d\r\nhost: %s\r\nconnection: close\r\n", method, target,
		!conn->http->head->is_http_1_0, forward->address);
	buffer_append_str(&out, NODE_IDENTITY_FIELD ": ");
	node_append_identity(conn, &out, method, target);
	buffer_append_str(&out, "\r\n");
	append_fields(&out, conn->http->head);
	if (framing->body == HTTP_BODY_LENGTH) {
		buffer_printf(
			&out, "content-length: %llu\r\n", (unsigned long long)framing->length);
	} else if (framing->body == HTTP_BODY_CHUNKED) {
		buffer_append_str(&out, "transfer-encoding: chunked\r\n");
	}
	buffer_append_str(&out, "\r\n");
	node_link_write(forward->link, out.data, out.len);
	buffer_finish(&out);
	free(target);
}

/** Stops reading from the client while the other node does not take what was sent. */
static void hold_if_choked(struct http_forward *forward)
{
	if (node_link_is_choked(forward->link)) {
		forward->answer.conn->is_parked = true;
		conn_update_flow(forward->answer.conn);
	}
}

static void forward_take_body(struct answer *answer, const char *bytes, size_t len)
{
	struct http_forward *forward = forward_of(answer);
	const struct conn *conn = answer->conn;
	if (!forward->link || !len) {
		return;
	}
	if (conn->http->framing.body == HTTP_BODY_CHUNKED) {
		char size[24];
		int n = snprintf(size, sizeof(size), "%zx\r\n", len);
		node_link_write(forward->link, size, (size_t)n);
		node_link_write(forward->link, bytes, len);
		node_link_write(forward->link, "\r\n", 2);
	} else {
		node_link_write(forward->link, bytes, len);
	}
	hold_if_choked(forward);
}

/** Keeps reading from the client, and drops what comes, so that its leaving is noticed. */
static void begin_stream(struct conn *conn)
{
	conn->phase = PHASE_STREAM;
	conn_update_flow(conn);
}

static void forward_end_body(struct answer *answer)
{
	struct http_forward *forward = forward_of(answer);
	struct conn *conn = answer->conn;
	if (forward->link && conn->http->framing.body == HTTP_BODY_CHUNKED) {
		node_link_write(forward->link, "0\r\n\r\n", 5);
	}
	if (forward->is_answering && !forward->has_length) {
		begin_stream(conn);
	}
}

/* --- the end --- */

static void forward_drop(struct answer *answer)
{
	struct http_forward *forward = forward_of(answer);
	struct conn *conn = answer->conn;
	conn->is_parked = false;
	place_wait_cancel(&conn->place_wait);
	node_link_leave(forward->link);
	buffer_finish(&forward->head);
	free(forward->address);
	free(forward);
}

/** The answer is complete. */
static void finish(struct conn *conn)
{
	http_drop_answer(conn);
	conn->http->is_answered = true;
	if (sock_is_choked(&conn->sock)) {
		http_expect_taken(conn, conn->sock.kept);
	}
	conn_resume(conn);
}

/** Refuses the request, because no answer will come. */
static void refuse_lost(struct http_forward *forward)
{
	struct conn *conn = forward->answer.conn;
	bool was_connected = forward->is_connected;
	http_drop_answer(conn);
	http_refuse(conn, ERROR_owner_unreachable, OWNER_UNREACHABLE);
	if (was_connected) {
		conn_resume(conn);
	} else {
		http_go_on(conn);
	}
}

static void fail(struct http_forward *forward, const char *why)
{
	struct conn *conn = forward->answer.conn;
	metrics_add(conn->server->metrics, METRIC_NODE_FAILURES, 1);
	node_warn(conn->server, forward->address, why);
	if (forward->is_answering) {
		conn_kill(conn); /* so that the client sees that the answer is incomplete */
	} else {
		refuse_lost(forward);
	}
}

static void end(struct http_forward *forward, const char *why)
{
	node_link_leave(forward->link);
	forward->link = NULL;
	if (forward->answer.conn->is_dead) {
		return;
	}
	if (forward->is_answering && !forward->has_length) {
		finish(forward->answer.conn);
	} else {
		fail(forward, why);
	}
}

static void handle_ended(void *owner, const char *why)
{
	struct http_forward *forward = owner;
	forward->link = NULL;
	end(forward, why);
}

static void handle_place(
	struct place_wait *wait, int status, enum session_place place, const char *address)
{
	struct conn *conn = list_entry(wait, struct conn, place_wait);
	struct http_forward *forward = forward_of(conn->http->answer);
	bool is_same = place == PLACE_ELSEWHERE && strcmp(address, forward->address) == 0;
	if (status == 0 && !is_same) {
		end(forward, "it no longer has the session");
	}
}

/**
 * Asks the store again who owns the session if the other node has been silent for long. The owner
 * may take its time to answer, but a node that hangs loses the session with its lease.
 */
static void ask_if_silent(struct http_forward *forward)
{
	struct conn *conn = forward->answer.conn;
	const struct limits *limits = conn->server->limits;
	int64_t most = limits->node_silence_ms + (forward->is_answering ? limits->comment_ms : 0);
	if (forward->is_connected && forward->link && !sock_is_choked(&conn->sock) &&
		now_ms(conn) - forward->answered_ms > most) {
		forward->answered_ms = now_ms(conn);
		place_wait_cancel(&conn->place_wait);
		conn->place_wait.done = handle_place;
		session_table_seek(conn->server->sessions, conn->session_id, &conn->place_wait);
	}
}

/* --- the answer --- */

/**
 * Finds the next line of an answer's head, without its CRLF. Returns false at the end of the head.
 */
static bool next_line(const char **at, const char *end, const char **ret_line, size_t *ret_len)
{
	const char *newline = memmem(*at, (size_t)(end - *at), "\r\n", 2);
	if (!newline || newline == *at) {
		return false;
	}
	*ret_line = *at;
	*ret_len = (size_t)(newline - *at);
	*at = newline + 2;
	return true;
}

static bool is_named(const char *line, size_t len, const char *name)
{
	size_t n = strlen(name);
	return len > n && line[n] == ':' && strncasecmp(line, name, n) == 0;
}

/** Whether the owner may have refused what it takes a moment later: see http_refuse(). */
static bool may_be_overtaken(const struct conn *conn, unsigned status)
{
	return conn->http->method != HTTP_GET &&
	       (status == error_code_status(ERROR_storage_failed) ||
		       status == error_code_status(ERROR_disk_full) ||
		       status == error_code_status(ERROR_too_many_sessions));
}

/** Makes the client's head from the other node's. */
static void make_head(
	struct http_forward *forward, unsigned status, const char *end, struct buffer *out)
{
	struct conn *conn = forward->answer.conn;
	const char *at = forward->head.data;
	const char *line;
	size_t len;
	if (next_line(&at, end, &line, &len)) { /* always true: it is the status line */
		buffer_append(out, line, len);
		buffer_append_str(out, "\r\n");
	}
	forward->has_length = conn->http->method == HTTP_HEAD || status == 204 || status == 304;
	bool is_empty = forward->has_length;
	while (next_line(&at, end, &line, &len)) {
		if (is_named(line, len, "connection") || is_named(line, len, "keep-alive")) {
			continue;
		}
		if (is_named(line, len, "content-length") && !is_empty) {
			forward->has_length = true;
			forward->left = strtoull(line + strlen("content-length:"), NULL, 10);
		}
		buffer_append(out, line, len);
		buffer_append_str(out, "\r\n");
	}
	conn->http->must_close = conn->http->must_close || !forward->has_length ||
				 may_be_overtaken(conn, status) || conn->http->head->is_http_1_0 ||
				 http_body_must_close(conn);
	buffer_append_str(out, conn->http->must_close ? "connection: close\r\n" : "");
	http_append_cors(conn, out);
	buffer_append_str(out, "\r\n");
}

/** Takes the complete head of the answer, up to `end`. Returns false if the request has failed. */
static bool take_answer(struct http_forward *forward, const char *end)
{
	struct conn *conn = forward->answer.conn;
	struct buffer out = {0};
	unsigned status = 0;
	bool is_good = sscanf(forward->head.data, "HTTP/1.1 %3u ", &status) == 1 && status >= 200 &&
		       status != STATUS_MISDIRECTED;
	if (is_good) {
		make_head(forward, status, end, &out);
		forward->is_answering = true;
		forward->heard_ms = now_ms(conn);
		if (!forward->has_length && conn->phase == PHASE_ANSWER) {
			begin_stream(conn);
		}
		conn_put(conn, out.data, out.len);
	} else {
		fail(forward, status == STATUS_MISDIRECTED ? "it does not take the request"
							   : "it does not answer as a node does");
	}
	buffer_finish(&out);
	return is_good;
}

static void pass_back(struct http_forward *forward, const char *bytes, size_t len)
{
	struct conn *conn = forward->answer.conn;
	size_t n = forward->has_length && forward->left < len ? (size_t)forward->left : len;
	if (n) {
		conn_put(conn, bytes, n);
	}
	forward->left -= forward->has_length ? n : 0;
	forward->spoken_ms = now_ms(conn);
	if (forward->has_length && !forward->left) {
		finish(conn);
	} else if (sock_is_choked(&conn->sock)) {
		node_link_pause(forward->link, true);
		sock_want_writable(&conn->sock);
	}
}

static void handle_received(void *owner, char *bytes, size_t len)
{
	struct http_forward *forward = owner;
	if (forward->answer.conn->is_dead) {
		return;
	}
	forward->answered_ms = now_ms(forward->answer.conn);
	if (forward->is_answering) {
		pass_back(forward, bytes, len);
		return;
	}
	buffer_append(&forward->head, bytes, len);
	buffer_cstr(&forward->head);
	struct buffer head = forward->head;
	const char *end = memmem(head.data, head.len, "\r\n\r\n", 4);
	if (!end && head.len > ANSWER_HEAD_MAX) {
		fail(forward, "the head of its answer is too long");
	} else if (end && take_answer(forward, end + 4)) {
		forward->head = (struct buffer){0};
		pass_back(forward, end + 4, head.len - (size_t)(end + 4 - head.data));
		buffer_finish(&head);
	}
}

static void forward_writable(struct answer *answer)
{
	const struct http_forward *forward = forward_of(answer);
	if (forward->link && forward->is_connected) {
		node_link_pause(forward->link, false);
	}
}

/* --- link events --- */

static void handle_connected(void *owner)
{
	struct http_forward *forward = owner;
	forward->is_connected = true;
	forward->answered_ms = now_ms(forward->answer.conn);
	if (!forward->answer.conn->is_dead) {
		send_head(forward);
		http_go_on(forward->answer.conn);
	}
}

static void handle_writable(void *owner)
{
	struct http_forward *forward = owner;
	struct conn *conn = forward->answer.conn;
	if (conn->is_parked && !conn->is_dead) {
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

/* --- the answer's operations --- */

/* A client that has vanished is recognized by taking nothing of what is sent to it. */
static void forward_sweep(struct answer *answer)
{
	struct http_forward *forward = forward_of(answer);
	struct conn *conn = answer->conn;
	const struct limits *limits = conn->server->limits;
	uint64_t taken = sock_taken(&conn->sock);
	if (taken != forward->taken || !taken || forward->spoken_ms <= forward->heard_ms) {
		forward->taken = taken;
		forward->heard_ms = now_ms(conn);
	} else if (now_ms(conn) - forward->heard_ms > limits->ping_ms + limits->pong_ms) {
		conn_kill(conn);
		return;
	}
	ask_if_silent(forward);
}

/** The server shuts down: an answer that has begun goes on, if its end is known. */
static void drain(struct http_forward *forward, const struct refusal *refusal)
{
	struct conn *conn = forward->answer.conn;
	if (forward->is_answering && !forward->has_length) {
		finish(conn);
	} else if (!forward->is_answering && conn->phase == PHASE_BODY) {
		http_drop_answer(conn);
		http_refuse_event(conn, refusal);
		conn_resume(conn);
	}
}

/** An answer that has begun is cut off, so that the client sees that it is incomplete. */
static void forward_refuse(
	struct answer *answer, enum answer_end end, const struct refusal *refusal)
{
	struct conn *conn = answer->conn;
	if (end == ANSWER_DRAINED) {
		drain(forward_of(answer), refusal);
		return;
	}
	bool is_broken = end == ANSWER_BROKEN;
	if (end == ANSWER_DENIED || (is_broken && forward_of(answer)->is_answering)) {
		conn_kill(conn);
	}
	if (is_broken) {
		http_drop_answer(conn);
		http_refuse_event(conn, refusal);
	}
}

static const struct answer_ops forward_ops = {
	.take_body = forward_take_body,
	.end_body = forward_end_body,
	.writable = forward_writable,
	.sweep = forward_sweep,
	.refuse = forward_refuse,
	.drop = forward_drop,
};

void http_forward(struct conn *conn, const char *address)
{
	struct http_forward *forward = xcalloc(1, sizeof(*forward));
	forward->address = xstrdup(address);
	http_begin_answer(conn, &forward->answer, &forward_ops);
	metrics_add(conn->server->metrics, METRIC_NODE_REQUESTS, 1);
	forward->link = node_link_open(conn->server, address, &link_ops, forward);
	if (!forward->link) {
		http_drop_answer(conn);
		http_refuse_limit(conn, LIMIT_node_sockets,
			"too many requests are passed on to other nodes; try again in a moment");
		http_go_on(conn);
	}
}
