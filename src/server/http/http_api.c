/* The REST API (proto/protocol.md#rest): requests about sessions, and the server's health. */
#include "server/http_internal.h"
#include "server/placement_internal.h"
#include "server/routes/routes.h"
#include "server/ws_internal.h"

#include "holdfast/session_list.h"

#include <errno.h>
#include <string.h>

/* --- sessions --- */

void http_append_session(const struct conn *conn, struct buffer *out, const struct session *session)
{
	struct session_object object;
	session_get_object(session, &object);
	frames_append_session(out, &object, conn_hides(conn));
}

/** Reads `limit` and `cursor` from the query. Returns NULL, or a message. */
static const char *read_list_query(struct conn *conn, size_t *ret_limit, struct session_cursor *ret)
{
	char buf[QUERY_MAX];
	const char *bad = query_check(conn, (const char *const[]){"limit", "cursor", NULL});
	if (bad) {
		return bad;
	}
	*ret_limit = conn->server->limits->list_max;
	if (!query_count(conn, "limit", conn->server->limits->list_max, ret_limit)) {
		return "limit must be a whole number from 1 to list_max (see holdfast limits)";
	}
	*ret = (struct session_cursor){0};
	const char *cursor = query_get(conn, "cursor", buf, sizeof(buf));
	if (cursor && !session_cursor_read(cursor, ret)) {
		return "cursor must be the \"next\" of an earlier page";
	}
	return NULL;
}

/**
 * Appends up to `limit` sessions that the token can see, and moves the cursor past them. Returns
 * whether more follow.
 */
static bool append_page(
	struct conn *conn, struct session_cursor *cursor, size_t limit, struct buffer *body)
{
	struct session_page page;
	struct session_filter filter = conn_filter(conn);
	size_t i;
	buffer_append_str(body, "{\"sessions\":[");
	session_list_page(
		conn->server->sessions, SESSIONS_BY_CHANGE, cursor, &filter, limit, &page);
	for (i = 0; i < page.count && body->len < conn->server->limits->page_size; i++) {
		buffer_append_str(body, i ? "," : "");
		frames_append_session(body, &page.objects[i], conn_hides(conn));
		session_cursor_move(cursor, SESSIONS_BY_CHANGE, &page.objects[i]);
	}
	bool has_more = i < page.count || page.has_more;
	session_page_finish(&page);
	return has_more;
}

static void get_sessions(struct conn *conn)
{
	size_t limit;
	struct session_cursor cursor;
	const char *bad = read_list_query(conn, &limit, &cursor);
	if (bad) {
		http_refuse(conn, ERROR_bad_request, bad);
		return;
	}
	struct buffer body = {0};
	bool has_more = append_page(conn, &cursor, limit, &body);
	if (has_more) {
		buffer_append_str(&body, "],\"next\":\"");
		session_cursor_write(&cursor, &body);
		buffer_append_str(&body, "\"}");
	} else {
		buffer_append_str(&body, "],\"next\":null}");
	}
	http_respond_page(conn, &body);
	buffer_finish(&body);
}

static void get_session(struct conn *conn, struct session *session)
{
	struct buffer body = {0};
	http_append_session(conn, &body, session);
	http_respond(conn, 200, body.data, body.len);
	buffer_finish(&body);
}

static void answer_deleted(struct conn_wait *wait, int status)
{
	if (status < 0) {
		http_refuse_failed(wait->conn, status);
	} else {
		http_respond_with(wait->conn, 204, "", NULL, 0);
	}
}

static void delete_session(struct conn *conn, struct session *session)
{
	int r = session_delete(session);
	if (r < 0 && r != -EALREADY) {
		http_refuse_storage(conn);
	} else {
		conn_wait_create(conn, session, answer_deleted);
	}
}

static void answer_labelled(struct conn_wait *wait, int status)
{
	struct conn *conn = wait->conn;
	if (status < 0) {
		http_refuse_failed(conn, status);
	} else if (conn->session) {
		get_session(conn, conn->session);
	} else {
		http_refuse_lost(conn);
	}
}

static void patch_session(struct conn *conn, struct session *session)
{
	struct refusal refusal;
	json_t *json;
	struct labels_change change;
	if (labels_request_parse(conn->rx.data, conn->rx.len, conn->server->limits, &json, &change,
		    &refusal) < 0) {
		http_refuse_event(conn, &refusal);
		return;
	}
	int r = session_label(session, &change);
	json_decref(json);
	if (r == -ENOENT) { /* once it has been deleted: that can still fail */
		refuse(&refusal, ERROR_not_found, SESSION_DELETED);
		conn_hold_session(conn, session);
		http_refuse_later(conn, session, &refusal);
	} else if (r < 0) {
		http_refuse_storage(conn);
	} else {
		conn_hold_session(conn, session);
		conn_wait_create(conn, session, answer_labelled);
	}
}

/* --- routing --- */

/** Whether the session exists for clients: one that is not durable yet is not shown. */
static bool is_there(const struct session *session)
{
	return session && session_is_there(session);
}

bool http_has_session(struct conn *conn, const struct session *session)
{
	if (!is_there(session)) {
		http_refuse_no_session(conn);
	}
	return is_there(session);
}

static void route_events(struct conn *conn, struct session *session)
{
	if (conn->http->method == HTTP_POST) {
		if (http_may(conn, RIGHT_APPEND) && !conn_waits_for_names(conn, session, NULL, 0)) {
			http_post_events(conn, session);
		}
	} else if (http_wants_sse(conn) && (is_there(session) || placement_channel(conn))) {
		http_open_sse(conn);
	} else if (!is_there(session)) {
		http_refuse_no_session(conn);
	} else {
		http_get_events(conn, session);
	}
}

static void route_snapshot(struct conn *conn, struct session *session)
{
	if (http_may(conn, RIGHT_APPEND) && !conn_waits_for_names(conn, session, NULL, 0)) {
		http_post_snapshot(conn, session);
	}
}

static void route_session(struct conn *conn, struct session *session)
{
	bool is_patch = conn->http->method == HTTP_PATCH;
	bool is_get = !is_patch && conn->http->method != HTTP_DELETE;
	if (is_get ? !is_there(session) : !session) {
		http_refuse_no_session(conn);
	} else if (is_get) {
		get_session(conn, session);
	} else if (is_patch) {
		if (http_may(conn, RIGHT_LABEL)) {
			patch_session(conn, session);
		}
	} else if (http_may(conn, RIGHT_DELETE)) {
		delete_session(conn, session);
	}
}

static void get_health(struct conn *conn)
{
	static const char body[] = "{\"status\":\"ok\",\"version\":\"" HOLDFAST_VERSION "\"}";
	http_respond(conn, 200, body, sizeof(body) - 1);
}

/** Appends a member unless it is 0; with `name` NULL, ends the object. */
static void append_count(char *body, size_t size, const char *name, size_t count)
{
	size_t len = strlen(body);
	if (!name) {
		snprintf(body + len, size - len, "}");
	} else if (count) {
		snprintf(body + len, size - len, ",\"%s\":%zu", name, count);
	}
}

size_t server_count_damaged(const struct server *server)
{
	size_t count = 0;
	for (const struct door *door = server->doors; door->routes; door++) {
		count += door->count_damaged ? door->count_damaged(door->state) : 0;
	}
	return count;
}

/** For a load balancer: whether it should send clients here. */
static void get_readiness(struct conn *conn)
{
	char body[120] = "{\"status\":\"ready\"";
	const struct session_table *sessions = conn->server->sessions;
	append_count(body, sizeof(body), "damaged_sessions", session_table_count_damaged(sessions));
	append_count(body, sizeof(body), "damaged_streams", server_count_damaged(conn->server));
	append_count(body, sizeof(body), NULL, 1);
	if (!server_may(conn->server->life, MAY_SERVE)) {
		http_refuse(conn, ERROR_not_ready, "the server is shutting down");
	} else if (session_table_is_failing(sessions)) {
		http_refuse(conn, ERROR_not_ready,
			session_table_storage(sessions) == STORAGE_DATABASE
				? "the database cannot be written"
				: "the journal cannot be written");
	} else if (!session_table_has_disk(sessions)) {
		http_refuse(conn, ERROR_not_ready, "the data directory has reached its size limit");
	} else {
		http_respond(conn, 200, body, strlen(body));
	}
}

static void search_session(struct conn *conn, struct session *session)
{
	if (http_has_session(conn, session)) {
		http_search(conn, session);
	}
}

static void search_all(struct conn *conn)
{
	http_search(conn, NULL);
}

static void route_sessions(struct conn *conn)
{
	if (conn->http->method == HTTP_POST) {
		http_create_session(conn);
	} else {
		http_in_turn(conn, get_sessions);
	}
}

/* --- table of routes --- */

#define OF_SESSION (ROUTE_SESSION | ROUTE_CHECKED)
#define OF_PROBE   (ROUTE_OPEN | ROUTE_ALWAYS | ROUTE_METRICS) /* a load balancer asks */

const struct route session_routes[] = {
	{"/healthz", "GET", .flags = OF_PROBE, .serve = get_health},
	{"/readyz", "GET", .flags = OF_PROBE, .serve = get_readiness},
	{"/api/sessions/{id}/events", "GET, POST", .body = BODY_EVENTS,
		.flags = OF_SESSION | ROUTE_APPENDS | ROUTE_EVENT_SOURCE,
		.serve_session = route_events},
	{"/api/sessions/{id}/snapshot", "POST", .body = BODY_JSON,
		.flags = OF_SESSION | ROUTE_APPENDS, .serve_session = route_snapshot},
	{"/api/sessions/{id}", "GET, PATCH, DELETE", .body = BODY_JSON, .flags = OF_SESSION,
		.serve_session = route_session},
	{"/api/sessions/{id}/search", "GET", .flags = OF_SESSION, .serve_session = search_session},
	{"/api/search", "GET", .serve = search_all},
	{"/api/sessions", "GET, POST", .body = BODY_JSON, .serve = route_sessions},
	{0},
};
