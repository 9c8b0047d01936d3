#include "holdfast/spawner.h"

#include "process_internal.h"

#include "holdfast/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* A spawner that does not take or answer an order within this time counts as lost. */
#define PATIENCE_MS 30000
/* It is waited for in pieces of this length. */
#define PIECE_MS 1000
/* How long spawner_close() waits for the process to end. */
#define LEAVE_MS 1000

struct spawner {
	uv_poll_t *exits; /* watches a pipe of struct spawn_answer */
	uv_timer_t *stuck; /* reports from the loop that the spawner is lost */
	int exits_fd;
	int socket;
	pid_t pid;
	bool has_guards;
	bool has_helper;
	bool is_lost;
	int grace_ms; /* longest grace period of children that are told to end */
	atomic_llong *deadline; /* NULL: none */
	struct list children; /* struct spawned */
	uint64_t last_id;
	void (*lost)(void *owner);
	void *owner;
};

atomic_llong *spawner_deadline(const struct spawner *spawner)
{
	return spawner ? spawner->deadline : NULL;
}

void spawner_shorten_grace(struct spawner *spawner, int ms)
{
	if (spawner) {
		spawner->grace_ms = ms;
	}
}

int spawner_grace(const struct spawner *spawner)
{
	return spawner ? spawner->grace_ms : INT_MAX;
}

bool spawner_has_guards(const struct spawner *spawner)
{
	return spawner->has_guards;
}

/* --- children --- */

/** Children keep the loop alive. */
static void add(struct spawner *spawner, struct spawned *child)
{
	list_append(&spawner->children, &child->link);
	uv_ref((uv_handle_t *)spawner->exits);
}

static void drop(struct spawner *spawner, struct spawned *child)
{
	list_remove(&child->link);
	if (list_empty(&spawner->children)) {
		uv_unref((uv_handle_t *)spawner->exits);
	}
}

static void tell_exit(struct spawned *child, int status)
{
	if (!child->has_exited) {
		child->has_exited = true;
		child->exited(child, status);
	}
}

/** Returns a child whose exit was not reported yet; NULL: none. */
static struct spawned *next_running(const struct spawner *spawner)
{
	list_for_each(link, &spawner->children) {
		struct spawned *child = list_entry(link, struct spawned, link);
		if (!child->has_exited) {
			return child;
		}
	}
	return NULL;
}

static void lose(struct spawner *spawner)
{
	if (spawner->is_lost) {
		return;
	}
	spawner->is_lost = true;
	uv_poll_stop(spawner->exits);
	uv_timer_stop(spawner->stuck);
	shutdown(spawner->socket, SHUT_RDWR);
	spawner->lost(spawner->owner);
	/* The owner of one child can release others, so the list is searched anew each time. */
	for (struct spawned *child; (child = next_running(spawner));) {
		tell_exit(child, SIGKILL);
	}
}

static void handle_stuck(uv_timer_t *timer)
{
	lose(timer->data);
}

static void handle_exits(uv_poll_t *handle, int status, int events)
{
	struct spawner *spawner = handle->data;
	struct spawn_answer exit;
	ssize_t len;
	while ((len = read(spawner->exits_fd, &exit, sizeof(exit))) == (ssize_t)sizeof(exit)) {
		list_for_each_safe(link, tmp, &spawner->children) {
			struct spawned *child = list_entry(link, struct spawned, link);
			if (child->id == exit.id) {
				tell_exit(child, exit.value);
				break;
			}
		}
	}
	if (len >= 0 || (errno != EAGAIN && errno != EINTR)) {
		lose(spawner);
	}
}

/* --- orders --- */

/**
 * The spawner is lost. lost() must not be called while an order is being given, so the timer does
 * it.
 */
static int give_up(struct spawner *spawner, int err)
{
	uv_timer_start(spawner->stuck, handle_stuck, 0, 0);
	return err;
}

/** 0 or a negative errno. */
static int await(const struct spawner *spawner, short events)
{
	struct pollfd wait = {.fd = spawner->socket, .events = events};
	int n = 0;
	/* Pieces are counted, and not the time: while we were stopped the spawner may have been, too. */
	for (int piece = 0; piece < PATIENCE_MS / PIECE_MS && n == 0; piece++) {
		do {
			n = poll(&wait, 1, PIECE_MS);
		} while (n < 0 && errno == EINTR);
	}
	return n > 0 ? 0 : n == 0 ? -ETIMEDOUT : -errno;
}

static int send_order(
	struct spawner *spawner, const struct spawn_order *order, const int *fds, size_t count)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int) * SPAWN_FDS_MAX)];
	} control = {0};
	struct iovec iov = {.iov_base = (void *)order, .iov_len = sizeof(*order)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	if (count > 0) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * count);
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(sizeof(int) * count);
		memcpy(CMSG_DATA(&control.head), fds, sizeof(int) * count);
	}
	while (sendmsg(spawner->socket, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		int err = -errno;
		if (err == -EAGAIN) {
			err = await(spawner, POLLOUT);
		}
		if (err == -ETOOMANYREFS) {
			return err; /* too many descriptors are in flight */
		}
		if (err < 0 && err != -EINTR) {
			return give_up(spawner, err);
		}
	}
	return 0;
}

static int read_answer(struct spawner *spawner, uint64_t id, int32_t *ret_value)
{
	struct spawn_answer answer;
	for (;;) {
		int err = await(spawner, POLLIN);
		ssize_t len = err < 0 ? 0 : recv(spawner->socket, &answer, sizeof(answer), 0);
		if (len < 0 && errno == EINTR) {
			continue;
		}
		if (len != (ssize_t)sizeof(answer) || answer.id != id) {
			return give_up(spawner, err < 0 ? err : -EPIPE);
		}
		*ret_value = answer.value;
		return 0;
	}
}

int spawner_start(
	struct spawner *spawner, const struct spawn_request *request, struct spawned *child)
{
	if (!spawner || spawner->is_lost || (!request->orders && !spawner->has_helper)) {
		return -ENOSYS;
	}
	int32_t value = 0;
	int fds[SPAWN_FDS_MAX];
	size_t count = 0;
	struct spawn_order order = {.id = ++spawner->last_id,
		.kind = SPAWN_START,
		.has_orders = request->orders != NULL,
		.one_output = request->one_output,
		.guarded = request->lifeline >= 0};
	int orders = request->orders ? orders_write(request->orders) : -1;
	if (request->orders && orders < 0) {
		return orders;
	}
	const int given[] = {orders, request->in, request->out,
		request->one_output ? -1 : request->err, request->lifeline};
	for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
		if (given[i] >= 0) {
			fds[count++] = given[i];
		}
	}
	int err = send_order(spawner, &order, fds, count);
	if (orders >= 0) {
		close(orders);
	}
	err = err < 0 ? err : read_answer(spawner, order.id, &value);
	if (err < 0 || value <= 0) {
		return err < 0 ? err : value < 0 ? value : -EPROTO;
	}
	child->id = order.id;
	child->pid = value;
	child->spawner = spawner;
	child->has_exited = false;
	add(spawner, child);
	return 0;
}

void spawned_signal(struct spawned *child, int signal_number)
{
	struct spawn_order order = {.id = child->id, .kind = SPAWN_SIGNAL, .signal = signal_number};
	if (!child->spawner->is_lost) {
		send_order(child->spawner, &order, NULL, 0);
	}
}

void spawned_release(struct spawned *child)
{
	struct spawn_order order = {.id = child->id, .kind = SPAWN_RELEASE};
	if (!child->spawner->is_lost) {
		send_order(child->spawner, &order, NULL, 0);
	}
	drop(child->spawner, child);
}

/* --- lifecycle --- */

/**
 * Builds the arguments of the spawner; the strings are borrowed, also from `rules`. The caller
 * frees the list.
 */
static char **make_args(const struct spawner_config *config, struct buffer *rules)
{
	if (config->rules) {
		box_add_rules(config->rules, rules);
	}
	if (config->has_deadline) {
		buffer_printf(rules, AGENT_GUARD_ENDS "%con%c", 0, 0);
	}
	size_t count = 5;
	for (size_t i = 0; i < rules->len; i++) {
		count += !rules->data[i];
	}
	char **args = xcalloc(count, sizeof(*args));
	args[0] = (char *)"holdfast";
	args[1] = (char *)SPAWNER_COMMAND;
	args[2] = (char *)(config->helper ? config->helper : "");
	args[3] = (char *)(config->has_guards ? SPAWNER_GUARDED : "");
	size_t n = 4;
	for (size_t at = 0; at < rules->len; at += strlen(rules->data + at) + 1) {
		args[n++] = rules->data + at;
	}
	return args;
}

/* SPAWNER_SOCKET and the descriptors that follow it. */
#define FDS 3

/** In the child process: becomes the spawner. */
static _Noreturn void become(bool is_program, char **args, const int fds[FDS])
{
	size_t argc = 0;
	while (args[argc]) {
		argc++;
	}
	/* Moves them away from the numbers that they will get. */
	int high[FDS];
	for (int i = 0; i < FDS; i++) {
		high[i] = fds[i] < 0 ? -1 : fcntl(fds[i], F_DUPFD_CLOEXEC, SPAWNER_SOCKET + FDS);
	}
	for (int i = 0; i < FDS; i++) {
		if (fds[i] >= 0 && dup2(high[i], SPAWNER_SOCKET + i) < 0) {
			_exit(127);
		}
	}
	/* Try the file's name first: under valgrind only that works. */
	char *path = is_program ? realpath(SELF_PROGRAM, NULL) : NULL;
	if (path) {
		execv(path, args);
		execv(SELF_PROGRAM, args);
	}
	_exit(spawner_run((int)argc - 2, args + 2));
}

/** 0 or a negative errno. */
static int run_spawner(
	struct spawner *spawner, const struct spawner_config *config, const int fds[FDS])
{
	struct buffer rules = {0};
	char **args = make_args(config, &rules);
	spawner->pid = fork();
	int err = spawner->pid < 0 ? -errno : 0;
	if (spawner->pid == 0) {
		become(config->is_program, args, fds);
	}
	free(args);
	buffer_finish(&rules);
	return err;
}

/** 0 or a negative errno. */
static int fork_spawner(struct spawner *spawner, const struct spawner_config *config)
{
	int sockets[2];
	int exits[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0) {
		return -errno;
	}
	if (pipe2(exits, O_CLOEXEC) < 0) {
		int err = -errno;
		close(sockets[0]);
		close(sockets[1]);
		return err;
	}
	int deadline = -1;
	int err = config->has_deadline ? deadline_make(&deadline, &spawner->deadline) : 0;
	if (err == 0) {
		err = run_spawner(
			spawner, config, (const int[FDS]){sockets[1], exits[1], deadline});
	}
	close(sockets[1]);
	close(exits[1]);
	if (deadline >= 0) {
		close(deadline);
	}
	spawner->socket = sockets[0];
	spawner->exits_fd = exits[0];
	if (err < 0) {
		close(sockets[0]);
		close(exits[0]);
	}
	return err;
}

int spawner_create(uv_loop_t *loop, const struct spawner_config *config, void (*lost)(void *owner),
	void *owner, struct spawner **ret_spawner)
{
	struct spawner *spawner = xcalloc(1, sizeof(*spawner));
	int err = fork_spawner(spawner, config);
	if (err < 0) {
		deadline_free(spawner->deadline);
		free(spawner);
		return err;
	}
	spawner->has_guards = config->has_guards;
	spawner->grace_ms = INT_MAX;
	spawner->has_helper = config->helper != NULL;
	spawner->lost = lost;
	spawner->owner = owner;
	list_init(&spawner->children);
	spawner->stuck = loop_timer(loop, spawner);
	spawner->exits = xmalloc(sizeof(*spawner->exits));
	uv_poll_init(loop, spawner->exits, spawner->exits_fd); /* sets it to non-blocking */
	spawner->exits->data = spawner;
	uv_poll_start(spawner->exits, UV_READABLE, handle_exits);
	uv_unref((uv_handle_t *)spawner->exits);
	*ret_spawner = spawner;
	return 0;
}

void spawner_close(struct spawner *spawner)
{
	if (!spawner) {
		return;
	}
	uv_poll_stop(spawner->exits);
	close(spawner->socket);
	struct pollfd gone = {.fd = spawner->exits_fd};
	poll(&gone, 1, LEAVE_MS);
	waitpid(spawner->pid, NULL, WNOHANG);
	loop_close(spawner->exits);
	loop_close(spawner->stuck);
	close(spawner->exits_fd);
	deadline_free(spawner->deadline);
	free(spawner);
}
