/*
 * Sends to many sockets, shared out between the loop's thread and others, which do nothing else.
 * Two thirds of what an event costs that goes to many observers is the kernel's, in these sends
 * (bench/NOTES.md), so this is what more than one processor is used for; all that decides about an
 * event stays on the loop.
 */
#ifndef HOLDFAST_SEND_POOL_H
#define HOLDFAST_SEND_POOL_H

#include "holdfast/send_ring.h"

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
 * The first `count` of the jobs may be sent from now on by the other threads, while the caller goes on and
 * fills in those behind; then this is called again, and nothing else is done with the jobs until
 * send_pool_send() has returned. Few jobs wait for it: nobody is woken for them. One socket is in one job only.
 */
void send_pool_begin(struct send_pool *pool, struct send_job *jobs, size_t count);
/**
 * Sends each job's bytes without waiting for a socket, those also that were begun, which are the first of
 * them, and returns when every job has its result. A thread that the machine does not run at once is not
 * waited for: the caller sends what nobody has begun.
 */
void send_pool_send(struct send_pool *pool, struct send_job *jobs, size_t count);

#endif
