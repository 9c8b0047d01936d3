/*
 * Where a session is: at this server, at another node of the same store, or nowhere. A server whose
 * store is not shared has no placement, and all its sessions are here. The files for nodes offer the
 * table (node_placement.c); all others call the functions below, which work without it.
 */
#ifndef HOLDFAST_NET_PLACEMENT_H
#define HOLDFAST_NET_PLACEMENT_H

#include "server/net_internal.h"

#include "nodes/node_socket.h"

/* The refusal if the session's node cannot be reached, or says that it does not have it. */
#define OWNER_UNREACHABLE \
	"the node that has the session cannot be reached, or is handing it over; try again in a moment"

/** The WebSockets that a door opens to other nodes itself: see node_socket.h. */
struct placement_sockets {
	/** Opens one in the name of the connection's sender. NULL: there are too many. */
	struct node_socket *(*open)(struct conn *conn, const char *address, const char *target,
		const struct node_socket_ops *ops, void *owner);
	void (*leave)(struct node_socket *socket);
	void (*send)(struct node_socket *socket, const char *text, size_t len);
	bool (*is_choked)(const struct node_socket *socket);
	void (*pause)(struct node_socket *socket, bool paused);
	size_t (*kept)(const struct node_socket *socket);
	void (*sweep)(struct node_socket *socket);
};

struct placement_ops {
	struct placement *(*create)(struct server *server);
	/** The server's connections are closed. */
	void (*destroy)(struct placement *placement);
	/** Looks whether other nodes are alive; called once a second. */
	void (*sweep)(struct placement *placement);
	/** At the end of a tick, before connections end theirs. */
	void (*begin_end_tick)(struct placement *placement);
	/** The same after them. */
	void (*end_tick)(struct placement *placement);

	/** See placement_admit(), placement_check_token(), placement_head_more(). */
	bool (*admit)(struct conn *conn);
	enum denial (*check_token)(struct conn *conn, const char *token);
	size_t head_more;
	/** See placement_seek(), placement_seek_new(), placement_seek_socket(). */
	bool (*seek)(struct conn *conn);
	bool (*seek_new)(struct conn *conn, const char *id);
	bool (*seek_socket)(struct conn *conn);
	/** See placement_channel(), placement_join(), placement_leave(). */
	struct channel *(*channel)(const struct conn *conn);
	void (*join)(struct conn *conn);
	void (*leave)(struct conn *conn, bool is_known);
	/** See placement_stream_ops(). */
	const struct conn_ops *stream_ops;
	const struct placement_sockets *sockets;
};

struct placement {
	const struct placement_ops *ops;
};

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
/** Whether another node may have the session: this one does not, not even unreadably. */
bool placement_may_be_elsewhere(const struct conn *conn, const char *id, size_t len);
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

/**
 * The channel of the other node's session that the connection watches; NULL if it watches none, or
 * that has ended.
 */
struct channel *placement_channel(const struct conn *conn);
/** The other node is told who watches. Does nothing if the connection watches none. */
void placement_join(struct conn *conn);
/** Ends that; `is_known`: placement_join() was called. Does nothing if the connection watches none. */
void placement_leave(struct conn *conn, bool is_known);
/** The kind of an observer's stream of a session that it watches there; NULL: its session is here. */
const struct conn_ops *placement_stream_ops(const struct conn *conn);

#endif
