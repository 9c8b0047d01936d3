/*
 * The net room: HTTP and WebSocket, on libwebsockets and the program's own libuv loop. It carries
 * bytes, keeps strangers out (Host and Origin), and knows no rule of sessions.
 */
#ifndef HOLDFAST_SERVER_H
#define HOLDFAST_SERVER_H

#include "holdfast/access.h"
#include "holdfast/address.h"
#include "holdfast/agent_host.h"
#include "holdfast/metrics.h"
#include "holdfast/session.h"
#include "holdfast/turns.h"

struct push;
struct raw_store;
struct server;

enum listen_scheme {
	LISTEN_BY_ADDRESS, /* HTTPS where other machines reach it, HTTP on loopback */
	LISTEN_HTTP,
	LISTEN_HTTPS,
	LISTEN_UNIX,
	LISTEN_NODE, /* for other nodes alone: HTTP, and nobody else is let in */
};

/** What is listened on. */
struct listen_address {
	enum listen_scheme scheme;
	char *host; /* an address, or a name whose addresses are all meant; the path of LISTEN_UNIX */
	int port; /* 0: a free one, the same at all addresses */
	bool is_metrics; /* for GET /metrics alone, without a token, over plain HTTP */
};

/* So many may be inherited. */
#define INHERITED_MAX 64

/** Sockets that a service manager has opened before us and keeps open when we end; those in use are -1. */
struct inherited_sockets {
	int fds[INHERITED_MAX];
	size_t count;
};

/**
 * Those of LISTEN_FDS, if they are for this process; none of its children gets them. Before anything else
 * is opened or started.
 */
void inherited_take(struct inherited_sockets *ret);

/** Who else may talk to a server than programs and its own page at its own address. */
struct server_trust {
	char **origins; /* of pages elsewhere that may use the API; NULL-terminated; NULL: none */
	char **hosts; /* names that it is asked for, besides those of loopback; the same */
	struct address_range *proxies; /* whose X-Forwarded-For and X-Forwarded-Proto count */
	size_t proxy_count;
	bool trusts_unix; /* also of whoever comes by a unix socket */
	bool ai_takes_cookie; /* a login's cookie is enough for the door of the AI SDK */
};

struct server_config {
	uv_loop_t *loop;
	const struct limits *limits;
	const struct clock *clock;
	const struct listen_address *listen; /* must outlive the server */
	size_t listen_count;
	struct inherited_sockets *inherited; /* used instead of own ones; NULL: none */
	const struct server_trust *trust; /* must outlive the server */
	const char *tls_cert; /* PEM files; NULL: none; must outlive the server */
	const char *tls_key;
	bool is_tls_off; /* a proxy ends TLS: other machines reach plain HTTP */
	bool is_compression_off;
	const char *web_dir; /* static files; NULL: none */
	const char *highlight_dir; /* highlight.js for those files; NULL: none */
	struct session_table *sessions;
	struct agent_host *agents;
	struct access *access; /* NULL: everybody may do everything */
	struct push *push; /* NULL: no push messages */
	struct raw_store *raw; /* NULL: there are no raw streams */
	struct turns *turns; /* of pages; NULL: nobody waits */
	struct metrics *metrics; /* NULL: nothing is counted, and there is no /metrics */
};

/** Binds and listens. NULL if that fails; *ret_why (caller frees) says why. */
struct server *server_create(const struct server_config *config, char **ret_why);
/** Whether only this machine, and other nodes, can reach it. */
bool server_is_loopback(const struct server *server);
/** Reads the certificate and the key again, for connections to come. What is wrong is said. */
void server_reload_keys(struct server *server);
/** Appends where it listens, with the port: http:// or https://, HOST:PORT; HOST:PORT for nodes; or unix:PATH. */
void server_append_url(const struct server *server, size_t i, struct buffer *out);
/** Serves a connected socket, which is taken: one that it has accepted itself, or somebody else. */
void server_adopt(struct server *server, int fd);
/** Connections that are not closed yet. */
size_t server_connections(const struct server *server);
/** session_ops.changed and .deleted: for the feed. */
void server_session_changed(struct server *server, struct session *session);
void server_session_deleted(struct server *server, struct session *session);
/** Another node has it: producers and streams end, and come back. */
void server_session_moved(struct server *server, struct session *session);
/** What session_ops.elsewhere() tells. */
void server_session_elsewhere(
	struct server *server, const char *id, const struct session_object *object, bool is_new);
/** A token or login counts no more: access_config.revoked. */
void server_grants_changed(struct server *server);
/**
 * The end of a loop tick: what is gathered for producers goes out. Nothing is read from them while
 * the disk is behind.
 */
void server_end_tick(struct server *server, bool is_behind);
/**
 * New requests are refused with shutting_down; observers are closed with 1001, so that they come
 * back.
 */
void server_drain(struct server *server);
/**
 * Closes every connection, which gives back their observers; sessions must still be there. Its
 * handles are closed when the loop has run. Accepts NULL.
 */
void server_close(struct server *server);
/** Frees it, after server_close() and a run of the loop. Accepts NULL. */
void server_destroy(struct server *server);

#endif
