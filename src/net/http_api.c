/* The REST API (proto/protocol.md#rest): the table of routes, and the requests about sessions. */
#include "node_internal.h"
#include "ws_internal.h"

#include "holdfast/blobs.h"
#include "holdfast/raw.h"
#include "holdfast/raw_wire.h"
#include "holdfast/session_list.h"

#include <errno.h>
#include <stdlib.h>
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
		http_refuse(conn, "bad_request", bad);
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
		refuse(&refusal, "not_found", SESSION_DELETED);
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

static void route_events(struct conn *conn, struct session *session)
{
	if (conn->http->method == HTTP_POST) {
		if (http_may(conn, RIGHT_APPEND) && !conn_waits_for_names(conn, session, NULL, 0)) {
			http_post_events(conn, session);
		}
	} else if (http_wants_sse(conn) && (is_there(session) || node_mirror_channel(conn))) {
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

static void route_queue(struct conn *conn, struct session *session)
{
	if (conn_waits_for_names(conn, session, NULL, 0)) {
		return;
	}
	if (!is_there(session)) {
		http_refuse_no_session(conn);
	} else {
		http_get_queue(conn, session);
	}
}

static void route_search(struct conn *conn, struct session *session)
{
	if (!is_there(session)) {
		http_refuse_no_session(conn);
	} else {
		http_search(conn, session);
	}
}

static void route_files(struct conn *conn, struct session *session)
{
	if (!is_there(session)) {
		http_refuse_no_session(conn);
	} else {
		http_complete_files(conn, session);
	}
}

static void route_blobs(struct conn *conn, struct session *session)
{
	if (!http_may(conn, RIGHT_UPLOAD)) {
		return;
	}
	if (!is_there(session)) {
		http_refuse_no_session(conn);
	} else {
		http_post_blob(conn, session);
	}
}

static void route_blob(struct conn *conn, struct session *session)
{
	const char *blob = strrchr(conn->http->path, '/') + 1;
	if (!blob_name_is_valid(blob)) {
		http_refuse(conn, "not_found", NOTHING_HERE);
	} else if (!is_there(session)) {
		http_refuse_no_session(conn);
	} else {
		http_get_blob(conn, session, blob);
	}
}

/**
 * Whether the id in a path is valid, the token can see the session, and the server can read it;
 * refuses the request if not. A damaged session can still be deleted.
 */
static bool may_see(struct conn *conn, const char *id, size_t len, const char *rest)
{
	struct refusal refusal = {0};
	if (!session_id_is_valid(id, len)) {
		http_refuse(conn, "bad_session_id",
			"a session id matches [A-Za-z0-9._-]{1,128} and does not begin with a dot");
		return false;
	}
	memcpy(conn->session_id, id, len);
	conn->session_id[len] = '\0';
	if (!conn_sees(conn, conn->session_id)) {
		http_refuse_no_session(conn);
		return false;
	}
	if (conn_session_is_absent(conn, conn->session_id, len, &refusal)) {
		if (*rest || conn->http->method != HTTP_DELETE || !http_delete_damaged(conn)) {
			http_refuse(conn, refusal.code, refusal.message);
		}
		return false;
	}
	return true;
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

/** For a load balancer: whether it should send clients here. */
static void get_readiness(struct conn *conn)
{
	char body[120] = "{\"status\":\"ready\"";
	const struct raw_store *raw = conn->server->raw;
	const struct session_table *sessions = conn->server->sessions;
	append_count(body, sizeof(body), "damaged_sessions", session_table_count_damaged(sessions));
	append_count(body, sizeof(body), "damaged_streams", raw ? raw_count_damaged(raw) : 0);
	append_count(body, sizeof(body), NULL, 1);
	if (!server_may(conn->server->life, MAY_SERVE)) {
		http_refuse(conn, "not_ready", "the server is shutting down");
	} else if (session_table_is_failing(sessions)) {
		http_refuse(conn, "not_ready",
			session_table_storage(sessions) == STORAGE_DATABASE
				? "the database cannot be written"
				: "the journal cannot be written");
	} else if (!session_table_has_disk(sessions)) {
		http_refuse(conn, "not_ready", "the data directory has reached its size limit");
	} else {
		http_respond(conn, 200, body, strlen(body));
	}
}

/** Finds the id in a path below /api/sessions/, its length, and what follows it. NULL if none. */
static const char *find_id(const struct conn *conn, size_t *ret_len, const char **ret_rest)
{
	static const char prefix[] = "/api/sessions/";
	if (strncmp(conn->http->path, prefix, sizeof(prefix) - 1) != 0) {
		return NULL;
	}
	const char *id = conn->http->path + sizeof(prefix) - 1;
	*ret_len = strcspn(id, "/");
	*ret_rest = id + *ret_len;
	return id;
}

/** The id in the path of a request that appends to a session; NULL if it is another request. */
static const char *find_fed(const struct conn *conn, size_t *ret_len)
{
	const char *rest;
	const char *id = conn->http->method == HTTP_POST ? find_id(conn, ret_len, &rest) : NULL;
	return id && (strcmp(rest, "/events") == 0 || strcmp(rest, "/snapshot") == 0) ? id : NULL;
}

bool http_is_upload(const struct conn *conn)
{
	size_t len;
	const char *rest;
	return conn->http->method == HTTP_POST && find_id(conn, &len, &rest) &&
	       strcmp(rest, "/blobs") == 0;
}

static bool writes_raw(const struct conn *conn)
{
	return (conn->http->method == HTTP_PUT || conn->http->method == HTTP_POST) &&
	       raw_is_path(conn->http->path) && conn_may(conn, RIGHT_APPEND);
}

bool http_is_append(const struct conn *conn)
{
	size_t len;
	return conn->grant &&
	       (writes_raw(conn) || (conn_may(conn, RIGHT_APPEND) && find_fed(conn, &len)));
}

bool http_wants_body(struct conn *conn)
{
	size_t len;
	const char *rest = NULL;
	char create[QUERY_VALUE_MAX];
	if (http_leads_nowhere(conn)) {
		return false; /* and it is not known who asks */
	}
	if (conn->http->method == HTTP_PATCH) {
		const char *id = find_id(conn, &len, &rest);
		return id && !*rest && grant_sees(conn->grant, id, len) &&
		       session_table_get(conn->server->sessions, id, len);
	}
	if (raw_is_path(conn->http->path)) {
		return writes_raw(conn);
	}
	if (conn->http->method != HTTP_POST) {
		return false;
	}
	if (strncmp(conn->http->path, "/api/ai/", 8) == 0) {
		return grant_sees(
			conn->grant, conn->http->path + 8, strcspn(conn->http->path + 8, "/"));
	}
	if (strcmp(conn->http->path, "/api/sessions") == 0 ||
		strcmp(conn->http->path, "/api/login") == 0 ||
		strcmp(conn->http->path, "/api/push") == 0 ||
		strcmp(conn->http->path, "/api/tokens/revoke") == 0) {
		return true;
	}
	const char *id = find_fed(conn, &len);
	return id && grant_sees(conn->grant, id, len) &&
	       (query_get(conn, "create", create, sizeof(create)) ||
		       session_table_get(conn->server->sessions, id, len));
}

static void route_sessions(struct conn *conn)
{
	if (conn->http->method == HTTP_POST) {
		http_create_session(conn);
	} else {
		http_in_turn(conn, get_sessions);
	}
}

static void search_all(struct conn *conn)
{
	http_search(conn, NULL);
}

static void route_feed(struct conn *conn)
{
	if (http_wants_sse(conn)) {
		http_open_sse_feed(conn);
	} else {
		http_refuse_method(conn, "GET");
	}
}

/** Refuses a request for a path that serves only WebSockets. */
static void refuse_socket(struct conn *conn)
{
	http_refuse_method(conn, "GET");
}

/* --- table of routes --- */

/**
 * A path pattern (see http_path_fits()) and its methods; GET includes HEAD. The path of a session
 * has `serve_session`, which gets NULL if the session does not exist. The rights of each row are in
 * proto/doors.json; e2e test 80 tries them with all roles and wrong tokens, and fails if a row is
 * missing there.
 */
static const struct route {
	const char *path;
	const char *methods;
	void (*serve)(struct conn *conn);
	void (*serve_session)(struct conn *conn, struct session *session);
} routes[] = {
	{"/healthz", "GET", get_health, NULL},
	{"/readyz", "GET", get_readiness, NULL},
	{"/api/sessions/{id}/events", "GET, POST", NULL, route_events},
	{"/api/sessions/{id}/snapshot", "POST", NULL, route_snapshot},
	{"/api/sessions/{id}", "GET, PATCH, DELETE", NULL, route_session},
	{"/api/sessions/{id}/queue", "GET", NULL, route_queue},
	{"/api/sessions/{id}/search", "GET", NULL, route_search},
	{"/api/sessions/{id}/files", "GET", NULL, route_files},
	{"/api/sessions/{id}/blobs", "POST", NULL, route_blobs},
	{"/api/sessions/{id}/blobs/{blob}", "GET", NULL, route_blob},
	{"/api/sessions", "GET, POST", route_sessions, NULL},
	{"/api/events", "GET", route_feed, NULL},
	{"/api/search", "GET", search_all, NULL},
	{"/api/agents", "GET", http_get_agents, NULL},
	{"/api/directories", "GET", http_get_directories, NULL},
	{"/api/files", "GET", http_complete_new, NULL},
	{"/api/login", "GET, POST, DELETE", http_route_login, NULL},
	{"/api/tokens/revoke", "POST", http_revoke, NULL},
	{"/api/push", "GET, POST, DELETE", http_route_push, NULL},
	{"/api/ai/{id}", "POST", http_route_ai, NULL},
	{"/api/ai/{id}/stream", "GET", http_route_ai, NULL},
	{"/api/ai/{id}/{chat}/stream", "GET", http_route_ai, NULL},
	{"/acp", "GET", refuse_socket, NULL},
	{"/ds/sessions/{id}", "GET", http_route_ds, NULL},
	{"/v1/stream/{name...}", "GET, HEAD, PUT, POST, DELETE", http_route_raw, NULL},
	{"/metrics", "GET", http_get_metrics, NULL},
};

static const struct route *find_route(const char *path)
{
	for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
		if (http_path_fits(path, routes[i].path)) {
			return &routes[i];
		}
	}
	return NULL;
}

static bool takes_method(const struct route *route, enum http_method method)
{
	const char *name = http_method_name(method == HTTP_HEAD ? HTTP_GET : method);
	return *name && strstr(route->methods, name);
}

/** Whether a load balancer asks for the server's health; it does so until the server is gone. */
static bool is_probe(const struct route *route)
{
	return route && (route->serve == get_health || route->serve == get_readiness);
}

void http_route(struct conn *conn)
{
	const char *path = conn->http->path;
	const struct route *route = find_route(path);
	const char *rest;
	size_t len = 0;
	const char *id = find_id(conn, &len, &rest);
	if (!server_may(conn->server->life, MAY_SERVE) && !is_probe(route)) {
		if (http_wants_sse(conn) && path[1] != 'd') {
			http_drain_sse(conn);
		} else {
			http_refuse(conn, "shutting_down", SHUTTING_DOWN);
		}
		return;
	}
	if (id && *id && !may_see(conn, id, len, rest)) {
		return;
	}
	if (!route) {
		http_refuse(conn, "not_found", NOTHING_HERE);
	} else if (!takes_method(route, conn->http->method)) {
		http_refuse_method(conn, route->methods);
	} else if (route->serve) {
		route->serve(conn);
	} else {
		route->serve_session(conn, session_table_get(conn->server->sessions, id, len));
	}
}
