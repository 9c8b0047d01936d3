/* What is written later, while other threads send it: nothing of a socket that closes is left, nothing is out of order. */
#include "server/connection/transport.h"

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

/* More than threads leave to the loop, and all that is gathered at a time. */
#define PEERS ((size_t)400)

struct peer {
	struct sock sock; /* first */
	int here;
	int there; /* the other end; -1: it has hung up */
	unsigned closed;
	unsigned broken;
	unsigned done;
};

static uv_loop_t loop;
static struct transport *transport;
static struct peer peers[PEERS];

static void handle_received(struct sock *sock, char *bytes, size_t len)
{
}

static void handle_kept(struct sock *sock)
{
}

static void handle_broken(struct sock *sock)
{
	((struct peer *)sock)->broken++;
}

/** Until here a thread may have sent to it: lws has not given its number back. */
static void handle_closed(struct sock *sock)
{
	struct peer *peer = (struct peer *)sock;
	assert_true(fcntl(peer->here, F_GETFD) >= 0);
	peer->closed++;
}

static const struct transport_ops ops = {
	.received = handle_received,
	.writable = handle_kept,
	.ended = handle_broken,
	.broken = handle_broken,
	.kept = handle_kept,
	.closed = handle_closed,
};

static void handle_done(void *arg)
{
	((struct peer *)arg)->done++;
}

static int set_up(void **state)
{
	assert_int_equal(uv_loop_init(&loop), 0);
	transport = transport_create(&loop, 3);
	assert_int_equal(transport_open(transport), 0);
	for (size_t i = 0; i < PEERS; i++) {
		int fds[2];
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
		peers[i] = (struct peer){.here = fds[0], .there = fds[1]};
		assert_int_equal(
			transport_adopt(transport, &peers[i].sock, &ops, fds[0], false), 0);
	}
	uv_run(&loop, UV_RUN_NOWAIT);
	return 0;
}

static void hang_up(struct peer *peer)
{
	close(peer->there);
	peer->there = -1;
}

static int tear_down(void **state)
{
	for (size_t i = 0; i < PEERS; i++) {
		if (!peers[i].closed) {
			sock_close(&peers[i].sock);
		}
		assert_int_equal(peers[i].closed, 1);
		if (peers[i].there >= 0) {
			hang_up(&peers[i]);
		}
	}
	uv_run(&loop, UV_RUN_DEFAULT); /* it ends: nothing but sockets keeps it alive */
	transport_destroy(transport);
	assert_int_equal(uv_loop_close(&loop), 0);
	return 0;
}

static void write_all(const char *text)
{
	for (size_t i = 0; i < PEERS; i++) {
		if (!peers[i].closed) {
			peers[i].done = 0;
			sock_write_later(
				&peers[i].sock, text, strlen(text), handle_done, &peers[i]);
		}
	}
}

static void check_got(const struct peer *peer, const char *text)
{
	char got[64] = "";
	assert_int_equal(peer->done, 1);
	assert_int_equal(recv(peer->there, got, sizeof(got) - 1, MSG_DONTWAIT), strlen(text));
	assert_string_equal(got, text);
}

/** As when a request makes the server close one while others are being told of an event. */
static void one_that_is_closed_in_the_middle(void **state)
{
	for (size_t victim = 0; victim < PEERS; victim += 37) {
		write_all("to all");
		sock_close(&peers[victim].sock);
		assert_int_equal(peers[victim].closed, 1);
		assert_int_equal(peers[victim].done, 1);
		transport_flush(transport);
		for (size_t i = 0; i < PEERS; i++) {
			if (!peers[i].closed) {
				check_got(&peers[i], "to all");
			}
		}
		uv_run(&loop, UV_RUN_NOWAIT);
	}
}

/** lws sees it between writing and flushing, and closes the descriptor when the loop goes on. */
static void one_whose_peer_hangs_up_in_the_middle(void **state)
{
	for (size_t victim = 5; victim < PEERS; victim += 41) {
		write_all("to all");
		hang_up(&peers[victim]);
		for (int turns = 0; !peers[victim].closed && turns < 100; turns++) {
			uv_run(&loop, UV_RUN_NOWAIT);
		}
		assert_int_equal(peers[victim].closed, 1);
		assert_int_equal(peers[victim].done, 1);
		assert_int_equal(peers[victim].broken, 0); /* nobody is there to be told */
		transport_flush(transport);
		for (size_t i = 0; i < PEERS; i++) {
			if (!peers[i].closed) {
				check_got(&peers[i], "to all");
			}
		}
	}
}

static void one_that_has_hung_up_is_broken(void **state)
{
	hang_up(&peers[200]);
	write_all("to all");
	transport_flush(transport);
	assert_int_equal(peers[200].broken, 1);
	assert_int_equal(peers[200].done, 1);
	for (size_t i = 0; i < PEERS; i++) {
		if (i != 200) {
			check_got(&peers[i], "to all");
		}
	}
}

/* More than a socket takes at once. */
#define LARGE ((size_t)1 << 20)

/** Reads `len` bytes, while the loop writes them, and looks at where each begins. */
static void check_large(const struct peer *peer, const char *bytes, size_t len)
{
	static char got[1 << 16];
	for (size_t at = 0; at < len;) {
		ssize_t n = recv(peer->there, got, sizeof(got), MSG_DONTWAIT);
		if (n < 0) {
			assert_int_equal(errno, EAGAIN);
			uv_run(&loop, UV_RUN_NOWAIT);
			continue;
		}
		assert_true(n > 0);
		assert_memory_equal(got, bytes + at, (size_t)n);
		at += (size_t)n;
	}
}

/** What a thread could not send is kept, and what is written meanwhile comes behind it. */
static void what_is_not_taken_comes_in_its_turn(void **state)
{
	char *large = malloc(LARGE + 6);
	for (size_t i = 0; i < LARGE; i++) {
		large[i] = (char)(i * 31 + i / 251);
	}
	memcpy(large + LARGE, "behind", 6);
	for (size_t i = 0; i < PEERS; i++) {
		sock_write_later(&peers[i].sock, large, LARGE, handle_done, &peers[i]);
	}
	for (size_t i = 0; i < PEERS; i += 3) {
		assert_true(sock_is_choked(&peers[i].sock)); /* so all are waited for */
	}
	for (size_t i = 0; i < PEERS; i++) {
		assert_int_equal(peers[i].done, 1);
		sock_write_later(&peers[i].sock, large + LARGE, 6, handle_done, &peers[i]);
		assert_int_equal(peers[i].done, 2);
	}
	for (size_t i = 0; i < PEERS; i += 100) {
		check_large(&peers[i], large, LARGE + 6);
	}
	free(large);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			one_that_is_closed_in_the_middle, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			one_whose_peer_hangs_up_in_the_middle, set_up, tear_down),
		cmocka_unit_test_setup_teardown(one_that_has_hung_up_is_broken, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			what_is_not_taken_comes_in_its_turn, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
