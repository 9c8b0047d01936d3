#include "holdfast/send_ring.h"

#include "holdfast/buffer.h"

#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <sys/socket.h>

/* Fewer jobs are cheaper with send(). */
#define WORTH_IT 4

struct send_ring {
	struct io_uring uring;
};

struct send_ring *send_ring_create(void)
{
	struct send_ring *ring = xcalloc(1, sizeof(*ring));
	/* One thread both submits and reaps. These flags need Linux 6.1; fall back without them. */
	unsigned flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
	if (io_uring_queue_init(SEND_RING_SIZE, &ring->uring, flags) < 0 &&
		io_uring_queue_init(SEND_RING_SIZE, &ring->uring, 0) < 0) {
		free(ring);
		return NULL;
	}
	return ring;
}

void send_ring_destroy(struct send_ring *ring)
{
	if (ring) {
		io_uring_queue_exit(&ring->uring);
		free(ring);
	}
}

static void send_one(struct send_job *job)
{
	job->result = send(job->fd, job->bytes, job->len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (job->result < 0) {
		job->result = -errno;
	}
}

/** Takes the available results and returns their number. */
static size_t reap(struct io_uring *uring)
{
	struct io_uring_cqe *cqe;
	unsigned head;
	unsigned count = 0;
	io_uring_for_each_cqe(uring, head, cqe)
	{
		((struct send_job *)io_uring_cqe_get_data(cqe))->result = cqe->res;
		count++;
	}
	io_uring_cq_advance(uring, count);
	return count;
}

/**
 * MSG_DONTWAIT makes a full socket fail with -EAGAIN, so no send blocks. All must complete before
 * this returns, because the bytes are only borrowed.
 */
static void send_by_ring(struct io_uring *uring, struct send_job *jobs, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(uring);
		io_uring_prep_send(
			sqe, jobs[i].fd, jobs[i].bytes, jobs[i].len, MSG_DONTWAIT | MSG_NOSIGNAL);
		io_uring_sqe_set_data(sqe, &jobs[i]);
	}
	for (size_t done = 0; done < count; done += reap(uring)) {
		int r = io_uring_submit_and_wait(uring, (unsigned)(count - done));
		assert(r >= 0 || r == -EINTR || r == -EAGAIN || r == -EBUSY);
	}
}

void send_all(struct send_ring *ring, struct send_job *jobs, size_t count)
{
	assert(count <= SEND_RING_SIZE);
	if (ring && count >= WORTH_IT) {
		send_by_ring(&ring->uring, jobs, count);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		send_one(&jobs[i]);
	}
}
