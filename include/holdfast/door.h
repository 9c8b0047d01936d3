/*
 * What a door gives the server: its routes, answers, and kinds of WebSocket. A door is one way in, such
 * as the one of observers, or that of another protocol. The files that own sockets, requests and
 * memory call a door by these tables, and know none by its name.
 */
#ifndef HOLDFAST_NET_DOOR_H
#define HOLDFAST_NET_DOOR_H

#include <stdbool.h>
#include <stddef.h>

struct answer;
struct conn;
struct frame;
struct refusal;
struct session;

/**
 * Behaviour of one kind of WebSocket, or of stream of server-sent events; one table for each kind.
 * A kind keeps its own state in conn.state, which only it reads: it is NULL until the kind sets it,
 * and `closed` frees it. All functions but `open` and `message` may be called before `open`.
 */
struct conn_ops {
	/**
	 * Reads the query of the upgrade request. Returns NULL, or a message, with which the socket
	 * is refused once it is open. NULL: no query is taken.
	 */
	const char *(*read_query)(struct conn *conn);
	/** The handshake is done and the peer is authenticated. */
	void (*open)(struct conn *conn);
	/** A complete text message has arrived. */
	void (*message)(struct conn *conn, const char *text, size_t len);
	/** The socket takes more. */
	void (*writable)(struct conn *conn);
	/** The connection is being destroyed: releases what this kind attached to it. May be NULL. */
	void (*closed)(struct conn *conn);
	/** Called at the end of the tick if conn_at_end_of_tick() was; may be NULL. */
	void (*end_tick)(struct conn *conn);
	/** Called once a second, also while the connection is closing; may be NULL. */
	void (*sweep)(struct conn *conn);
	/**
	 * The bytes that this kind keeps for the peer, beside those of the socket, the outbox and
	 * the observer. May be NULL: none.
	 */
	size_t (*kept)(const struct conn *conn);
	/**
	 * A session was deleted, or moves to another server. Called for every connection of this
	 * kind, whatever its session is; conn_session() is still set, and is dropped next. May be
	 * NULL.
	 */
	void (*session_lost)(struct conn *conn, const struct session *session, bool is_deleted);
	/**
	 * The peer has renewed its token, whose rights may differ: confirms it, or has it confirmed
	 * (ws_confirm_token()). May be NULL for kinds whose peers send no such frames.
	 */
	void (*renewed)(struct conn *conn);
	/**
	 * Replaces conn_send() and conn_send_frame() for kinds that speak another protocol; takes
	 * the reference. May be NULL.
	 */
	void (*tell)(struct conn *conn, struct frame *frame);
	/** Gives the words of an error instead of its frame. May be NULL. */
	void (*tell_error)(struct conn *conn, const char *message);
	bool is_producer; /* has the limits of producers, and its answers are sent together */
	bool is_stored_here; /* its input is not read while the disk is behind */
	bool takes_bodies; /* messages are limited by body_size, not frame_size */
	bool is_about_all; /* of no single session: what its token shows is checked later */
	bool is_free; /* its input is not charged: each sender has paid at another node */
	bool is_one_answer; /* as a stream it answers one request, and is not opened again */
};

/* --- answers --- */

/** Why an answer ends before it is complete. */
enum answer_end {
	ANSWER_BROKEN, /* the rest of the body cannot be parsed */
	ANSWER_DENIED, /* the token has expired, or was revoked */
	ANSWER_MOVED, /* the session moves to another server */
	ANSWER_DELETED, /* the session was deleted */
	ANSWER_DRAINED, /* the server shuts down */
};

/**
 * The state of a request that takes more than one call to answer, embedded in that of its door. An
 * exchange has at most one, from http_begin_answer() until the door drops it, or the response is
 * sent: what has several parts is one answer after the other.
 */
struct answer {
	const struct answer_ops *ops;
	struct conn *conn; /* NULL: nobody waits for the answer any more */
	bool is_held; /* no more of the body is read for now */
	size_t in_flight; /* bytes of the body that are being written, and not in conn.rx */
};

/** What a door does with its answer; one table for each kind. All but `drop` may be NULL. */
struct answer_ops {
	/** Takes a part of the request's body. NULL: of what is still to come nothing is used. */
	void (*take_body)(struct answer *answer, const char *bytes, size_t len);
	/** The body is complete; also called if it has no bytes. */
	void (*end_body)(struct answer *answer);
	/** The peer takes more. If set, more of the answer may follow its first response. */
	void (*writable)(struct answer *answer);
	/** Called once a second. */
	void (*sweep)(struct answer *answer);
	/**
	 * Whether it still waits for news, and the peer may leave meanwhile. Stops waiting first if
	 * the peer has sent its next request.
	 */
	bool (*polls)(struct answer *answer);
	/** Its DEADLINE_POLL has passed: answers that nothing is new. */
	void (*time_out)(struct answer *answer);
	/** Refuses the request, if this kind ends for that reason; `refusal` is the general one. */
	void (*refuse)(struct answer *answer, enum answer_end end, const struct refusal *refusal);
	/** Stops and frees it, or lets what still runs free it. The exchange has let go of it. */
	void (*drop)(struct answer *answer);
	bool is_stored_here; /* its body is not read while the disk is behind */
};

/* --- routes --- */

/** What the bodies of a route's POST, PUT and PATCH are. */
enum route_body {
	BODY_NONE, /* of no use: it is dropped */
	BODY_JSON, /* gathered */
	BODY_EVENTS, /* the same or, with a type of lines, events that are taken as they arrive */
	BODY_UPLOAD, /* bytes, taken as they arrive */
	BODY_BYTES, /* bytes of any type, gathered; only of those who may append */
};

enum route_flag {
	ROUTE_OPEN = 1 << 0, /* no token is needed */
	ROUTE_ALWAYS = 1 << 1, /* served until the server is gone, also while it is shutting down */
	ROUTE_METRICS = 1 << 2, /* also served by the listener for metrics */
	ROUTE_LINKED = 1 << 3, /* pages of other sites may link to it */
	ROUTE_COOKIE = 1 << 4, /* the cookie of a login is enough (--ai-sdk-cookie) */
	ROUTE_NODES = 1 << 5, /* only for other nodes of the same store */
	/* The first part that the pattern matches is a session's id. Another node may have it. */
	ROUTE_SESSION = 1 << 6,
	/* Refused before the handler is called if the id is invalid or the token must not see it. */
	ROUTE_CHECKED = 1 << 7,
	ROUTE_APPENDS = 1 << 8, /* its POST and PUT append: the rates of producers apply */
	ROUTE_EVENT_SOURCE = 1 << 9, /* EventSource reads our events here */
	ROUTE_OTHER_EVENTS = 1 << 10, /* its server-sent events are of another protocol than ours */
	ROUTE_LIVE = 1 << 11, /* with `live` in the query it can be served from a mirror */
	ROUTE_LEFT_OUT = 1 << 12, /* of a part that is not in this program: `serve` says so */
};

/** For routes that pages of every origin may use if --allow-origin has a `*`. */
struct route_cors {
	const char *allowed; /* the headers that these pages may send */
	const char *exposed; /* those of the answers that they may read, beside the usual ones */
};

/**
 * One address. The rights of each row are in proto/doors.json; e2e test 80 tries them with all
 * roles and wrong tokens, and fails if a row is missing there.
 */
struct route {
	/*
	 * A pattern: {name} stands for one part that is not empty, "/{name...}" at the end for the
	 * rest of the path or nothing, and "*" at the end for anything.
	 */
	const char *path;
	const char *methods; /* GET includes HEAD; "": nothing but a WebSocket is here */
	enum route_body body;
	unsigned flags; /* of enum route_flag */
	/* Called once the body is there, or at once if it matters not or is taken as it arrives. */
	void (*serve)(struct conn *conn);
	/* The same with a session, for rows with ROUTE_CHECKED; NULL: it does not exist. */
	void (*serve_session)(struct conn *conn, struct session *session);
	const struct conn_ops *socket; /* the kind of WebSocket here; NULL: none */
	const char *protocol; /* the subprotocol without which the row does not fit; NULL: none */
	const struct route_cors *cors; /* NULL: only pages that --allow-origin names may use it */
};

/** What a pattern has matched; not terminated. */
struct path_part {
	const char *at; /* in the decoded path */
	size_t len; /* up to the next slash */
};

/* Most parts of a pattern that are kept. */
#define ROUTE_PARTS 2

/* --- doors --- */

/** What the server is given of a door. */
struct door {
	const struct route *routes; /* searched in this order, up to a row without a path */
	void *state; /* http_door_state() of its requests; NULL: none */
	/** Sets the gauges that are read on request. May be NULL. */
	void (*set_gauges)(void *state);
	/** How many streams, or the like, it has and cannot read. May be NULL: none. */
	size_t (*count_damaged)(const void *state);
};

#endif
