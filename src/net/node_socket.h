/*
 * A WebSocket to another node, as its client: the handshake, whole messages both ways, pings, and its end.
 * Who has one is told once that it is over, and need not ask why: that is in the log, and counted.
 */
#ifndef HOLDFAST_NODE_SOCKET_H
#define HOLDFAST_NODE_SOCKET_H

#include <stdbool.h>
#include <stddef.h>

struct server;
struct node_socket;

struct node_socket_ops {
	/** The other node has taken it. */
	void (*opened)(void *owner);
	/** A whole message, lent for the call. */
	void (*message)(void *owner, const char *text, size_t len);
	/** It was choked, and is not any more. */
	void (*writable)(void *owner);
	/** It is over, and gone after the call: as the other node closed it, or 1001 `owner gone`. */
	void (*closed)(void *owner, unsigned code, const char *reason);
};

struct node_socket_config {
	const char *address; /* HOST:PORT */
	const char *target; /* of the request */
	const char *protocol; /* the subprotocol; NULL: none */
	const char *identity; /* whose it is (node_identity.h), for GET and the target */
};

/** NULL: there are as many as there may be. None of `ops` is called inside. */
struct node_socket *node_socket_open(struct server *server, const struct node_socket_config *config,
	const struct node_socket_ops *ops, void *owner);
/** Sends a message; only once it is open. */
void node_socket_send(struct node_socket *socket, const char *text, size_t len);
/** Whether something is kept that the other node has not taken; then writable() follows. */
bool node_socket_is_choked(const struct node_socket *socket);
/** Reads no more, or again. */
void node_socket_pause(struct node_socket *socket, bool paused);
/** Bytes that are kept of a message that is not whole. */
size_t node_socket_kept(const struct node_socket *socket);
/** Looks whether the other node is there; once a second. */
void node_socket_sweep(struct node_socket *socket);
/** Its owner is done with it: it is closed, and gone. Accepts NULL. */
void node_socket_leave(struct node_socket *socket);

#endif
