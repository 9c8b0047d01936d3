/* Shared by the files of the post room. */
#ifndef HOLDFAST_POST_INTERNAL_H
#define HOLDFAST_POST_INTERNAL_H

#include "holdfast/post.h"

#include <netdb.h>

/**
 * Finds the addresses of a URL's host. Blocks until they are found or stop_fd becomes readable.
 * Returns 0, and a list for freeaddrinfo(); -EHOSTUNREACH; or -ECANCELED.
 */
int post_lookup(const struct post_url *url, int stop_fd, struct addrinfo **ret_found);

#endif
