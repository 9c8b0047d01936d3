/*
 * Several nodes on one store (proto/nodes.md): requests for a session of another node are passed on
 * to it. Shared by the files that do so.
 */
#ifndef HOLDFAST_NODE_INTERNAL_H
#define HOLDFAST_NODE_INTERNAL_H

#include "server/http_internal.h"
#include "holdfast/placement.h"

#include "node_link.h"

/* The status with which a node rejects a request from another node. */
#define STATUS_MISDIRECTED 421

/** All that the server has of other nodes: its placement. */
struct nodes {
	struct placement placement; /* first */
	struct server *server;
	struct list links; /* struct node_link: connections to other nodes */
	struct list links_over; /* those that have ended */
	struct list mirrors; /* struct mirror: sessions of other nodes, watched here */
	struct list mirrors_due; /* those with work for the end of the tick */
	struct diag_limit warned;
};

static inline struct nodes *nodes_of(const struct server *server)
{
	return (struct nodes *)server->placement;
}

/** conn.placed: of a connection that is a viewer, here of a mirror, or of one at another node. */
struct placed {
	struct mirror *mirror; /* what it watches; NULL: it comes by another node */
	uint64_t number; /* the viewer's, for both nodes */
};

/* node_peer.c: see struct placement_ops */
bool node_admit(struct conn *conn);
enum denial node_check_token(struct conn *conn, const char *token);
/**
 * Appends the signed identity of the request's sender, for another node. `method` NULL: for a token
 * frame.
 */
void node_append_identity(
	const struct conn *conn, struct buffer *out, const char *method, const char *target);
/** Logs a warning, rate-limited. */
void node_warn(struct server *server, const char *address, const char *why);

/* node_seek.c: see struct placement_ops */
bool node_seek(struct conn *conn);
bool node_seek_new(struct conn *conn, const char *id);
bool node_seek_socket(struct conn *conn);

/* http_forward.c */
/** Forwards the request once the other node is connected. */
void http_forward(struct conn *conn, const char *address);

/* node_mirror.c, node_mirrors.c */
/** Makes an observer's socket a viewer of a session of another node. */
void node_mirror_join(struct conn *conn, const char *address);
/**
 * Makes a parked request wait until the session of another node can be watched here; then it goes
 * on, or is refused. It can use node_mirror_channel() until node_mirror_leave().
 */
void node_mirror_ask(struct conn *conn, const char *address);
/** The channel that a viewer watches; NULL if it is not a viewer, or the mirror is not ready. */
struct channel *node_mirror_channel(const struct conn *conn);
/** Tells the owner about a viewer. Does nothing if the connection is not one. */
void node_mirror_tell(struct conn *conn);
/**
 * Removes a viewer. `is_known`: the owner was told about it. Does nothing if the connection is not
 * one.
 */
void node_mirror_leave(struct conn *conn, bool is_known);
/** Checks whether the other nodes are alive; called once a second. */
void node_mirrors_sweep(struct nodes *nodes);
/** Drops the tick's shared frames, and mirrors without viewers. */
void node_mirrors_end_tick(struct nodes *nodes);
/** Destroys all mirrors. The server's connections must be closed. */
void node_mirrors_close(struct nodes *nodes);

/* ws_tap.c */
extern const struct conn_ops tap_conn_ops;
/** State of such a socket: conn.state. */
struct ws_tap {
	struct list viewers; /* struct conn.kind_link */
	struct hash *by_number; /* the same, keyed by the bytes of their numbers */
	size_t kept; /* bytes kept for them, in all: the sum of their conn.sending_counted */
};
/** NULL: the socket is not open yet, or is closed. */
static inline struct ws_tap *ws_tap_of(const struct conn *conn)
{
	return conn->state;
}

/* ws_viewer.c */
struct mirror_message;
/** Handles MIRROR_VIEWER: a new viewer (`viewer` NULL), or one whose token has changed. */
void ws_viewer_take(
	struct conn *carrier, struct conn *viewer, const struct mirror_message *message);
/** Tells the other node to close its viewer with this number. */
void ws_viewer_dismiss(struct conn *carrier, uint64_t number, unsigned code, const char *reason);
/** Dismisses a viewer, which is destroyed at the end of the tick. */
void ws_viewer_close(struct conn *viewer, unsigned code, const char *reason);
void ws_viewer_destroy(struct conn *viewer);

/* ws_forward.c */
/** The limit of connections to other nodes is reached: refuses and closes the socket. */
void ws_refuse_node_sockets(struct conn *conn);
/** Forwards the socket's messages to another node. */
void ws_forward(struct conn *conn, const char *address);

#endif
