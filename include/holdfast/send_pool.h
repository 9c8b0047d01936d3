/*
 * Sends to many sockets, shared out between the loop's thread and others, which do nothing else.
 * Two thirds of what an event costs that goes to many observers is the kernel's, in these sends
 * (bench/NOTES.md), so this is what more than one processor is used for; all that decides about an
 * event stays on the loop.
 */
#ifndef HOLDFAST_SEND_POOL_H
#define HOLDFAST_SEND_POOL_H

#include "holdfast/send_ring.h"

/* As many sends as one call of send_pool_send() takes. */
#define SEND_POOL_SIZE 1024

struct send_pool;

/**
 * `threads` with the caller's, at least 1; 0: as many as the processors that this process may use, at
 * most 4. Each has a send_ring of its own if the kernel gives one; these are made before this
 * returns, so that a filter of system calls may come after. If the machine has no thread for it, there are
 * fewer. Owned by the caller.
 */
struct send_pool *send_pool_create(size_t threads);
/** Waits for its threads to end. Accepts NULL. */
void send_pool_destroy(struct send_pool *pool);
/** How many threads send, the caller's included. */
size_t send_pool_threads(const struct send_pool *pool);

/**
 * Sends each job's bytes without waiting for a socket, and returns when every job has its result;
 * one socket is in one job only. A thread that the machine does not run at once is not waited for:
 * the caller sends what nobody has begun.
 */
void send_pool_send(struct send_pool *pool, struct send_job *jobs, size_t count);

#endif
