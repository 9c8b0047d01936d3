#include "holdfast/send_pool.h"

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <uv.h>

/* Jobs that a thread takes at a time. */
#define SLICE ((size_t)64)
/* Fewest jobs for which a helper is woken. */
#define WORTH_IT (2 * SLICE)
/* Most threads when their number is chosen automatically. */
#define THREADS_MAX 4

struct helper {
	struct send_pool *pool;
	struct send_ring *ring;
	uv_thread_t thread;
};

struct send_pool {
	struct send_ring *ring; /* the caller's */
	struct helper *helpers;
	size_t helper_count;
	/* Shared, under the lock. */
	uv_mutex_t lock;
	uv_cond_t begun; /* for the helpers */
	uv_cond_t rested; /* for the caller */
	struct send_job *jobs;
	size_t count; /* jobs that can be sent */
	size_t next; /* the first job not yet taken */
	size_t working; /* helpers that are sending a slice */
	size_t ready; /* helpers that have tried to create their ring */
	bool ends;
};

/** Takes and sends the next slice of jobs. Called, and returns, with the lock held. */
static void send_slice(struct send_pool *pool, struct send_ring *ring)
{
	size_t left = pool->count - pool->next;
	size_t n = left < SLICE ? left : SLICE;
	struct send_job *jobs = pool->jobs + pool->next;
	pool->next += n;
	uv_mutex_unlock(&pool->lock);
	send_all(ring, jobs, n);
	uv_mutex_lock(&pool->lock);
}

static void handle_thread(void *arg)
{
	struct helper *helper = arg;
	struct send_pool *pool = helper->pool;
	/* The ring must be created by the thread that uses it. */
	helper->ring = send_ring_create();
	uv_mutex_lock(&pool->lock);
	pool->ready++;
	uv_cond_signal(&pool->rested);
	while (!pool->ends) {
		if (pool->next == pool->count) {
			uv_cond_wait(&pool->begun, &pool->lock);
			continue;
		}
		pool->working++;
		send_slice(pool, helper->ring);
		if (--pool->working == 0) {
			uv_cond_signal(&pool->rested);
		}
	}
	uv_mutex_unlock(&pool->lock);
	send_ring_destroy(helper->ring);
}

/** Respects the affinity mask of the process. */
static size_t choose_threads(void)
{
	size_t processors = uv_available_parallelism();
	return processors < THREADS_MAX ? processors : THREADS_MAX;
}

static void start_helpers(struct send_pool *pool, size_t wanted)
{
	pool->helpers = xcalloc(wanted, sizeof(*pool->helpers));
	for (size_t i = 0; i < wanted; i++) {
		struct helper *helper = &pool->helpers[i];
		helper->pool = pool;
		if (uv_thread_create(&helper->thread, handle_thread, helper) != 0) {
			break;
		}
		pool->helper_count++;
	}
	uv_mutex_lock(&pool->lock);
	while (pool->ready < pool->helper_count) {
		uv_cond_wait(&pool->rested, &pool->lock);
	}
	uv_mutex_unlock(&pool->lock);
}

struct send_pool *send_pool_create(size_t threads)
{
	struct send_pool *pool = xcalloc(1, sizeof(*pool));
	uv_mutex_init(&pool->lock);
	uv_cond_init(&pool->begun);
	uv_cond_init(&pool->rested);
	pool->ring = send_ring_create();
	threads = threads ? threads : choose_threads();
	if (threads > 1) {
		start_helpers(pool, threads - 1);
	}
	return pool;
}

void send_pool_destroy(struct send_pool *pool)
{
	if (!pool) {
		return;
	}
	uv_mutex_lock(&pool->lock);
	pool->ends = true;
	uv_cond_broadcast(&pool->begun);
	uv_mutex_unlock(&pool->lock);
	for (size_t i = 0; i < pool->helper_count; i++) {
		uv_thread_join(&pool->helpers[i].thread);
	}
	uv_cond_destroy(&pool->rested);
	uv_cond_destroy(&pool->begun);
	uv_mutex_destroy(&pool->lock);
	send_ring_destroy(pool->ring);
	free(pool->helpers);
	free(pool);
}

size_t send_pool_threads(const struct send_pool *pool)
{
	return pool->helper_count + 1;
}

/**
 * Publishes more jobs and wakes one idle helper for each slice; not more, because each wake-up
 * costs a system call.
 */
static void offer(struct send_pool *pool, struct send_job *jobs, size_t count, size_t slices)
{
	pool->jobs = jobs;
	pool->count = count;
	for (size_t i = 0; i < slices && i < pool->helper_count; i++) {
		uv_cond_signal(&pool->begun);
	}
}

void send_pool_begin(struct send_pool *pool, struct send_job *jobs, size_t count)
{
	if (!pool->helper_count || count < WORTH_IT || count % SLICE) {
		return;
	}
	uv_mutex_lock(&pool->lock);
	offer(pool, jobs, count, (count - pool->count) / SLICE);
	uv_mutex_unlock(&pool->lock);
}

/** Sends with the helpers. When this returns, no thread uses the jobs any more. */
static void send_together(struct send_pool *pool, struct send_job *jobs, size_t count)
{
	uv_mutex_lock(&pool->lock);
	offer(pool, jobs, count, (count - pool->next) / SLICE);
	while (pool->next < pool->count) {
		send_slice(pool, pool->ring);
	}
	while (pool->working > 0) {
		uv_cond_wait(&pool->rested, &pool->lock);
	}
	pool->count = 0;
	pool->next = 0;
	uv_mutex_unlock(&pool->lock);
}

void send_pool_send(struct send_pool *pool, struct send_job *jobs, size_t count)
{
	if (pool->helper_count && count >= WORTH_IT) {
		send_together(pool, jobs, count);
		return;
	}
	for (size_t at = 0; at < count; at += SEND_RING_SIZE) {
		size_t rest = count - at;
		send_all(pool->ring, jobs + at, rest < SEND_RING_SIZE ? rest : SEND_RING_SIZE);
	}
}
