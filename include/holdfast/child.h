/*
 * The process room: programs that run beside the server, in a process group of their own, with
 * pipes to them and a guard (agent_guard.h) that leaves nobody behind. A process beside the server
 * starts them (spawner.h). It carries bytes and knows
 * nothing of what they say: not of ACP, sessions or files.
 *
 * A child frees itself after closed(), which comes exactly once for each child_spawn(), also for
 * one that failed. The program must ignore SIGPIPE.
 */
#ifndef HOLDFAST_CHILD_H
#define HOLDFAST_CHILD_H

#include "holdfast/box.h"
#include "holdfast/buffer.h"
#include "holdfast/spawner.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct child;

struct child_ops {
	void (*output)(void *owner, const char *bytes, size_t len);
	void (*errors)(void *owner, const char *bytes, size_t len);
	/**
	 * It has exited and all its output was given. The owner calls child_end() some time.
	 */
	void (*finished)(void *owner, int64_t exit_status, int term_signal);
	void (*closed)(void *owner);
};

struct child_config {
	struct spawner *spawner; /* that starts it */
	bool is_helper; /* it is the spawner's helper, and the next four do not count */
	const char *command; /* run by /bin/sh -c */
	char **args; /* or, if not NULL: the program and its arguments, ended by NULL */
	char **env; /* NULL: ours */
	const char *cwd;
	const char *root; /* of the sandbox: see sandbox.h; NULL: none */
	/* It reads nothing, and its stderr comes with its stdout, in order. */
	bool one_output;
	int stop_grace_ms;
	struct box *box; /* that it is in, if it has a guard; NULL: none */
	size_t descriptors_kept; /* it is not started if it would leave fewer: -EMFILE */
};

int child_spawn(uv_loop_t *loop, const struct child_config *config, const struct child_ops *ops,
	void *owner, struct child **ret_process);
/**
 * Queues bytes for its stdin and takes them. -ENOBUFS if it has left too much unread; a child that
 * is gone swallows them.
 */
int child_write(struct child *p, struct buffer *bytes);
void child_pause(struct child *p, bool paused);
/** Ends the group as child_end() does, but what it still says is heard, and finished(). */
void child_terminate(struct child *p);
/**
 * Ends the group: stdin closed, SIGTERM, SIGKILL after the grace. Only errors() and closed()
 * follow.
 */
void child_end(struct child *p);
/** The same with SIGKILL at once; with a guard also for what is out of the group. */
void child_kill(struct child *p);

#endif
