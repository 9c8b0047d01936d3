/*
 * All mirrors of this node (node_mirror.c): creates, finds and destroys them, and lets requests
 * wait for one.
 */
#include "mirror_internal.h"

#include "mirror.h"
#include "node_identity.h"

#include <stdlib.h>
#include <string.h>

/* --- creation --- */

/**
 * Finds the mirror of a session at this owner's address. Ends mirrors that go to another address,
 * whose node no longer has the session.
 */
static struct mirror *find(struct server *server, const char *id, const char *address)
{
	list_for_each_safe(link, tmp, &nodes_of(server)->mirrors) {
		struct mirror *mirror = list_entry(link, struct mirror, link);
		if (!mirror->socket || strcmp(mirror->id, id) != 0) {
			continue;
		}
		if (strcmp(mirror->address, address) == 0) {
			return mirror;
		}
		struct node_socket *socket = mirror->socket;
		mirror_end(mirror, WS_CLOSE_GOING_AWAY, SESSION_MOVED);
		node_socket_leave(socket);
	}
	return NULL;
}

static struct node_socket *connect_to(struct mirror *mirror)
{
	struct server *server = mirror->server;
	const struct node_identity self = {.grant = server->everyone};
	struct buffer identity = {0};
	char *target = xprintf("/api/sessions/%s/ws", mirror->id);
	node_identity_append(&identity, session_table_node_key(server->sessions), &self, "GET",
		target, clock_now_ms(server->clock));
	struct node_socket *socket = node_socket_open(server,
		&(struct node_socket_config){.address = mirror->address,
			.target = target,
			.protocol = MIRROR_PROTOCOL,
			.identity = buffer_cstr(&identity)},
		&mirror_socket_ops, mirror);
	buffer_finish(&identity);
	free(target);
	return socket;
}

static struct mirror *create(struct server *server, const char *id, const char *address)
{
	struct mirror *mirror = xcalloc(1, sizeof(*mirror));
	mirror->server = server;
	mirror->id = xstrdup(id);
	mirror->address = xstrdup(address);
	list_init(&mirror->due_link);
	list_init(&mirror->viewers);
	mirror->by_number = hash_create();
	mirror_at_end_of_tick(mirror);
	list_append(&nodes_of(server)->mirrors, &mirror->link);
	mirror->socket = connect_to(mirror);
	return mirror;
}

/**
 * Makes the connection a viewer of the session's mirror. Returns NULL if there are too many
 * connections to other nodes.
 */
static struct mirror *add(struct conn *conn, const char *address)
{
	struct mirror *mirror = find(conn->server, conn->session_id, address);
	node_mirror_leave(conn, false); /* of an earlier request on the same connection */
	mirror = mirror ? mirror : create(conn->server, conn->session_id, address);
	if (!mirror->socket) {
		return NULL;
	}
	struct placed *placed = conn->placed = xcalloc(1, sizeof(*placed));
	placed->mirror = mirror;
	placed->number = ++mirror->viewer_count;
	list_append(&mirror->viewers, &conn->kind_link);
	hash_put(mirror->by_number, (const char *)&placed->number, sizeof(placed->number), conn);
	return mirror;
}

void node_mirror_join(struct conn *conn, const char *address)
{
	struct mirror *mirror = add(conn, address);
	conn->ops = &mirror_viewer_ops;
	if (!mirror) {
		ws_refuse_node_sockets(conn);
	} else if (mirror->log) {
		mirror_ask_reach(mirror);
	}
}

/* --- HTTP requests --- */

void node_mirror_ask(struct conn *conn, const char *address)
{
	struct mirror *mirror = add(conn, address);
	if (!mirror) {
		http_refuse_limit(conn, LIMIT_node_sockets,
			"too many requests are passed on to other nodes; try again in a moment");
		http_go_on(conn);
	} else if (mirror->log) {
		mirror_ask_reach(mirror);
	}
}

struct channel *node_mirror_channel(const struct conn *conn)
{
	return conn->placed && conn->placed->mirror->log ? &conn->placed->mirror->channel : NULL;
}

void mirror_go_on_request(struct conn *conn)
{
	if (!conn->is_dead) {
		http_go_on(conn);
	}
}

void mirror_lose_request(struct conn *conn, bool is_gone)
{
	if (conn->is_dead || conn->http->is_answered || !conn->is_parked) {
		return;
	}
	if (!is_gone) {
		http_refuse_moved(conn);
	}
	http_go_on(conn);
}

/* --- all mirrors --- */

void node_mirrors_sweep(struct nodes *nodes)
{
	list_for_each_safe(link, tmp, &nodes->mirrors) {
		struct mirror *mirror = list_entry(link, struct mirror, link);
		if (mirror->socket) {
			node_socket_sweep(mirror->socket);
		}
	}
}

void node_mirrors_end_tick(struct nodes *nodes)
{
	while (!list_empty(&nodes->mirrors_due)) {
		struct mirror *mirror =
			list_entry(nodes->mirrors_due.next, struct mirror, due_link);
		list_remove(&mirror->due_link);
		if (mirror->log) {
			channel_end_tick(&mirror->channel);
		}
		if (list_empty(&mirror->viewers)) {
			mirror_destroy(mirror);
		}
	}
}

void node_mirrors_close(struct nodes *nodes)
{
	while (!list_empty(&nodes->mirrors)) {
		mirror_destroy(list_entry(nodes->mirrors.next, struct mirror, link));
	}
}
