/*
 * Where a session is: at this server, at another node of the same store, or nowhere. A server whose
 * store is not shared has no placement, and all its sessions are here. The files for nodes offer the
 * table (node_placement.c). Doors call the functions below, and the server those of
 * src/server/placement_internal.h; all of them work without the table.
 */
#ifndef HOLDFAST_NET_PLACEMENT_H
#define HOLDFAST_NET_PLACEMENT_H

#include "holdfast/connection.h"
#include "holdfast/observer.h"

/* The refusal if the session's node cannot be reached, or says that it does not have it. */
#define OWNER_UNREACHABLE \
	"the node that has the session cannot be reached, or is handing it over; try again in a moment"

/** A WebSocket to another node, which a door has opened itself. */
struct node_socket;

struct node_socket_ops {
	/** The other node has accepted the WebSocket. */
	void (*opened)(void *owner);
	/** A complete message, valid during the call. */
	void (*message)(void *owner, const char *text, size_t len);
	/** The socket is no longer choked. */
	void (*writable)(void *owner);
	/**
	 * The socket has ended, and is freed after the call. The code and reason are the other
	 * node's, or 1001 `owner gone` if it was lost.
	 */
	void (*closed)(void *owner, unsigned code, const char *reason);
};

/** The WebSockets that doors open to other nodes. */
struct placement_sockets {
	/** Opens one in the name of the connection's sender. NULL: there are too many. */
	struct node_socket *(*open)(struct conn *conn, const char *address, const char *target,
		const struct node_socket_ops *ops, void *owner);
	/** Closes and frees the socket without callbacks. Accepts NULL. */
	void (*leave)(struct node_socket *socket);
	/** Sends a message. Call it only after opened(). */
	void (*send)(struct node_socket *socket, const char *text, size_t len);
	/** Whether bytes are kept that the other node has not taken; writable() follows then. */
	bool (*is_choked)(const struct node_socket *socket);
	/** Pauses or resumes reading. */
	void (*pause)(struct node_socket *socket, bool paused);
	/** Bytes kept of an incomplete message. */
	size_t (*kept)(const struct node_socket *socket);
	/** Pings a silent node, and ends the socket if it stays silent; called once a second. */
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

/**
 * What the placement keeps for a connection that watches a session elsewhere, or whose messages come
 * from there (conn.placed). Only it knows the content.
 */
struct placed;

/* --- what doors call --- */

/** Whether another node may have the session: this one does not, not even unreadably. */
bool placement_may_be_elsewhere(const struct conn *conn, const char *id, size_t len);
/** NULL: all sessions are here. */
const struct placement_sockets *placement_sockets(const struct conn *conn);

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

#endif
