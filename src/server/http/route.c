/* Looks up the route of a request (door.h), and answers from it what the path says. */
#include "server/http_internal.h"

#include <string.h>

/* --- look-up --- */

/** Whether a pattern goes on with "/{name...}". */
static bool is_rest(const char *pattern)
{
	size_t len = strcspn(pattern, "}");
	return pattern[0] == '/' && pattern[1] == '{' && pattern[len] &&
	       strncmp(pattern + len - 3, "...", 3) == 0;
}

static struct path_part part_at(const char *path)
{
	return (struct path_part){path, strcspn(path, "/")};
}

static bool path_fits(const char *path, const char *pattern, struct path_part parts[ROUTE_PARTS])
{
	size_t count = 0;
	for (; *pattern; pattern++) {
		if (is_rest(pattern)) {
			parts[count] = part_at(path + (*path == '/'));
			return !*path || *path == '/';
		}
		if (*pattern == '*') {
			return true;
		}
		if (*pattern == '{') {
			struct path_part part = part_at(path);
			if (!part.len) {
				return false;
			}
			if (count < ROUTE_PARTS) {
				parts[count++] = part;
			}
			path += part.len;
			pattern += strcspn(pattern, "}");
		} else if (*path++ != *pattern) {
			return false;
		}
	}
	return !*path;
}

static bool fits(struct conn *conn, const struct route *route)
{
	struct http_exchange *http = conn->http;
	return ((route->flags & ROUTE_NODES) == 0 || conn->kind.is_node) &&
	       path_fits(http->path, route->path, http->parts) &&
	       (!route->protocol ||
		       http_head_has_word(http->head, "sec-websocket-protocol", route->protocol));
}

/** Whether the path has an escaped slash, which is not a separator and occurs in no name. */
static bool has_escaped_slash(const struct http_head *head)
{
	const char *text = head->text + head->path.at;
	for (uint32_t i = 0; i + 2 < head->path.len; i++) {
		if (text[i] == '%' && text[i + 1] == '2' && (text[i + 2] | 0x20) == 'f') {
			return true;
		}
	}
	return false;
}

/** Whether a part of the path is "." or "..". */
static bool has_dots(const char *path)
{
	for (const char *at = path; at; at = strchr(at, '/')) {
		at++;
		size_t len = strcspn(at, "/");
		if ((len == 1 || len == 2) && strncmp(at, "..", len) == 0) {
			return true;
		}
	}
	return false;
}

void http_reset_route(struct http_exchange *http)
{
	static const struct route none = {"", "", .flags = ROUTE_OPEN};
	http->route = &none;
	http->door = NULL;
	http->leads_nowhere = false;
}

void http_find_route(struct conn *conn)
{
	struct http_exchange *http = conn->http;
	http->leads_nowhere = has_dots(http->path) || has_escaped_slash(http->head);
	for (const struct door *door = conn->server->doors; door->routes; door++) {
		for (const struct route *route = door->routes; route->path; route++) {
			if (fits(conn, route)) {
				http->door = door;
				http->route = route;
				return;
			}
		}
	}
}

/* --- what follows from it --- */

static bool has_flag(const struct conn *conn, enum route_flag flag)
{
	return conn->http->route->flags & (unsigned)flag;
}

static bool takes_method(const struct route *route, enum http_method method)
{
	const char *name = http_method_name(method == HTTP_HEAD ? HTTP_GET : method);
	return *name && strstr(route->methods, name);
}

bool http_needs_token(const struct conn *conn)
{
	return !conn->kind.is_metrics && !has_flag(conn, ROUTE_OPEN) && !conn->http->leads_nowhere;
}

bool http_is_served_here(const struct conn *conn)
{
	return !conn->kind.is_metrics || has_flag(conn, ROUTE_METRICS);
}

const char *http_find_session(const struct conn *conn, size_t *ret_len)
{
	const struct path_part *id = &conn->http->parts[0];
	if (!has_flag(conn, ROUTE_SESSION) || conn->http->leads_nowhere ||
		!session_id_is_valid(id->at, id->len)) {
		return NULL;
	}
	*ret_len = id->len;
	return id->at;
}

void http_copy_session_id(struct conn *conn)
{
	const struct path_part *id = &conn->http->parts[0];
	memcpy(conn->session_id, id->at, id->len);
	conn->session_id[id->len] = '\0';
}

const struct conn_ops *http_find_socket(const struct conn *conn)
{
	const struct path_part *id = &conn->http->parts[0];
	bool is_one = !has_flag(conn, ROUTE_SESSION) || session_id_is_valid(id->at, id->len);
	return is_one ? conn->http->route->socket : NULL;
}

bool http_is_event_source(const struct conn *conn)
{
	return has_flag(conn, ROUTE_EVENT_SOURCE) && http_wants_sse(conn);
}

bool http_is_stream(const struct conn *conn)
{
	const struct http_head *head = conn->http->head;
	if (conn->http->method != HTTP_POST || conn->http->framing.body == HTTP_NO_BODY ||
		conn->http->route->body != BODY_EVENTS) {
		return false;
	}
	return http_head_is_type(head, "content-type", "application/x-ndjson") ||
	       http_head_is_type(head, "content-type", "application/ndjson") ||
	       http_head_is_type(head, "content-type", "application/jsonl");
}

bool http_is_upload(const struct conn *conn)
{
	return conn->http->method == HTTP_POST && conn->http->route->body == BODY_UPLOAD;
}

/** Whether the request is one of those of its route that have a body. */
static bool may_have_body(const struct conn *conn)
{
	enum http_method method = conn->http->method;
	return (method == HTTP_POST || method == HTTP_PUT || method == HTTP_PATCH) &&
	       conn->http->route->body != BODY_NONE && takes_method(conn->http->route, method);
}

bool http_is_append(const struct conn *conn)
{
	return conn->grant && has_flag(conn, ROUTE_APPENDS) && may_have_body(conn) &&
	       conn_may(conn, RIGHT_APPEND);
}

bool http_wants_body(struct conn *conn)
{
	const struct path_part *id = &conn->http->parts[0];
	char create[QUERY_VALUE_MAX];
	if (conn->http->leads_nowhere || !may_have_body(conn)) {
		return false; /* and if it leads nowhere, it is not known who asks */
	}
	if (conn->http->route->body == BODY_BYTES) {
		return conn_may(conn, RIGHT_APPEND);
	}
	if (!has_flag(conn, ROUTE_SESSION)) {
		return true;
	}
	return grant_sees(conn->grant, id->at, id->len) &&
	       (!has_flag(conn, ROUTE_CHECKED) ||
		       session_table_get(conn->server->sessions, id->at, id->len) ||
		       (has_flag(conn, ROUTE_APPENDS) &&
			       query_get(conn, "create", create, sizeof(create))));
}

/* --- handling --- */

/**
 * Whether the id in the path is valid, the token can see the session, and the server can read it;
 * refuses the request if not. A damaged session can still be deleted.
 */
static bool check_session(struct conn *conn)
{
	const struct path_part *id = &conn->http->parts[0];
	bool is_delete = !id->at[id->len] && conn->http->method == HTTP_DELETE;
	struct refusal refusal = {0};
	if (!session_id_is_valid(id->at, id->len)) {
		http_refuse(conn, ERROR_bad_session_id,
			"a session id matches [A-Za-z0-9._-]{1,128} and does not begin with a dot");
		return false;
	}
	http_copy_session_id(conn);
	if (!conn_sees(conn, conn->session_id)) {
		http_refuse_no_session(conn);
		return false;
	}
	if (conn_session_is_absent(conn, conn->session_id, id->len, &refusal)) {
		if (!is_delete || !http_delete_damaged(conn)) {
			http_refuse(conn, refusal.code, refusal.message);
		}
		return false;
	}
	return true;
}

/** The server is shutting down, and does not serve this any more. */
static void refuse_closing(struct conn *conn)
{
	if (http_wants_sse(conn) && !has_flag(conn, ROUTE_OTHER_EVENTS)) {
		http_drain_sse(conn);
	} else {
		http_refuse(conn, ERROR_shutting_down, SHUTTING_DOWN);
	}
}

static void refuse_without_upgrade(struct conn *conn)
{
	conn->http->must_close = true;
	http_refuse_with(conn, 426, "upgrade: websocket\r\nsec-websocket-version: 13\r\n",
		ERROR_bad_request,
		"this is the address of a WebSocket; the request must ask for the upgrade");
}

void http_route(struct conn *conn)
{
	const struct route *route = conn->http->route;
	const struct path_part *id = &conn->http->parts[0];
	if (conn->http->leads_nowhere) {
		http_refuse(conn, ERROR_not_found, NOTHING_HERE);
	} else if (http_find_socket(conn) && conn->http->method == HTTP_GET &&
		   !http_wants_sse(conn)) {
		refuse_without_upgrade(conn);
	} else if (!server_may(conn->server->life, MAY_SERVE) && !has_flag(conn, ROUTE_ALWAYS)) {
		refuse_closing(conn);
	} else if (has_flag(conn, ROUTE_CHECKED) && *id->at && !check_session(conn)) {
		/* which has refused */
	} else if (!*route->methods) {
		http_refuse(conn, ERROR_not_found, NOTHING_HERE);
	} else if (!takes_method(route, conn->http->method) ||
		   (!route->serve && !route->serve_session)) {
		http_refuse_method(conn, route->methods);
	} else if (route->serve) {
		route->serve(conn);
	} else {
		route->serve_session(
			conn, session_table_get(conn->server->sessions, id->at, id->len));
	}
}
