/*
 * The WebSocket by which another node follows a session of this one, on behalf of all its viewers
 * (proto/nodes.md). It carries what a tap gets (observer/tap.c) and answers to single viewers down;
 * viewers (ws_viewer.c) and their requests come up.
 */
#include "node_internal.h"
#include "holdfast/door_tap.h"
#include "server/ws_internal.h"

#include "mirror.h"

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
	struct conn *viewer = find_viewer(ws_tap_of(conn), message->viewer);
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
	struct conn *viewer = find_viewer(ws_tap_of(conn), message->viewer);
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
	struct ws_tap *tap = xcalloc(1, sizeof(*tap));
	list_init(&tap->viewers);
	tap->by_number = hash_create();
	conn->state = tap;
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
	list_for_each_safe(link, tmp, &ws_tap_of(conn)->viewers) {
		observer_pump(list_entry(link, struct conn, kind_link)->ws->observer);
	}
}

static void tap_closed(struct conn *conn)
{
	struct ws_tap *tap = ws_tap_of(conn);
	conn->is_dead = true;
	while (tap && !list_empty(&tap->viewers)) {
		ws_viewer_destroy(list_entry(tap->viewers.next, struct conn, kind_link));
	}
	observer_destroy(conn->ws->observer);
	conn->ws->observer = NULL;
	if (tap) {
		hash_destroy(tap->by_number);
	}
	free(tap);
	conn->state = NULL;
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

/** Destroys viewers that have ended, now that none of their functions is running. */
static void tap_end_tick(struct conn *conn)
{
	struct ws_tap *tap = ws_tap_of(conn);
	struct conn *viewer;
	if (!tap) {
		return; /* it is not open yet: its node is being looked up */
	}
	list_for_each(link, &tap->viewers) {
		viewer = list_entry(link, struct conn, kind_link);
		enum error_code code = conn_broken_order(viewer);
		if (code) {
			ws_viewer_close(viewer, WS_CLOSE_TRY_LATER, error_code_text(code));
		}
	}
	while ((viewer = find_dead(tap))) {
		ws_viewer_destroy(viewer);
	}
}

/** Tells viewers who is present, if they asked for that. */
static void tap_sweep(struct conn *conn)
{
	struct ws_tap *tap = ws_tap_of(conn);
	if (!tap) {
		return;
	}
	list_for_each_safe(link, tmp, &tap->viewers) {
		ws_tell_presence(list_entry(link, struct conn, kind_link));
	}
}

static void tap_session_lost(struct conn *conn, const struct session *session, bool is_deleted)
{
	struct ws_tap *tap = ws_tap_of(conn);
	if (!tap || conn->session != session) {
		return;
	}
	list_for_each_safe(link, tmp, &tap->viewers) {
		list_entry(link, struct conn, kind_link)->session = NULL;
	}
}

static size_t tap_kept(const struct conn *conn)
{
	const struct ws_tap *tap = ws_tap_of(conn);
	return tap ? tap->kept : 0;
}

const struct conn_ops tap_conn_ops = {
	.open = tap_open,
	.message = tap_message,
	.writable = tap_writable,
	.closed = tap_closed,
	.end_tick = tap_end_tick,
	.sweep = tap_sweep,
	.kept = tap_kept,
	.session_lost = tap_session_lost,
	.tell = tap_tell,
	.takes_bodies = true,
	.is_free = true,
};

static const struct route routes[] = {
	{"/api/sessions/{id}/ws", "", .flags = ROUTE_NODES | ROUTE_SESSION | ROUTE_CHECKED,
		.socket = &tap_conn_ops, .protocol = MIRROR_PROTOCOL},
	{0},
};

const struct door door_tap = {.routes = routes};
