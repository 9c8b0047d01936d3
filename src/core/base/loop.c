#include "holdfast/loop.h"

#include "holdfast/buffer.h"

#include <stdlib.h>
#include <unistd.h>

/* Less is no gap: a busy machine (ms). */
#define LATE_MS 1000
/* Most that somebody gets because of a gap (ms). */
#define PUT_OFF_MS 10000

struct deadline {
	uv_timer_t timer; /* first */
	bool is_past;
};

static void handle_timer(uv_timer_t *timer)
{
	((struct deadline *)timer)->is_past = true;
}

static void free_handle(uv_handle_t *handle)
{
	free(handle);
}

bool loop_run_until(uv_loop_t *loop, bool (*is_over)(void *arg), void *arg, int64_t ms)
{
	struct deadline *deadline = xcalloc(1, sizeof(*deadline));
	uv_timer_init(loop, &deadline->timer);
	uv_update_time(loop);
	uv_timer_start(&deadline->timer, handle_timer, (uint64_t)ms, 0);
	uv_unref((uv_handle_t *)&deadline->timer); /* it must not keep the loop alive */
	bool over = is_over(arg);
	while (!over && !deadline->is_past) {
		uv_run(loop, UV_RUN_ONCE);
		over = is_over(arg);
	}
	loop_close(deadline);
	return over;
}

uv_timer_t *loop_timer(uv_loop_t *loop, void *data)
{
	uv_timer_t *timer = xmalloc(sizeof(*timer));
	uv_timer_init(loop, timer);
	uv_unref((uv_handle_t *)timer);
	timer->data = data;
	return timer;
}

void loop_close(void *handle)
{
	uv_close(handle, free_handle);
}

struct closing {
	uv_work_t work; /* first */
	int fd;
};

static void close_work(uv_work_t *work)
{
	close(((struct closing *)work)->fd);
}

static void close_done(uv_work_t *work, int status)
{
	free(work);
}

void loop_close_file(uv_loop_t *loop, int fd)
{
	struct closing *closing = xcalloc(1, sizeof(*closing));
	closing->fd = fd;
	uv_queue_work(loop, &closing->work, close_work, close_done);
}

/* --- gaps --- */

static struct loop_watch *watch_of(uv_loop_t *loop)
{
	return loop->data;
}

/** It is `now_ms`, and the loop was to go on by `due_ms`. */
static void look(struct loop_watch *watch, uint64_t now_ms)
{
	if (now_ms > watch->due_ms + LATE_MS) {
		watch->missed_ms = now_ms - watch->due_ms;
		watch->lost_ms += watch->missed_ms;
		watch->due_ms = now_ms;
	}
}

void loop_watch(uv_loop_t *loop, struct loop_watch *watch)
{
	loop->data = watch;
	if (watch) {
		uv_update_time(loop);
		*watch = (struct loop_watch){.due_ms = uv_now(loop)};
	}
}

/** The same at this moment: uv_now() stands still in callbacks, and would lack what is left out. */
static void look_now(uv_loop_t *loop)
{
	uv_update_time(loop);
	look(watch_of(loop), uv_now(loop));
}

void loop_note_sleep(uv_loop_t *loop)
{
	look_now(loop);
	int timeout = uv_backend_timeout(loop);
	watch_of(loop)->due_ms = timeout < 0 ? UINT64_MAX / 2 : uv_now(loop) + (uint64_t)timeout;
}

void loop_note_wake(uv_loop_t *loop)
{
	struct loop_watch *watch = watch_of(loop);
	watch->missed_ms = 0;
	look(watch, uv_now(loop)); /* it slept too long, and may have read nothing */
	watch->due_ms = uv_now(loop);
	look_now(loop); /* reading took too long: others have sent meanwhile */
}

int64_t loop_missed_ms(uv_loop_t *loop)
{
	struct loop_watch *watch = watch_of(loop);
	if (!watch) {
		return 0;
	}
	look(watch, uv_now(loop));
	return (int64_t)watch->missed_ms;
}

int64_t loop_now_ms(uv_loop_t *loop)
{
	loop_missed_ms(loop);
	return (int64_t)(uv_now(loop) - (watch_of(loop) ? watch_of(loop)->lost_ms : 0));
}

bool loop_put_off(uv_timer_t *timer, uv_timer_cb callback)
{
	int64_t ms = loop_missed_ms(timer->loop);
	if (ms) {
		uv_timer_start(timer, callback, (uint64_t)(ms < PUT_OFF_MS ? ms : PUT_OFF_MS), 0);
	}
	return ms;
}
