/*
 * Many sends with one system call, using io_uring where the kernel has it. One send() per socket is
 * more than half the cost of showing an event to many observers; bench/NOTES.md has figures.
 */
#ifndef HOLDFAST_SEND_RING_H
#define HOLDFAST_SEND_RING_H

#include <stddef.h>
#include <sys/types.h>

/* Most jobs in one call of send_all(). */
#define SEND_RING_SIZE 256

struct send_ring;

struct send_job {
	int fd;
	const void *bytes; /* borrowed until the call returns */
	size_t len;
	ssize_t result; /* bytes sent, or a negative errno (-EAGAIN: the socket is full) */
};

/** Returns NULL if io_uring is unavailable to this process. The caller owns the ring. */
struct send_ring *send_ring_create(void);
/** Accepts NULL. */
void send_ring_destroy(struct send_ring *ring);

/**
 * Sends each job's bytes without blocking and sets its result. A socket must occur in one job only.
 * If `ring` is NULL, uses send().
 */
void send_all(struct send_ring *ring, struct send_job *jobs, size_t count);

#endif
