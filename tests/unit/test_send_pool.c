#include "holdfast/send_pool.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

/* Two descriptors each, below the usual limit of 1,024. */
#define PAIRS ((size_t)450)

static int here[PAIRS];
static int there[PAIRS];

static int set_up(void **state)
{
	for (size_t i = 0; i < PAIRS; i++) {
		int fds[2];
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
		here[i] = fds[0];
		there[i] = fds[1];
	}
	return 0;
}

static int tear_down(void **state)
{
	for (size_t i = 0; i < PAIRS; i++) {
		close(here[i]);
		close(there[i]);
	}
	return 0;
}

/** Each result is that of its job, and each socket gets its own bytes, once. In some rounds they are sent from the first on. */
static void check_round(struct send_pool *pool, size_t count, unsigned round)
{
	static struct send_job jobs[PAIRS];
	static char texts[PAIRS][48];
	for (size_t i = 0; i < count; i++) {
		int len = snprintf(texts[i], sizeof(texts[i]), "round %u, number %zu", round, i);
		jobs[i] = (struct send_job){
			.fd = here[i], .bytes = texts[i], .len = (size_t)len, .result = -1};
		if (round % 2) {
			send_pool_begin(pool, jobs, i + 1);
		}
	}
	send_pool_send(pool, jobs, count);
	for (size_t i = 0; i < count; i++) {
		char got[64] = "";
		assert_int_equal(jobs[i].result, strlen(texts[i]));
		assert_int_equal(
			recv(there[i], got, sizeof(got) - 1, MSG_DONTWAIT), strlen(texts[i]));
		assert_string_equal(got, texts[i]);
	}
}

static void each_socket_gets_its_own_bytes_once(void **state)
{
	static const size_t threads[] = {1, 2, 3, 9};
	static const size_t counts[] = {0, 1, 3, 63, 64, 127, 128, 129, 300, PAIRS};
	for (size_t t = 0; t < sizeof(threads) / sizeof(threads[0]); t++) {
		struct send_pool *pool = send_pool_create(threads[t]);
		assert_int_equal(send_pool_threads(pool), threads[t]);
		for (unsigned round = 0; round < 20; round++) {
			for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
				check_round(pool, counts[i], round);
			}
		}
		send_pool_destroy(pool);
	}
}

/** The caller does nothing, and they come. */
static void what_is_begun_is_sent_meanwhile(void **state)
{
	static struct send_job jobs[PAIRS];
	struct send_pool *pool = send_pool_create(2);
	for (size_t i = 0; i < PAIRS; i++) {
		jobs[i] = (struct send_job){.fd = here[i], .bytes = "begun", .len = 5};
		send_pool_begin(pool, jobs, i + 1);
	}
	/* The first ones come in whole slices; the rest is the caller's. */
	for (size_t i = 0; i < 256; i++) {
		char got[8] = "";
		struct pollfd poll_fd = {.fd = there[i], .events = POLLIN};
		assert_int_equal(poll(&poll_fd, 1, 60000), 1);
		assert_int_equal(recv(there[i], got, sizeof(got) - 1, MSG_DONTWAIT), 5);
		assert_string_equal(got, "begun");
	}
	send_pool_send(pool, jobs, PAIRS);
	for (size_t i = 256; i < PAIRS; i++) {
		char got[8] = "";
		assert_int_equal(recv(there[i], got, sizeof(got) - 1, MSG_DONTWAIT), 5);
	}
	send_pool_destroy(pool);
}

static void what_a_socket_does_not_take_is_told(void **state)
{
	static struct send_job jobs[PAIRS];
	static char block[4096];
	struct send_pool *pool = send_pool_create(3);
	for (size_t i = 0; i < PAIRS; i++) {
		jobs[i] = (struct send_job){.fd = here[i], .bytes = block, .len = sizeof(block)};
	}
	/* Every third has no room, one in the middle is gone, one has never been there. */
	for (size_t i = 0; i < PAIRS; i += 3) {
		while (send(here[i], block, sizeof(block), MSG_DONTWAIT) > 0) {
		}
		while (send(here[i], block, 1, MSG_DONTWAIT) > 0) {
		}
	}
	close(there[200]);
	there[200] = -1;
	jobs[301].fd = -1;
	send_pool_begin(pool, jobs, 256);
	send_pool_send(pool, jobs, PAIRS);
	for (size_t i = 0; i < PAIRS; i++) {
		ssize_t wanted = i == 200   ? -EPIPE
				 : i == 301 ? -EBADF
				 : i % 3    ? (ssize_t)sizeof(block)
					    : -EAGAIN;
		assert_int_equal(jobs[i].result, wanted);
	}
	send_pool_destroy(pool);
}

static void the_number_of_threads_is_chosen(void **state)
{
	struct send_pool *pool = send_pool_create(0);
	assert_in_range(send_pool_threads(pool), 1, 4);
	check_round(pool, PAIRS, 0);
	send_pool_destroy(pool);
	send_pool_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			each_socket_gets_its_own_bytes_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_begun_is_sent_meanwhile, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			what_a_socket_does_not_take_is_told, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_number_of_threads_is_chosen, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
