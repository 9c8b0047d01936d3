/* serve --qr: the link that logs in, as a code that a phone reads from the terminal. */
#ifndef HOLDFAST_RELAY_QR_H
#define HOLDFAST_RELAY_QR_H

#include "holdfast/config.h"
#include "holdfast/server.h"

/**
 * Prints the code on stderr, if that is a terminal: the link has a secret in it. Where there is
 * no address that a phone reaches, or no terminal, it says so, and what to do.
 */
void relay_show_qr(const struct config *config, const struct server *server);

#endif
