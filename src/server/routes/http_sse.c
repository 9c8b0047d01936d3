/*
 * Server-sent events: an endless answer in which each frame of a WebSocket is an event (sse.h).
 * Behind it is the same observer or feed as behind a WebSocket, but nothing comes in. An error that
 * reconnecting cannot cure is an HTTP status, at which EventSource gives up; any other is an event
 * followed by the end of the stream, after which EventSource reconnects.
 */
#include "server/http_internal.h"

#include "holdfast/sse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Clients reconnect after one to two times this delay (ms). */
#define RETRY_MS SSE_SPREAD_MS
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

void http_respond_ended(struct conn *conn, const char *error, size_t len)
{
	struct buffer text = {0};
	buffer_printf(&text,
		"retry: %lld\n\nevent: ended\ndata: ", (long long)sse_spread(REFUSED_RETRY_MS));
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
	conn->ws = xcalloc(1, sizeof(*conn->ws));
	list_init(&conn->ws->outbox);
	conn->ws->config.encoder = &sse_encoder;
	ws_make_client_id(conn);
	conn->ops = ops;
	http_finish(conn);
	conn->phase = PHASE_SOCKET;
	conn_set_deadline(conn, DEADLINE_NONE, 0);
	sse_begin(conn, packs, is_chunked);
	if (says_retry) {
		sse_say_retry(conn, RETRY_MS);
	}
}

bool http_refuses_body_of_stream(struct conn *conn)
{
	if (conn->http->framing.body != HTTP_NO_BODY) {
		http_refuse(
			conn, ERROR_bad_request, "a request for a stream of events has no body");
		return true;
	}
	return false;
}

void http_drain_sse(struct conn *conn)
{
	static const struct conn_ops ops = {.writable = conn_flush};
	if (http_refuses_body_of_stream(conn)) {
		return;
	}
	http_begin_sse(conn, &ops, "", true);
	room_note_known(conn);
	sse_say_retry(conn, conn->server->limits->drain_retry_ms);
	conn_send(conn, frame_draining(conn->server->limits->drain_retry_ms));
	conn_close(conn, 1001, "the server is shutting down");
}
