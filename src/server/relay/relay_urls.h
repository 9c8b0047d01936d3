/* Announces the server's addresses when it has started. */
#ifndef HOLDFAST_RELAY_URLS_H
#define HOLDFAST_RELAY_URLS_H

#include "holdfast/config.h"
#include "holdfast/server.h"

#include <stdbool.h>

/**
 * Prints where the server listens and how to log in, writes the addresses to the data directory for
 * holdfast url, and with --qr shows the code. `has_access`: clients need a token.
 */
void relay_announce(const struct config *config, const struct server *server, bool has_access);

#endif
