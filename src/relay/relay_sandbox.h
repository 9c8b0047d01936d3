/* Private to src/relay: the box of agents that the options ask for. */
#ifndef HOLDFAST_RELAY_SANDBOX_H
#define HOLDFAST_RELAY_SANDBOX_H

#include "holdfast/config.h"
#include "holdfast/sandbox.h"
#include "holdfast/spawner.h"

/**
 * Makes the sandbox of agents, with a directory for what is temporary; of one that is not asked for
 * `tmp` stays NULL. 0, or -1 and *ret_why (caller frees): agents would not be confined.
 */
int relay_make_sandbox(const struct config *config, struct sandbox *sandbox, char **ret_why);
/**
 * Where groups for agents are made (cgroup.h), if they are to be used; the caller frees it. 0, or -1
 * and *ret_why (caller frees).
 */
int relay_find_cgroup(const struct config *config, char **ret_dir, char **ret_why);
/**
 * Starts the process that starts agents, which keep `rules` (spawner.h); none if there is no agent.
 * 0, or -1 and *ret_why (caller frees).
 */
int relay_start_spawner(const struct config *config, const struct box_rules *rules, uv_loop_t *loop,
	void (*lost)(void *owner), void *owner, struct spawner **ret_spawner, char **ret_why);
/**
 * Puts the server itself under its filter, if that is to be, and says what is in force. 0, or -1 and
 * *ret_why (caller frees): it was asked for, and cannot be.
 */
int relay_confine(const struct config *config, char **ret_why);
/** When the agents are gone; also of one that could not be made. */
void relay_finish_sandbox(struct sandbox *sandbox);

/** No core files, and as many descriptors as connections may need. */
void relay_limit_process(const struct limits *limits);

#endif
