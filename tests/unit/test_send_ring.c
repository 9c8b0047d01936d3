#include "holdfast/send_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define LARGE ((size_t)64 * 1024 * 1024)

struct pair {
	int here;
	int there;
};

static struct pair make_pair(void)
{
	int fds[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	return (struct pair){fds[0], fds[1]};
}

static void close_pair(struct pair *pair)
{
	close(pair->here);
	close(pair->there);
}

static int set_up(void **state)
{
	*state = send_ring_create();
	if (!*state) {
		print_message("this kernel gives no io_uring: both rounds are by send()\n");
	}
	return 0;
}

static int tear_down(void **state)
{
	send_ring_destroy(*state);
	return 0;
}

static void check_each_has_its_own(struct send_ring *ring, size_t count)
{
	static struct pair pairs[SEND_RING_SIZE];
	static struct send_job jobs[SEND_RING_SIZE];
	static char texts[SEND_RING_SIZE][32];
	for (size_t i = 0; i < count; i++) {
		pairs[i] = make_pair();
		int len = snprintf(texts[i], sizeof(texts[i]), "for number %zu", i);
		jobs[i] = (struct send_job){
			.fd = pairs[i].here, .bytes = texts[i], .len = (size_t)len};
	}
	send_all(ring, jobs, count);
	for (size_t i = 0; i < count; i++) {
		char got[64] = "";
		assert_int_equal(jobs[i].result, strlen(texts[i]));
		assert_int_equal(read(pairs[i].there, got, sizeof(got) - 1), strlen(texts[i]));
		assert_string_equal(got, texts[i]);
		close_pair(&pairs[i]);
	}
}

static void each_socket_gets_its_own_bytes(void **state)
{
	static const size_t counts[] = {0, 1, 3, 4, 5, 100, SEND_RING_SIZE};
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		check_each_has_its_own(*state, counts[i]);
		check_each_has_its_own(NULL, counts[i]);
	}
}

/** One socket that takes all, a full one, one that takes a part, one whose peer has gone, and none. */
static void check_mixed(struct send_ring *ring)
{
	char *large = calloc(1, LARGE);
	assert_non_null(large);
	struct pair pairs[4];
	struct send_job jobs[5];
	for (size_t i = 0; i < 4; i++) {
		pairs[i] = make_pair();
		jobs[i] = (struct send_job){.fd = pairs[i].here, .bytes = "hello", .len = 5};
	}
	while (send(pairs[1].here, large, 65536, MSG_DONTWAIT) > 0) {
	}
	while (send(pairs[1].here, large, 1, MSG_DONTWAIT) > 0) {
	}
	jobs[2].bytes = large;
	jobs[2].len = LARGE;
	close(pairs[3].there);
	jobs[4] = (struct send_job){.fd = -1, .bytes = "hello", .len = 5};
	send_all(ring, jobs, 5);
	assert_int_equal(jobs[0].result, 5);
	assert_int_equal(jobs[1].result, -EAGAIN);
	assert_true(jobs[2].result > 0 && (size_t)jobs[2].result < LARGE);
	assert_int_equal(jobs[3].result, -EPIPE);
	assert_int_equal(jobs[4].result, -EBADF);
	pairs[3].there = -1;
	for (size_t i = 0; i < 4; i++) {
		close_pair(&pairs[i]);
	}
	free(large);
}

static void sockets_that_take_less_are_told_apart(void **state)
{
	for (int round = 0; round < 50; round++) {
		check_mixed(*state);
		check_mixed(NULL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_socket_gets_its_own_bytes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			sockets_that_take_less_are_told_apart, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
