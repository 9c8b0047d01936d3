/*
 * A dedicated thread for blocking work, one piece at a time, started from the loop and reported
 * back to it. Unlike work on libuv's shared thread pool, it cannot be delayed by other work.
 */
#ifndef HOLDFAST_WORKER_H
#define HOLDFAST_WORKER_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct worker;

/**
 * `run` does the work on the thread; `done` is then called on the loop and can start the next
 * piece. The thread is created with the first piece.
 */
struct worker *worker_create(
	uv_loop_t *loop, void (*run)(void *arg), void (*done)(void *arg), void *arg);
/** Must be idle. Joins the thread; the memory is freed in the loop's next iteration. */
void worker_destroy(struct worker *worker);
/**
 * Starts a piece of work; must be idle. Keeps the loop alive until it is done. If no thread can be
 * created, the work runs in this call.
 */
void worker_start(struct worker *worker);
/** Blocks until the current piece is finished, and calls `done` for it. Must not be idle. */
void worker_wait(struct worker *worker);
/** The same, for `ms` at most. Returns false if the piece is not finished then. */
bool worker_wait_for(struct worker *worker, uint64_t ms);

#endif
