/*
 * Listening: names and addresses to bind, and the connections that come in, up to a cap. At the cap
 * a connection is told so and closed; when the system has no descriptor left, accepting pauses for a
 * moment instead of spinning.
 */
#ifndef HOLDFAST_LISTEN_H
#define HOLDFAST_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct listeners;

struct listen_config {
	uv_loop_t *loop;
	const char *host; /* an address, or a name whose addresses are all listened on */
	int port; /* 0: a free one, the same at all addresses */
	/** A connection has come; takes `fd`, which is non-blocking and closed on exec. */
	void (*accepted)(void *owner, int fd);
	/** Whether one more connection is served. */
	bool (*has_room)(void *owner);
	void *owner;
};

/** Binds and listens. NULL if that fails; *ret_why (caller frees) says why. */
struct listeners *listeners_create(const struct listen_config *config, char **ret_why);
int listeners_port(const struct listeners *listeners);
/** Whether only this machine can reach it. */
bool listeners_are_loopback(const struct listeners *listeners);
/** Accepts nothing more and closes; freed when the loop has run. Accepts NULL. */
void listeners_close(struct listeners *listeners);

#endif
