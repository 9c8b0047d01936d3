#include "holdfast/worker.h"

#include "holdfast/buffer.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

enum work_state { WORK_NONE, WORK_WAITS, WORK_RUNS, WORK_OVER };

struct worker {
	void (*run)(void *arg);
	void (*done)(void *arg);
	void *arg;
	uv_async_t async; /* wakes the loop */
	uv_thread_t thread;
	bool has_thread;
	/* Shared with the thread. */
	uv_mutex_t lock;
	uv_cond_t changed;
	enum work_state state;
	bool ends;
};

static void handle_thread(void *arg)
{
	struct worker *worker = arg;
	uv_mutex_lock(&worker->lock);
	for (;;) {
		while (worker->state != WORK_WAITS && !worker->ends) {
			uv_cond_wait(&worker->changed, &worker->lock);
		}
		if (worker->ends) {
			break;
		}
		worker->state = WORK_RUNS;
		uv_mutex_unlock(&worker->lock);
		worker->run(worker->arg);
		uv_mutex_lock(&worker->lock);
		worker->state = WORK_OVER;
		uv_cond_broadcast(&worker->changed);
		/*
		 * Unlock first: the loop that this wakes takes the lock at once. It may already
		 * have seen the result, even started the next run, and then wakes for nothing. The
		 * handle lives until worker_destroy() has joined this thread.
		 */
		uv_mutex_unlock(&worker->lock);
		uv_async_send(&worker->async);
		uv_mutex_lock(&worker->lock);
	}
	uv_mutex_unlock(&worker->lock);
}

/** Reports a finished piece once, whether the loop or worker_wait() sees it first. */
static void tell_if_over(struct worker *worker)
{
	uv_mutex_lock(&worker->lock);
	bool is_over = worker->state == WORK_OVER;
	if (is_over) {
		worker->state = WORK_NONE;
	}
	uv_mutex_unlock(&worker->lock);
	if (is_over) {
		uv_unref((uv_handle_t *)&worker->async);
		worker->done(worker->arg);
	}
}

static void handle_async(uv_async_t *async)
{
	tell_if_over(async->data);
}

struct worker *worker_create(
	uv_loop_t *loop, void (*run)(void *arg), void (*done)(void *arg), void *arg)
{
	struct worker *worker = xcalloc(1, sizeof(*worker));
	worker->run = run;
	worker->done = done;
	worker->arg = arg;
	uv_mutex_init(&worker->lock);
	uv_cond_init(&worker->changed);
	uv_async_init(loop, &worker->async, handle_async);
	uv_unref((uv_handle_t *)&worker->async);
	worker->async.data = worker;
	return worker;
}

static void handle_closed(uv_handle_t *handle)
{
	struct worker *worker = handle->data;
	uv_cond_destroy(&worker->changed);
	uv_mutex_destroy(&worker->lock);
	free(worker);
}

void worker_destroy(struct worker *worker)
{
	assert(worker->state == WORK_NONE);
	if (worker->has_thread) {
		uv_mutex_lock(&worker->lock);
		worker->ends = true;
		uv_cond_broadcast(&worker->changed);
		uv_mutex_unlock(&worker->lock);
		uv_thread_join(&worker->thread);
	}
	uv_close((uv_handle_t *)&worker->async, handle_closed);
}

void worker_start(struct worker *worker)
{
	assert(worker->state == WORK_NONE);
	uv_ref((uv_handle_t *)&worker->async);
	if (!worker->has_thread) {
		worker->has_thread = uv_thread_create(&worker->thread, handle_thread, worker) == 0;
	}
	if (!worker->has_thread) {
		/*
		 * No thread is available: run it here, which blocks the loop. The next start tries
		 * again.
		 */
		worker->run(worker->arg);
		worker->state = WORK_OVER;
		uv_async_send(&worker->async);
		return;
	}
	uv_mutex_lock(&worker->lock);
	worker->state = WORK_WAITS;
	uv_cond_broadcast(&worker->changed);
	uv_mutex_unlock(&worker->lock);
}

void worker_wait(struct worker *worker)
{
	while (!worker_wait_for(worker, 1000)) {
	}
}

bool worker_wait_for(struct worker *worker, uint64_t ms)
{
	uint64_t end = uv_hrtime() + ms * 1000000;
	uint64_t now;
	uv_mutex_lock(&worker->lock);
	assert(worker->state != WORK_NONE);
	while (worker->state != WORK_OVER && (now = uv_hrtime()) < end) {
		uv_cond_timedwait(&worker->changed, &worker->lock, end - now);
	}
	bool is_over = worker->state == WORK_OVER;
	uv_mutex_unlock(&worker->lock);
	if (is_over) {
		tell_if_over(worker);
	}
	return is_over;
}
