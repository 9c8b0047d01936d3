/*
 * The spawner: a small process beside the server that starts every program the server runs
 * (child.h). With it, the server can give up the right to start programs (server_filter.h), while
 * agents keep it. The spawner is this program, started again as `holdfast agent-spawner` before any
 * secret is in memory. It is told once, by its arguments, which guard agents get (agent_guard.h): a
 * compromised server cannot make it start anything without that guard and its sandbox.
 *
 * The spawner ends with the server. If it ends earlier, the server cannot go on, and is told so.
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
	/*
	 * Execute this program again; if false, or if that fails, the spawner is a forked copy of
	 * the process.
	 */
	bool is_program;
	bool has_guards; /* everything but the helper gets a guard; guards need /proc */
	const struct box_rules *rules; /* enforced by the guards; NULL: none */
	bool has_deadline; /* guards obey spawner_deadline() */
	const char *helper; /* a command of this program that may run without a guard; NULL: none */
};

/**
 * Forks the spawner; call it while the process has one thread. If the spawner is lost, `lost` is
 * called once, from the loop, and all its children count as having exited. Returns 0 or a negative
 * errno.
 */
int spawner_create(uv_loop_t *loop, const struct spawner_config *config, void (*lost)(void *owner),
	void *owner, struct spawner **ret_spawner);
/**
 * The time until which guards let the programs they guard live, in ms of CLOCK_BOOTTIME. It starts
 * at 0, which is in the past. Any thread may store a new value. Returns NULL if guards have no
 * deadline or `spawner` is NULL. Owned by the spawner.
 */
atomic_llong *spawner_deadline(const struct spawner *spawner);
/**
 * From now on, a child that is told to end is killed after at most `ms`, because the server is
 * stopping and another one waits to start. Accepts NULL.
 */
void spawner_shorten_grace(struct spawner *spawner, int ms);
/**
 * Call it once all children are closed. Waits up to a second for the process to end; its handles
 * are freed in the next turn of the loop. Accepts NULL.
 */
void spawner_close(struct spawner *spawner);

/** Runs `holdfast agent-spawner`. Takes the arguments after the command; returns the exit code. */
int spawner_run(int argc, char **argv);

#endif
