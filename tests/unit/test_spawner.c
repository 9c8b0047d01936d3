/*
 * The spawner, as a server that was taken over would speak to it: it starts what it was made for and
 * nothing else.
 */
#include "agents/process/process_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* The test's ends of it. */
struct far {
	int socket;
	int exits;
	pid_t pid;
};

/** One that does not start another program: with guards or without, and without a helper. */
static struct far start(const char *guarded)
{
	struct far far;
	int sockets[2];
	int exits[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
	assert_int_equal(pipe2(exits, O_CLOEXEC), 0);
	far.socket = sockets[0];
	far.exits = exits[0];
	far.pid = fork();
	if (far.pid == 0) {
		int socket = fcntl(sockets[1], F_DUPFD_CLOEXEC, 10);
		int pipe = fcntl(exits[1], F_DUPFD_CLOEXEC, 10);
		dup2(socket, SPAWNER_SOCKET);
		dup2(pipe, SPAWNER_EXITS);
		_exit(spawner_run(2, (char *[]){(char *)"", (char *)guarded, NULL}));
	}
	close(sockets[1]);
	close(exits[1]);
	return far;
}

static void end(struct far far)
{
	int status;
	close(far.socket);
	assert_int_equal(waitpid(far.pid, &status, 0), far.pid);
	assert_int_equal(status, 0);
	close(far.exits);
}

static void give(struct far far, const void *bytes, size_t len, const int *fds, size_t count)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int) * 8)];
	} control = {0};
	struct iovec iov = {.iov_base = (void *)bytes, .iov_len = len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	if (count) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * count);
		control.head = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS,
			.cmsg_len = CMSG_LEN(sizeof(int) * count)};
		memcpy(CMSG_DATA(&control.head), fds, sizeof(int) * count);
	}
	assert_int_equal(sendmsg(far.socket, &msg, MSG_NOSIGNAL), (ssize_t)len);
}

/** What it says to an order with so many descriptors, the first of which has orders. */
static int answer_to(struct far far, struct spawn_order order, int orders, size_t count)
{
	int fds[8];
	struct spawn_answer answer;
	for (size_t i = 0; i < 8; i++) {
		fds[i] = i ? STDERR_FILENO : orders;
	}
	give(far, &order, sizeof(order), fds, count);
	assert_int_equal(recv(far.socket, &answer, sizeof(answer), 0), (ssize_t)sizeof(answer));
	assert_true(answer.id == order.id);
	return answer.value;
}

static int status_of(struct far far, uint64_t id)
{
	struct spawn_answer exit;
	assert_int_equal(read(far.exits, &exit, sizeof(exit)), (ssize_t)sizeof(exit));
	assert_true(exit.id == id);
	return exit.value;
}

static int orders_of(const char *name, const char *dir, const char *script)
{
	struct orders orders = {.name = (char *)name,
		.root = (char *)"",
		.dir = (char *)dir,
		.args = (char *[]){(char *)"/bin/sh", (char *)"-c", (char *)script, NULL},
		.env = (char *[]){(char *)"A=b", NULL}};
	int fd = orders_write(&orders);
	assert_true(fd >= 0);
	return fd;
}

static int file_of(const void *bytes, size_t len)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	assert_int_equal(write(fd, bytes, len), (ssize_t)len);
	return fd;
}

static const struct spawn_order bare = {
	.id = 1, .kind = SPAWN_START, .has_orders = 1, .one_output = 1};

static void programs_start_and_their_end_is_told(void **state)
{
	struct far far = start("");
	struct spawn_order order = bare;
	int orders = orders_of("", "/", "test \"$A $(pwd)\" = 'b /' && exit 7");
	assert_true(answer_to(far, order, orders, 2) > 0);
	int status = status_of(far, 1);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
	close(orders);
	orders = orders_of("", "/", "sleep 1000");
	order.id = 2;
	int pid = answer_to(far, order, orders, 2);
	assert_int_equal(getpgid(pid), pid);
	assert_int_equal(getsid(pid), pid);
	assert_int_equal(answer_to(far, order, orders, 2), -EPERM); /* there is one of this name */
	struct spawn_order kill_it = {.id = 2, .kind = SPAWN_SIGNAL, .signal = SIGTERM};
	give(far, &kill_it, sizeof(kill_it), NULL, 0);
	status = status_of(far, 2);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGTERM);
	struct spawn_order release = {.id = 2, .kind = SPAWN_RELEASE};
	give(far, &release, sizeof(release), NULL, 0);
	assert_true(answer_to(far, order, orders, 2) > 0); /* and now there is not */
	kill_it.signal = SIGKILL;
	give(far, &kill_it, sizeof(kill_it), NULL, 0);
	close(orders);
	end(far);
}

static void what_cannot_start_is_told(void **state)
{
	struct far far = start("");
	char bytes[64];
	memset(bytes, 0xff, sizeof(bytes));
	const struct {
		int orders;
		int error;
	} cases[] = {
		{orders_of("", "/nowhere/at/all", "true"), -ENOENT},
		{orders_of("../..", "/", "true"), -EINVAL},
		{orders_of("0123456789abcdef0123456789abcdef", "/", "true"), -EINVAL},
		{file_of("", 0), -EINVAL},
		{file_of(bytes, sizeof(bytes)), -EINVAL},
		{open("/dev/zero", O_RDONLY | O_CLOEXEC), -EINVAL},
		{open("/", O_RDONLY | O_CLOEXEC), -EINVAL},
		{open("/", O_PATH | O_CLOEXEC), -EINVAL},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(answer_to(far, bare, cases[i].orders, 2), cases[i].error);
		close(cases[i].orders);
	}
	end(far);
}

static void nothing_starts_that_it_was_not_made_for(void **state)
{
	int orders = orders_of("", "/", "touch /tmp/holdfast-spawner-test");
	const struct spawn_order helper = {.id = 1, .kind = SPAWN_START};
	struct spawn_order guarded = bare;
	guarded.guarded = 1;
	struct spawn_order odd = bare;
	odd.has_orders = 2;
	struct far far = start("");
	assert_int_equal(answer_to(far, guarded, orders, 3), -EPERM);
	assert_int_equal(answer_to(far, helper, orders, 3), -EPERM);
	assert_int_equal(answer_to(far, odd, orders, 3), -EPERM);
	assert_int_equal(answer_to(far, bare, orders, 0), -EPERM);
	assert_int_equal(answer_to(far, bare, orders, 1), -EPERM);
	assert_int_equal(answer_to(far, bare, orders, 3), -EPERM);
	for (size_t count = 4; count <= 8; count++) {
		int error = answer_to(far, bare, orders, count);
		assert_true(error == -EPERM || error == -EMFILE);
	}
	end(far);
	far = start(SPAWNER_GUARDED);
	assert_int_equal(answer_to(far, bare, orders, 2), -EPERM);
	assert_int_equal(answer_to(far, guarded, orders, 2), -EPERM);
	end(far);
	close(orders);
	assert_int_equal(access("/tmp/holdfast-spawner-test", F_OK), -1);
}

static void what_is_no_order_ends_it(void **state)
{
	static const char bytes[1024];
	const size_t sizes[] = {
		1, sizeof(struct spawn_order) - 1, sizeof(struct spawn_order) + 1, sizeof(bytes)};
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct far far = start("");
		struct spawn_order unknown = {.id = 9, .kind = SPAWN_SIGNAL, .signal = SIGKILL};
		give(far, &unknown, sizeof(unknown), NULL, 0); /* nobody has this number */
		unknown.kind = 99;
		give(far, &unknown, sizeof(unknown), NULL, 0);
		give(far, bytes, sizes[i], NULL, 0);
		char byte;
		assert_int_equal(read(far.exits, &byte, 1), 0);
		end(far);
	}
}

/* Two children, of which the end of the first makes the owner release both. */
struct pair {
	struct spawned first;
	struct spawned second;
	unsigned ends;
};

static void release_both(struct spawned *child, int status)
{
	struct pair *pair = list_entry(child, struct pair, first);
	pair->ends++;
	spawned_release(&pair->second);
	spawned_release(&pair->first);
}

static void note_second(struct spawned *child, int status)
{
	fail_msg("the second child was released");
}

static void note_lost(void *owner)
{
	*(bool *)owner = true;
}

static void take_first(pid_t pid, void *arg)
{
	pid_t *first = arg;
	*first = *first ? *first : pid;
}

/** An owner that hears of an end can release other children: an agent that has ended ends its commands. */
static void children_can_be_released_while_it_is_lost(void **state)
{
	uv_loop_t loop;
	struct spawner *spawner;
	bool is_lost = false;
	pid_t pid = 0;
	int in[2];
	struct pair pair = {.first.exited = release_both, .second.exited = note_second};
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	assert_int_equal(
		spawner_create(&loop, &(struct spawner_config){0}, note_lost, &is_lost, &spawner),
		0);
	struct orders orders = {.name = (char *)"",
		.dir = (char *)"/",
		.root = (char *)"",
		.args = (char *[]){(char *)"cat", NULL}};
	const struct spawn_request request = {
		.orders = &orders, .in = in[0], .out = null, .err = null, .lifeline = -1};
	assert_int_equal(spawner_start(spawner, &request, &pair.first), 0);
	assert_int_equal(spawner_start(spawner, &request, &pair.second), 0);
	descendants_each(getpid(), take_first, &pid);
	assert_int_equal(kill(pid, SIGKILL), 0);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_true(is_lost);
	assert_int_equal(pair.ends, 1);
	spawner_close(spawner);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	close(in[0]);
	close(in[1]);
	close(null);
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		return 1; /* a guard, which should not have been started, is this program */
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(programs_start_and_their_end_is_told),
		cmocka_unit_test(what_cannot_start_is_told),
		cmocka_unit_test(nothing_starts_that_it_was_not_made_for),
		cmocka_unit_test(what_is_no_order_ends_it),
		cmocka_unit_test(children_can_be_released_while_it_is_lost),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
