/* Private to src/server/relay: the confinement and the limits of the server's process. */
#ifndef HOLDFAST_RELAY_SANDBOX_H
#define HOLDFAST_RELAY_SANDBOX_H

#include "holdfast/config.h"

/**
 * Makes the data directory, if the store, with --store, does not. Returns 0, or -1 and *ret_why
 * (caller frees).
 */
int relay_make_data_dir(const struct config *config, char **ret_why);
/**
 * Puts the server itself under its seccomp filter, according to --seccomp, and reports whether it
 * is in force. Returns 0, or -1 and *ret_why (caller frees) if --seccomp on cannot be fulfilled.
 */
int relay_confine(const struct config *config, char **ret_why);
/** Disables core files, and allows as many descriptors as connections may need. */
void relay_limit_process(const struct limits *limits);
/**
 * Keeps freed memory for the next tick. Frames for observers live for one tick. By default all
 * above 128 KiB would be unmapped, and mapped and cleared again for the next event: half the cost
 * of an observer with frames of its own. Evicting sessions returns it (session_evict.c).
 */
void relay_keep_heap(void);

#endif
