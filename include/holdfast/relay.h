/* The relay: creates the modules of the server, connects them, runs the loop, and closes them. */
#ifndef HOLDFAST_RELAY_H
#define HOLDFAST_RELAY_H

#include "holdfast/config.h"

/**
 * Runs the server until SIGTERM or SIGINT. Returns the program's exit code: 0, or 1 after reporting
 * on stderr why it could not start, or has failed.
 */
int relay_run(const struct config *config);

#endif
