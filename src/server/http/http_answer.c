/* Builds HTTP answers, and the heads of those that are streamed. */
#include "server/http_internal.h"
#include "server/placement_internal.h"

#include "holdfast/clock.h"
#include "holdfast/deflate.h"
#include "holdfast/error_codes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *status_text(unsigned status)
{
	static const struct {
		unsigned status;
		const char *text;
	} table[] = {
		{200, "OK"},
		{201, "Created"},
		{204, "No Content"},
		{206, "Partial Content"},
		{304, "Not Modified"},
		{400, "Bad Request"},
		{401, "Unauthorized"},
		{403, "Forbidden"},
		{404, "Not Found"},
		{405, "Method Not Allowed"},
		{408, "Request Timeout"},
		{409, "Conflict"},
		{410, "Gone"},
		{413, "Content Too Large"},
		{414, "URI Too Long"},
		{415, "Unsupported Media Type"},
		{416, "Range Not Satisfiable"},
		{421, "Misdirected Request"},
		{426, "Upgrade Required"},
		{429, "Too Many Requests"},
		{431, "Request Header Fields Too Large"},
		{500, "Internal Server Error"},
		{501, "Not Implemented"},
		{503, "Service Unavailable"},
		{505, "HTTP Version Not Supported"},
		{507, "Insufficient Storage"},
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (table[i].status == status) {
			return table[i].text;
		}
	}
	return "Error";
}

/* The response headers that a page of another origin can read. */
#define EXPOSED                                                                  \
	"access-control-expose-headers: Retry-After, ETag, Stream-Next-Offset, " \
	"Stream-Up-To-Date, Stream-Cursor"

void http_append_cors(struct conn *conn, struct buffer *out)
{
	if (conn->server->trust->origins) {
		buffer_append_str(out, "vary: Origin\r\n");
	}
	if (auth_is_for_all(conn)) {
		buffer_printf(out, "access-control-allow-origin: *\r\n" EXPOSED ", %s\r\n",
			conn->http->route->cors->exposed);
	} else if (conn->http->is_foreign) {
		const struct http_head *head = conn->http->head;
		struct http_span origin = http_head_field(head, "origin")->value;
		buffer_printf(out, "access-control-allow-origin: %.*s\r\n" EXPOSED "\r\n",
			(int)origin.len, head->text + origin.at);
	}
}

/* Sent with every answer: a browser may do nothing with it that our page does not need. */
#define BROWSER_RULES                                                         \
	"x-content-type-options: nosniff\r\nreferrer-policy: no-referrer\r\n" \
	"cross-origin-opener-policy: same-origin\r\n"                         \
	"permissions-policy: camera=(), geolocation=(), microphone=(), payment=(), usb=()\r\n"

/** Which pages may load the answer. */
static const char *resource_policy(const struct conn *conn)
{
	return auth_is_for_all(conn) ? "cross-origin-resource-policy: cross-origin\r\n"
				     : "cross-origin-resource-policy: same-origin\r\n";
}

/**
 * Writes the status line and what every answer has; what another node has answered has that node's
 * time.
 */
static void begin_head(struct conn *conn, unsigned status, struct buffer *out)
{
	buffer_printf(out, "HTTP/1.1 %u %s\r\nserver: holdfast\r\n", status, status_text(status));
	http_append_date(out, clock_now_ms(conn->server->clock));
	buffer_append_str(out, BROWSER_RULES);
	buffer_append_str(out, resource_policy(conn));
}

/** Prepares the answer, which is sent at the end of the tick. `size` is its content-length. */
static void respond(struct conn *conn, unsigned status, const char *headers, const char *body,
	size_t len, uint64_t size)
{
	struct buffer *out = &conn->http->response;
	trace_log(conn, status);
	conn->http->must_close = conn->http->must_close || http_body_must_close(conn);
	buffer_clear(out);
	buffer_reserve(out, len + 512);
	begin_head(conn, status, out);
	buffer_printf(out, "%s%s", headers,
		conn->http->must_close                              ? "connection: close\r\n"
		: conn->http->head && conn->http->head->is_http_1_0 ? "connection: keep-alive\r\n"
								    : "");
	http_append_cors(conn, out);
	if (status != 204 && status != 304) {
		buffer_printf(out, "content-length: %" PRIu64 "\r\n", size);
	}
	buffer_append_str(out, "\r\n");
	if (conn->http->method != HTTP_HEAD && status != 304) {
		buffer_append(out, body, len);
	}
	conn_at_end_of_tick(conn);
}

/* Sent with every answer of the API: a browser must not cache it, nor show it as a page. */
#define API_RULES "cache-control: no-store\r\n" CONTENT_OF_OTHERS

/** `type` is NULL if the answer has no body. */
static void respond_api(struct conn *conn, unsigned status, const char *type, const char *headers,
	const char *body, size_t len)
{
	struct buffer all = {0};
	buffer_printf(&all, API_RULES "%s%s%s%s", type ? "content-type: " : "", type ? type : "",
		type ? "\r\n" : "", headers);
	respond(conn, status, buffer_cstr(&all), body, len, len);
	buffer_finish(&all);
}

void http_respond_with(
	struct conn *conn, unsigned status, const char *headers, const char *body, size_t len)
{
	respond_api(conn, status, status == 204 ? NULL : "application/json", headers, body, len);
}

void http_respond_text(struct conn *conn, const char *type, const char *text, size_t len)
{
	respond_api(conn, 200, type, "", text, len);
}

void http_begin_stream(struct conn *conn, const char *type, const char *headers)
{
	struct buffer out = {0};
	trace_log(conn, 200);
	begin_head(conn, 200, &out);
	buffer_printf(&out,
		API_RULES "content-type: %s\r\nx-accel-buffering: no\r\nconnection: close\r\n%s",
		type, headers);
	http_append_cors(conn, &out);
	buffer_append_str(&out, "\r\n");
	conn_put(conn, out.data, out.len);
	buffer_finish(&out);
}

void http_answer_preflight(struct conn *conn)
{
	const struct route *route = conn->http->route;
	bool is_for_all = auth_is_for_all(conn);
	struct buffer headers = {0};
	buffer_printf(&headers,
		"access-control-allow-methods: %s\r\naccess-control-allow-headers: %s\r\n"
		"access-control-max-age: 600\r\n",
		is_for_all ? route->methods : "GET, HEAD, POST, PATCH, DELETE",
		is_for_all
			? route->cors->allowed
			: "Authorization, Content-Type, Holdfast-Login, If-None-Match, Last-Event-ID");
	http_respond_with(conn, 204, buffer_cstr(&headers), NULL, 0);
	buffer_finish(&headers);
}

void http_respond_file(struct conn *conn, unsigned status, const char *headers, const char *body,
	size_t len, uint64_t size)
{
	respond(conn, status, headers, body, len, size);
}

void http_respond(struct conn *conn, unsigned status, const char *json, size_t len)
{
	http_respond_with(conn, status, "", json, len);
}

bool http_has_etag(const struct conn *conn, const char *etag)
{
	const struct http_head *head = conn->http->head;
	char weak[200];
	snprintf(weak, sizeof(weak), "W/%s", etag);
	return http_head_has_word(head, "if-none-match", etag) ||
	       http_head_has_word(head, "if-none-match", weak) ||
	       http_head_has_word(head, "if-none-match", "*");
}

bool http_takes_gzip(const struct conn *conn)
{
	const struct http_head *head = conn->http->head;
	int gzip = http_head_weight(head, "accept-encoding", "gzip");
	gzip = gzip >= 0 ? gzip : http_head_weight(head, "accept-encoding", "x-gzip");
	gzip = gzip >= 0 ? gzip : http_head_weight(head, "accept-encoding", "*");
	return conn->server->deflater && gzip > 0 &&
	       gzip >= http_head_weight(head, "accept-encoding", "identity");
}

#define PAGE_RULES "content-disposition: attachment\r\nvary: accept-encoding\r\n"

void http_respond_page(struct conn *conn, const struct buffer *json)
{
	struct buffer packed = {0};
	if (json->len < DEFLATE_MIN || !http_takes_gzip(conn)) {
		http_respond_with(conn, 200, PAGE_RULES, json->data, json->len);
		return;
	}
	deflate_gzip(conn->server->deflater, json->data, json->len, &packed);
	http_respond_with(
		conn, 200, "content-encoding: gzip\r\n" PAGE_RULES, packed.data, packed.len);
	buffer_finish(&packed);
}

/**
 * Whether the request may be told that something is not found: it is not about a session, or the
 * session is here, or it is known not to exist, because the store was asked or it was deleted here.
 */
static bool may_say_not_found(const struct conn *conn)
{
	size_t len;
	if (!conn->grant || conn->http->is_nowhere) {
		return true;
	}
	const char *id = http_find_session(conn, &len);
	if (!id || !grant_sees(conn->grant, id, len)) {
		return true; /* not about a session, or of one that the client must not learn about */
	}
	return server_may(conn->server->life, MAY_JUDGE) &&
	       !placement_may_be_elsewhere(conn, id, len);
}

#define RETRY_SOON "retry-after: 1\r\n"

/** Says that the client has to come back: the session is not here, but it may well exist. */
static void say_moved(const struct conn *conn, enum error_code *ret_code, const char **ret_message)
{
	bool serves = server_may(conn->server->life, MAY_SERVE);
	*ret_code = serves ? ERROR_owner_unreachable : ERROR_shutting_down;
	*ret_message = serves ? OWNER_UNREACHABLE : SHUTTING_DOWN;
}

static void refuse_with(struct conn *conn, unsigned status, const char *headers,
	enum error_code code, const char *message, const struct error_detail *detail)
{
	struct buffer body = {0};
	if (code == ERROR_not_found && !may_say_not_found(conn)) {
		say_moved(conn, &code, &message);
		status = 503;
	}
	bool is_moved = code == ERROR_owner_unreachable || code == ERROR_shutting_down;
	if (is_moved) {
		headers = RETRY_SOON;
	}
	if (conn->http->method != HTTP_GET && (is_moved || error_code_may_pass(code))) {
		conn->http->must_close = true; /* what was sent behind it must not overtake it */
	}
	metrics_refused(conn->server->metrics, code, LIMIT_NONE);
	if (status == 503 && http_is_event_source(conn)) {
		frames_append_error(&body, code, message, NULL, detail);
		http_respond_ended(conn, body.data, body.len);
	} else {
		buffer_append_str(&body, "{\"error\":");
		frames_append_error(&body, code, message, NULL, detail);
		buffer_append_char(&body, '}');
		http_respond_with(conn, status, headers, body.data, body.len);
	}
	buffer_finish(&body);
}

void http_refuse_with(struct conn *conn, unsigned status, const char *headers, enum error_code code,
	const char *message)
{
	refuse_with(conn, status, headers, code, message, NULL);
}

void http_refuse(struct conn *conn, enum error_code code, const char *message)
{
	refuse_with(conn, error_code_status(code), "", code, message, NULL);
}

void http_refuse_no_session(struct conn *conn)
{
	http_refuse(conn, ERROR_not_found, NO_SESSION);
}

void http_refuse_moved(struct conn *conn)
{
	enum error_code code;
	const char *message;
	say_moved(conn, &code, &message);
	http_refuse(conn, code, message);
}

void http_refuse_lost(struct conn *conn)
{
	const char *id = conn->session_id;
	bool is_deleted = conn->http->is_nowhere ||
			  (server_may(conn->server->life, MAY_JUDGE) && !conn->server->placement &&
				  !session_table_get(conn->server->sessions, id, strlen(id)));
	if (is_deleted) {
		http_refuse(conn, ERROR_not_found, SESSION_DELETED);
	} else {
		http_refuse_moved(conn);
	}
}

void http_refuse_limit(struct conn *conn, enum limit limit, const char *message)
{
	metrics_limit(conn->server->metrics, limit);
	http_refuse(conn, limit_code(limit), message);
}

void http_refuse_event(struct conn *conn, const struct refusal *refusal)
{
	unsigned status = error_code_status(refusal->code);
	metrics_limit(conn->server->metrics, refusal->limit);
	refuse_with(conn, status, status == 401 ? WANTS_TOKEN : "", refusal->code, refusal->message,
		&refusal->detail);
}

void http_refuse_method(struct conn *conn, const char *allow)
{
	char headers[80];
	char message[120];
	snprintf(headers, sizeof(headers), "allow: %s\r\n", allow);
	snprintf(message, sizeof(message), "this address takes %s", allow);
	refuse_with(conn, 405, headers, ERROR_method_not_allowed, message, NULL);
}

void http_refuse_storage(struct conn *conn)
{
	http_refuse(conn, ERROR_storage_failed, storage_text(conn_storage(conn), STORAGE_WRITE));
}
