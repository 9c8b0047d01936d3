/* Binding: the sockets of one --listen, which has to get what it asked for and nothing more. */
#ifndef HOLDFAST_BIND_H
#define HOLDFAST_BIND_H

#include "holdfast/server.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A name may have so many addresses. */
#define BIND_ADDRESSES_MAX 16

/** They listen, are non-blocking and are closed on exec. */
struct bound {
	int fds[BIND_ADDRESSES_MAX];
	size_t count;
	int port; /* 0: of a unix socket */
	bool is_loopback; /* only this machine can reach it; also of a unix socket */
	bool is_inherited; /* somebody else's: it stays when we close it */
	dev_t dev; /* which file the unix socket is */
	ino_t ino;
};

/**
 * Binds all addresses of a name, at one port, or a unix socket for its owner alone; what is inherited
 * (NULL: nothing) is used as it is. Blocks while
 * the C library looks the name up. Returns a negative errno if one of them fails; *ret_why (caller
 * frees) says why.
 */
int bind_address(const struct listen_address *address, struct inherited_sockets *inherited,
	struct bound *ret, char **ret_why);
/** Removes the file of a unix socket, if it is still this one. */
void bound_unlink(const struct bound *bound, const struct listen_address *address);

#endif
