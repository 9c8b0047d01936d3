/* What those who serve a request may read of it (http_exchange.h). */
#include "server/http_internal.h"

void *http_door_state(const struct conn *conn)
{
	return conn->http->door ? conn->http->door->state : NULL;
}

enum http_method http_method_of(const struct conn *conn)
{
	return conn->http->method;
}

const struct http_head *http_head_of(const struct conn *conn)
{
	return conn->http->head;
}

const char *http_path_of(const struct conn *conn)
{
	return conn->http->path;
}

const struct path_part *http_part(const struct conn *conn, size_t i)
{
	return &conn->http->parts[i];
}

bool http_has_body(const struct conn *conn)
{
	return conn->http->framing.body != HTTP_NO_BODY;
}

bool http_awaits_body(const struct conn *conn)
{
	return conn->phase == PHASE_BODY;
}

const struct buffer *http_body(const struct conn *conn)
{
	return &conn->rx;
}

struct buffer http_take_body(struct conn *conn)
{
	struct buffer body = conn->rx;
	conn->rx = (struct buffer){0};
	conn_keep_nothing(conn);
	return body;
}

bool http_has_next(const struct conn *conn)
{
	return conn->in.len;
}

struct answer *http_answer(const struct conn *conn)
{
	return conn->http->answer;
}

void http_begin_poll(struct conn *conn)
{
	conn_set_deadline(conn, DEADLINE_POLL, conn->server->limits->poll_ms);
}

void http_end_poll(struct conn *conn)
{
	conn_set_deadline(conn, DEADLINE_NONE, 0);
}

void http_gzip(const struct conn *conn, const char *bytes, size_t len, struct buffer *out)
{
	deflate_gzip(conn->server->deflater, bytes, len, out);
}

void http_refuse_deleted(struct conn *conn)
{
	conn->http->is_nowhere = true;
	http_refuse_lost(conn);
}
