/*
 * Private to src/process: child.c carries the bytes of a process that spawner.c has had started by
 * spawner_process.c, agent_guard.c is the guard between the two, cgroup.c and sandbox.c bound and
 * confine what the guard starts, deadline.c is until when it may live, descendants.c finds what has
 * come from a process, box.c adds up what the children of one agent use. sandbox_filter.c and
 * server_filter.c are what seccomp refuses to agents and to the server.
 */
#ifndef HOLDFAST_PROCESS_INTERNAL_H
#define HOLDFAST_PROCESS_INTERNAL_H

#include "holdfast/agent_guard.h"
#include "holdfast/box.h"
#include "holdfast/buffer.h"
#include "holdfast/child.h"
#include "holdfast/list.h"
#include "holdfast/spawner.h"

#include <stdatomic.h>
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

/* orders.c: what is to be started, in a file in memory that goes from hand to hand. */

#define ORDERS_NAME_SIZE ((size_t)32)

struct orders {
	char *name; /* of this start of an agent, for what its box has on disk; digits, a-f and "-" */
	bool is_agent; /* and not one of its commands */
	int grace_ms; /* from SIGTERM to SIGKILL */
	char *dir;
	char *root; /* of the agent's sandbox: `dir`, or a directory above it; "": none */
	char **args; /* the program and its arguments, ended by NULL */
	char **env; /* NULL: that of the server */
};

/** A descriptor of the file, or a negative errno. */
int orders_write(struct orders *orders);
/** 0, or a negative errno: they are not as orders_write() makes them. */
int orders_read(int fd, struct orders *ret_orders);
/** Of orders_read(). */
void orders_finish(struct orders *orders);

/* deadline.c */

/** Makes the number, which is 0, and a file of it. 0 or a negative errno. */
int deadline_make(int *ret_fd, atomic_llong **ret_at_ms);
/** Accepts NULL. */
void deadline_free(atomic_llong *at_ms);

/** Of a guard. */
struct deadline {
	const atomic_llong *at_ms; /* the server's, which moves it: ms of CLOCK_BOOTTIME */
	int timer; /* can be read when it is time to look; a look sets it anew */
};

/** Of the file. 0; -1 with errno. */
int deadline_watch(int fd, struct deadline *ret_deadline);
bool deadline_is_over(const struct deadline *deadline);

/* spawner.c and spawner_process.c */

#define SELF_PROGRAM "/proc/self/exe" /* also when its file has been replaced by a newer one */

/* The spawner's arguments: the name of the helper, this or "", and then those of the guards. */
#define SPAWNER_GUARDED "guarded"
/* Its descriptors: a socket for orders and answers, and a pipe that tells how children end. */
#define SPAWNER_SOCKET 3
#define SPAWNER_EXITS  4
/* And if guards have a deadline, its file, which they get as AGENT_GUARD_DEADLINE. */
#define SPAWNER_DEADLINE 5
/* Orders, stdin, stdout, stderr, lifeline. */
#define SPAWN_FDS_MAX 5

enum { SPAWN_START, SPAWN_SIGNAL, SPAWN_RELEASE };

struct spawn_order {
	uint64_t id;
	int32_t kind;
	int32_t signal;
	/* Of a start, with the descriptors that come with it in this order: */
	uint8_t has_orders; /* it is no helper */
	uint8_t one_output; /* only stdout, which is stderr too */
	uint8_t guarded; /* it has a lifeline */
};

struct spawn_answer {
	uint64_t id;
	int32_t value; /* of a start: the pid or a negative errno; of an end: as waitpid() has it */
};

struct spawn_request {
	struct orders *orders; /* NULL: the helper */
	bool one_output; /* only `out`, which is stderr too */
	int in, out, err, lifeline; /* -1: none */
};

/** A process that was started, the leader of its group. */
struct spawned {
	void (*exited)(struct spawned *child, int status); /* once, from the loop */
	/* Private: */
	struct list link;
	struct spawner *spawner;
	uint64_t id;
	int pid;
	bool has_exited;
};

/** The most (ms) that a child gets when it is told to end; INT_MAX without a spawner. */
int spawner_grace(const struct spawner *spawner);
bool spawner_has_guards(const struct spawner *spawner);
/** 0, or a negative errno; then there is nothing to be released. Waits until it has started. */
int spawner_start(
	struct spawner *spawner, const struct spawn_request *request, struct spawned *child);
/** To its group, if that is still its own. */
void spawned_signal(struct spawned *child, int signal_number);
/** Nothing more is told of it. */
void spawned_release(struct spawned *child);

/* agent_guard.c: what it is told and what it tells. */

/* The names of its arguments, each before its value. */
#define AGENT_GUARD_MEMORY    "--memory"
#define AGENT_GUARD_PROCESSES "--processes"
#define AGENT_GUARD_CGROUP    "--cgroup" /* a directory of cgroup.h, for one of each start */
/* A sandbox: */
#define AGENT_GUARD_READ    "--read" /* a path, may be repeated */
#define AGENT_GUARD_WRITE   "--write" /* the same */
#define AGENT_GUARD_ROOT    "--root" /* the same: it writes below one directory of these */
#define AGENT_GUARD_TMP     "--tmp" /* a directory, for a TMPDIR of each start */
#define AGENT_GUARD_SOCKETS "--sockets" /* "on" */
/* Its number is over: the agent is killed, whatever the server does or does not. */
#define AGENT_GUARD_ENDS "--deadline" /* "on" */

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
/** Of this start of the agent, for what it has on disk. */
const char *box_name(const struct box *box);
/** Appends the arguments of guards that keep these rules: strings, each ended by NUL. */
void box_add_rules(const struct box_rules *rules, struct buffer *out);

#endif
