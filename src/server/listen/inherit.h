/*
 * Listening sockets passed by a service manager, which keeps them open while the server restarts
 * (sd_listen_fds).
 */
#ifndef HOLDFAST_INHERIT_H
#define HOLDFAST_INHERIT_H

#include "holdfast/server.h"

#include <stdbool.h>
#include <sys/socket.h>

/**
 * Finds the inherited socket that listens at this address and port, makes it non-blocking and hands
 * it to the caller. Returns -1 if none does.
 */
int inherited_find(struct inherited_sockets *inherited, const struct sockaddr *address);
/** Whether a socket was not taken; gives its address as text, which the caller frees. */
bool inherited_left(const struct inherited_sockets *inherited, char **ret_address);

#endif
