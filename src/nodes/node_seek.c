/* Finds out where the session of a request is: here, at another node, or nowhere. */
#include "node_internal.h"

#include <stdlib.h>
#include <string.h>

static void seek(struct conn *conn, void (*done)(struct place_wait *wait, int status,
					    enum session_place place, const char *address))
{
	conn_set_deadline(conn, DEADLINE_NONE, 0);
	conn->place_wait.done = done;
	conn_park(conn, NULL, 0);
	session_table_seek(conn->server->sessions, conn->session_id, &conn->place_wait);
}

static struct conn *conn_of(struct place_wait *wait)
{
	return list_entry(wait, struct conn, place_wait);
}

/* --- HTTP --- */

#define CANNOT_ASK "the database does not say where the session is; try again in a moment"

/** Whether the request can be served from a mirror (node_mirror.c). */
static bool watches(const struct conn *conn)
{
	const struct http_head *head = conn->http->head;
	if (conn->http->route->flags & ROUTE_LIVE) { /* a page without `live` is forwarded */
		return conn->http->method == HTTP_GET && head->query.len &&
		       memmem(head->text + head->query.at, head->query.len, "live=", 5);
	}
	return http_is_event_source(conn);
}

static void handle_place(
	struct place_wait *wait, int status, enum session_place place, const char *address)
{
	struct conn *conn = conn_of(wait);
	if (conn->is_dead) {
		return;
	}
	conn->http->is_sought = true;
	conn->http->is_nowhere = status == 0 && place == PLACE_NOWHERE;
	if (status < 0) {
		http_refuse(conn, ERROR_storage_failed, CANNOT_ASK);
	} else if (place == PLACE_ELSEWHERE && conn->kind.is_node) {
		/* The asking node has outdated information: do not forward in circles. */
		http_refuse_with(
			conn, STATUS_MISDIRECTED, "", ERROR_owner_unreachable, OWNER_UNREACHABLE);
	} else if (place == PLACE_ELSEWHERE && watches(conn)) {
		node_mirror_ask(conn, address);
		return;
	} else if (place == PLACE_ELSEWHERE) {
		http_forward(conn, address);
		return;
	}
	http_go_on(conn);
}

bool node_seek(struct conn *conn)
{
	size_t len;
	if (!server_may(conn->server->life, MAY_SERVE)) {
		return false;
	}
	const char *id = http_find_session(conn, &len);
	if (!id || !placement_may_be_elsewhere(conn, id, len) ||
		!grant_sees(conn->grant, id, len)) {
		return false;
	}
	http_copy_session_id(conn);
	seek(conn, handle_place);
	return true;
}

static void handle_new(
	struct place_wait *wait, int status, enum session_place place, const char *address)
{
	struct conn *conn = conn_of(wait);
	if (conn->is_dead) {
		return;
	}
	conn->http->is_sought = true;
	conn->http->is_elsewhere = place == PLACE_ELSEWHERE;
	conn->is_parked = false;
	if (status < 0) {
		http_refuse(conn, ERROR_storage_failed, CANNOT_ASK);
	} else {
		http_route_again(conn);
	}
	conn_resume(conn);
}

bool node_seek_new(struct conn *conn, const char *id)
{
	size_t len = strlen(id);
	if (conn->http->is_sought || !server_may(conn->server->life, MAY_SERVE) ||
		!placement_may_be_elsewhere(conn, id, len)) {
		return false;
	}
	memcpy(conn->session_id, id, len + 1);
	seek(conn, handle_new);
	return true;
}

/* --- WebSockets --- */

static void handle_place_of_socket(
	struct place_wait *wait, int status, enum session_place place, const char *address)
{
	struct conn *conn = conn_of(wait);
	if (conn->is_dead) {
		return;
	}
	if (place == PLACE_ELSEWHERE && status == 0 && !conn->kind.is_node && !conn->is_closing) {
		if (conn->ops == &observer_conn_ops) {
			node_mirror_join(conn, address);
		} else {
			ws_forward(conn, address);
		}
		return;
	}
	conn->is_parked = false;
	conn->ws->is_nowhere = status == 0 && place == PLACE_NOWHERE;
	if (conn->is_closing) {
		/* The result no longer matters. */
	} else if (status < 0) {
		conn_send_error(conn, ERROR_storage_failed, CANNOT_ASK);
		conn_close_refused(conn, ERROR_storage_failed);
	} else if (place == PLACE_ELSEWHERE) {
		conn_close(conn, WS_CLOSE_GOING_AWAY, "owner gone");
	} else {
		conn->ops->open(conn);
	}
	conn_resume(conn);
}

bool node_seek_socket(struct conn *conn)
{
	if (!conn->ws->target || conn->ws->refused ||
		!placement_may_be_elsewhere(conn, conn->session_id, strlen(conn->session_id))) {
		return false;
	}
	seek(conn, handle_place_of_socket);
	return true;
}
