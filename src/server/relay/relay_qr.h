/* serve --qr: shows the login link as a QR code, which a phone reads from the terminal. */
#ifndef HOLDFAST_RELAY_QR_H
#define HOLDFAST_RELAY_QR_H

#include "holdfast/config.h"
#include "holdfast/server.h"

/**
 * Prints the code on stderr if that is a terminal, since the link contains a secret. Otherwise, or
 * if a phone cannot reach the server, warns, and says what to do.
 */
void relay_show_qr(const struct config *config, const struct server *server);

#endif
