/* Answers over HTTP: every one is a JSON text, whole, with its length. */
#include "net_internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/*
 * A peer that is still sending its body when it is answered gets so long, and may send so much, to
 * see the answer. Without that the kernel cuts it off for the bytes that nobody read, and the
 * answer with it.
 */
#define LINGER_SECS 5

static const char *status_text(unsigned status)
{
	switch (status) {
	case 200:
		return "OK";
	case 201:
		return "Created";
	case 204:
		return "No Content";
	case 400:
		return "Bad Request";
	case 403:
		return "Forbidden";
	case 404:
		return "Not Found";
	case 405:
		return "Method Not Allowed";
	case 409:
		return "Conflict";
	case 413:
		return "Content Too Large";
	case 429:
		return "Too Many Requests";
	default:
		return "Service Unavailable";
	}
}

/** Prepares the whole answer; it leaves when the socket is writable. */
void http_respond_with(
	struct conn *conn, unsigned status, const char *headers, const char *body, size_t len)
{
	struct buffer *out = &conn->response;
	conn->must_close = conn->must_close || http_body_must_close(conn);
	buffer_clear(out);
	buffer_reserve(out, LWS_PRE + len + 512);
	out->len = LWS_PRE;
	buffer_printf(out,
		"HTTP/1.1 %u %s\r\nserver: holdfast\r\ncache-control: no-store\r\n"
		"x-content-type-options: nosniff\r\n%s%s",
		status, status_text(status), headers,
		conn->must_close ? "connection: close\r\n" : "");
	if (status != 204) {
		buffer_printf(
			out, "content-type: application/json\r\ncontent-length: %zu\r\n", len);
	}
	buffer_append_str(out, "\r\n");
	if (conn->method != LWSHUMETH_HEAD) {
		buffer_append(out, body, len);
	}
	lws_callback_on_writable(conn->wsi);
}

void http_respond(struct conn *conn, unsigned status, const char *json, size_t len)
{
	http_respond_with(conn, status, "", json, len);
}

static unsigned status_of(const char *code)
{
	static const struct {
		const char *code;
		unsigned status;
	} table[] = {
		{"forbidden_origin", 403},
		{"forbidden_host", 403},
		{"not_found", 404},
		{"method_not_allowed", 405},
		{"session_exists", 409},
		{"already_resolved", 409},
		{"unknown_request", 409},
		{"key_conflict", 409},
		{"stale_run", 409},
		{"unknown_run", 409},
		{"run_active", 409},
		{"history_mismatch", 409},
		{"too_large", 413},
		{"not_queued", 404},
		{"queue_full", 429},
		{"permissions_full", 429},
		{"storage_failed", 503},
		{"shutting_down", 503},
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (strcmp(table[i].code, code) == 0) {
			return table[i].status;
		}
	}
	return 400;
}

static void refuse_with(struct conn *conn, unsigned status, const char *headers, const char *code,
	const char *message, const char *extra)
{
	struct buffer body = {0};
	buffer_printf(&body, "{\"error\":{\"code\":\"%s\",\"message\":", code);
	buffer_append_json(&body, message, strlen(message));
	buffer_append_str(&body, extra);
	buffer_append_str(&body, "}}");
	http_respond_with(conn, status, headers, body.data, body.len);
	buffer_finish(&body);
}

void http_refuse(struct conn *conn, const char *code, const char *message)
{
	refuse_with(conn, status_of(code), "", code, message, "");
}

void http_refuse_event(struct conn *conn, const struct refusal *refusal, const char *extra)
{
	refuse_with(conn, status_of(refusal->code), "", refusal->code, refusal->message, extra);
}

void http_refuse_method(struct conn *conn, const char *allow)
{
	char headers[80];
	char message[120];
	snprintf(headers, sizeof(headers), "allow: %s\r\n", allow);
	snprintf(message, sizeof(message), "this address takes %s", allow);
	refuse_with(conn, 405, headers, "method_not_allowed", message, "");
}

void http_refuse_storage(struct conn *conn)
{
	http_refuse(conn, "storage_failed",
		"the server cannot write to its disk; nothing was stored, its messages say why");
}

/** The answer is out, the body is still coming in: it is read and dropped for a while. */
static int begin_linger(struct conn *conn)
{
	if (!lws_partial_buffered(conn->wsi)) {
		shutdown(lws_get_socket_fd(conn->wsi), SHUT_WR);
	}
	conn->linger_end = clock_now_ms(conn->server->clock) + LINGER_SECS * 1000;
	lws_set_timeout(conn->wsi, PENDING_TIMEOUT_HTTP_CONTENT, LINGER_SECS);
	return 0;
}

int http_handle_writable(struct conn *conn)
{
	if (!conn->response.len) {
		return 0;
	}
	int n = lws_write(conn->wsi, (unsigned char *)conn->response.data + LWS_PRE,
		conn->response.len - LWS_PRE, LWS_WRITE_HTTP);
	buffer_finish(&conn->response);
	buffer_finish(&conn->rx);
	conn_drop_session(conn);
	conn->is_answered = true;
	if (n >= 0 && conn->must_close && http_body_is_coming(conn)) {
		return begin_linger(conn);
	}
	if (n < 0 || conn->must_close) {
		return -1;
	}
	return lws_http_transaction_completed(conn->wsi) ? -1 : 0;
}
