/* What a door gives the server: its table of routes. */
#ifndef HOLDFAST_NET_DOOR_H
#define HOLDFAST_NET_DOOR_H

#include <stdbool.h>
#include <stddef.h>

struct conn;
struct conn_ops;
struct session;

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

#endif
