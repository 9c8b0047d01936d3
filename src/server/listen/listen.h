/*
 * Listening sockets: binds addresses and accepts connections, up to a limit. Beyond the limit a
 * connection is refused with 503 and closed. When the system has no descriptor left, accepting
 * pauses instead of spinning.
 */
#ifndef HOLDFAST_LISTEN_H
#define HOLDFAST_LISTEN_H

#include "holdfast/buffer.h"
#include "holdfast/server.h"

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

/* Most refused connections that stay open for a moment, so that their peers can read why. */
#define LISTEN_LEAVING_MAX 32

struct listeners;

/** The listener that a connection came in by. */
struct listen_kind {
	bool is_loopback; /* only this machine can connect; also true of unix sockets */
	bool is_unix;
	bool is_tls;
	bool is_metrics; /* serves only GET /metrics, without a token */
	bool is_node; /* for other nodes, which say whose requests they pass on (node_identity.h) */
};

struct listen_config {
	uv_loop_t *loop;
	const struct listen_address *addresses; /* must outlive the listeners */
	size_t count;
	struct inherited_sockets *inherited; /* used where the address fits; NULL: none */
	bool has_keys; /* a certificate is configured */
	bool is_tls_off; /* plain HTTP wherever the address does not say https:// */
	/**
	 * A connection was accepted; takes ownership of `fd`, which is non-blocking and
	 * close-on-exec.
	 */
	void (*accepted)(void *owner, int fd, const struct listen_kind *kind);
	size_t leaving_max; /* refused connections that stay open: 1 to LISTEN_LEAVING_MAX */
	/** Whether the connection `fd` can be served. */
	bool (*has_room)(void *owner, int fd, const struct listen_kind *kind);
	void *owner;
};

/** Binds and listens. Returns NULL if that fails; *ret_why (caller frees) says why. */
struct listeners *listeners_create(const struct listen_config *config, char **ret_why);
/** Whether only this machine and other nodes can reach them. */
bool listeners_are_loopback(const struct listeners *listeners);
/**
 * Appends the i-th address, with its port: http:// or https:// and HOST:PORT, only HOST:PORT for
 * nodes, or unix:PATH.
 */
void listeners_append_url(const struct listeners *listeners, size_t i, struct buffer *out);
/**
 * Stops accepting on inherited sockets: new connections wait there for the next process. Others go
 * on.
 */
void listeners_leave_inherited(struct listeners *listeners);
/**
 * Stops listening and removes the files of unix sockets. Frees itself once the loop has run.
 * Accepts NULL.
 */
void listeners_close(struct listeners *listeners);

#endif
