/*
 * Many sends with one system call, by io_uring where the kernel has it. One send() for each socket
 * is more than half of what it costs to tell many observers of an event; bench/NOTES.md has figures.
 */
#ifndef HOLDFAST_SEND_RING_H
#define HOLDFAST_SEND_RING_H

#include <stddef.h>
#include <sys/types.h>

/* As many sends as one call takes. */
#define SEND_RING_SIZE 256

struct send_ring;

struct send_job {
	int fd;
	const void *bytes; /* borrowed for the call */
	size_t len;
	ssize_t result; /* bytes that the kernel has taken, or a negative errno; -EAGAIN: none now */
};

/** NULL if the kernel has no io_uring, or does not give it to this process. Owned by the caller. */
struct send_ring *send_ring_create(void);
/** Accepts NULL. */
void send_ring_destroy(struct send_ring *ring);

/** Sends each job's bytes without waiting; one socket is in one job only. `ring` NULL: by send(). */
void send_all(struct send_ring *ring, struct send_job *jobs, size_t count);

#endif
