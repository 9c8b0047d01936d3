/*
 * Several nodes on one store (proto/nodes.md): what is about a session that another node has is passed
 * on to it.
 */
#ifndef HOLDFAST_NODE_INTERNAL_H
#define HOLDFAST_NODE_INTERNAL_H

#include "http_internal.h"

#include "node_link.h"

/* What a node cannot be reached for, or says it has not. */
#define OWNER_UNREACHABLE \
	"the node that has the session cannot be reached, or is just handing it over; try again in a moment"
#define OWNER_UNREACHABLE_HEADERS "retry-after: 1\r\n"
/* The status with which a node tells another that it does not take the request. */
#define STATUS_MISDIRECTED 421

/* node_peer.c */
/**
 * Of a request that another node passes on: takes over who has sent it. False: it has been refused.
 */
bool node_admit(struct conn *conn);
/** The same of a token frame. */
enum denial node_take_token(struct conn *conn, const char *token);
/** Appends what another node is to know of whoever sends the request. */
void node_append_identity(
	const struct conn *conn, struct buffer *out, const char *method, const char *target);
/** A warning that does not come for each request. */
void node_warn(struct server *server, const char *address, const char *why);

/* node_seek.c */
/** The id of the session in a request's address, and its length; NULL: it is about none. */
const char *http_find_session(const struct conn *conn, size_t *ret_len);
/** The target of a request, as it was sent; the caller frees it. */
char *http_copy_target(const struct http_head *head);
/** Whether another node may have the session: it is not here, nor here and unreadable. */
bool conn_may_be_elsewhere(const struct conn *conn, const char *id, size_t len);
/**
 * Whether the request is about a session that another node may have. Then the connection is parked, and
 * the request goes on when that is known: here, with http_go_on(), or at the other node.
 */
bool http_seeks(struct conn *conn);
/**
 * Whether the session of a request was here when its head came, and has gone since, not because it was
 * deleted: another node has it, or will.
 */
bool http_has_moved(const struct conn *conn);
/** The same as http_seeks() for a session that is to be made: http_route_again() follows, and http.is_elsewhere tells. */
bool http_seeks_new(struct conn *conn, const char *id);
/** The same for a WebSocket whose sender is known: conn->ops->open() follows, or ws_forward(). */
bool ws_seeks(struct conn *conn);

/* http_forward.c */
/** Passes the request on, which waits until the other node is connected. */
void http_forward(struct conn *conn, const char *address);
/** Of its body. */
void http_forward_take(struct conn *conn, const char *bytes, size_t len);
void http_forward_end(struct conn *conn);
/** The client takes more of the answer. */
void http_forward_writable(struct conn *conn);
/** Looks whether the client is there; once a second. */
void http_forward_sweep(struct conn *conn);
/** The server shuts down. */
void http_forward_drain(struct conn *conn);
/** It may not go on: an answer that has begun is cut off. Nothing if it is not passed on. */
void http_forward_cut(struct conn *conn);
/** The connection is gone, or done with it. Nothing if it is not passed on. */
void http_forward_drop(struct conn *conn);

/* node_mirror.c, node_mirrors.c */
/** The socket, an observer's, becomes one of those that watch a session of another node. */
void node_mirror_join(struct conn *conn, const char *address);
/**
 * The request, which is parked, goes on when the session of another node can be watched here, or is refused: then
 * node_mirror_channel() has it until node_mirror_leave().
 */
void node_mirror_ask(struct conn *conn, const char *address);
/** NULL: it watches no session of another node, or not yet. */
struct channel *node_mirror_channel(const struct conn *conn);
/** The owner is told that it watches. Nothing if it does not. */
void node_mirror_tell(struct conn *conn);
/** It watches no more; `is_known`: the owner knows that it does. Nothing if it does not. */
void node_mirror_leave(struct conn *conn, bool is_known);
/** Its client has renewed its token. */
void node_mirror_renew(struct conn *conn);
/** Looks whether the other nodes are there; once a second. */
void node_mirrors_sweep(struct server *server);
/** Frames of the tick are not kept, and what nobody watches any more goes. */
void node_mirrors_end_tick(struct server *server);
/** The server goes, and so have its connections. */
void node_mirrors_close(struct server *server);

/* ws_tap.c */
extern const struct conn_ops tap_conn_ops;
struct ws_tap {
	struct list viewers; /* struct conn.kind_link */
	struct hash *by_number; /* the same, by the bytes of their numbers */
};
/** Tells its viewers who is here, if they want that; once a second. */
void ws_tap_sweep(struct conn *conn);
/** The session is no more, or no more here. */
void ws_tap_lose_session(struct conn *conn);
/** Bytes that are kept for its viewers. */
size_t ws_tap_kept(const struct conn *conn);

/* ws_viewer.c */
struct mirror_message;
/** MIRROR_VIEWER: `viewer` is a new one (NULL), or may do something else from now on. */
void ws_viewer_take(
	struct conn *carrier, struct conn *viewer, const struct mirror_message *message);
/** The other node is told to close its viewer of this number. */
void ws_viewer_dismiss(struct conn *carrier, uint64_t number, unsigned code, const char *reason);
void ws_viewer_destroy(struct conn *viewer);
/**
 * A connection without a socket, of a viewer at another node (conn.c); `carrier` is that node's. Its end, where
 * nothing of it is in the middle of its work.
 */
struct conn *conn_create_viewer(struct conn *carrier, uint64_t number);
void conn_destroy_viewer(struct conn *viewer);

/* ws_observer.c */
/** Where such an observer counts. */
enum metric ws_observer_metric(const struct conn *conn);
/** The socket under an observer is that of its connection. */
extern const struct observer_socket_ops ws_observer_socket_ops;

/* ws_forward.c */
/** As many WebSockets go to other nodes as may: it is told, and closed. */
void ws_refuse_node_sockets(struct conn *conn);
/** The socket becomes one that is passed on. */
void ws_forward(struct conn *conn, const char *address);
/** Its client has renewed its token. */
void ws_forward_renew(struct conn *conn);
/** Looks whether the other node is there; once a second. */
void ws_forward_sweep(struct conn *conn);
/** Bytes that are kept of what is not whole. */
size_t ws_forward_kept(const struct conn *conn);

#endif
