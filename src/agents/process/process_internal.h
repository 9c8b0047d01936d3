/*
 * Private to src/agents/process: child.c carries the bytes of a process that spawner.c has had started by
 * spawner_process.c; agent_guard.c is the guard between the server and the process; orders.c says
 * what is to be started; cgroup.c and sandbox.c limit and confine what the guard starts; deadline.c
 * says how long it may live; descendants.c finds the descendants of a process; box.c adds up what
 * the children of one agent use. sandbox_filter.c is the seccomp filter of agents, made with
 * call_filter.h.
 */
#ifndef HOLDFAST_PROCESS_INTERNAL_H
#define HOLDFAST_PROCESS_INTERNAL_H

#include "holdfast/agent_guard.h"
#include "holdfast/box.h"
#include "holdfast/buffer.h"
#include "child.h"
#include "holdfast/list.h"
#include "holdfast/spawner.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

/* descendants.c */

struct usage {
	uint64_t processes; /* every thread counts, as it does for the kernel */
	uint64_t memory; /* bytes: anonymous and shared memory, resident or swapped out */
};

/** Calls `visit` for each descendant of `root`, parents first; not for `root` itself. */
void descendants_each(pid_t root, void (*visit)(pid_t pid, void *arg), void *arg);
/**
 * Measures what the descendants of `root` use. Memory that several of them share is counted several
 * times while the sum is below `memory_exact`, and exactly from there on; 0: never exactly.
 */
struct usage descendants_measure(pid_t root, uint64_t memory_exact);

/* orders.c: what is to be started, in a memory file that is passed on as a descriptor */

#define ORDERS_NAME_SIZE ((size_t)32)

struct orders {
	/* of this start of an agent, for what its box creates on disk; digits, a-f and "-" */
	char *name;
	bool is_agent; /* false: one of its commands */
	int grace_ms; /* from SIGTERM to SIGKILL */
	char *dir;
	char *root; /* granted by the agent's sandbox: `dir`, or a directory above it; "": none */
	char **args; /* the program and its arguments, ended by NULL */
	char **env; /* NULL: the server's environment */
};

/** Returns a descriptor of the file, or a negative errno. */
int orders_write(struct orders *orders);
/** Reads a file written by orders_write(). Returns 0, or a negative errno if it is not valid. */
int orders_read(int fd, struct orders *ret_orders);
/** Frees what orders_read() returned. */
void orders_finish(struct orders *orders);

/* deadline.c */

/**
 * Creates the shared number, which is 0, and a memory file that holds it. Returns 0 or a negative
 * errno.
 */
int deadline_make(int *ret_fd, atomic_llong **ret_at_ms);
/** Accepts NULL. */
void deadline_free(atomic_llong *at_ms);

/** A guard's view of the deadline. */
struct deadline {
	/* shared with the server, which moves it; ms of CLOCK_BOOTTIME */
	const atomic_llong *at_ms;
	int timer; /* a timerfd, readable when it is time to check; checking sets it anew */
};

/** Maps the file of deadline_make(). Returns 0, or -1 with errno. */
int deadline_watch(int fd, struct deadline *ret_deadline);
bool deadline_is_over(const struct deadline *deadline);

/* spawner.c and spawner_process.c */

#define SELF_PROGRAM "/proc/self/exe" /* works even if the file has been replaced by a newer one */

/*
 * The spawner's arguments: the name of the helper command, SPAWNER_GUARDED or "", and then the
 * arguments of the guards.
 */
#define SPAWNER_GUARDED "guarded"
/* Its descriptors: a socket for orders and answers, and a pipe for exit statuses. */
#define SPAWNER_SOCKET 3
#define SPAWNER_EXITS  4
/* If guards have a deadline: its file, which they inherit as AGENT_GUARD_DEADLINE. */
#define SPAWNER_DEADLINE 5
/* The orders file, stdin, stdout, stderr, lifeline. */
#define SPAWN_FDS_MAX 5

enum { SPAWN_START, SPAWN_SIGNAL, SPAWN_RELEASE };

struct spawn_order {
	uint64_t id;
	int32_t kind;
	int32_t signal;
	/* Of SPAWN_START: which descriptors come with the message, in this order. */
	uint8_t has_orders; /* orders file; without it, the helper is started */
	/* only stdout, which is also stderr; otherwise stdin, stdout and stderr */
	uint8_t one_output;
	uint8_t guarded; /* lifeline of a guard */
};

struct spawn_answer {
	uint64_t id;
	/* of a start: the pid or a negative errno; of an exit: the status of waitpid() */
	int32_t value;
};

struct spawn_request {
	struct orders *orders; /* NULL: start the helper */
	bool one_output; /* only `out`, which is also stderr */
	int in, out, err, lifeline; /* -1: none */
};

/** A process that was started; it leads its own process group. */
struct spawned {
	void (*exited)(struct spawned *child, int status); /* once, from the loop */
	/* Private: */
	struct list link;
	struct spawner *spawner;
	uint64_t id;
	int pid;
	bool has_exited;
};

/** The longest grace period (ms) of a child that is told to end; INT_MAX without a spawner. */
int spawner_grace(const struct spawner *spawner);
bool spawner_has_guards(const struct spawner *spawner);
/**
 * Starts a process and waits until that is done. Returns 0, or a negative errno; then `child` must
 * not be released.
 */
int spawner_start(
	struct spawner *spawner, const struct spawn_request *request, struct spawned *child);
/**
 * Sends a signal to the process group of the child, unless its id may belong to another group by
 * now.
 */
void spawned_signal(struct spawned *child, int signal_number);
/** Forgets the child: exited() is not called any more. */
void spawned_release(struct spawned *child);

/* agent_guard.c: the arguments of a guard. */

/* Names of arguments; each is followed by its value. */
#define AGENT_GUARD_MEMORY    "--memory"
#define AGENT_GUARD_PROCESSES "--processes"
#define AGENT_GUARD_CGROUP    "--cgroup" /* a directory for the group of each start */
/* A sandbox: */
#define AGENT_GUARD_READ       "--read" /* a path; can be repeated */
#define AGENT_GUARD_WRITE      "--write" /* the same */
#define AGENT_GUARD_ROOT       "--root" /* the same; see struct sandbox */
#define AGENT_GUARD_TMP        "--tmp" /* a directory in which each start gets a TMPDIR */
#define AGENT_GUARD_SOCKETS    "--sockets" /* "on" */
#define AGENT_GUARD_NAMESPACES "--user-namespaces" /* "on" */
/* The agent is killed when the deadline is over, whatever the server does. */
#define AGENT_GUARD_ENDS "--deadline" /* "on" */

/* cgroup.c: the control groups of a guard */

struct cgroup {
	char *dir; /* the group of one start of an agent, which has the limits */
	char *part; /* the subgroup for what this guard has started */
};

/** Creates both groups; the first may exist already. Returns 0, or -1 with errno. */
int cgroup_make(struct cgroup *group, const char *dir, uint64_t memory_max, uint64_t processes_max);
/** Moves the calling process into the subgroup. Returns 0, or -1 with errno. */
int cgroup_join(const struct cgroup *group);
/**
 * Returns a usage one above each limit that the kernel had to enforce on the group, and 0 for the
 * others.
 */
struct usage cgroup_look(const struct cgroup *group, uint64_t memory_max, uint64_t processes_max);
/** Kills all processes in the subgroup. */
void cgroup_kill(const struct cgroup *group);
/** Removes the groups that are empty, and frees the paths. */
void cgroup_remove(struct cgroup *group);

/* sandbox_filter.c */

/**
 * Installs a seccomp filter that refuses the system calls that lead around Landlock. 
 * `truncating` allows truncating files that were not opened for writing. Returns 0, or -1 with
 * errno.
 */
int sandbox_filter(const struct sandbox *sandbox, bool truncating);

/* box.c */

/** One child of a box. */
struct box_part {
	struct list link;
	struct child *child;
	unsigned long start; /* which start of the agent it belongs to */
	struct usage used;
};

/** Adds a child to the box, before its guard is started. */
void box_enter(struct box *box, struct box_part *part, struct child *child);
/** Removes a child from the box. */
void box_leave(struct box *box, struct box_part *part);
/** Takes a report of the child's guard; can kill all children of the box, including this one. */
void box_note(struct box *box, struct box_part *part, const struct usage *used);
/** The name of this start of the agent, for what it creates on disk. */
const char *box_name(const struct box *box);
/** Appends the arguments of a guard that enforces these rules: strings, each ended by NUL. */
void box_add_rules(const struct box_rules *rules, struct buffer *out);

#endif
