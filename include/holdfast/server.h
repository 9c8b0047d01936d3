/*
 * The server: HTTP and WebSocket on libwebsockets sockets and the program's own libuv loop. It
 * authenticates clients, checks Host and Origin, and passes requests to sessions; it knows none of
 * their rules. All functions are called on the loop's thread.
 */
#ifndef HOLDFAST_SERVER_H
#define HOLDFAST_SERVER_H

#include "holdfast/access.h"
#include "holdfast/address.h"
#include "holdfast/agent_host.h"
#include "holdfast/metrics.h"
#include "holdfast/session.h"
#include "holdfast/turns.h"

struct door;
struct placement_ops;
struct server;

enum listen_scheme {
	LISTEN_BY_ADDRESS, /* HTTPS where other machines reach it, HTTP on loopback */
	LISTEN_HTTP,
	LISTEN_HTTPS,
	LISTEN_UNIX,
	LISTEN_NODE, /* for other nodes only, over plain HTTP */
};

/** One address to listen on. */
struct listen_address {
	enum listen_scheme scheme;
	char *host; /* an address; a name: all its addresses; LISTEN_UNIX: a path */
	int port; /* 0: a free port, the same for all addresses of a name */
	bool is_metrics; /* serves only GET /metrics, without a token, over plain HTTP */
};

/* Most sockets that can be inherited. */
#define INHERITED_MAX 64

/**
 * Listening sockets that a service manager opened and keeps open after we end. Those taken are -1.
 */
struct inherited_sockets {
	int fds[INHERITED_MAX];
	size_t count;
};

/**
 * Takes the sockets of LISTEN_FDS if they are for this process, marks them close-on-exec and
 * removes the variables. Call it before anything is opened or started.
 */
void inherited_take(struct inherited_sockets *ret);

/** Who may use a server besides local programs and its own page. */
struct server_trust {
	char **origins; /* other origins whose pages may use the API; NULL-terminated; NULL: none */
	char **hosts; /* accepted names in Host, besides those of loopback; likewise */
	struct address_range *proxies; /* whose X-Forwarded-For and -Proto are believed */
	size_t proxy_count;
	bool trusts_unix; /* likewise for peers on a unix socket */
	bool ai_takes_cookie; /* a login's cookie alone authenticates for /api/ai */
};

struct server_config {
	const struct server_life *life; /* of the server; must outlive it */
	uv_loop_t *loop;
	const struct limits *limits;
	const struct clock *clock;
	const struct listen_address *listen; /* must outlive the server */
	size_t listen_count;
	struct inherited_sockets *inherited; /* used where the address fits; NULL: none */
	const struct server_trust *trust; /* must outlive the server */
	const char *tls_cert; /* PEM files; NULL: none; must outlive the server */
	const char *tls_key;
	bool is_tls_off; /* a proxy in front speaks TLS; plain HTTP everywhere */
	bool is_compression_off;
	const char *web_dir; /* static files; NULL: none */
	const char *highlight_dir; /* highlight.js for those files; NULL: none */
	struct session_table *sessions;
	/** If other nodes share the store, what finds sessions there; NULL: all are here. */
	const struct placement_ops *placement;
	struct agent_host *agents;
	struct access *access; /* NULL: no authentication */
	/** Searched in this order, up to one without routes; must outlive the server. */
	const struct door *doors;
	struct turns *turns; /* limits the loop time of pages; NULL: no limit */
	struct metrics *metrics; /* NULL: nothing is counted, and there is no /metrics */
};

/**
 * Binds and listens. Returns NULL if that fails; *ret_why (caller frees) says why, unless it is
 * NULL.
 */
struct server *server_create(const struct server_config *config, char **ret_why);
/** Whether only this machine and other nodes can reach it. */
bool server_is_loopback(const struct server *server);
/** Reloads the certificate and the key, for new connections. Errors are logged. */
void server_reload_keys(struct server *server);
/**
 * Appends the i-th address, with its port: http:// or https:// and HOST:PORT, only HOST:PORT for
 * nodes, or unix:PATH.
 */
void server_append_url(const struct server *server, size_t i, struct buffer *out);
/** Serves a connected socket and takes ownership of it. It counts as coming from loopback. */
void server_adopt(struct server *server, int fd);
/** The number of connections that are not closed yet. */
size_t server_connections(const struct server *server);
/** Implement session_ops.changed and .deleted: tell feeds, and end what needs the session. */
void server_session_changed(struct server *server, struct session *session);
void server_session_deleted(struct server *server, struct session *session);
/**
 * Another node has the session now: its WebSockets and streams are closed, and clients reconnect.
 */
void server_session_moved(struct server *server, struct session *session);
/**
 * Implements session_ops.elsewhere(): another node reports the state of one of its sessions;
 * `object` is NULL if the session is gone.
 */
void server_session_elsewhere(
	struct server *server, const char *id, const struct session_object *object, bool is_new);
/** Implements access_config.revoked: ends connections whose token or login is no longer valid. */
void server_grants_changed(struct server *server);
/**
 * Ends a loop tick: sends what connections have gathered and closes those that are done. While the
 * disk `is_behind`, nothing is read from producers.
 */
void server_end_tick(struct server *server, bool is_behind);
/**
 * Begins the shutdown: new requests are refused with shutting_down; WebSockets and streams are
 * closed with 1001, so that clients reconnect.
 */
void server_drain(struct server *server);
/**
 * Closes every connection and its observer; sessions must still exist. Handles are closed once the
 * loop has run. Accepts NULL.
 */
void server_close(struct server *server);
/**
 * Frees it, after server_close() and a run of the loop to its end; no other thread may open files
 * any more (docs/libwebsockets.md). Accepts NULL.
 */
void server_destroy(struct server *server);

#endif
