/*
 * Distributes sends to many sockets over the loop's thread and helper threads that do nothing else.
 * Two thirds of the cost of an event with many observers is spent in these system calls
 * (bench/NOTES.md), so only they use more than one processor; every decision about an event stays
 * on the loop.
 *
 *   the loop, one tick                                     the other threads
 *   read sockets, pipes, timers; frames made once
 *   sock_write_later() gathers {socket, bytes}
 *     from 128 on, each 64: send_pool_begin() -- wakes --> take 64 sends, io_uring,
 *     goes on with the observers behind them               take the next 64 ...
 *   at 1,024, before a gathered socket is used or closed,
 *   at the end of the tick: send_pool_send()
 *     takes 64 sends, io_uring, takes the next 64 ...
 *     nobody has more: waits for those in the middle <---
 *   results, in the order of gathering
 *
 * A thread gets descriptors and bytes that do not change, and gives numbers back. So no session,
 * observer or connection has a lock. Three rules keep it so (transport.c):
 *
 * - A socket is in one job at most. What is done to it besides (a second write, a FIN, TLS, closing)
 *   waits for that job, so its bytes keep their order.
 * - A descriptor stays open while it is gathered: closing it waits, too.
 * - No job outlives its tick. A thread that the machine does not run in time takes nothing, and the
 *   loop does not wait for it.
 */
#ifndef HOLDFAST_SEND_POOL_H
#define HOLDFAST_SEND_POOL_H

#include "holdfast/send_ring.h"

struct send_pool;

/**
 * `threads` counts the caller's thread; 0 means the number of processors this process may use, at
 * most 4. Each thread gets its own send_ring if the kernel allows it; all rings exist when this
 * returns, so a seccomp filter can follow. If the machine cannot create a thread, the pool has
 * fewer. The caller owns the pool.
 */
struct send_pool *send_pool_create(size_t threads);
/** Ends and joins the threads. Accepts NULL. */
void send_pool_destroy(struct send_pool *pool);
/** Returns the number of threads that send, including the caller's. */
size_t send_pool_threads(const struct send_pool *pool);

/**
 * Lets the helper threads start on the first `count` jobs while the caller fills in more behind
 * them. Can be called again with a larger `count`; otherwise leave the jobs alone until
 * send_pool_send() returns. Does nothing for few jobs. A socket must occur in one job only.
 */
void send_pool_begin(struct send_pool *pool, struct send_job *jobs, size_t count);
/**
 * Sends the bytes of each job, those already begun included, without blocking on any socket, and
 * returns when every job has its result. Does not wait for a helper thread that has not been
 * scheduled: the caller sends whatever no helper has taken.
 */
void send_pool_send(struct send_pool *pool, struct send_job *jobs, size_t count);

#endif
