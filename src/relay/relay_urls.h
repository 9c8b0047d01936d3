/* The addresses that the server tells when it has started. */
#ifndef HOLDFAST_RELAY_URLS_H
#define HOLDFAST_RELAY_URLS_H

#include "holdfast/config.h"
#include "holdfast/server.h"

#include <stdbool.h>

/**
 * Says where the server listens and how to log in, and writes the addresses down for holdfast url; with --qr
 * shows the code. `has_access`: who comes needs a token.
 */
void relay_announce(const struct config *config, const struct server *server, bool has_access);

#endif
