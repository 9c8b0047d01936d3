/*
 * Reads requests from a connection, one after the other (RFC 9112): head, body, answer, and only
 * then the next one, even if several have arrived. The body of an event stream, an upload or a
 * forwarded request is taken as it arrives; any other is gathered, and the request is routed when
 * it is complete.
 */
#include "server/http_internal.h"
#include "server/placement_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A refused body up to this size is read and dropped; beyond it the connection ends. */
#define DISCARD_MAX  (256ULL * 1024)
#define REQUESTS_MAX 16 /* requests of one connection served in one loop tick */
/*
 * How long a connection stays open after its last answer, and how long if the peer is still sending
 * (ms). If it were closed at once, the unread bytes would make the kernel drop the answer.
 */
#define LINGER_MS      2000
#define LINGER_BODY_MS 5000

bool http_body_must_close(const struct conn *conn)
{
	if (conn->phase != PHASE_BODY) {
		return false;
	}
	return conn->http->expects_continue || conn->http->framing.body == HTTP_BODY_CHUNKED ||
	       conn->http->framing.length - conn->http->body_taken > DISCARD_MAX;
}

/* --- complete requests --- */

static void end_body(struct conn *conn)
{
	struct answer *answer = conn->http->answer;
	conn->phase = PHASE_ANSWER;
	conn_set_deadline(conn, DEADLINE_NONE, 0);
	if (http_is_refused(conn)) {
		conn_at_end_of_tick(conn);
	} else if (answer && answer->ops->end_body) {
		answer->ops->end_body(answer);
	} else if (!conn->http->is_routed && http_still_may(conn)) {
		http_route(conn);
	}
}

/* --- the head --- */

/** Refuses a request after which it is unknown where the next one begins. */
static void refuse_for_good(struct conn *conn, unsigned status, const char *why)
{
	conn->http->must_close = true;
	conn->phase = PHASE_ANSWER;
	http_refuse_with(
		conn, status, "", status == 501 ? ERROR_not_implemented : ERROR_bad_request, why);
}

static void reset(struct conn *conn)
{
	struct http_exchange *http = conn->http;
	http->must_close = http->is_answered = http->is_foreign = http->expects_continue =
		http->is_routed = http->is_sought = http->is_elsewhere = http->is_nowhere = false;
	http->body_taken = 0;
	http->chunked = (struct chunked){0};
	http->framing = (struct http_framing){.body = HTTP_NO_BODY};
	http->method = HTTP_OTHER;
	http_reset_route(http);
	conn->may_create = false;
	free(conn->title);
	conn->title = NULL;
	buffer_clear(&conn->rx);
}

/** Parses a head. It and the copy of the text that it points into are one allocation. */
static unsigned parse(struct conn *conn, const char *text, size_t len, const char **ret_why)
{
	struct http_head *head = xmalloc(sizeof(*head) + len);
	char *copy = (char *)(head + 1);
	memcpy(copy, text, len);
	conn->http->head = head;
	return http_head_parse(head, copy, len, ret_why);
}

static int read_path(struct conn *conn)
{
	struct http_span path = conn->http->head->path;
	conn->http->path = xmalloc(path.len + 1);
	return http_decode(
		conn->http->head->text + path.at, path.len, false, conn->http->path, path.len + 1);
}

/** Sends 100 Continue, for which the client waits before it sends its body. */
static void send_continue(struct conn *conn)
{
	static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
	conn->http->expects_continue = false;
	conn_put(conn, text, sizeof(text) - 1);
}

/** Whether the answer takes the body as it arrives. */
static bool takes_body(const struct conn *conn)
{
	return conn->http->answer && conn->http->answer->ops->take_body;
}

static void continue_body(struct conn *conn)
{
	if (conn->http->expects_continue && (takes_body(conn) || !conn->http->is_routed)) {
		send_continue(conn);
	}
}

void http_route_again(struct conn *conn)
{
	http_route(conn);
	if (conn->phase == PHASE_BODY) {
		continue_body(conn);
	}
}

static void begin_body(struct conn *conn)
{
	conn->phase = PHASE_BODY;
	conn->message_ms = conn->received_ms;
	conn_set_deadline(conn, DEADLINE_NONE, 0);
	if (http_is_refused(conn)) {
		return;
	}
	bool is_passed_on = takes_body(conn);
	conn->http->is_routed = is_passed_on || http_is_stream(conn) || http_is_upload(conn) ||
				(conn->http->expects_continue && !http_wants_body(conn));
	if (conn->http->is_routed && !is_passed_on) {
		http_route(conn);
	}
	continue_body(conn);
}

static void take_up(struct conn *conn)
{
	if (conn->http->framing.body == HTTP_NO_BODY) {
		end_body(conn);
	} else {
		begin_body(conn);
	}
}

void http_go_on(struct conn *conn)
{
	conn->is_parked = false;
	take_up(conn);
	conn_resume(conn);
}

static void begin_request(struct conn *conn, const char *text, size_t len)
{
	const char *why = NULL;
	room_note_known(conn);
	reset(conn);
	unsigned status = parse(conn, text, len, &why);
	conn->http->method = status ? HTTP_OTHER : conn->http->head->method;
	if (!status) {
		status = http_head_framing(conn->http->head, &conn->http->framing, &why);
	}
	if (!status && read_path(conn) < 0) {
		status = 400;
		why = "the path has an invalid escape";
	}
	if (status) {
		refuse_for_good(conn, status, why);
		return;
	}
	http_find_route(conn);
	conn->http->must_close = !http_head_keeps_alive(conn->http->head);
	conn->phase = conn->http->framing.body == HTTP_NO_BODY ? PHASE_ANSWER : PHASE_BODY;
	http_admit(conn);
	rate_take_message(conn, !http_is_refused(conn) && http_is_append(conn));
	if (!http_is_refused(conn) && ws_is_asked_for(conn->http->head)) {
		ws_upgrade(conn);
	} else if (http_is_refused(conn) || !placement_seek(conn)) {
		take_up(conn);
	}
}

/** Takes a head if it is complete. Returns its length, or 0. */
static size_t take_head(struct conn *conn, const char *at, size_t len)
{
	size_t most = conn->server->limits->head_size + placement_head_more(conn);
	size_t n = http_head_find_end(at, len, &conn->http->in_scanned);
	if (n > most || (!n && len > most)) {
		bool is_target = !memchr(at, '\n', most < len ? most : len);
		reset(conn);
		metrics_limit(conn->server->metrics, LIMIT_head_size);
		refuse_for_good(conn, is_target ? 414 : 431,
			is_target ? "the address is too long"
				  : "the head of the request is too long");
		return len;
	}
	if (n) {
		conn->http->in_scanned = 0;
		begin_request(conn, at, n);
	} else if (conn->deadline != DEADLINE_HEAD) {
		conn_set_deadline(conn, DEADLINE_HEAD, conn->server->limits->head_ms);
	}
	return n;
}

/* --- the body --- */

static void take_bytes(struct conn *conn, const char *bytes, size_t len)
{
	if (http_is_refused(conn)) {
		return; /* the rest is dropped */
	}
	if (takes_body(conn)) {
		conn->http->answer->ops->take_body(conn->http->answer, bytes, len);
	} else if (conn->http->is_routed) {
		return; /* it is being answered, and the body does not matter */
	} else if (conn->rx.len + len > http_body_max(conn)) {
		http_refuse_size(conn);
	} else if (!conn_keep(conn, bytes, len)) {
		http_refuse_limit(conn, LIMIT_receive_size,
			"too many large requests are being received; send it again in a moment");
	}
}

static size_t take_length(struct conn *conn, const char *at, size_t len)
{
	uint64_t left = conn->http->framing.length - conn->http->body_taken;
	size_t n = len < left ? len : (size_t)left;
	conn->http->body_taken += n;
	take_bytes(conn, at, n);
	if (conn->http->body_taken == conn->http->framing.length) {
		end_body(conn);
	}
	return n;
}

static size_t take_chunks(struct conn *conn, const char *at, size_t len)
{
	const char *from = at;
	const char *bytes;
	size_t n;
	while ((n = chunked_take(&conn->http->chunked, &at, &len, &bytes))) {
		take_bytes(conn, bytes, n);
	}
	conn->http->body_taken += (size_t)(at - from);
	if (!conn->http->is_routed && !http_is_refused(conn) &&
		conn->http->chunked.state == CHUNKED_DATA &&
		conn->http->chunked.left > http_body_max(conn)) {
		http_refuse_size(conn);
	}
	if (conn->http->chunked.state == CHUNKED_DONE) {
		end_body(conn);
	} else if (conn->http->chunked.state == CHUNKED_BAD) {
		struct refusal refusal = {0};
		refuse(&refusal, ERROR_bad_request,
			"the chunked encoding of the body is not valid");
		conn->http->must_close = true;
		if (takes_body(conn)) {
			http_refuse_answer(conn, ANSWER_BROKEN, &refusal);
		} else if (!http_is_refused(conn) && !conn->http->is_routed) {
			http_refuse_event(conn, &refusal);
		}
		conn->phase = PHASE_ANSWER;
		conn_at_end_of_tick(conn);
	}
	return (size_t)(at - from);
}

static size_t take_body(struct conn *conn, const char *at, size_t len)
{
	return conn->http->framing.body == HTTP_BODY_CHUNKED ? take_chunks(conn, at, len)
							     : take_length(conn, at, len);
}

/* --- input --- */

/** Takes as many bytes as it can use now. Returns how many. */
static size_t consume(struct conn *conn, char *at, size_t len)
{
	size_t used = 0;
	while (used < len && !conn->is_dead && !conn->is_parked && !conn->is_slowed) {
		size_t n;
		switch (conn->phase) {
		case PHASE_HEAD:
			n = take_head(conn, at + used, len - used);
			break;
		case PHASE_BODY:
			n = take_body(conn, at + used, len - used);
			break;
		case PHASE_SOCKET:
			return used + ws_receive(conn, at + used, len - used);
		case PHASE_STREAM:
		case PHASE_LINGER:
			return len;
		default:
			return used;
		}
		if (!n) {
			break;
		}
		used += n;
	}
	return used;
}

void http_receive(struct conn *conn, char *bytes, size_t len)
{
	if (conn->in.len) {
		if (len) {
			buffer_append(&conn->in, bytes, len);
		}
		buffer_consume(&conn->in, consume(conn, conn->in.data, conn->in.len));
	} else {
		size_t used = consume(conn, bytes, len);
		if (used < len) {
			buffer_append(&conn->in, bytes + used, len - used);
		}
	}
	if (!conn->in.len) {
		buffer_finish(&conn->in);
	}
}

/* --- answers and pipelined requests --- */

static void forget_request(struct conn *conn)
{
	free(conn->http->head);
	free(conn->http->path);
	conn->http->head = NULL;
	conn->http->path = NULL;
	http_reset_route(conn->http);
}

static void handle_turn(struct turn *turn)
{
	struct http_exchange *http = list_entry(turn, struct http_exchange, turn);
	http->in_turn(http->conn);
}

void http_in_turn(struct conn *conn, void (*serve)(struct conn *conn))
{
	struct turns *turns = conn->server->turns;
	conn->http->in_turn = serve;
	if (!turns) {
		serve(conn);
	} else if (!turns_take(turns, &conn->http->turn)) {
		metrics_limit(conn->server->metrics, LIMIT_pages_ms);
	}
}

void http_begin_answer(struct conn *conn, struct answer *answer, const struct answer_ops *ops)
{
	assert(!conn->http->answer);
	answer->ops = ops;
	answer->conn = conn;
	conn->http->answer = answer;
}

void http_detach_answer(struct answer *answer)
{
	if (answer->conn) {
		answer->conn->http->answer = NULL;
		answer->conn = NULL;
	}
}

void http_drop_answer(struct conn *conn)
{
	struct answer *answer = conn->http->answer;
	if (answer) {
		conn->http->answer = NULL;
		turn_cancel(&conn->http->turn);
		answer->ops->drop(answer);
	}
}

struct answer *http_answer_of(const struct conn *conn, const struct answer_ops *ops)
{
	struct answer *answer = conn->http ? conn->http->answer : NULL;
	return answer && answer->ops == ops ? answer : NULL;
}

void http_refuse_answer(struct conn *conn, enum answer_end end, const struct refusal *refusal)
{
	struct answer *answer = conn->http->answer;
	if (answer && answer->ops->refuse) {
		answer->ops->refuse(answer, end, refusal);
	}
}

struct http_exchange *http_create(struct conn *conn)
{
	struct http_exchange *http = xcalloc(1, sizeof(*http));
	http->conn = conn;
	http_reset_route(http);
	turn_init(&http->turn, handle_turn);
	return http;
}

void http_finish(struct conn *conn)
{
	if (!conn->http) {
		return;
	}
	turn_cancel(&conn->http->turn);
	http_drop_answer(conn);
	forget_request(conn);
	buffer_finish(&conn->http->response);
	free(conn->http);
	conn->http = NULL;
}

static void begin_linger(struct conn *conn)
{
	bool is_sending = conn->phase == PHASE_BODY;
	conn->phase = PHASE_LINGER;
	buffer_finish(&conn->in);
	conn_set_deadline(conn, DEADLINE_END, is_sending ? LINGER_BODY_MS : LINGER_MS);
	conn_send_fin(conn);
}

/** Ends a request whose answer has been sent. */
static void end_request(struct conn *conn)
{
	if (conn->http->must_close) {
		begin_linger(conn);
	} else if (conn->phase == PHASE_ANSWER) {
		forget_request(conn);
		conn->http->is_answered = false;
		conn->phase = PHASE_HEAD;
		conn_set_deadline(conn, DEADLINE_IDLE, conn->server->limits->keepalive_ms);
	}
}

void http_expect_taken(struct conn *conn, uint64_t size)
{
	const struct limits *limits = conn->server->limits;
	conn_set_deadline(conn, DEADLINE_ANSWER,
		limits->receive_ms + (int64_t)(size * 1000 / (uint64_t)limits->receive_rate));
}

static void send_response(struct conn *conn)
{
	const struct answer *answer = conn->http->answer;
	uint64_t size = conn->http->response.len;
	conn_put(conn, conn->http->response.data, conn->http->response.len);
	buffer_finish(&conn->http->response);
	conn_keep_nothing(conn);
	if (answer && answer->ops->writable) {
		conn_drop_session(conn);
		http_expect_taken(conn, size);
		return; /* the rest follows */
	}
	http_drop_answer(conn);
	conn_drop_session(conn);
	conn->http->is_answered = true;
	if (sock_is_choked(&conn->sock) && conn->phase == PHASE_ANSWER) {
		http_expect_taken(conn, size);
	}
}

void http_end_tick(struct conn *conn)
{
	for (int i = 0; i < REQUESTS_MAX && !conn->is_dead; i++) {
		if (sock_is_choked(&conn->sock)) {
			sock_want_writable(&conn->sock);
			return;
		}
		if (conn->phase == PHASE_LINGER) {
			conn_send_fin(conn);
			return;
		}
		if (conn->http->response.len) {
			send_response(conn);
			if (sock_is_choked(&conn->sock)) {
				continue; /* the next request waits until this answer has left */
			}
		}
		struct answer *answer = conn->http->answer;
		if (answer && answer->ops->writable) {
			answer->ops->writable(answer);
			break;
		}
		if (conn->http->is_answered && conn->phase != PHASE_HEAD) {
			end_request(conn);
		}
		if (conn->phase != PHASE_HEAD || !conn->in.len) {
			break;
		}
		buffer_consume(&conn->in, consume(conn, conn->in.data, conn->in.len));
		if (!conn->http || !conn->http->response.len) {
			break;
		}
	}
	if (!conn->is_dead && conn->http && conn->http->response.len) {
		conn_at_end_of_tick(conn);
	}
	conn_update_flow(conn);
}

void http_end_unfinished(struct conn *conn, enum limit limit, const char *message)
{
	bool has_begun =
		conn->deadline == DEADLINE_HEAD ? conn->in.len > 0 : conn->phase == PHASE_BODY;
	if (conn->deadline == DEADLINE_END || conn->deadline == DEADLINE_ANSWER || !has_begun ||
		http_is_refused(conn)) {
		metrics_limit(conn->server->metrics, limit);
		conn_kill(conn);
		return;
	}
	if (conn->phase == PHASE_HEAD) {
		reset(conn);
	}
	http_drop_answer(conn);
	conn->http->must_close = true;
	conn->phase = PHASE_ANSWER;
	conn_set_deadline(conn, DEADLINE_END, LINGER_MS);
	http_refuse_limit(conn, limit, message);
}

void http_time_out(struct conn *conn)
{
	enum limit limit = conn->deadline == DEADLINE_HEAD   ? LIMIT_head_ms
			   : conn->deadline == DEADLINE_NONE ? LIMIT_receive_ms
							     : LIMIT_NONE;
	http_end_unfinished(conn, limit, "the request came too slowly");
}
