/*
 * Rate limits of a connection. Every request, and every byte of a producer, uses up some credit,
 * which grows back with time; a connection without credit is not read from. What its peer sends
 * meanwhile waits in the kernels, and nothing is lost. At most two seconds' worth can be saved up.
 */
#include "server/net_internal.h"

#define SECOND_US 1000000
/* Most credit that a connection can save up (µs). */
#define CREDIT_MAX_US ((int64_t)2 * SECOND_US)
/* Credit at which reading resumes (µs), and how often that is checked (ms). */
#define RESUME_US 50000
#define SLOW_MS   10
/* A piece of a client's message that is smaller than this costs as much as a message. */
#define SMALL_PIECE 256

static void grow(struct conn *conn)
{
	int64_t now = (int64_t)uv_now(conn->server->loop);
	int64_t grown = conn->credit_us + (now - conn->credit_ms) * 1000;
	conn->credit_us = grown < CREDIT_MAX_US ? grown : CREDIT_MAX_US;
	conn->credit_ms = now;
}

void rate_init(struct conn *conn)
{
	conn->credit_us = CREDIT_MAX_US;
	conn->credit_ms = (int64_t)uv_now(conn->server->loop);
}

static void charge(struct conn *conn, enum limit limit, size_t units, size_t rate)
{
	if (conn->ops && conn->ops->is_free) {
		return;
	}
	conn->credit_us -= (int64_t)(units * SECOND_US / rate);
	if (conn->credit_us >= 0 || conn->is_slowed) {
		return;
	}
	grow(conn);
	if (conn->credit_us < 0) {
		struct server *server = conn->server;
		conn->is_slowed = true;
		metrics_limit(server->metrics, limit);
		if (list_empty(&server->slowed)) {
			uv_timer_start(server->slow_timer, rate_handle_timer, SLOW_MS, SLOW_MS);
		}
		list_append(&server->slowed, &conn->slow_link);
	}
}

static bool feeds(const struct conn *conn)
{
	return conn->ws ? conn->ops->is_producer
			: conn->http->answer && conn->http->answer->ops->take_body;
}

void rate_take_bytes(struct conn *conn, size_t len)
{
	const struct limits *limits = conn->server->limits;
	if (feeds(conn)) {
		charge(conn, LIMIT_producer_bytes, len, limits->producer_bytes);
	} else if (len < SMALL_PIECE) {
		charge(conn, LIMIT_client_requests, 1, limits->client_requests);
	}
}

bool rate_take_message(struct conn *conn, bool is_append)
{
	const struct limits *limits = conn->server->limits;
	if (is_append) {
		charge(conn, LIMIT_producer_messages, 1, limits->producer_messages);
	} else {
		charge(conn, LIMIT_client_requests, 1, limits->client_requests);
	}
	return !conn->is_slowed;
}

void rate_handle_timer(uv_timer_t *timer)
{
	struct server *server = timer->data;
	list_for_each_safe(link, tmp, &server->slowed) {
		struct conn *conn = list_entry(link, struct conn, slow_link);
		grow(conn);
		if (conn->credit_us >= RESUME_US) {
			conn->is_slowed = false;
			list_remove(&conn->slow_link);
			conn_resume(conn);
		}
	}
	if (list_empty(&server->slowed)) {
		uv_timer_stop(timer);
	}
}
