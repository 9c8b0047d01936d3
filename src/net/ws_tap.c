/*
 * The WebSocket by which another node follows a session of this one, on behalf of all its viewers
 * (proto/nodes.md). It carries what a tap gets (observer/tap.c) and answers to single viewers down;
 * viewers (ws_viewer.c) and their requests come up.
 */
#include "node_internal.h"
#include "routes.h"
#include "ws_internal.h"

#include "holdfast/mirror.h"

#include <stdlib.h>
#include <string.h>

static struct conn *find_viewer(struct ws_tap *tap, uint64_t number)
{
	struct conn *viewer = hash_get(tap->by_number, (const char *)&number, sizeof(number));
	return viewer && !viewer->is_dead ? viewer : NULL;
}

/** While a viewer's request waits, nothing more is read from this socket. */
static void take_request(struct conn *conn, const struct mirror_message *message)
{
	struct conn *viewer = find_viewer(conn->tap, message->viewer);
	if (viewer) {
		observer_conn_ops.message(viewer, message->parts[0].text, message->parts[0].len);
	}
}

/**
 * Answers MIRROR_REACH. Says nothing if this node no longer has the session, because its lease is
 * over for example: its position may be outdated, and the tap is closed in a moment.
 */
static void say_reached(struct conn *conn, uint64_t viewer)
{
	struct session *session = session_table_get(
		conn->server->sessions, conn->session_id, strlen(conn->session_id));
	if (session == conn->session) {
		struct frame *frame = mirror_reached(viewer, session_channel(session)->max_seq);
		conn_write(conn, frame);
		frame_unref(frame);
	}
}

static void take(struct conn *conn, const struct mirror_message *message)
{
	struct conn *viewer = find_viewer(conn->tap, message->viewer);
	switch (message->type) {
	case MIRROR_VIEWER:
		ws_viewer_take(conn, viewer, message);
		break;
	case MIRROR_REQUEST:
		take_request(conn, message);
		break;
	case MIRROR_LEAVE:
		if (viewer) {
			ws_viewer_destroy(viewer);
		}
		break;
	case MIRROR_PREVIEWS:
		observer_want_previews(conn->ws->observer, message->wanted);
		break;
	case MIRROR_REACH:
		say_reached(conn, message->viewer);
		break;
	default:
		conn_close(conn, WS_CLOSE_POLICY, "only the owner of a session sends this");
		break;
	}
}

static void tap_message(struct conn *conn, const char *text, size_t len)
{
	struct mirror_message message;
	if (!conn->ws->observer || !conn->session) {
		return;
	}
	if (mirror_read(text, len, &message) < 0) {
		conn_close(conn, WS_CLOSE_POLICY, "not a message of " MIRROR_PROTOCOL);
		return;
	}
	take(conn, &message);
	mirror_finish(&message);
}

/** Drops frames for clients, which this protocol does not have; the close code says enough. */
static void tap_tell(struct conn *conn, struct frame *frame)
{
	frame_unref(frame);
}

static void tap_open(struct conn *conn)
{
	static const struct observer_config config = {.encoder = &mirror_encoder,
		.format = FORMAT_MARKDOWN,
		.deltas = DELTAS_TEXT,
		.client_id = "",
		.sub = "",
		.role = "admin"};
	conn->tap = xcalloc(1, sizeof(*conn->tap));
	list_init(&conn->tap->viewers);
	conn->tap->by_number = hash_create();
	if (ws_refuse_absent(conn)) {
		return;
	}
	struct session *session = conn_find_session(conn);
	if (session) {
		conn_hold_session(conn, session);
		conn->ws->observer = observer_create(
			session_channel(session), &config, &ws_observer_socket_ops, conn);
	}
}

static void tap_writable(struct conn *conn)
{
	if (!conn->ws->observer) {
		return;
	}
	observer_pump(conn->ws->observer);
	list_for_each_safe(link, tmp, &conn->tap->viewers) {
		observer_pump(list_entry(link, struct conn, kind_link)->ws->observer);
	}
}

static void tap_closed(struct conn *conn)
{
	conn->is_dead = true;
	while (conn->tap && !list_empty(&conn->tap->viewers)) {
		ws_viewer_destroy(list_entry(conn->tap->viewers.next, struct conn, kind_link));
	}
	observer_destroy(conn->ws->observer);
	conn->ws->observer = NULL;
	if (conn->tap) {
		hash_destroy(conn->tap->by_number);
	}
	free(conn->tap);
	conn->tap = NULL;
}

static struct conn *find_dead(struct ws_tap *tap)
{
	list_for_each(link, &tap->viewers) {
		struct conn *viewer = list_entry(link, struct conn, kind_link);
		if (viewer->is_dead) {
			return viewer;
		}
	}
	return NULL;
}

/**
 * Destroys viewers that have ended, now that none of their functions is running. A socket that is
 * not open yet, while its node is looked up, has no `tap`.
 */
static void tap_end_tick(struct conn *conn)
{
	struct conn *viewer;
	if (conn->tap) {
		list_for_each(link, &conn->tap->viewers) {
			conn_end_order(list_entry(link, struct conn, kind_link));
		}
	}
	while (conn->tap && (viewer = find_dead(conn->tap))) {
		ws_viewer_destroy(viewer);
	}
}

void ws_tap_sweep(struct conn *conn)
{
	list_for_each_safe(link, tmp, &conn->tap->viewers) {
		ws_tell_presence(list_entry(link, struct conn, kind_link));
	}
}

void ws_tap_lose_session(struct conn *conn)
{
	list_for_each_safe(link, tmp, &conn->tap->viewers) {
		list_entry(link, struct conn, kind_link)->session = NULL;
	}
}

size_t ws_tap_kept(const struct conn *conn)
{
	return conn->tap ? conn->tap->kept : 0;
}

const struct conn_ops tap_conn_ops = {
	.open = tap_open,
	.message = tap_message,
	.writable = tap_writable,
	.closed = tap_closed,
	.end_tick = tap_end_tick,
	.tell = tap_tell,
	.takes_bodies = true,
};

const struct route tap_routes[] = {
	{"/api/sessions/{id}/ws", "", .flags = ROUTE_NODES | ROUTE_SESSION | ROUTE_CHECKED,
		.socket = &tap_conn_ops, .protocol = MIRROR_PROTOCOL},
	{0},
};
