/*
 * The spawner: a small process beside the server, which starts everything that the server runs
 * (child.h). The server can then do without the right to start programs (server_filter.h), which
 * agents must have. It is this program, started again as `holdfast agent-spawner` before anything
 * secret is in memory, and is told once, as its arguments, which guard agents get (agent_guard.h):
 * a server that was taken over cannot have it start anything without that guard and its sandbox.
 *
 * It ends with the server. If it ends before, the server cannot go on, and is told so.
 */
#ifndef HOLDFAST_SPAWNER_H
#define HOLDFAST_SPAWNER_H

#include "holdfast/box.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <uv.h>

#define SPAWNER_COMMAND "agent-spawner"

struct spawner;

struct spawner_config {
	/* It is started again as the program that it is; false, or if it cannot be: it goes on as a copy of the process. */
	bool is_program;
	bool has_guards; /* for all but the helper; they need /proc */
	const struct box_rules *rules; /* that the guards keep; NULL: none */
	bool has_deadline; /* the guards: spawner_deadline() */
	const char *helper; /* a command of this program, which may be started without a guard */
};

/**
 * Blocks until it is there; call it while the process has one thread. `lost` is called, from the
 * loop and once, if it is gone; all its children count as gone after that. 0 or a negative errno.
 */
int spawner_create(uv_loop_t *loop, const struct spawner_config *config, void (*lost)(void *owner),
	void *owner, struct spawner **ret_spawner);
/**
 * Until when guards leave alive what they guard, in ms of CLOCK_BOOTTIME: 0 at first, which is over.
 * Whoever moves it may be on any thread. NULL: for ever, or no spawner. It is the spawner's.
 */
atomic_llong *spawner_deadline(const struct spawner *spawner);
/**
 * From now on, whoever is told to end is killed after `ms`, if its own grace is longer: the server
 * leaves, and another one waits. Accepts NULL.
 */
void spawner_shorten_grace(struct spawner *spawner, int ms);
/** When all its children are closed. Its memory is freed with the next turn of the loop. Accepts NULL. */
void spawner_close(struct spawner *spawner);

/** Gets the arguments after the command; returns the exit code. */
int spawner_run(int argc, char **argv);

#endif
