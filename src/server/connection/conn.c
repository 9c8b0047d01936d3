/*
 * One connection: what HTTP and all kinds of WebSocket have in common. It is closed only at the end
 * of a loop tick, so no function has to expect it to vanish while it runs.
 */
#include "server/http_internal.h"
#include "server/placement_internal.h"

#include "server/listen/peer.h"
#include "server/ws_internal.h"

#include "holdfast/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static struct conn *conn_of(struct sock *sock)
{
	return list_entry(sock, struct conn, sock);
}

static int64_t now_ms(const struct conn *conn)
{
	return loop_now_ms(conn->server->loop);
}

static const struct transport_ops conn_transport_ops;

/* --- lifecycle --- */

struct conn *conn_new(struct server *server)
{
	struct conn *conn = xcalloc(1, sizeof(*conn));
	conn->server = server;
	list_init(&conn->link);
	list_init(&conn->kind_link);
	list_init(&conn->tick_link);
	list_init(&conn->waits);
	list_init(&conn->denied_link);
	list_init(&conn->half_open_link);
	list_init(&conn->slow_link);
	list_init(&conn->behind_link);
	rate_init(conn);
	return conn;
}

void conn_create(struct server *server, int fd, const struct listen_kind *kind)
{
	struct conn *conn = conn_new(server);
	conn->kind = *kind;
	conn->http = http_create(conn);
	conn->peer = peer_address(fd);
	if (transport_adopt(server->transport, &conn->sock, &conn_transport_ops, fd, kind->is_tls) <
		0) {
		free(conn->http);
		free(conn);
		return;
	}
	list_append(&server->conns, &conn->link);
	conn->received_ms = now_ms(conn);
	conn_set_deadline(conn, DEADLINE_HEAD, server->limits->head_ms);
	room_take(conn);
}

void conn_hold_session(struct conn *conn, struct session *session)
{
	conn_drop_session(conn);
	session_hold(session);
	conn->session = session;
}

void conn_drop_session(struct conn *conn)
{
	if (!conn->ops) {
		placement_leave(conn, false);
	}
	if (conn->session) {
		session_drop(conn->session);
		conn->session = NULL;
	}
}

/* --- parked requests --- */

void conn_unpark(struct conn *conn)
{
	struct buffer text = conn->parked;
	conn->parked = (struct buffer){0};
	conn->is_parked = false;
	conn->was_parked = true;
	if (conn->is_dead || conn->is_closing) {
		/* The result no longer matters. */
	} else if (conn->ops) {
		conn->ops->message(conn, buffer_cstr(&text), text.len);
	} else {
		http_route_again(conn);
	}
	conn->was_parked = false;
	buffer_finish(&text);
	if (!conn->carrier) {
		http_receive(conn, NULL, 0); /* input received meanwhile */
	}
	conn_update_flow(conn);
}

static void handle_names(struct names_wait *wait)
{
	conn_unpark(list_entry(wait, struct conn, names_wait));
}

void conn_park(struct conn *conn, const char *text, size_t len)
{
	if (len) {
		buffer_append(&conn->parked, text, len);
	}
	conn->is_parked = true;
	conn_update_flow(conn);
}

bool conn_waits_for_names(struct conn *conn, struct session *session, const char *text, size_t len)
{
	if (!session || session_has_names(session) || conn->was_parked) {
		return false;
	}
	if (conn->session != session) {
		conn_hold_session(conn, session);
	}
	conn_park(conn, text, len);
	conn->names_wait.done = handle_names;
	session_load_names(session, &conn->names_wait);
	return true;
}

void conn_stop_waiting(struct conn *conn)
{
	names_wait_cancel(&conn->names_wait);
	place_wait_cancel(&conn->place_wait);
	buffer_finish(&conn->parked);
	list_for_each_safe(link, tmp, &conn->waits) {
		conn_wait_free(list_entry(link, struct conn_wait, link));
	}
}

static void destroy(struct conn *conn)
{
	if (conn->ops && conn->ops->closed) {
		conn->ops->closed(conn);
	}
	conn_stop_waiting(conn);
	http_finish(conn);
	ws_finish(conn);
	conn_drop_session(conn);
	placement_leave(conn, false);
	list_remove(&conn->kind_link);
	list_remove(&conn->tick_link);
	list_remove(&conn->link);
	list_remove(&conn->denied_link);
	list_remove(&conn->slow_link);
	grant_unref(conn->grant);
	room_give_back(conn);
	sending_forget(conn);
	buffer_finish(&conn->in);
	conn_keep_nothing(conn);
	free(conn->title);
	free(conn->trace);
	free(conn);
}

/* --- the socket --- */

static void count_received(struct conn *conn);

/** Kills a slowed connection if all connections together keep too much input. */
static void bound_slowed(struct conn *conn)
{
	count_received(conn);
	if (conn->is_slowed && conn->in.len &&
		conn->server->received > conn->server->limits->receive_size) {
		metrics_limit(conn->server->metrics, LIMIT_receive_size);
		conn_kill(conn);
	}
}

static void handle_received(struct sock *sock, char *bytes, size_t len)
{
	struct conn *conn = conn_of(sock);
	conn->received_ms = now_ms(conn);
	metrics_add(conn->server->metrics, METRIC_BYTES_RECEIVED, len);
	if (conn->ws) {
		conn->ws->pinged = false;
	}
	if (conn->is_dead || conn->phase == PHASE_LINGER) {
		return;
	}
	rate_take_bytes(conn, len);
	http_receive(conn, bytes, len);
	conn_update_flow(conn);
	bound_slowed(conn);
}

void conn_resume(struct conn *conn)
{
	if (conn->is_dead) {
		return;
	}
	http_receive(conn, NULL, 0);
	count_received(conn);
	conn_update_flow(conn);
	conn_at_end_of_tick(conn);
}

static void handle_writable(struct sock *sock)
{
	struct conn *conn = conn_of(sock);
	if (conn->is_dead) {
		return;
	}
	if (conn->ops) {
		ws_writable(conn);
	} else {
		conn_at_end_of_tick(conn);
	}
}

static void handle_ended(struct sock *sock)
{
	conn_kill(conn_of(sock));
}

static void handle_kept(struct sock *sock)
{
	sending_count(conn_of(sock));
}

static void handle_closed(struct sock *sock)
{
	destroy(conn_of(sock));
}

static const struct transport_ops conn_transport_ops = {
	.received = handle_received,
	.writable = handle_writable,
	.ended = handle_ended,
	.broken = handle_ended,
	.kept = handle_kept,
	.closed = handle_closed,
};

void conn_put(struct conn *conn, const void *bytes, size_t len)
{
	if (!conn->is_dead && sock_write(&conn->sock, bytes, len) < 0) {
		conn_kill(conn);
	} else {
		metrics_add(conn->server->metrics, METRIC_BYTES_SENT, len);
	}
}

void conn_put_later(
	struct conn *conn, const void *bytes, size_t len, void (*done)(void *arg), void *arg)
{
	if (conn->is_dead) {
		done(arg);
		return;
	}
	metrics_add(conn->server->metrics, METRIC_BYTES_SENT, len);
	sock_write_later(&conn->sock, bytes, len, done, arg);
}

void conn_kill(struct conn *conn)
{
	conn->is_dead = true;
	conn->is_closing = true;
	conn_at_end_of_tick(conn);
}

void conn_send_fin(struct conn *conn)
{
	if (conn->fin_sent || conn->is_dead) {
		return;
	}
	if (sock_is_choked(&conn->sock)) {
		sock_want_writable(&conn->sock); /* after what is kept */
		return;
	}
	conn->fin_sent = true;
	sock_shutdown(&conn->sock);
}

void conn_update_flow(struct conn *conn)
{
	if (conn->carrier) {
		/* Its input arrives on the carrier, which is parked and resumed with it. */
		bool had = conn->carrier->is_parked;
		conn->carrier->is_parked = conn->is_parked;
		if (had && !conn->is_parked) {
			conn_resume(conn->carrier);
		} else {
			conn_update_flow(conn->carrier);
		}
		return;
	}
	struct answer *answer = conn->http ? conn->http->answer : NULL;
	bool feeds = conn->ws ? conn->ops->is_stored_here : answer && answer->ops->is_stored_here;
	bool is_held = conn->ws ? conn->ws->is_held : answer && answer->is_held;
	bool polls = answer && answer->ops->polls && answer->ops->polls(answer);
	/*
	 * While a request is served, nothing is read: the next request waits in the kernel. So does
	 * the peer's FIN, after which it may still want the answers to all of its requests. A poll
	 * can last long, so it goes on reading to notice a peer that has left.
	 */
	bool paused = (feeds && conn->server->is_paused) || is_held || conn->is_parked ||
		      conn->is_slowed || (conn->phase == PHASE_ANSWER && !polls);
	if (!conn->is_dead) {
		sock_pause(&conn->sock, paused);
	}
}

/* --- the end of a tick --- */

void conn_at_end_of_tick(struct conn *conn)
{
	if (list_empty(&conn->tick_link)) {
		list_append(&conn->server->in_tick, &conn->tick_link);
	}
}

void conn_end_tick(struct conn *conn)
{
	if (conn->is_dead) {
		sock_close(&conn->sock);
	} else if (conn->ops) {
		conn_flush(conn);
		enum error_code code = conn_broken_order(conn);
		if (code) {
			conn_close(conn, WS_CLOSE_TRY_LATER, error_code_text(code));
		}
		if (conn->ops->end_tick) {
			conn->ops->end_tick(conn);
		}
	} else {
		http_end_tick(conn);
	}
}

/* --- incomplete messages --- */

/** Includes input that waits while the connection is slowed or serves an earlier request. */
static void count_received(struct conn *conn)
{
	size_t size = conn->rx.cap + conn->in.cap;
	size += conn->http && conn->http->answer ? conn->http->answer->in_flight : 0;
	conn->server->received += size;
	conn->server->received -= conn->rx_counted;
	conn->rx_counted = size;
}

bool conn_keep(struct conn *conn, const char *bytes, size_t len)
{
	count_received(conn); /* its buffers may have changed since */
	size_t wanted = conn->rx.len + len;
	if (wanted > RECEIVE_FREE && conn->server->received - conn->rx_counted + wanted >
					     conn->server->limits->receive_size) {
		return false;
	}
	buffer_append(&conn->rx, bytes, len);
	count_received(conn);
	return true;
}

void conn_keep_nothing(struct conn *conn)
{
	buffer_finish(&conn->rx);
	count_received(conn);
}

bool conn_is_too_slow(const struct conn *conn, uint64_t taken)
{
	const struct limits *limits = conn->server->limits;
	int64_t now = now_ms(conn);
	int64_t most =
		limits->receive_ms + (int64_t)(taken * 1000 / (uint64_t)limits->receive_rate);
	return now - conn->received_ms > limits->receive_ms || now - conn->message_ms > most;
}

/* --- deadlines --- */

void conn_set_deadline(struct conn *conn, enum conn_deadline deadline, int64_t ms)
{
	conn->deadline = deadline;
	conn->deadline_ms = now_ms(conn) + ms;
}

/** Whether a choked peer still takes what was sent, if slowly: a ping would come after that. */
static bool is_taking(struct conn *conn)
{
	if (!sock_is_choked(&conn->sock)) {
		return false;
	}
	uint64_t before = conn->taken;
	conn->taken = sock_taken(&conn->sock);
	return conn->taken != before;
}

static void sweep_socket(struct conn *conn)
{
	const struct limits *limits = conn->server->limits;
	int64_t silent = now_ms(conn) - conn->received_ms;
	if (conn->sse) {
		sse_sweep(conn);
		return;
	}
	if ((conn->server->is_paused && conn->ops->is_producer) || conn->is_parked ||
		conn->is_slowed || is_taking(conn)) {
		/* Nothing is read, or a ping would wait behind the rest: it cannot be judged. */
		conn->received_ms = conn->message_ms = now_ms(conn);
	} else if (silent > limits->ping_ms + limits->pong_ms) {
		conn_kill(conn);
	} else if (silent > limits->ping_ms && !conn->ws->pinged) {
		conn->ws->pinged = true;
		ws_ping(conn);
	}
	if (ws_is_unfinished(conn) && conn_is_too_slow(conn, conn->rx.len)) {
		metrics_limit(conn->server->metrics, LIMIT_receive_ms);
		conn_close(conn, WS_CLOSE_POLICY, "a message came too slowly");
	}
}

static void sweep_body(struct conn *conn)
{
	const struct http_exchange *http = conn->http;
	bool is_taken = http->answer && http->answer->ops->take_body;
	if ((!http->is_routed || is_taken || http->is_answered) &&
		conn_is_too_slow(conn, http->body_taken)) {
		http_time_out(conn);
	}
}

void conn_sweep(struct conn *conn)
{
	if (conn->is_dead) {
		return;
	}
	if (conn->ops && conn->ops->sweep) {
		conn->ops->sweep(conn);
	}
	/* Revocations are handled at once; this finds expired tokens and replaced logins. */
	if (conn->grant && (conn->grant->expires_ms || conn->grant->is_over)) {
		conn_check_grant(conn);
	}
	struct answer *answer = conn->http ? conn->http->answer : NULL;
	if (conn->deadline == DEADLINE_TOKEN && now_ms(conn) >= conn->deadline_ms) {
		metrics_limit(conn->server->metrics, LIMIT_token_ms);
		ws_deny(conn, DENIED_NO_TOKEN);
	} else if (conn->deadline == DEADLINE_POLL && now_ms(conn) >= conn->deadline_ms) {
		answer->ops->time_out(answer);
	} else if (conn->deadline != DEADLINE_NONE && now_ms(conn) >= conn->deadline_ms) {
		http_time_out(conn);
	} else if (answer && answer->ops->sweep) {
		answer->ops->sweep(answer);
	} else if (conn->ops && !conn->is_closing) {
		sweep_socket(conn);
	} else if (conn->phase == PHASE_BODY && !conn->sock.is_paused) {
		sweep_body(conn);
	}
}

/* --- frames that all kinds send --- */

struct frame *conn_keepalive_ack(const struct conn *conn, const struct request *request)
{
	const char *time =
		request->keepalive.client_time[0] ? request->keepalive.client_time : NULL;
	int64_t now = clock_now_ms(conn->server->clock);
	if (!conn->session) {
		return frame_keepalive_ack(time, now, 0, 0, NULL, HIDE_NOTHING);
	}
	const struct channel *channel = session_channel(conn->session);
	return frame_keepalive_ack(time, now, channel->max_seq, session_log_epoch(channel->log),
		&channel->status, conn_hides(conn));
}

void conn_send_frame(struct conn *conn, struct frame *frame)
{
	if (conn->ws->observer && !conn->ops->tell) {
		observer_send(conn->ws->observer, frame);
	} else {
		conn_send(conn, frame);
	}
}

static void send_error(struct conn *conn, const struct error_notice *error, enum limit limit)
{
	metrics_refused(conn->server->metrics, error->code, limit);
	if (conn->ops->tell_error) {
		conn->ops->tell_error(conn, error->message);
	} else {
		conn_send_frame(conn,
			frame_error(error->code, error->message, error->request, error->detail));
	}
}

void conn_send_error(struct conn *conn, enum error_code code, const char *message)
{
	send_error(conn, &(struct error_notice){.code = code, .message = message}, LIMIT_NONE);
}

void conn_send_refusal(struct conn *conn, const struct refusal *refusal)
{
	struct error_detail detail = refusal->detail;
	if (!detail.id && refusal->prompt_id[0]) {
		detail.about = ABOUT_PROMPT;
		detail.id = refusal->prompt_id;
	}
	send_error(conn,
		&(struct error_notice){refusal->code, refusal->message,
			refusal->request[0] ? refusal->request : NULL, &detail},
		refusal->limit);
}
