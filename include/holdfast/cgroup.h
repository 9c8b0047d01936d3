/*
 * Control groups of Linux (version 2), which bound an agent better than its guards can: at once, and
 * whatever it starts. They are used where the server may make groups and has the controllers; a
 * group for each start of an agent, and in it one for what each guard has started.
 */
#ifndef HOLDFAST_CGROUP_H
#define HOLDFAST_CGROUP_H

#include <stdbool.h>

struct cgroup_wish {
	bool memory; /* that the controllers must bound */
	bool processes;
};

/**
 * A directory in which groups for agents can be made: `given`, or if that is NULL the server's own
 * group if it was delegated to it, of which it moves itself into a part. `mount` is where groups are
 * (NULL: where the system has them), `self` the text of /proc/self/cgroup (NULL: as it is). The
 * caller frees it. NULL: none, *ret_why says why (caller frees). Blocks: for the start.
 */
char *cgroup_find(const char *given, const struct cgroup_wish *wish, const char *mount,
	const char *self, char **ret_why);

#endif
