/*
 * The box of an agent: what the agent and the commands that it has us run may use, all of them
 * together with what they have started. Their guards (agent_guard.h) look once a second and report;
 * here it is added up. If it is too much, all of them are killed at once. And what they may touch, if
 * there is a sandbox (sandbox.h): the guards confine what they start.
 */
#ifndef HOLDFAST_BOX_H
#define HOLDFAST_BOX_H

#include "holdfast/limits.h"
#include "holdfast/sandbox.h"

#include <stddef.h>

struct box;

struct box_rules {
	size_t memory_max; /* bytes; 0: any */
	size_t processes_max; /* and threads; 0: any */
	const char *cgroup; /* where groups for agents can be made; NULL: nowhere; the same */
	const struct sandbox *sandbox; /* NULL: none; must outlive the box */
};

/**
 * `over` is called, from the loop, when all were killed; `why` says what was too much and what can
 * be done, and is borrowed.
 */
struct box *box_create(const struct box_rules *rules,
	void (*over)(void *owner, enum limit limit, const char *why), void *owner);
/** When all its children are closed. Accepts NULL. */
void box_destroy(struct box *box);
/** The agent starts anew: what children of an earlier start still use does not count. */
void box_begin(struct box *box);

#endif
