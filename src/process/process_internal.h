/*
 * Private to src/process: child.c starts a process and carries its bytes, agent_guard.c is the
 * guard between the two, cgroup.c and sandbox.c bound and confine what the guard starts, descendants.c finds what has come from a process, box.c adds up what the
 * children of one agent use.
 */
#ifndef HOLDFAST_PROCESS_INTERNAL_H
#define HOLDFAST_PROCESS_INTERNAL_H

#include "holdfast/agent_guard.h"
#include "holdfast/box.h"
#include "holdfast/buffer.h"
#include "holdfast/child.h"
#include "holdfast/list.h"

#include <stdint.h>
#include <sys/types.h>

/* descendants.c */

struct usage {
	uint64_t processes; /* threads counted, as the kernel does */
	uint64_t memory; /* bytes: what is theirs alone, in memory or swapped out */
};

/** Calls for each process that has come from `root`, parents first; not for `root` itself. */
void descendants_each(pid_t root, void (*visit)(pid_t pid, void *arg), void *arg);
/**
 * What they use. Memory that several of them share is counted several times while the sum is below
 * `memory_exact`, and exactly from there on.
 */
struct usage descendants_measure(pid_t root, uint64_t memory_exact);

/* agent_guard.c: what it is told and what it tells. */

/* The names of its arguments, each before its value; AGENT_GUARD_PROGRAM is the last one. */
#define AGENT_GUARD_GRACE     "--grace"
#define AGENT_GUARD_DIR       "--dir"
#define AGENT_GUARD_MEMORY    "--memory"
#define AGENT_GUARD_PROCESSES "--processes"
#define AGENT_GUARD_CGROUP    "--cgroup" /* a directory of cgroup.h, made if it is missing */
/* A sandbox: */
#define AGENT_GUARD_READ    "--read" /* a path, may be repeated */
#define AGENT_GUARD_WRITE   "--write" /* the same */
#define AGENT_GUARD_TMP     "--tmp" /* TMPDIR, made if it is missing */
#define AGENT_GUARD_REMOVE  "--remove-tmp" /* and removed with all in it, in the end */
#define AGENT_GUARD_SOCKETS "--sockets" /* "on" */
#define AGENT_GUARD_PROGRAM "--"

/* cgroup.c: what a guard does with them */

struct cgroup {
	char *dir; /* of one start of an agent, with the limits */
	char *part; /* in it: what this guard has started */
};

/** Makes both, or only the second one if the first is there. 0; -1 with errno. */
int cgroup_make(struct cgroup *group, const char *dir, uint64_t memory_max, uint64_t processes_max);
/** The calling process goes into the part. 0; -1 with errno. */
int cgroup_join(const struct cgroup *group);
/** One more than a limit, if the kernel had to keep the group to it; else 0. */
struct usage cgroup_look(const struct cgroup *group, uint64_t memory_max, uint64_t processes_max);
/** Kills all in the part. */
void cgroup_kill(const struct cgroup *group);
/** Removes what is empty, and frees. */
void cgroup_remove(struct cgroup *group);

/* sandbox_filter.c */

/**
 * Refuses, from now on, the system calls that lead around Landlock; those that use Unix sockets, and
 * those that truncate files which were not opened for writing, are allowed if that is true. 0; -1
 * with errno.
 */
int sandbox_filter(bool sockets, bool truncating);

/* box.c */

/** One child of a box. */
struct box_part {
	struct list link;
	struct child *child;
	unsigned long start; /* of the agent */
	struct usage used;
};

/** A child comes in, before its guard is started. */
void box_enter(struct box *box, struct box_part *part, struct child *child);
/** It is gone. */
void box_leave(struct box *box, struct box_part *part);
/** What its guard reports; may kill all children of the box, this one too. */
void box_note(struct box *box, struct box_part *part, const struct usage *used);
/**
 * Appends the arguments of a guard that are the box's: strings, each ended by NUL. That of the agent
 * itself removes what the box has on disk.
 */
void box_add_orders(const struct box *box, bool is_agent, struct buffer *out);

#endif
