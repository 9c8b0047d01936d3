/* The relay: builds all rooms, joins them, runs the loop, and takes them down again. */
#ifndef HOLDFAST_RELAY_H
#define HOLDFAST_RELAY_H

#include "holdfast/config.h"

/**
 * Runs until SIGTERM or SIGINT. Returns the program's exit code; says on stderr what went wrong.
 */
int relay_run(const struct config *config);

#endif
