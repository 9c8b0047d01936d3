/* Binds the sockets of one --listen: exactly the addresses that it names. */
#ifndef HOLDFAST_BIND_H
#define HOLDFAST_BIND_H

#include "holdfast/server.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Most addresses used of a name. */
#define BIND_ADDRESSES_MAX 16

/** Listening sockets, non-blocking and close-on-exec. */
struct bound {
	int fds[BIND_ADDRESSES_MAX];
	size_t count;
	int port; /* 0 for a unix socket */
	bool is_loopback; /* only this machine can connect; also true of a unix socket */
	bool is_inherited[BIND_ADDRESSES_MAX]; /* the service manager's: it stays open when we
						  close it */
	dev_t dev; /* identify the file of a unix socket */
	ino_t ino;
};

/**
 * Binds all addresses of a name, at one port, or a unix socket with mode 0600. An inherited socket
 * with the same address is used instead (`inherited` NULL: none). Blocks while the C library
 * resolves the name. Returns a negative errno if one of them fails; *ret_why (caller frees) says
 * why.
 */
int bind_address(const struct listen_address *address, struct inherited_sockets *inherited,
	struct bound *ret, char **ret_why);
/** Removes the file of a unix socket, unless another one has replaced it. */
void bound_unlink(const struct bound *bound, const struct listen_address *address);

#endif
