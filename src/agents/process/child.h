/*
 * The process room: runs programs beside the server, each in a process group of its own, with pipes
 * to the server and a guard (agent_guard.h) that leaves no process behind. The spawner (spawner.h)
 * starts them. This room carries bytes and does not interpret them: it knows neither ACP nor
 * sessions nor files.
 *
 * A child frees itself after closed(), which is called exactly once for each child_spawn(), even
 * for one that failed. The program must ignore SIGPIPE.
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
	 * The child has exited and all its output has been delivered. The owner must call
	 * child_end() at some point.
	 */
	void (*finished)(void *owner, int64_t exit_status, int term_signal);
	void (*closed)(void *owner);
};

struct child_config {
	struct spawner *spawner; /* starts the child */
	bool is_helper; /* runs the spawner's helper; the next five members are ignored */
	const char *command; /* run by /bin/sh -c */
	/* if not NULL, used instead of `command`: the program and its arguments, ended by NULL */
	char **args;
	char **env; /* NULL: the server's */
	const char *cwd;
	const char *root; /* the directory that the sandbox grants, see sandbox.h; NULL: none */
	/* Its stdin is /dev/null, and its stderr is merged into stdout, in order. */
	bool one_output;
	int stop_grace_ms;
	struct box *box; /* the box it belongs to if it has a guard; NULL: none */
	/* free descriptors that must remain, else the start fails with -EMFILE */
	size_t descriptors_kept;
};

/**
 * Starts a child. `ops` and `owner` must outlive it. Returns 0, or a negative errno; closed()
 * follows in both cases. Blocks until the spawner has started it.
 */
int child_spawn(uv_loop_t *loop, const struct child_config *config, const struct child_ops *ops,
	void *owner, struct child **ret_process);
/**
 * Queues bytes for the child's stdin; takes over and empties `bytes` in any case. Returns -ENOBUFS
 * if too much is queued already. Bytes for a child that is gone are dropped.
 */
int child_write(struct child *p, struct buffer *bytes);
/**
 * Stops (true) or resumes reading the child's stdout, so that the child blocks once the pipe is
 * full.
 */
void child_pause(struct child *p, bool paused);
/**
 * Sends SIGTERM to the process group, and SIGKILL after the grace period. Unlike child_end(),
 * output() and finished() are still called.
 */
void child_terminate(struct child *p);
/**
 * Ends the child: closes its stdin, sends SIGTERM to the process group, and SIGKILL after the grace
 * period. Of the ops, only errors() and closed() are called from then on.
 */
void child_end(struct child *p);
/**
 * Like child_end(), but with SIGKILL at once; with a guard, processes outside of the group are
 * killed too.
 */
void child_kill(struct child *p);

#endif
