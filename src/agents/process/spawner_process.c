#include "holdfast/spawner.h"

#include "process_internal.h"

#include "holdfast/agent_env.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * The spawner process: one thread that takes an order, executes it and answers it. Exit statuses of
 * children go out through another pipe; they are kept here while the server does not read.
 */

struct spawned_process {
	struct list link;
	uint64_t id;
	pid_t pid; /* also the id of its process group and session */
	int status; /* once it has exited, as from waitpid() */
	bool is_alone; /* its process group has no other processes */
	bool exited;
	bool told; /* the server was told that it has exited */
	bool released; /* the server has forgotten it */
};

struct spawner_process {
	char *helper; /* command of this program; "": none */
	bool has_guards;
	bool has_deadline;
	char **rules; /* the guards' arguments */
	int signals;
	struct list children;
};

/* --- in the child process --- */

static _Noreturn void fail(int report)
{
	int err = errno;
	ssize_t n = write(report, &err, sizeof(err));
	_exit(n < 0 ? 126 : 127);
}

static void place(int fd, int target, int report)
{
	if (fd < 0 || dup2(fd, target) < 0) {
		fail(report);
	}
}

/** Places stdin, stdout, stderr and the descriptors of a guard; the others are closed on exec. */
static void place_descriptors(const struct spawner_process *s, const struct spawn_order *order,
	const int *fds, int report)
{
	const int *next = fds;
	int own = order->has_orders ? *next++ : -1;
	if (order->one_output) {
		place(open("/dev/null", O_RDWR | O_CLOEXEC), STDIN_FILENO, report);
		place(*next, STDOUT_FILENO, report);
		place(*next++, STDERR_FILENO, report);
	} else {
		for (int target = 0; target <= STDERR_FILENO; target++) {
			place(*next++, target, report);
		}
	}
	if (order->guarded) {
		place(*next, AGENT_GUARD_LIFELINE, report);
		place(own, AGENT_GUARD_ORDERS, report);
		if (s->has_deadline && fcntl(AGENT_GUARD_DEADLINE, F_SETFD, 0) < 0) {
			fail(report);
		}
	}
}

static void reset_signals(void)
{
	sigset_t none;
	for (int number = 1; number < NSIG; number++) {
		signal(number, SIG_DFL);
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static void become_program(int orders_fd, int report)
{
	struct orders orders;
	int err = orders_read(orders_fd, &orders);
	if (err < 0) {
		errno = -err;
	} else if (chdir(orders.dir) == 0) {
		environ = orders.env ? orders.env : environ;
		execvp(orders.args[0], orders.args);
	}
	fail(report);
}

static void become_guard(const struct spawner_process *s)
{
	size_t count = 0;
	while (s->rules[count]) {
		count++;
	}
	char **args = xcalloc(count + 3, sizeof(*args));
	args[0] = (char *)"holdfast";
	args[1] = (char *)AGENT_GUARD_COMMAND;
	memcpy(args + 2, s->rules, count * sizeof(*args));
	execv(SELF_PROGRAM, args);
}

static _Noreturn void become(const struct spawner_process *s, const struct spawn_order *order,
	const int *fds, int report)
{
	setsid();
	place_descriptors(s, order, fds, report);
	reset_signals();
	if (!order->guarded && order->has_orders) {
		become_program(fds[0], report);
	} else if (chdir("/") == 0 && order->guarded) {
		become_guard(s);
	} else {
		char *args[] = {(char *)"holdfast", s->helper, NULL};
		execv(SELF_PROGRAM, args);
	}
	fail(report);
}

/* --- orders --- */

static struct spawned_process *find(const struct spawner_process *s, uint64_t id)
{
	list_for_each(link, &s->children) {
		struct spawned_process *child = list_entry(link, struct spawned_process, link);
		if (child->id == id) {
			return child;
		}
	}
	return NULL;
}

/**
 * Starts a process and waits until it has executed its program. Returns its pid or a negative
 * errno.
 */
static pid_t start(const struct spawner_process *s, const struct spawn_order *order, const int *fds)
{
	int report[2];
	if (pipe2(report, O_CLOEXEC) < 0) {
		return -errno;
	}
	int err = 0;
	/*
	 * _Fork() skips libuv's fork handlers, which run if this process is a forked copy of the
	 * server. They would close the numbers of libuv's pipe, which belong to other descriptors
	 * now.
	 */
	pid_t pid = _Fork();
	if (pid == 0) {
		become(s, order, fds, report[1]);
	}
	err = pid < 0 ? errno : 0;
	close(report[1]);
	while (pid > 0 && read(report[0], &err, sizeof(err)) < 0 && errno == EINTR) {
	}
	close(report[0]);
	if (pid > 0 && err != 0) {
		waitpid(pid, NULL, 0);
	}
	return err ? -err : pid;
}

/** Whether an order is allowed, given the number of descriptors that came with it. */
static bool is_allowed(const struct spawner_process *s, const struct spawn_order *order, int count)
{
	if (order->has_orders > 1 || order->one_output > 1 || order->guarded > 1) {
		return false;
	}
	int expected = order->has_orders + (order->one_output ? 1 : 3) + order->guarded;
	bool is_helper = !order->has_orders && !order->one_output && !order->guarded && *s->helper;
	bool is_command = order->has_orders && order->guarded == s->has_guards;
	return count == expected && (is_helper || is_command);
}

static void take_start(
	struct spawner_process *s, const struct spawn_order *order, const int *fds, int count)
{
	struct spawn_answer answer = {.id = order->id, .value = -EPERM};
	if (count < 0) {
		answer.value = -EMFILE;
	} else if (is_allowed(s, order, count) && !find(s, order->id)) {
		answer.value = start(s, order, fds);
	}
	if (answer.value > 0) {
		struct spawned_process *child = xcalloc(1, sizeof(*child));
		child->id = order->id;
		child->pid = answer.value;
		child->is_alone = order->guarded || !order->has_orders;
		list_append(&s->children, &child->link);
	}
	send(SPAWNER_SOCKET, &answer, sizeof(answer), MSG_NOSIGNAL);
}

static void drop_if_done(struct spawned_process *child)
{
	if (child->released && child->exited) {
		list_remove(&child->link);
		free(child);
	}
}

static void take_order(
	struct spawner_process *s, const struct spawn_order *order, const int *fds, int count)
{
	struct spawned_process *child = find(s, order->id);
	if (order->kind == SPAWN_START) {
		take_start(s, order, fds, count);
	} else if (child && order->kind == SPAWN_SIGNAL) {
		/* The group id of a reaped process may belong to another group by now. */
		if (!child->exited || !child->is_alone) {
			kill(-child->pid, order->signal);
		}
	} else if (child && order->kind == SPAWN_RELEASE) {
		child->released = true;
		drop_if_done(child);
	}
}

/** Receives and executes one order. Returns false if the server is gone. */
static bool receive(struct spawner_process *s)
{
	struct spawn_order order;
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int) * SPAWN_FDS_MAX)];
	} control;
	struct iovec iov = {.iov_base = &order, .iov_len = sizeof(order)};
	struct msghdr msg = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};
	ssize_t len = recvmsg(SPAWNER_SOCKET, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (len < 0) {
		return errno == EAGAIN || errno == EINTR;
	}
	/* CMSG_SPACE pads, so more descriptors than expected can arrive */
	int fds[sizeof(control) / sizeof(int)];
	int count = 0;
	struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
	if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
		count = (int)((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(head), (size_t)count * sizeof(int));
	}
	bool is_order = len == (ssize_t)sizeof(order) && !(msg.msg_flags & MSG_TRUNC);
	if (is_order) {
		/* Truncated: too few descriptors were free to receive all of them. */
		take_order(s, &order, fds, msg.msg_flags & MSG_CTRUNC ? -1 : count);
	}
	while (count > 0) {
		close(fds[--count]);
	}
	return is_order;
}

/* --- exits --- */

static void reap(struct spawner_process *s)
{
	struct signalfd_siginfo info;
	int status;
	pid_t pid;
	while (read(s->signals, &info, sizeof(info)) > 0) {
	}
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		list_for_each_safe(link, tmp, &s->children) {
			struct spawned_process *child =
				list_entry(link, struct spawned_process, link);
			if (child->pid == pid && !child->exited) {
				child->exited = true;
				child->status = status;
				drop_if_done(child);
			}
		}
	}
}

/** Reports exits to the server. Returns true if the pipe is full for now. */
static bool tell_exits(struct spawner_process *s)
{
	list_for_each(link, &s->children) {
		struct spawned_process *child = list_entry(link, struct spawned_process, link);
		struct spawn_answer exit = {.id = child->id, .value = child->status};
		if (!child->exited || child->told) {
			continue;
		}
		if (write(SPAWNER_EXITS, &exit, sizeof(exit)) < 0 && errno == EAGAIN) {
			return true;
		}
		child->told = true;
	}
	return false;
}

/* --- lifecycle --- */

/**
 * Prepares the descriptors: 0 to 2 are open, so that no other descriptor gets their numbers, and
 * only those that belong to the spawner are left.
 */
static bool take_descriptors(struct spawner_process *s)
{
	int null = open("/dev/null", O_RDWR);
	while (null >= 0 && null <= STDERR_FILENO) {
		null = open("/dev/null", O_RDWR);
	}
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
	}
	/* Descriptors that the parent of the server left open. */
	close_range((s->has_deadline ? SPAWNER_DEADLINE : SPAWNER_EXITS) + 1, ~0U, 0);
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	s->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	return s->signals >= 0 &&
	       (!s->has_deadline || fcntl(SPAWNER_DEADLINE, F_SETFD, FD_CLOEXEC) == 0) &&
	       fcntl(SPAWNER_SOCKET, F_SETFD, FD_CLOEXEC) == 0 &&
	       fcntl(SPAWNER_EXITS, F_SETFD, FD_CLOEXEC) == 0 &&
	       fcntl(SPAWNER_EXITS, F_SETFL, O_NONBLOCK) == 0;
}

static bool has_rule(char **rules, const char *name)
{
	for (; rules[0] && rules[1]; rules += 2) {
		if (strcmp(rules[0], name) == 0) {
			return true;
		}
	}
	return false;
}

int spawner_run(int argc, char **argv)
{
	struct spawner_process s = {
		.has_deadline = argc >= 2 && has_rule(argv + 2, AGENT_GUARD_ENDS)};
	if (argc < 2 || !take_descriptors(&s)) {
		fprintf(stderr, "holdfast " SPAWNER_COMMAND " is for the server alone\n");
		return 2;
	}
	sandbox_shield();
	s.helper = argv[0];
	s.has_guards = strcmp(argv[1], SPAWNER_GUARDED) == 0;
	s.rules = argv + 2;
	list_init(&s.children);
	/* It must end with the server, not when a terminal or service is told to stop. */
	setsid();
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	bool is_open = true;
	while (is_open) {
		bool is_full = tell_exits(&s);
		struct pollfd fds[] = {
			{.fd = SPAWNER_SOCKET, .events = POLLIN},
			{.fd = s.signals, .events = POLLIN},
			{.fd = is_full ? SPAWNER_EXITS : -1, .events = POLLOUT},
		};
		poll(fds, 3, -1);
		reap(&s);
		is_open = !fds[0].revents || receive(&s);
	}
	list_for_each_safe(link, tmp, &s.children) {
		free(list_entry(link, struct spawned_process, link));
	}
	return 0;
}
