/* What the server itself calls of the placement of sessions (placement.h). */
#ifndef HOLDFAST_PLACEMENT_INTERNAL_H
#define HOLDFAST_PLACEMENT_INTERNAL_H

#include "holdfast/placement.h"

/* --- the server --- */

/** `ops` NULL: all sessions are here. */
void placement_create(struct server *server, const struct placement_ops *ops);
void placement_destroy(struct server *server);
void placement_sweep(struct server *server);
void placement_begin_end_tick(struct server *server);
void placement_end_tick(struct server *server);

/* --- requests --- */

/**
 * Authenticates a request on a listener for other nodes: takes the sender from what the node says.
 * Returns false if it was refused.
 */
bool placement_admit(struct conn *conn);
/** The same for a token frame. */
enum denial placement_check_token(struct conn *conn, const char *token);
/** Bytes that the head of a request on this connection may have more than others. */
size_t placement_head_more(const struct conn *conn);
/**
 * Whether the request is for a session that another node may have. Then the connection is parked
 * until that is known; the request goes on here, with http_go_on(), or at the other node.
 */
bool placement_seek(struct conn *conn);
/**
 * The same for a session that is to be created: http_route_again() follows, and finds the result in
 * http.is_elsewhere.
 */
bool placement_seek_new(struct conn *conn, const char *id);
/** The same for an authenticated WebSocket: conn.ops.open() follows, here or for the other node. */
bool placement_seek_socket(struct conn *conn);

/* --- sessions of other nodes that are watched here --- */

/** The kind of an observer's stream of a session that it watches there; NULL: its session is here. */
const struct conn_ops *placement_stream_ops(const struct conn *conn);

#endif
