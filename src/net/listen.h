/*
 * Listening: names and addresses to bind, and the connections that come in, up to a cap. At the cap
 * a connection is told so and closed; when the system has no descriptor left, accepting pauses for a
 * moment instead of spinning.
 */
#ifndef HOLDFAST_LISTEN_H
#define HOLDFAST_LISTEN_H

#include "holdfast/buffer.h"
#include "holdfast/server.h"

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct listeners;

/** Where a connection has come in. */
struct listen_kind {
	bool is_loopback; /* only this machine gets there; also by a unix socket */
	bool is_unix;
	bool is_tls;
	bool is_metrics; /* GET /metrics needs no token here, and nothing else is served */
	bool is_node; /* another node, which says whose requests it passes on (node_identity.h) */
};

struct listen_config {
	uv_loop_t *loop;
	const struct listen_address *addresses; /* must outlive the listeners */
	size_t count;
	struct inherited_sockets *inherited; /* used instead of own ones; NULL: none */
	bool has_keys; /* there is a certificate */
	bool is_tls_off; /* plain HTTP is spoken wherever the address does not say https:// */
	/** A connection has come; takes `fd`, which is non-blocking and closed on exec. */
	void (*accepted)(void *owner, int fd, const struct listen_kind *kind);
	/** Whether one more connection is served, which is `fd`. */
	bool (*has_room)(void *owner, int fd, const struct listen_kind *kind);
	void *owner;
};

/** Binds and listens. NULL if that fails; *ret_why (caller frees) says why. */
struct listeners *listeners_create(const struct listen_config *config, char **ret_why);
/** Whether only this machine, and other nodes, can reach them. */
bool listeners_are_loopback(const struct listeners *listeners);
/** Appends the i-th address with its port: http:// or https://, HOST:PORT; HOST:PORT for nodes; or unix:PATH. */
void listeners_append_url(const struct listeners *listeners, size_t i, struct buffer *out);
/**
 * Accepts nothing more where the sockets are inherited: who comes waits for the next process. Elsewhere all stays as it
 * is.
 */
void listeners_leave_inherited(struct listeners *listeners);
/** Accepts nothing more, closes, and removes its files; freed when the loop has run. Accepts NULL. */
void listeners_close(struct listeners *listeners);

#endif
