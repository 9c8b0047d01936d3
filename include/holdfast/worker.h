/*
 * A thread of one's own for work that blocks: one piece at a time, begun and told of on the loop.
 * Nothing else can stand in its way, as it may on libuv's thread pool, which all share.
 */
#ifndef HOLDFAST_WORKER_H
#define HOLDFAST_WORKER_H

#include <uv.h>

struct worker;

/**
 * `run` does the work, on the thread; `done` is called on the loop when it is over, and may begin
 * the next piece. The thread itself begins with the first one.
 */
struct worker *worker_create(
	uv_loop_t *loop, void (*run)(void *arg), void (*done)(void *arg), void *arg);
/** No work may be under way. Its handle is closed with the next tick of the loop. */
void worker_destroy(struct worker *worker);
/** Begins a piece of work; none may be under way. Keeps the loop alive until it is done. */
void worker_start(struct worker *worker);
/** Blocks until the piece that is under way is over, and calls done() for it. */
void worker_wait(struct worker *worker);

#endif
