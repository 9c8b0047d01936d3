#include "holdfast/agent_guard.h"

#include "holdfast/clock.h"
#include "holdfast/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* A killed process may take a while to be gone; one that hangs in the kernel is not waited for. */
#define SWEEP_MS 2000
#define POLL_MS  20

struct guard {
	pid_t agent; /* also its process group */
	int signals;
	int grace_ms;
	const char *cwd;
	bool ending; /* the agent was asked to end */
	int64_t kill_at_ms;
	bool exited;
	int status; /* of the agent, as waitpid() has it */
	bool alone; /* no child is left */
};

static void reap(struct guard *g)
{
	int status;
	pid_t pid;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == g->agent) {
			g->exited = true;
			g->status = status;
		}
	}
	g->alone = pid < 0 && errno == ECHILD;
}

/** Ends one child of ours and the group that it is in, if that is not ours. */
static void kill_child(pid_t child)
{
	pid_t group = getpgid(child);
	if (group > 0 && group != getpgrp()) {
		kill(-group, SIGKILL);
	}
	kill(child, SIGKILL);
}

/**
 * Kills every child. Whose parent dies becomes a child of ours (we are their subreaper), also one
 * that has left the agent's group, so that after a few rounds nobody is left.
 */
static void kill_children(const struct guard *g)
{
	char path[64];
	char list[4096];
	kill(-g->agent, SIGKILL);
	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd >= 0 ? read(fd, list, sizeof(list) - 1) : -1;
	if (fd >= 0) {
		close(fd);
	}
	/* A number that is cut off is not taken; the next round has it. */
	list[len > 0 ? len : 0] = '\0';
	for (char *at = list, *end; (end = strchr(at, ' ')); at = end + 1) {
		kill_child((pid_t)strtol(at, NULL, 10));
	}
}

static void sweep(struct guard *g)
{
	int64_t give_up_at_ms = clock_steady_ms() + SWEEP_MS;
	reap(g);
	while (!g->alone && clock_steady_ms() < give_up_at_ms) {
		kill_children(g);
		struct pollfd wait = {.fd = g->signals, .events = POLLIN};
		poll(&wait, 1, POLL_MS);
		struct signalfd_siginfo info;
		while (read(g->signals, &info, sizeof(info)) > 0) {
		}
		reap(g);
	}
}

static void begin_ending(struct guard *g)
{
	if (!g->ending) {
		g->ending = true;
		g->kill_at_ms = clock_steady_ms() + g->grace_ms;
		kill(-g->agent, SIGTERM);
	}
}

static void take_signals(struct guard *g)
{
	struct signalfd_siginfo info;
	while (read(g->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo != SIGCHLD) {
			begin_ending(g);
		}
	}
	reap(g);
}

/** Until the agent has ended by itself, or was asked to and had its time. */
static void watch(struct guard *g)
{
	while (g->ending ? !g->alone && clock_steady_ms() < g->kill_at_ms : !g->exited) {
		struct pollfd fds[] = {
			{.fd = g->signals, .events = POLLIN},
			{.fd = g->ending ? -1 : AGENT_GUARD_LIFELINE, .events = POLLIN},
		};
		int64_t left = g->kill_at_ms - clock_steady_ms();
		poll(fds, 2, !g->ending ? -1 : left > 0 ? (int)left : 0);
		if (fds[1].revents) {
			begin_ending(g);
		}
		take_signals(g);
	}
}

/** Ends as the agent did, so that whoever waits for us learns how. */
static int end_alike(const struct guard *g)
{
	if (!g->exited || !WIFSIGNALED(g->status)) {
		return g->exited ? WEXITSTATUS(g->status) : 128 + SIGKILL;
	}
	int number = WTERMSIG(g->status);
	sigset_t set;
	prctl(PR_SET_DUMPABLE, 0);
	signal(number, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, number);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(number);
	return 128 + number;
}

static _Noreturn void fail_start(const char *what)
{
	dprintf(STDERR_FILENO, "%s: %s\n", what, strerror(errno));
	_exit(127);
}

static _Noreturn void run_agent(
	const struct guard *g, char **args, pid_t guard, const sigset_t *mask)
{
	setpgid(0, 0);
	/* Should the guard itself be killed. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != guard) {
		_exit(127);
	}
	sigprocmask(SIG_SETMASK, mask, NULL);
	if (chdir(g->cwd) < 0) {
		fail_start(g->cwd);
	}
	execvp(args[0], args);
	fail_start(args[0]);
}

/** The pipes are the agent's alone; and who lists processes sees the agent once. */
static void step_back(char **args)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd <= 2 && null >= 0; fd++) {
		dup2(null, fd);
	}
	if (null > STDERR_FILENO) {
		close(null);
	}
	for (; *args; args++) {
		memset(*args, ' ', strlen(*args));
	}
}

int agent_guard_run(int argc, char **argv)
{
	sigset_t mask;
	struct guard g = {
		.grace_ms = argc > 0 ? atoi(argv[0]) : 0, .cwd = argc > 1 ? argv[1] : NULL};
	if (argc < 3 || fcntl(AGENT_GUARD_LIFELINE, F_SETFD, FD_CLOEXEC) < 0) {
		fprintf(stderr, "holdfast " AGENT_GUARD_COMMAND " is for the server alone\n");
		return 2;
	}
	/* What whoever started the server left open for it. */
	close_range(AGENT_GUARD_LIFELINE + 1, ~0U, 0);
	g.signals = descriptors_of_signals(&mask);
	pid_t self = getpid();
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	g.agent = g.signals < 0 ? -1 : fork();
	if (g.agent == 0) {
		run_agent(&g, argv + 2, self, &mask);
	}
	if (g.agent < 0) {
		fprintf(stderr, "holdfast " AGENT_GUARD_COMMAND ": %s\n", strerror(errno));
		return 127;
	}
	setpgid(g.agent, g.agent);
	step_back(argv + 1);
	watch(&g);
	sweep(&g);
	return end_alike(&g);
}
