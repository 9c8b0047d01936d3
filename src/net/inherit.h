/* Sockets that the service manager has opened for us and keeps while the server restarts (sd_listen_fds). */
#ifndef HOLDFAST_INHERIT_H
#define HOLDFAST_INHERIT_H

#include "holdfast/server.h"

#include <stdbool.h>
#include <sys/socket.h>

/**
 * One that listens at this address, with its port, which is nobody else's from now on: non-blocking. -1: there is none.
 */
int inherited_find(struct inherited_sockets *inherited, const struct sockaddr *address);
/** Gives the address of one that nobody has wanted; false: there is none. The caller frees it. */
bool inherited_left(const struct inherited_sockets *inherited, char **ret_address);

#endif
