#include "holdfast/loop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

struct story {
	uv_loop_t loop;
	struct loop_watch watch;
	uv_prepare_t prepare;
	uv_check_t check;
	uv_timer_t deadline;
	uv_poll_t poll;
	int pipe[2];
	bool has_slept;
	bool has_read;
	bool is_given_up;
};

static void handle_prepare(uv_prepare_t *handle)
{
	struct story *story = handle->data;
	loop_note_sleep(handle->loop);
	if (!story->has_slept) { /* the process is stopped, and somebody writes meanwhile */
		story->has_slept = true;
		assert_int_equal(write(story->pipe[1], "x", 1), 1);
		usleep(1500000);
	}
}

static void handle_check(uv_check_t *handle)
{
	loop_note_wake(handle->loop);
}

static void handle_readable(uv_poll_t *poll, int status, int events)
{
	struct story *story = poll->data;
	story->has_read = true;
	uv_poll_stop(poll);
}

static void handle_deadline(uv_timer_t *timer)
{
	struct story *story = timer->data;
	if (loop_put_off(timer, handle_deadline)) {
		return;
	}
	story->is_given_up = !story->has_read;
	uv_close((uv_handle_t *)&story->prepare, NULL);
	uv_close((uv_handle_t *)&story->check, NULL);
	uv_close((uv_handle_t *)&story->poll, NULL);
	uv_close((uv_handle_t *)timer, NULL);
}

static void begin(struct story *story)
{
	uv_loop_init(&story->loop);
	uv_prepare_init(&story->loop, &story->prepare);
	uv_check_init(&story->loop, &story->check);
	uv_timer_init(&story->loop, &story->deadline);
	assert_int_equal(pipe(story->pipe), 0);
	uv_poll_init(&story->loop, &story->poll, story->pipe[0]);
	story->prepare.data = story->check.data = story->deadline.data = story->poll.data = story;
	uv_prepare_start(&story->prepare, handle_prepare);
	uv_check_start(&story->check, handle_check);
	uv_timer_start(&story->deadline, handle_deadline, 200, 0);
	uv_poll_start(&story->poll, UV_READABLE, handle_readable);
	loop_watch(&story->loop, &story->watch);
}

static void who_was_asleep_reads_before_it_gives_up(void **state)
{
	struct story story = {0};
	begin(&story);
	uv_run(&story.loop, UV_RUN_DEFAULT);
	assert_true(story.has_read);
	assert_false(story.is_given_up);
	/* The gap does not count. */
	uint64_t left_out = uv_now(&story.loop) - (uint64_t)loop_now_ms(&story.loop);
	assert_true(left_out >= 1000);
	close(story.pipe[0]);
	close(story.pipe[1]);
	assert_int_equal(uv_loop_close(&story.loop), 0);
	(void)state;
}

/* The time of the loop as it was when it was asked last. */
struct reader {
	struct loop_watch watch;
	int64_t now_ms;
	bool has_read;
};

static void ask(uv_loop_t *loop, struct reader *reader)
{
	int64_t now = loop_now_ms(loop);
	assert_true(now >= reader->now_ms);
	assert_true(now - reader->now_ms < 1000); /* the gap is left out */
	reader->now_ms = now;
}

static void handle_slow_reading(uv_async_t *handle)
{
	struct reader *reader = handle->data;
	ask(handle->loop, reader);
	usleep(1500000); /* it is stopped in the middle */
	ask(handle->loop, reader);
	reader->has_read = true;
}

static void handle_sleep_of_reader(uv_prepare_t *handle)
{
	ask(handle->loop, handle->data);
	loop_note_sleep(handle->loop);
	ask(handle->loop, handle->data);
}

static void handle_wake_of_reader(uv_check_t *handle)
{
	struct reader *reader = handle->data;
	loop_note_wake(handle->loop);
	ask(handle->loop, reader);
	if (reader->has_read) {
		uv_stop(handle->loop);
	}
}

static void time_does_not_go_back_when_reading_took_too_long(void **state)
{
	struct reader reader = {0};
	uv_loop_t loop;
	uv_async_t wake;
	uv_prepare_t prepare;
	uv_check_t check;
	uv_loop_init(&loop);
	loop_watch(&loop, &reader.watch);
	reader.now_ms = loop_now_ms(&loop);
	uv_async_init(&loop, &wake, handle_slow_reading);
	uv_prepare_init(&loop, &prepare);
	uv_check_init(&loop, &check);
	wake.data = prepare.data = check.data = &reader;
	uv_prepare_start(&prepare, handle_sleep_of_reader);
	uv_check_start(&check, handle_wake_of_reader);
	uv_async_send(&wake);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_true(reader.has_read);
	uv_close((uv_handle_t *)&wake, NULL);
	uv_close((uv_handle_t *)&prepare, NULL);
	uv_close((uv_handle_t *)&check, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	loop_watch(&loop, NULL);
	assert_int_equal(uv_loop_close(&loop), 0);
	(void)state;
}

static void a_loop_that_nobody_watches_has_its_own_time(void **state)
{
	uv_loop_t loop = {0};
	uv_loop_init(&loop);
	assert_int_equal(loop_now_ms(&loop), (int64_t)uv_now(&loop));
	assert_int_equal(loop_missed_ms(&loop), 0);
	assert_int_equal(uv_loop_close(&loop), 0);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_was_asleep_reads_before_it_gives_up),
		cmocka_unit_test(time_does_not_go_back_when_reading_took_too_long),
		cmocka_unit_test(a_loop_that_nobody_watches_has_its_own_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
