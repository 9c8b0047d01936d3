/* The REST side (CONTRACT.md, section 6). Every answer is one JSON text, whole, with its length. */
#include "net_internal.h"

#include "holdfast/intake.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A refused body up to this size is read and dropped; beyond it the connection ends. */
#define DISCARD_MAX (64ULL * 1024 * 1024)

/* --- answers --- */

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
	case 411:
		return "Length Required";
	case 413:
		return "Content Too Large";
	case 429:
		return "Too Many Requests";
	default:
		return "Service Unavailable";
	}
}

/** Prepares the whole answer; it leaves when the socket is writable. */
static void respond(
	struct conn *conn, unsigned status, const char *headers, const char *body, size_t len)
{
	struct buffer *out = &conn->response;
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
	respond(conn, status, "", json, len);
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
		{"history_mismatch", 409},
		{"key_conflict", 409},
		{"stale_run", 409},
		{"unknown_run", 409},
		{"run_active", 409},
		{"length_required", 411},
		{"too_large", 413},
		{"queue_full", 429},
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

static void append_error(struct buffer *out, const char *code, const char *message)
{
	buffer_printf(out, "{\"error\":{\"code\":\"%s\",\"message\":", code);
	buffer_append_json(out, message, strlen(message));
	buffer_append_str(out, "}}");
}

void http_refuse(struct conn *conn, const char *code, const char *message)
{
	struct buffer body = {0};
	append_error(&body, code, message);
	http_respond(conn, status_of(code), body.data, body.len);
	buffer_finish(&body);
}

static void refuse_method(struct conn *conn, const char *allow)
{
	struct buffer body = {0};
	char headers[80];
	char message[120];
	snprintf(headers, sizeof(headers), "allow: %s\r\n", allow);
	snprintf(message, sizeof(message), "this address takes %s", allow);
	append_error(&body, "method_not_allowed", message);
	respond(conn, 405, headers, body.data, body.len);
	buffer_finish(&body);
}

static void refuse_storage(struct conn *conn)
{
	http_refuse(conn, "storage_failed",
		"the server cannot write to its disk; nothing was stored, its messages say why");
}

/* --- sessions --- */

static void append_object(struct buffer *out, const struct session *session)
{
	struct session_object object;
	session_get_object(session, &object);
	frames_append_session(out, &object);
}

struct listing {
	struct session_object *objects;
	size_t count;
};

static void collect(const struct session_object *object, void *arg)
{
	struct listing *listing = arg;
	listing->objects[listing->count++] = *object;
}

static int compare_updated(const void *a, const void *b)
{
	const struct session_object *x = a;
	const struct session_object *y = b;
	return x->updated_at < y->updated_at   ? 1
	       : x->updated_at > y->updated_at ? -1
					       : strcmp(x->id, y->id);
}

static void get_sessions(struct conn *conn)
{
	struct session_table *table = conn->server->sessions;
	struct listing listing = {
		.objects = xcalloc(session_table_count(table), sizeof(struct session_object)),
	};
	session_table_each_object(table, collect, &listing);
	if (listing.count) {
		qsort(listing.objects, listing.count, sizeof(struct session_object),
			compare_updated);
	}
	struct buffer body = {0};
	buffer_append_str(&body, "{\"sessions\":[");
	for (size_t i = 0; i < listing.count; i++) {
		buffer_append_str(&body, i ? "," : "");
		frames_append_session(&body, &listing.objects[i]);
	}
	buffer_append_str(&body, "]}");
	http_respond(conn, 200, body.data, body.len);
	buffer_finish(&body);
	free(listing.objects);
}

static void answer_created(struct conn_wait *wait, int status)
{
	struct conn *conn = wait->conn;
	struct session *session =
		session_table_get(conn->server->sessions, wait->text, strlen(wait->text));
	if (status < 0 || !session) {
		refuse_storage(conn);
		return;
	}
	struct buffer object = {0};
	append_object(&object, session);
	http_respond(conn, 201, object.data, object.len);
	struct buffer data = {0};
	buffer_append_str(&data, "{\"session\":");
	buffer_append(&data, object.data, object.len);
	buffer_append_char(&data, '}');
	feed_broadcast(conn->server, "session_created", data.data, data.len);
	buffer_finish(&data);
	buffer_finish(&object);
}

static void post_session(struct conn *conn)
{
	struct refusal refusal;
	json_t *json;
	const char *id;
	const char *title;
	if (session_request_parse(conn->rx.data, conn->rx.len, conn->server->limits, &json, &id,
		    &title, &refusal) < 0) {
		http_refuse(conn, refusal.code, refusal.message);
		return;
	}
	struct session *session;
	int r = session_create(conn->server->sessions, id, title, &session);
	if (r == -EEXIST) {
		http_refuse(conn, "session_exists", "there is a session with this id already");
	} else if (r < 0) {
		refuse_storage(conn);
	} else {
		struct conn_wait *wait = conn_wait_create(conn, session, answer_created);
		wait->text = xstrdup(session_id(session));
	}
	json_decref(json);
}

static void get_session(struct conn *conn, struct session *session)
{
	struct buffer body = {0};
	append_object(&body, session);
	http_respond(conn, 200, body.data, body.len);
	buffer_finish(&body);
}

static void answer_deleted(struct conn_wait *wait, int status)
{
	if (status < 0) {
		refuse_storage(wait->conn);
	} else {
		respond(wait->conn, 204, "", NULL, 0);
	}
}

static void delete_session(struct conn *conn, struct session *session)
{
	if (session_delete(session) < 0) {
		refuse_storage(conn);
	} else {
		conn_wait_create(conn, session, answer_deleted);
	}
}

/* --- events --- */

static void respond_page(struct conn *conn, struct event **events, size_t count)
{
	struct loaded_frame page;
	load_page_fill(session_channel(conn->session), &conn->plan, events, count, &page);
	page.format = conn->format;
	struct buffer body = {0};
	frames_append_loaded(&body, &page);
	http_respond(conn, 200, body.data, body.len);
	buffer_finish(&body);
	for (size_t i = 0; i < count; i++) {
		event_unref(events[i]);
	}
}

static void handle_read(void *arg, int status, struct event **events, size_t count)
{
	struct conn *conn = arg;
	conn->read = NULL;
	if (status < 0) {
		http_refuse(conn, "storage_failed",
			"the events cannot be read from disk; the server's messages say why");
	} else if (!conn->session) {
		http_refuse(conn, "not_found", "the session has been deleted");
		for (size_t i = 0; i < count; i++) {
			event_unref(events[i]);
		}
	} else {
		respond_page(conn, events, count);
	}
}

static void load_page(struct conn *conn, const struct load_request *load)
{
	struct channel *channel = session_channel(conn->session);
	struct session_log *log = channel->log;
	conn->plan = load_plan_make(
		load, session_log_epoch(log), session_log_first_seq(log), channel->max_seq);
	struct log_page page = load_plan_page(&conn->plan, load->limit, channel);
	size_t want = page.to >= page.from ? (size_t)(page.to - page.from + 1) : 0;
	struct event **hot = xcalloc(want, sizeof(struct event *));
	size_t n = want ? session_log_get_hot(log, &page, hot) : 0;
	if (n || !want) {
		respond_page(conn, hot, n);
	} else {
		conn->read = session_log_read(log, &page, handle_read, conn);
		if (!conn->read) {
			handle_read(conn, -EBADMSG, NULL, 0);
		}
	}
	free(hot);
}

static void get_events(struct conn *conn, struct session *session)
{
	char after[64];
	char before[64];
	char limit[64];
	char epoch[64];
	char format[64];
	struct load_request load;
	struct refusal refusal = {0};
	const char *bad = query_check(conn,
		(const char *const[]){"after_seq", "before_seq", "limit", "epoch", "format", NULL});
	const char *wanted = query_get(conn, "format", format, sizeof(format));
	if (!bad && query_format(wanted, FORMAT_HTML, &conn->format) < 0) {
		bad = "format is html, markdown or both";
	}
	if (bad) {
		http_refuse(conn, "bad_request", bad);
		return;
	}
	if (load_request_from_query(query_get(conn, "after_seq", after, sizeof(after)),
		    query_get(conn, "before_seq", before, sizeof(before)),
		    query_get(conn, "limit", limit, sizeof(limit)),
		    query_get(conn, "epoch", epoch, sizeof(epoch)), conn->server->limits, &load,
		    &refusal) < 0) {
		http_refuse(conn, refusal.code, refusal.message);
		return;
	}
	conn_hold_session(conn, session);
	load_page(conn, &load);
}

static void answer_appended(struct conn_wait *wait, int status)
{
	struct conn *conn = wait->conn;
	if (status < 0 || !conn->session) {
		refuse_storage(conn);
		return;
	}
	const struct channel *channel = session_channel(conn->session);
	struct buffer body = {0};
	frames_append_acks(&body, wait->acks, wait->ack_count, session_log_epoch(channel->log),
		channel->max_seq);
	http_respond(conn, 200, body.data, body.len);
	buffer_finish(&body);
}

/** One event, an array of them, or one a line; NULL with the refusal set. */
static json_t *parse_events(const char *text, size_t len, struct refusal *refusal)
{
	const char *newline = memchr(text, '\n', len);
	json_t *json = NULL;
	if (!newline || text[0] == '[') {
		json = json_parse(text, len, refusal);
	} else {
		struct refusal first = {0};
		json = json_parse(text, len, &first); /* one event on several lines */
	}
	if (json_is_array(json)) {
		return json;
	}
	json_t *array = json ? json_array() : refusal->code ? NULL : json_array();
	if (json) {
		json_array_append_new(array, json);
		return array;
	}
	for (size_t at = 0; array && at < len;) {
		newline = memchr(text + at, '\n', len - at);
		size_t line = newline ? (size_t)(newline - text) - at : len - at;
		if (strspn(text + at, " \t\r") < line) {
			json = json_parse(text + at, line, refusal);
			if (!json) {
				json_decref(array);
				return NULL;
			}
			json_array_append_new(array, json);
		}
		at += line + 1;
	}
	return array;
}

static void post_events(struct conn *conn, struct session *session)
{
	struct refusal refusal = {0};
	buffer_cstr(&conn->rx);
	json_t *events = parse_events(conn->rx.data, conn->rx.len, &refusal);
	size_t count = json_array_size(events);
	if (events && (!count || count > conn->server->limits->batch_events)) {
		refuse(&refusal, count ? "too_large" : "bad_request",
			"the body holds 1 to %zu events", conn->server->limits->batch_events);
	}
	struct append_ack *acks = xcalloc(count, sizeof(*acks));
	size_t bad = 0;
	if (!refusal.code &&
		intake_append(session, events, conn->server->limits, acks, &bad, &refusal) == 0) {
		struct conn_wait *wait = conn_wait_create(conn, session, answer_appended);
		wait->acks = acks;
		wait->ack_count = count;
		conn_hold_session(conn, session);
	} else {
		char message[320];
		snprintf(message, sizeof(message),
			count > 1 ? "event %zu of the batch: %s" : "%.0zu%s",
			count > 1 ? bad + 1 : 0, refusal.message);
		http_refuse(conn, refusal.code, message);
		free(acks);
	}
	json_decref(events);
}

/* --- routing --- */

static void route_session(struct conn *conn, const char *id, size_t len, const char *rest)
{
	bool is_events = strcmp(rest, "/events") == 0;
	struct session *session = NULL;
	if (!session_id_is_valid(id, len)) {
		http_refuse(conn, "bad_session_id",
			"a session id matches [A-Za-z0-9._-]{1,128} and does not begin with a dot");
		return;
	}
	if (!*rest || is_events) {
		session = session_table_get(conn->server->sessions, id, len);
	}
	if (!session || session_is_deleted(session)) {
		http_refuse(conn, "not_found",
			!*rest || is_events
				? "there is no session with this id; POST /api/sessions makes one"
				: "there is nothing at this address");
	} else if (is_events && (conn->method == LWSHUMETH_GET || conn->method == LWSHUMETH_HEAD)) {
		get_events(conn, session);
	} else if (is_events && conn->method == LWSHUMETH_POST) {
		post_events(conn, session);
	} else if (is_events) {
		refuse_method(conn, "GET, POST");
	} else if (conn->method == LWSHUMETH_GET || conn->method == LWSHUMETH_HEAD) {
		get_session(conn, session);
	} else if (conn->method == LWSHUMETH_DELETE) {
		delete_session(conn, session);
	} else {
		refuse_method(conn, "GET, DELETE");
	}
}

static void get_health(struct conn *conn)
{
	static const char body[] = "{\"status\":\"ok\",\"version\":\"" HOLDFAST_VERSION "\"}";
	http_respond(conn, 200, body, sizeof(body) - 1);
}

static void route(struct conn *conn)
{
	static const char sessions[] = "/api/sessions";
	bool is_get = conn->method == LWSHUMETH_GET || conn->method == LWSHUMETH_HEAD;
	size_t prefix = sizeof(sessions) - 1;
	const char *path = conn->path;
	if (conn->server->is_draining) {
		http_refuse(conn, "shutting_down",
			"the server is shutting down; try again in a moment");
	} else if (strcmp(path, "/healthz") == 0) {
		is_get ? get_health(conn) : refuse_method(conn, "GET");
	} else if (strcmp(path, sessions) == 0 && is_get) {
		get_sessions(conn);
	} else if (strcmp(path, sessions) == 0) {
		conn->method == LWSHUMETH_POST ? post_session(conn)
					       : refuse_method(conn, "GET, POST");
	} else if (strncmp(path, sessions, prefix) == 0 && path[prefix] == '/' &&
		   path[prefix + 1]) {
		const char *id = path + prefix + 1;
		size_t len = strcspn(id, "/");
		route_session(conn, id, len, id + len);
	} else {
		http_refuse(conn, "not_found", "there is nothing at this address");
	}
}

/* --- what lws tells --- */

/** What can be refused before the body has come. */
static const char *refuse_early(struct conn *conn, const char **ret_message)
{
	char length[32] = "";
	int n = lws_hdr_copy(conn->wsi, length, sizeof(length), WSI_TOKEN_HTTP_CONTENT_LENGTH);
	unsigned long long size = strtoull(length, NULL, 10);
	const char *code = auth_check(conn->server, conn->wsi);
	*ret_message = NULL;
	if (code) {
		*ret_message = strcmp(code, "forbidden_host") == 0
				       ? "this server answers to localhost and 127.0.0.1 only"
				       : "a page of another site may not use this server";
	} else if (lws_hdr_total_length(conn->wsi, WSI_TOKEN_HTTP_TRANSFER_ENCODING)) {
		code = "length_required";
		*ret_message = "send the body with a content-length; chunked bodies are not taken";
	} else if (n < 0 || strspn(length, "0123456789") != strlen(length) ||
		   size > conn->server->limits->body_size) {
		code = "too_large";
		*ret_message = "the body of a request may have at most 8 MiB";
	}
	conn->has_body = n > 0 && size > 0;
	/*
	 * A refused body is read and dropped, so that the client gets to see the answer; not
	 * without end.
	 */
	conn->must_close =
		conn->method == LWSHUMETH_POST && (!conn->has_body || size > DISCARD_MAX);
	return code;
}

int http_handle_request(struct conn *conn)
{
	char *uri;
	int len;
	conn->method = lws_http_get_uri_and_method(conn->wsi, &uri, &len);
	snprintf(conn->path, sizeof(conn->path), "%.*s", len > 0 ? len : 0, len > 0 ? uri : "");
	buffer_clear(&conn->rx);
	const char *message;
	const char *code = refuse_early(conn, &message);
	if (code) {
		http_refuse(conn, code, message);
		return 0;
	}
	if (!conn->has_body) {
		/*
		 * lws waits for a body of a POST even where no length is given: it ends with the
		 * answer.
		 */
		conn->must_close = conn->method == LWSHUMETH_POST ||
				   conn->method == LWSHUMETH_PUT || conn->method == LWSHUMETH_PATCH;
		route(conn);
	}
	return 0;
}

int http_handle_body(struct conn *conn, const char *bytes, size_t len)
{
	if (conn->has_body && !conn->response.len &&
		conn->rx.len + len <= conn->server->limits->body_size) {
		buffer_append(&conn->rx, bytes, len);
	}
	return 0;
}

int http_handle_body_end(struct conn *conn)
{
	if (conn->has_body && !conn->response.len) {
		route(conn);
	}
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
	if (n < 0 || conn->must_close) {
		return -1;
	}
	return lws_http_transaction_completed(conn->wsi) ? -1 : 0;
}
