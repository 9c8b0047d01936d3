/* The REST side (CONTRACT.md, section 6): sessions, and the way to what else there is. */
#include "net_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
		http_refuse_storage(conn);
		return;
	}
	struct buffer object = {0};
	append_object(&object, session);
	http_respond(conn, 201, object.data, object.len);
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
	append_object(&body, session);
	http_respond(conn, 200, body.data, body.len);
	buffer_finish(&body);
}

static void answer_deleted(struct conn_wait *wait, int status)
{
	if (status < 0) {
		http_refuse_storage(wait->conn);
	} else {
		http_respond_with(wait->conn, 204, "", NULL, 0);
	}
}

static void delete_session(struct conn *conn, struct session *session)
{
	if (session_delete(session) < 0) {
		http_refuse_storage(conn);
	} else {
		conn_wait_create(conn, session, answer_deleted);
	}
}

/* --- routing --- */

static void refuse_no_session(struct conn *conn)
{
	http_refuse(conn, "not_found",
		"there is no session with this id; POST /api/sessions makes one, and so does "
		"?create=1 with the first events");
}

static void route_events(struct conn *conn, struct session *session)
{
	bool is_get = conn->method == LWSHUMETH_GET || conn->method == LWSHUMETH_HEAD;
	if (conn->method == LWSHUMETH_POST) {
		http_post_events(conn, session);
	} else if (!is_get) {
		http_refuse_method(conn, "GET, POST");
	} else if (!session) {
		refuse_no_session(conn);
	} else {
		http_get_events(conn, session);
	}
}

static void route_session(struct conn *conn, struct session *session)
{
	bool is_get = conn->method == LWSHUMETH_GET || conn->method == LWSHUMETH_HEAD;
	if (!is_get && conn->method != LWSHUMETH_DELETE) {
		http_refuse_method(conn, "GET, DELETE");
	} else if (!session) {
		refuse_no_session(conn);
	} else if (is_get) {
		get_session(conn, session);
	} else {
		delete_session(conn, session);
	}
}

static void route_queue(struct conn *conn, struct session *session)
{
	if (conn->method != LWSHUMETH_GET && conn->method != LWSHUMETH_HEAD) {
		http_refuse_method(conn, "GET");
	} else if (!session) {
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
	struct session *session = session_table_get(conn->server->sessions, id, len);
	session = session && !session_is_deleted(session) ? session : NULL;
	if (strcmp(rest, "/events") == 0) {
		route_events(conn, session);
	} else if (strcmp(rest, "/snapshot") == 0) {
		conn->method == LWSHUMETH_POST ? http_post_snapshot(conn, session)
					       : http_refuse_method(conn, "POST");
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

void http_route(struct conn *conn)
{
	static const char sessions[] = "/api/sessions";
	bool is_get = conn->method == LWSHUMETH_GET || conn->method == LWSHUMETH_HEAD;
	size_t prefix = sizeof(sessions) - 1;
	const char *path = conn->path;
	if (conn->server->is_draining) {
		http_refuse(conn, "shutting_down",
			"the server is shutting down; try again in a moment");
	} else if (strcmp(path, "/healthz") == 0) {
		is_get ? get_health(conn) : http_refuse_method(conn, "GET");
	} else if (strcmp(path, sessions) == 0 && is_get) {
		get_sessions(conn);
	} else if (strcmp(path, sessions) == 0) {
		conn->method == LWSHUMETH_POST ? post_session(conn)
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
