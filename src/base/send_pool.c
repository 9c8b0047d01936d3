#include "holdfast/send_pool.h"

#include "holdfast/buffer.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <uv.h>

/* A thread takes so many jobs at a time. */
#define SLICE ((size_t)64)
/* Of the threads that are chosen by the number of processors. */
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
	atomic_size_t next; /* the first job that nobody has taken */
	/* Shared, under the lock. */
	uv_mutex_t lock;
	uv_cond_t begun; /* for the helpers */
	uv_cond_t rested; /* for the caller */
	struct send_job *jobs; /* NULL: there is nothing to help with */
	size_t count;
	unsigned round; /* so that a helper comes to each set of jobs once */
	size_t working; /* helpers that have come to these jobs and not left */
	size_t ready; /* helpers that have a ring, or know that they get none */
	bool ends;
};

static void send_slices(
	struct send_pool *pool, struct send_ring *ring, struct send_job *jobs, size_t count)
{
	for (size_t at; (at = atomic_fetch_add(&pool->next, SLICE)) < count;) {
		send_all(ring, jobs + at, count - at < SLICE ? count - at : SLICE);
	}
}

static void handle_thread(void *arg)
{
	struct helper *helper = arg;
	struct send_pool *pool = helper->pool;
	unsigned seen = 0;
	/* The thread that makes a ring is the one that may use it. */
	helper->ring = send_ring_create();
	uv_mutex_lock(&pool->lock);
	pool->ready++;
	uv_cond_signal(&pool->rested);
	for (;;) {
		while (!pool->ends && (!pool->jobs || pool->round == seen)) {
			uv_cond_wait(&pool->begun, &pool->lock);
		}
		if (pool->ends) {
			break;
		}
		seen = pool->round;
		struct send_job *jobs = pool->jobs;
		size_t count = pool->count;
		pool->working++;
		uv_mutex_unlock(&pool->lock);
		send_slices(pool, helper->ring, jobs, count);
		uv_mutex_lock(&pool->lock);
		if (--pool->working == 0) {
			uv_cond_signal(&pool->rested);
		}
	}
	uv_mutex_unlock(&pool->lock);
	send_ring_destroy(helper->ring);
}

/** A process may be kept to some of the machine's processors. */
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

/** As many helpers as can get a slice are woken; each call to the kernel for that costs something. */
static void wake_helpers(struct send_pool *pool, struct send_job *jobs, size_t count)
{
	uv_mutex_lock(&pool->lock);
	pool->jobs = jobs;
	pool->count = count;
	pool->round++;
	atomic_store(&pool->next, 0);
	size_t slices = (count + SLICE - 1) / SLICE;
	if (slices > pool->helper_count) {
		uv_cond_broadcast(&pool->begun);
	} else {
		for (size_t i = 1; i < slices; i++) {
			uv_cond_signal(&pool->begun);
		}
	}
	uv_mutex_unlock(&pool->lock);
}

/** Nobody touches the jobs from here on. */
static void wait_for_helpers(struct send_pool *pool)
{
	uv_mutex_lock(&pool->lock);
	pool->jobs = NULL;
	while (pool->working > 0) {
		uv_cond_wait(&pool->rested, &pool->lock);
	}
	uv_mutex_unlock(&pool->lock);
}

void send_pool_send(struct send_pool *pool, struct send_job *jobs, size_t count)
{
	assert(count <= SEND_POOL_SIZE);
	if (pool->helper_count && count >= 2 * SLICE) {
		wake_helpers(pool, jobs, count);
		send_slices(pool, pool->ring, jobs, count);
		wait_for_helpers(pool);
		return;
	}
	for (size_t at = 0; at < count; at += SEND_RING_SIZE) {
		size_t rest = count - at;
		send_all(pool->ring, jobs + at, rest < SEND_RING_SIZE ? rest : SEND_RING_SIZE);
	}
}
