/*
 * A viewer at another node of a session of this one: a connection without a socket of its own,
 * whose requests and answers pass through that node's connection (ws_tap.c). Roles, patterns and
 * hiding are applied here again. Its observer never loads: events go to the other node once, for
 * all.
 */
#include "node_internal.h"
#include "server/ws_internal.h"

#include "mirror.h"
#include "holdfast/requests.h"

#include <stdlib.h>
#include <string.h>

/** Counts what is kept for the viewer, whenever that changes: there can be too many to ask all. */
static void count(struct conn *viewer)
{
	const struct observer *observer = viewer->ws->observer;
	size_t kept = observer ? observer_kept(observer) : 0;
	struct ws_tap *tap = ws_tap_of(viewer->carrier);
	tap->kept += kept - viewer->sending_counted;
	viewer->sending_counted = kept;
}

/* --- observer_socket_ops --- */

static bool socket_is_writable(void *socket)
{
	struct conn *viewer = socket;
	return !viewer->ws->observer || conn_is_writable(viewer->carrier);
}

static void socket_write(void *socket, struct frame *frame)
{
	struct conn *viewer = socket;
	if (!viewer->ws->observer) {
		return; /* `connected`, which the other node has sent */
	}
	struct frame *answer = mirror_answer(viewer->placed->number, frame);
	conn_write(viewer->carrier, answer);
	frame_unref(answer);
	count(viewer);
}

static void socket_want_writable(void *socket)
{
	struct conn *carrier = ((struct conn *)socket)->carrier;
	count(socket);
	if (!carrier->is_closing) {
		sock_want_writable(&carrier->sock);
		sending_count(carrier);
	}
}

void ws_viewer_close(struct conn *viewer, unsigned code, const char *reason)
{
	count(viewer);
	if (viewer->is_dead) {
		return;
	}
	ws_viewer_dismiss(viewer->carrier, viewer->placed->number, code, reason);
	viewer->is_dead = viewer->is_closing = true;
	conn_at_end_of_tick(viewer->carrier);
}

static void socket_close(void *socket, unsigned code, const char *reason)
{
	ws_viewer_close(socket, code, reason);
}

static const struct observer_socket_ops socket_ops = {
	.is_writable = socket_is_writable,
	.write = socket_write,
	.want_writable = socket_want_writable,
	.close = socket_close,
};

/* --- lifecycle --- */

void ws_viewer_dismiss(struct conn *carrier, uint64_t number, unsigned code, const char *reason)
{
	if (!carrier->is_closing) {
		struct frame *frame = mirror_dismiss(number, code, reason);
		conn_write(carrier, frame);
		frame_unref(frame);
	}
}

/**
 * Creates a connection without a socket; `carrier` is that of the viewer's node. Destroy it only
 * where none of its functions is running.
 */
static struct conn *create_viewer(struct conn *carrier, uint64_t number)
{
	struct ws_tap *tap = ws_tap_of(carrier);
	struct conn *viewer = conn_new(carrier->server);
	viewer->carrier = carrier;
	viewer->placed = xcalloc(1, sizeof(*viewer->placed));
	viewer->placed->number = number;
	viewer->phase = PHASE_SOCKET;
	viewer->ops = &observer_conn_ops;
	viewer->ws = xcalloc(1, sizeof(*viewer->ws));
	list_init(&viewer->ws->outbox);
	strcpy(viewer->session_id, carrier->session_id);
	list_append(&tap->viewers, &viewer->kind_link);
	hash_put(tap->by_number, (const char *)&number, sizeof(number), viewer);
	return viewer;
}

static void free_viewer(struct conn *viewer)
{
	conn_stop_waiting(viewer);
	ws_content_drop(viewer);
	conn_drop_session(viewer);
	list_remove(&viewer->kind_link);
	struct hash *by_number = ws_tap_of(viewer->carrier)->by_number;
	uint64_t number = viewer->placed->number;
	if (hash_get(by_number, (const char *)&number, sizeof(number)) == viewer) {
		hash_remove(by_number, (const char *)&number, sizeof(number));
	}
	free(viewer->placed);
	grant_unref(viewer->grant);
	free(viewer->ws);
	free(viewer);
}

void ws_viewer_destroy(struct conn *viewer)
{
	struct conn *carrier = viewer->carrier;
	bool held_up = viewer->is_parked && !carrier->is_dead;
	observer_destroy(viewer->ws->observer);
	viewer->ws->observer = NULL;
	count(viewer);
	free_viewer(viewer);
	if (held_up) {
		carrier->is_parked = false;
		conn_resume(carrier);
	}
}

static bool is_client_id(const char *text)
{
	return token_is_valid(text, strlen(text), 64) && !strpbrk(text, ".:");
}

static void begin(struct conn *viewer)
{
	struct ws_socket *ws = viewer->ws;
	conn_hold_session(viewer, viewer->carrier->session);
	ws->config = (struct observer_config){.encoder = &websocket_encoder,
		.format = FORMAT_MARKDOWN,
		.client_id = ws->client_id,
		.sub = viewer->grant->sub,
		.role = role_name(viewer->grant->role),
		.hide = conn_hides(viewer)};
	ws->observer =
		observer_create(session_channel(viewer->session), &ws->config, &socket_ops, viewer);
}

static void create(struct conn *carrier, const struct mirror_message *message)
{
	if (!is_client_id(message->client_id)) {
		ws_viewer_dismiss(carrier, message->viewer, error_code_close(ERROR_bad_request),
			error_code_text(ERROR_bad_request));
		return;
	}
	if (!room_in_session(carrier->server, carrier->session)) {
		metrics_limit(carrier->server->metrics, LIMIT_session_connections);
		ws_viewer_dismiss(carrier, message->viewer, WS_CLOSE_TRY_LATER,
			error_code_text(ERROR_too_many_connections));
		return;
	}
	struct conn *viewer = create_viewer(carrier, message->viewer);
	strcpy(viewer->ws->client_id, message->client_id);
	if (node_check_token(viewer, message->identity) != DENIED_NOTHING ||
		!conn_sees_session(viewer)) {
		ws_viewer_dismiss(carrier, message->viewer, 4401, "token_wrong");
		free_viewer(viewer);
		return;
	}
	begin(viewer);
}

void ws_viewer_take(struct conn *carrier, struct conn *viewer, const struct mirror_message *message)
{
	if (!viewer) {
		create(carrier, message);
	} else if (node_check_token(viewer, message->identity) != DENIED_NOTHING) {
		ws_viewer_close(viewer, 4401, "token_wrong");
	} else {
		observer_set_rights(
			viewer->ws->observer, role_name(viewer->grant->role), conn_hides(viewer));
	}
}
