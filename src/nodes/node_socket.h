/*
 * A WebSocket client for another node: handshake, complete messages both ways, pings and close.
 * Failures are logged and counted here; owners only get closed().
 */
#ifndef HOLDFAST_NODE_SOCKET_H
#define HOLDFAST_NODE_SOCKET_H

#include "holdfast/placement.h"

struct node_socket_config {
	const char *address; /* HOST:PORT */
	const char *target; /* request target */
	const char *protocol; /* the subprotocol; NULL: none */
	const char *identity; /* signed for GET and the target (node_identity.h) */
};

/** Returns NULL if the limit of links is reached. Calls none of `ops` before it returns. */
struct node_socket *node_socket_open(struct server *server, const struct node_socket_config *config,
	const struct node_socket_ops *ops, void *owner);
/** Sends a message. Call it only after opened(). */
void node_socket_send(struct node_socket *socket, const char *text, size_t len);
/** Whether bytes are kept that the other node has not taken; writable() follows then. */
bool node_socket_is_choked(const struct node_socket *socket);
/** Pauses or resumes reading. */
void node_socket_pause(struct node_socket *socket, bool paused);
/** Bytes kept of an incomplete message. */
size_t node_socket_kept(const struct node_socket *socket);
/** Pings a silent node, and ends the socket if it stays silent; called once a second. */
void node_socket_sweep(struct node_socket *socket);
/** Closes and frees the socket without callbacks. Accepts NULL. */
void node_socket_leave(struct node_socket *socket);

#endif
