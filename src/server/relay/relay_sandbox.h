/* Private to src/server/relay: sets up the confinement of agents, and of the server itself. */
#ifndef HOLDFAST_RELAY_SANDBOX_H
#define HOLDFAST_RELAY_SANDBOX_H

#include "holdfast/config.h"
#include "holdfast/sandbox.h"
#include "holdfast/spawner.h"

/**
 * Makes the sandbox of agents, with a directory `tmp` for temporary files; without --sandbox `tmp`
 * is NULL. Returns 0, or -1 and *ret_why (caller frees) if agents would not be confined.
 */
int relay_make_sandbox(const struct config *config, struct sandbox *sandbox, char **ret_why);
/**
 * Finds the directory for the control groups of agents (cgroup.h); *ret_dir (caller frees) is NULL
 * if they are not used. Returns 0, or -1 and *ret_why (caller frees).
 */
int relay_find_cgroup(const struct config *config, char **ret_dir, char **ret_why);
/**
 * Makes the data directory, if the store, with --store, does not. Returns 0, or -1 and *ret_why
 * (caller frees).
 */
int relay_make_data_dir(const struct config *config, char **ret_why);
/**
 * Starts the process that starts agents under `rules` (spawner.h), unless no agents are configured:
 * then *ret_spawner stays as it is. Returns 0, or -1 and *ret_why (caller frees).
 */
int relay_start_spawner(const struct config *config, const struct box_rules *rules, uv_loop_t *loop,
	void (*lost)(void *owner), void *owner, struct spawner **ret_spawner, char **ret_why);
/**
 * Puts the server itself under its seccomp filter, according to --seccomp, and reports whether it
 * is in force. Returns 0, or -1 and *ret_why (caller frees) if --seccomp on cannot be fulfilled.
 */
int relay_confine(const struct config *config, char **ret_why);
/** To be called when the agents are gone. Accepts a sandbox that could not be made. */
void relay_finish_sandbox(struct sandbox *sandbox);

/** Disables core files, and allows as many descriptors as connections may need. */
void relay_limit_process(const struct limits *limits);
/**
 * Keeps freed memory for the next tick. Frames for observers live for one tick. By default all
 * above 128 KiB would be unmapped, and mapped and cleared again for the next event: half the cost
 * of an observer with frames of its own. Evicting sessions returns it (session_evict.c).
 */
void relay_keep_heap(void);

#endif
