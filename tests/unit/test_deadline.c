/* Until when a guard leaves its agent alive: what the server says later counts, and silence does not. */
#include "agents/process/process_internal.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define FAR_MS 3600000

struct pair {
	int fd;
	atomic_llong *at_ms;
	struct deadline deadline;
};

static long long now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_BOOTTIME, &ts);
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

static void begin(struct pair *pair, long long at_ms)
{
	assert_int_equal(deadline_make(&pair->fd, &pair->at_ms), 0);
	assert_int_equal(atomic_load(pair->at_ms), 0);
	atomic_store(pair->at_ms, at_ms);
	assert_int_equal(deadline_watch(pair->fd, &pair->deadline), 0);
}

static void end(struct pair *pair)
{
	close(pair->deadline.timer);
	close(pair->fd);
	deadline_free(pair->at_ms);
}

static int wakes(const struct pair *pair, int ms)
{
	struct pollfd fd = {.fd = pair->deadline.timer, .events = POLLIN};
	return poll(&fd, 1, ms);
}

static void one_that_nobody_has_set_is_over(void **state)
{
	struct pair pair;
	begin(&pair, 0);
	assert_int_equal(wakes(&pair, FAR_MS), 1);
	assert_true(deadline_is_over(&pair.deadline));
	end(&pair);
}

static void one_that_was_moved_wakes_and_is_not_over(void **state)
{
	struct pair pair;
	begin(&pair, now_ms() + 20);
	atomic_store(pair.at_ms, now_ms() + FAR_MS);
	assert_int_equal(wakes(&pair, FAR_MS), 1);
	assert_false(deadline_is_over(&pair.deadline));
	assert_int_equal(wakes(&pair, 0), 0); /* a look has set it anew */
	end(&pair);
}

static void one_that_was_not_moved_is_over(void **state)
{
	struct pair pair;
	begin(&pair, now_ms() + 20);
	assert_int_equal(wakes(&pair, FAR_MS), 1);
	assert_true(deadline_is_over(&pair.deadline));
	end(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_nobody_has_set_is_over),
		cmocka_unit_test(one_that_was_moved_wakes_and_is_not_over),
		cmocka_unit_test(one_that_was_not_moved_is_over),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
