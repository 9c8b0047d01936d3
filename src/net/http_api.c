/* The REST side (proto/protocol.md#rest): sessions, and the way to what else there is. */
#include "http_internal.h"

#include "holdfast/session_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- sessions --- */

static void append_object(
	const struct conn *conn, struct buffer *out, const struct session *session)
{
	struct session_object object;
	session_get_object(session, &object);
	frames_append_session(out, &object, conn_hides(conn));
}

/** `limit` and `cursor` of the query; NULL, or what is wrong with them. */
static const char *read_list_query(struct conn *conn, size_t *ret_limit, struct session_cursor *ret)
{
	char buf[QUERY_MAX];
	const char *bad = query_check(conn, (const char *const[]){"limit", "cursor", NULL});
	if (bad) {
		return bad;
	}
	*ret_limit = conn->server->limits->list_max;
	const char *limit = query_get(conn, "limit", buf, sizeof(buf));
	if (limit) {
		size_t len = strlen(limit);
		bool is_number = len > 0 && len < 10 && strspn(limit, "0123456789") == len;
		*ret_limit = is_number ? strtoul(limit, NULL, 10) : 0;
		if (*ret_limit < 1 || *ret_limit > conn->server->limits->list_max) {
			return "limit must be a whole number from 1 to list_max (see holdfast limits)";
		}
	}
	*ret = (struct session_cursor){0};
	const char *cursor = query_get(conn, "cursor", buf, sizeof(buf));
	if (cursor && !session_cursor_read(cursor, ret)) {
		return "cursor must be the \"next\" of an earlier page";
	}
	return NULL;
}

/**
 * Appends up to `limit` sessions that the token sees, and moves the cursor behind them. Returns
 * whether there are more.
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

static void answer_created(struct conn_wait *wait, int status)
{
	struct conn *conn = wait->conn;
	struct session *session =
		session_table_get(conn->server->sessions, wait->text, strlen(wait->text));
	if (status < 0 || !session) {
		http_refuse_failed(conn, status);
		return;
	}
	struct buffer object = {0};
	append_object(conn, &object, session);
	http_respond(conn, 201, object.data, object.len);
	buffer_finish(&object);
}

static void refuse_exists(struct conn *conn, const char *id)
{
	struct refusal refusal = {0};
	struct session *session =
		id ? session_table_get(conn->server->sessions, id, strlen(id)) : NULL;
	/* One that is being deleted is there now, and would not be later. */
	bool stays = session && !session_is_deleted(session);
	refuse(&refusal, "session_exists", "there is a session with this id already");
	http_refuse_later(conn, stays ? session : NULL, &refusal);
}

/** An id that the token is for: of its first pattern with a *. */
static const char *make_id(const struct grant *grant, char id[129])
{
	char half[LOGIN_HALF_SIZE];
	for (char **at = grant->patterns; *at; at++) {
		size_t len = strlen(*at);
		if ((*at)[len - 1] == '*' && len <= 100 && access_random(half) == 0) {
			snprintf(id, 129, "%.*s%.16s", (int)len - 1, *at, half);
			return id;
		}
	}
	return "-"; /* no token is for this one */
}

static void post_session(struct conn *conn)
{
	struct refusal refusal;
	json_t *json;
	const char *id;
	const char *title;
	if (session_request_parse(conn->rx.data, conn->rx.len, conn->server->limits, &json, &id,
		    &title, &refusal) < 0) {
		http_refuse_event(conn, &refusal);
		return;
	}
	char made[129];
	struct session *session;
	if (!http_may(conn, RIGHT_CREATE)) {
		json_decref(json);
		return;
	}
	if (!id && !conn_sees(conn, "")) {
		id = make_id(conn->grant, made);
	}
	if (id && !conn_sees(conn, id)) {
		refuse(&refusal, "forbidden", "the token is not for a session of this id");
		http_refuse_event(conn, &refusal);
		json_decref(json);
		return;
	}
	enum limit limit = session_room_for_another(conn->server->sessions, conn->grant->sub);
	if (limit != LIMIT_NONE) {
		http_refuse_limit(
			conn, limit == LIMIT_max_disk ? 507 : 429, limit, TOO_MANY_SESSIONS);
		json_decref(json);
		return;
	}
	int r = session_create(conn->server->sessions, id, title, conn->grant->sub, &session);
	if (r == -EEXIST) {
		refuse_exists(conn, id);
	} else if (r < 0) {
		http_refuse_storage(conn);
	} else {
		feed_announce(conn->server, session);
		struct conn_wait *wait = conn_wait_create(conn, session, answer_created);
		wait->text = xstrdup(session_id(session));
	}
	json_decref(json);
}

static void get_session(struct conn *conn, struct session *session)
{
	struct buffer body = {0};
	append_object(conn, &body, session);
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

/* --- routing --- */

static void refuse_no_session(struct conn *conn)
{
	http_refuse(conn, "not_found", NO_SESSION);
}

/** What is not on disk yet is not told of. */
static bool is_there(const struct session *session)
{
	return session && session_is_there(session);
}

static void route_events(struct conn *conn, struct session *session)
{
	bool is_get = conn->http->method == HTTP_GET || conn->http->method == HTTP_HEAD;
	if (conn->http->method == HTTP_POST) {
		if (http_may(conn, RIGHT_APPEND)) {
			http_post_events(conn, session);
		}
	} else if (!is_get) {
		http_refuse_method(conn, "GET, POST");
	} else if (!is_there(session)) {
		refuse_no_session(conn);
	} else {
		http_get_events(conn, session);
	}
}

static void route_session(struct conn *conn, struct session *session)
{
	bool is_get = conn->http->method == HTTP_GET || conn->http->method == HTTP_HEAD;
	if (!is_get && conn->http->method != HTTP_DELETE) {
		http_refuse_method(conn, "GET, DELETE");
	} else if (is_get ? !is_there(session) : !session) {
		refuse_no_session(conn);
	} else if (is_get) {
		get_session(conn, session);
	} else if (http_may(conn, RIGHT_DELETE)) {
		delete_session(conn, session);
	}
}

static void route_queue(struct conn *conn, struct session *session)
{
	if (conn->http->method != HTTP_GET && conn->http->method != HTTP_HEAD) {
		http_refuse_method(conn, "GET");
	} else if (!is_there(session)) {
		refuse_no_session(conn);
	} else {
		http_get_queue(conn, session);
	}
}

static void route_id(struct conn *conn, const char *id, size_t len, const char *rest)
{
	if (!session_id_is_valid(id, len)) {
		http_refuse(conn, "bad_session_id",
			"a session id matches [A-Za-z0-9._-]{1,128} and does not begin with a dot");
		return;
	}
	memcpy(conn->session_id, id, len);
	conn->session_id[len] = '\0';
	if (!conn_sees(conn, conn->session_id)) {
		refuse_no_session(conn);
		return;
	}
	if (session_table_is_unreadable(conn->server->sessions, id, len)) {
		http_refuse(conn, "storage_failed", SESSION_UNREADABLE);
		return;
	}
	struct session *session = session_table_get(conn->server->sessions, id, len);
	bool needs_names = conn->http->method == HTTP_POST || strcmp(rest, "/queue") == 0;
	if (needs_names && conn_waits_for_names(conn, session, NULL, 0)) {
		return;
	}
	if (strcmp(rest, "/events") == 0) {
		route_events(conn, session);
	} else if (strcmp(rest, "/snapshot") == 0) {
		if (conn->http->method != HTTP_POST) {
			http_refuse_method(conn, "POST");
		} else if (http_may(conn, RIGHT_APPEND)) {
			http_post_snapshot(conn, session);
		}
	} else if (strcmp(rest, "/queue") == 0) {
		route_queue(conn, session);
	} else if (!*rest) {
		route_session(conn, session);
	} else {
		http_refuse(conn, "not_found", "there is nothing at this address");
	}
}

static void get_health(struct conn *conn)
{
	static const char body[] = "{\"status\":\"ok\",\"version\":\"" HOLDFAST_VERSION "\"}";
	http_respond(conn, 200, body, sizeof(body) - 1);
}

bool http_wants_body(struct conn *conn)
{
	static const char prefix[] = "/api/sessions/";
	char create[QUERY_VALUE_MAX];
	if (conn->http->method != HTTP_POST) {
		return false;
	}
	if (strcmp(conn->http->path, "/api/sessions") == 0 ||
		strcmp(conn->http->path, "/api/login") == 0 ||
		strcmp(conn->http->path, "/api/tokens/revoke") == 0) {
		return true;
	}
	if (strncmp(conn->http->path, prefix, sizeof(prefix) - 1) != 0) {
		return false;
	}
	const char *id = conn->http->path + sizeof(prefix) - 1;
	size_t len = strcspn(id, "/");
	if (strcmp(id + len, "/events") != 0 && strcmp(id + len, "/snapshot") != 0) {
		return false;
	}
	return grant_sees(conn->grant, id, len) &&
	       (query_get(conn, "create", create, sizeof(create)) ||
		       session_table_get(conn->server->sessions, id, len));
}

void http_route(struct conn *conn)
{
	static const char sessions[] = "/api/sessions";
	bool is_get = conn->http->method == HTTP_GET || conn->http->method == HTTP_HEAD;
	size_t prefix = sizeof(sessions) - 1;
	const char *path = conn->http->path;
	if (conn->server->is_draining) {
		http_refuse(conn, "shutting_down",
			"the server is shutting down; try again in a moment");
	} else if (strcmp(path, "/healthz") == 0) {
		is_get ? get_health(conn) : http_refuse_method(conn, "GET");
	} else if (strcmp(path, "/metrics") == 0) {
		http_get_metrics(conn);
	} else if (strcmp(path, "/api/login") == 0) {
		http_route_login(conn);
	} else if (strcmp(path, "/api/tokens/revoke") == 0) {
		http_revoke(conn);
	} else if (strcmp(path, sessions) == 0 && is_get) {
		http_in_turn(conn, get_sessions);
	} else if (strcmp(path, sessions) == 0) {
		conn->http->method == HTTP_POST ? post_session(conn)
						: http_refuse_method(conn, "GET, POST");
	} else if (strncmp(path, sessions, prefix) == 0 && path[prefix] == '/' &&
		   path[prefix + 1]) {
		const char *id = path + prefix + 1;
		size_t len = strcspn(id, "/");
		route_id(conn, id, len, id + len);
	} else {
		http_refuse(conn, "not_found", "there is nothing at this address");
	}
}
