#include "holdfast/loop.h"

#include "holdfast/buffer.h"

#include <stdlib.h>
#include <unistd.h>

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
