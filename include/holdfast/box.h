/*
 * The box of an agent: the limits on memory and processes for the agent and the commands that it
 * has the server run, together with everything they have started. Their guards (agent_guard.h)
 * measure once a second and report; the box adds the reports up, and kills everything in it once a
 * limit is exceeded. With a sandbox (sandbox.h), the rules also say which files they can reach; the
 * guards confine what they start.
 */
#ifndef HOLDFAST_BOX_H
#define HOLDFAST_BOX_H

#include "holdfast/limits.h"
#include "holdfast/sandbox.h"

#include <stddef.h>

struct box;

struct box_rules {
	size_t memory_max; /* bytes; 0: no limit */
	size_t processes_max; /* threads count; 0: no limit */
	/* where control groups for agents are created (cgroup.h); NULL: they are not used */
	const char *cgroup;
	const struct sandbox *sandbox; /* NULL: no sandbox; must outlive the box */
};

/**
 * `over` is called from the loop after everything in the box was killed because of `limit`. `why`
 * says which limit was exceeded and what the operator can do; it is borrowed.
 */
struct box *box_create(const struct box_rules *rules,
	void (*over)(void *owner, enum limit limit, const char *why), void *owner);
/** Call it once all its children are closed. Accepts NULL. */
void box_destroy(struct box *box);
/**
 * Call it before each start of the agent: what children of earlier starts still use no longer
 * counts.
 */
void box_begin(struct box *box);

#endif
