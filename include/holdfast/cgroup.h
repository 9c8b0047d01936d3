/*
 * Control groups of Linux (version 2), which limit an agent better than its guards can:
 * immediately, and including everything it starts. They are used where the server may create groups
 * and has the controllers. Each start of an agent gets a group, and in it one subgroup for each of
 * its guards.
 */
#ifndef HOLDFAST_CGROUP_H
#define HOLDFAST_CGROUP_H

#include <stdbool.h>

struct cgroup_wish {
	bool memory; /* which controllers are needed */
	bool processes;
};

/**
 * Finds the directory in which groups for agents can be created: `given`, or, if that is NULL, the
 * server's own group, provided it is delegated to the server. In that case the server moves itself
 * into a subgroup. `mount` is the cgroup file system (NULL: the system's), `self` the text of
 * /proc/self/cgroup (NULL: read it). Returns the path, or NULL with the reason in *ret_why; the
 * caller frees either. Blocks; call it at startup only.
 */
char *cgroup_find(const char *given, const struct cgroup_wish *wish, const char *mount,
	const char *self, char **ret_why);

#endif
