#include "holdfast/agent_guard.h"

#include "process_internal.h"

#include "holdfast/agent_env.h"
#include "holdfast/clock.h"
#include "holdfast/descriptors.h"

#include <dirent.h>
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
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Killed processes may take a while to end; those that hang in the kernel are not waited for. */
#define SWEEP_MS   2000
#define POLL_MS    20
#define TREE_DEPTH 32 /* directories open at once while a tree is removed */
#define LOOK_MS    1000 /* how often the usage is measured */

struct guard {
	pid_t agent; /* also the id of its process group */
	int signals;
	struct orders orders;
	uint64_t memory_max; /* bytes; 0: no limit */
	uint64_t processes_max; /* 0: no limit */
	char *cgroup_dir; /* NULL: none; owned */
	struct cgroup cgroup;
	bool has_deadline;
	struct deadline deadline;
	bool is_confined;
	struct sandbox sandbox; /* its lists and `tmp` are owned */
	struct usage reported;
	int64_t look_at_ms;
	bool lifeline_over;
	bool ending; /* the agent was told to end */
	int64_t kill_at_ms;
	bool exited;
	int status; /* of the agent, as from waitpid() */
	bool alone; /* no child process is left */
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

/** Kills a process and its process group, unless that is ours. */
static void kill_one(pid_t pid, void *arg)
{
	pid_t group = getpgid(pid);
	if (group > 0 && group != getpgrp()) {
		kill(-group, SIGKILL);
	}
	kill(pid, SIGKILL);
}

/**
 * Kills all descendants of the agent. When a parent dies, its children become ours (we are their
 * subreaper), even those that have left the agent's group, so a few rounds reach everyone.
 */
static void kill_all(const struct guard *g)
{
	kill(-g->agent, SIGKILL);
	descendants_each(getpid(), kill_one, NULL);
}

static void sweep(struct guard *g)
{
	int64_t give_up_at_ms = clock_steady_ms() + SWEEP_MS;
	reap(g);
	while (!g->alone && clock_steady_ms() < give_up_at_ms) {
		if (g->cgroup_dir) {
			cgroup_kill(&g->cgroup);
		}
		kill_all(g);
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
		g->kill_at_ms = clock_steady_ms() + g->orders.grace_ms;
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

/** The server is gone, or wants the agent to end, possibly sooner than at first. */
static void take_order(struct guard *g)
{
	int32_t grace_ms;
	ssize_t len = recv(AGENT_GUARD_LIFELINE, &grace_ms, sizeof(grace_ms), MSG_DONTWAIT);
	if (len < 0 && (errno == EAGAIN || errno == EINTR)) {
		return;
	}
	g->lifeline_over = len <= 0;
	begin_ending(g);
	int64_t kill_at_ms = len == sizeof(grace_ms) ? clock_steady_ms() + grace_ms : INT64_MAX;
	g->kill_at_ms = kill_at_ms < g->kill_at_ms ? kill_at_ms : g->kill_at_ms;
}

/** Kills the agent if the deadline is over: the server has not moved it, so it may be stopped. */
static void end_in_time(struct guard *g)
{
	if (g->has_deadline && deadline_is_over(&g->deadline)) {
		g->ending = true;
		g->kill_at_ms = 0;
	}
}

static void look(struct guard *g)
{
	if (clock_steady_ms() < g->look_at_ms) {
		return;
	}
	g->look_at_ms = clock_steady_ms() + LOOK_MS;
	/* Half the limit, because the server adds up the reports of several guards. */
	struct usage used = g->cgroup_dir ? cgroup_look(&g->cgroup, g->memory_max, g->processes_max)
					  : descendants_measure(getpid(), g->memory_max / 2);
	if (memcmp(&used, &g->reported, sizeof(used)) != 0 &&
		send(AGENT_GUARD_LIFELINE, &used, sizeof(used), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
		g->reported = used;
	}
}

/** Milliseconds until the next thing is due; -1: nothing is. */
static int patience_ms(const struct guard *g)
{
	bool looks = !g->ending && (g->memory_max > 0 || g->processes_max > 0);
	int64_t left = (looks ? g->look_at_ms : g->kill_at_ms) - clock_steady_ms();
	return !looks && !g->ending ? -1 : left > 0 ? (int)left : 0;
}

/** Waits until the agent has ended by itself, or its grace period is over. */
static void watch(struct guard *g)
{
	while (g->ending ? !g->alone && clock_steady_ms() < g->kill_at_ms : !g->exited) {
		struct pollfd fds[] = {
			{.fd = g->signals, .events = POLLIN},
			{.fd = g->lifeline_over ? -1 : AGENT_GUARD_LIFELINE, .events = POLLIN},
			{.fd = g->has_deadline ? g->deadline.timer : -1, .events = POLLIN},
		};
		poll(fds, 3, patience_ms(g));
		if (fds[1].revents) {
			take_order(g);
		}
		take_signals(g);
		if (fds[2].revents) {
			end_in_time(g);
		}
		if (!g->ending && (g->memory_max > 0 || g->processes_max > 0)) {
			look(g);
		}
	}
}

/** Ends the way the agent did, so that the parent sees its status. */
static int end_alike(const struct guard *g)
{
	if (!g->exited || !WIFSIGNALED(g->status)) {
		return g->exited ? WEXITSTATUS(g->status) : 128 + SIGKILL;
	}
	int number = WTERMSIG(g->status);
	sigset_t set;
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

/**
 * The agent's variables are set after the sandbox has been entered, because HOME decides what the
 * sandbox grants.
 */
static void confine(const struct guard *g)
{
	const char *what;
	if (g->is_confined && sandbox_enter(&g->sandbox, sandbox_version(), &what) < 0) {
		fail_start(what);
	}
	environ = g->orders.env ? g->orders.env : environ;
	if (g->is_confined) {
		setenv("TMPDIR", g->sandbox.tmp, 1);
	}
}

static _Noreturn void run_agent(const struct guard *g, pid_t guard, const sigset_t *mask)
{
	setpgid(0, 0);
	/* In case the guard itself is killed. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != guard) {
		_exit(127);
	}
	sigprocmask(SIG_SETMASK, mask, NULL);
	signal(SIGXFSZ, SIG_DFL);
	if (g->cgroup_dir && cgroup_join(&g->cgroup) < 0) {
		fail_start("the agent's control group");
	}
	if (chdir(g->orders.dir) < 0) {
		fail_start(g->orders.dir);
	}
	confine(g);
	execvp(g->orders.args[0], g->orders.args);
	fail_start(g->orders.args[0]);
}

/**
 * Leaves the pipes to the agent alone, and blanks our own arguments so that lists of processes show
 * the agent once.
 */
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

/** Creates the agent's TMPDIR and control groups. Returns 0, or -1 with errno. */
static int prepare(struct guard *g)
{
	int r = g->sandbox.tmp ? mkdir(g->sandbox.tmp, 0700) : 0;
	r = r < 0 && errno == EEXIST ? 0 : r;
	return r == 0 && g->cgroup_dir
		       ? cgroup_make(&g->cgroup, g->cgroup_dir, g->memory_max, g->processes_max)
		       : r;
}

/**
 * Empties the directory `dir` and closes it. Commands of the agent may still run, and exchange
 * directories for links: so no path is used, and no link followed. What lies deeper than TREE_DEPTH
 * is moved to `top`; returns whether anything was.
 */
static bool empty_directory(int top, int dir, int depth)
{
	static unsigned long count;
	bool moved = false;
	DIR *entries = fdopendir(dir);
	if (!entries) {
		close(dir);
		return false;
	}
	struct dirent *entry;
	while ((entry = readdir(entries))) {
		const char *name = entry->d_name;
		bool is_dots = strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
		if (is_dots || unlinkat(dir, name, 0) == 0) {
			continue;
		}
		int below = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (below >= 0 && depth < TREE_DEPTH) {
			moved = empty_directory(top, below, depth + 1) || moved;
		} else if (below >= 0) {
			char other[32];
			close(below);
			snprintf(other, sizeof(other), "deep-%lu", ++count);
			moved = renameat(dir, name, top, other) == 0 || moved;
		}
		unlinkat(dir, name, AT_REMOVEDIR);
	}
	closedir(entries);
	return moved;
}

/** Removes the agent's TMPDIR. The directory above it is the server's alone. */
static void remove_tmp(const char *path)
{
	bool has_more = true;
	int top = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	while (top >= 0 && has_more) {
		int dir = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		has_more = dir >= 0 && empty_directory(top, dir, 0);
	}
	if (top >= 0) {
		close(top);
	}
	rmdir(path);
}

static void add_path(char ***list, const char *path)
{
	size_t count = 0;
	while (*list && (*list)[count]) {
		count++;
	}
	*list = xrealloc(*list, (count + 2) * sizeof(**list));
	(*list)[count] = xstrdup(path);
	(*list)[count + 1] = NULL;
}

static bool take_sandbox_arg(struct guard *g, const char *name, const char *value)
{
	g->is_confined = true;
	if (strcmp(name, AGENT_GUARD_READ) == 0) {
		add_path(&g->sandbox.reads, value);
	} else if (strcmp(name, AGENT_GUARD_WRITE) == 0) {
		add_path(&g->sandbox.writes, value);
	} else if (strcmp(name, AGENT_GUARD_ROOT) == 0) {
		add_path(&g->sandbox.roots, value);
		g->sandbox.root = *g->orders.root ? g->orders.root : NULL;
	} else if (strcmp(name, AGENT_GUARD_SOCKETS) == 0) {
		g->sandbox.sockets = true;
	} else if (strcmp(name, AGENT_GUARD_NAMESPACES) == 0) {
		g->sandbox.namespaces = true;
	} else if (strcmp(name, AGENT_GUARD_TMP) == 0) {
		g->sandbox.tmp = xprintf("%s/%s", value, g->orders.name);
		add_path(&g->sandbox.writes, g->sandbox.tmp);
	} else {
		return false;
	}
	return true;
}

/** Parses the arguments of process_internal.h; returns false if they are invalid. */
static bool take_args(struct guard *g, int argc, char **argv)
{
	int i = 0;
	for (; i + 1 < argc; i += 2) {
		const char *value = argv[i + 1];
		if (strcmp(argv[i], AGENT_GUARD_MEMORY) == 0) {
			g->memory_max = strtoull(value, NULL, 10);
		} else if (strcmp(argv[i], AGENT_GUARD_PROCESSES) == 0) {
			g->processes_max = strtoull(value, NULL, 10);
		} else if (strcmp(argv[i], AGENT_GUARD_CGROUP) == 0) {
			free(g->cgroup_dir);
			g->cgroup_dir = xprintf("%s/agent-%s", value, g->orders.name);
		} else if (strcmp(argv[i], AGENT_GUARD_ENDS) == 0) {
			g->has_deadline = true;
		} else if (!take_sandbox_arg(g, argv[i], value)) {
			return false;
		}
	}
	return i == argc;
}

static bool take_deadline(struct guard *g)
{
	int r = deadline_watch(AGENT_GUARD_DEADLINE, &g->deadline);
	close(AGENT_GUARD_DEADLINE); /* the mapping stays */
	return r == 0;
}

/**
 * Reads the orders and the arguments, and makes sure that the agent inherits none of our
 * descriptors.
 */
static bool take_orders(struct guard *g, int argc, char **argv)
{
	return fcntl(AGENT_GUARD_LIFELINE, F_SETFD, FD_CLOEXEC) == 0 &&
	       orders_read(AGENT_GUARD_ORDERS, &g->orders) == 0 && close(AGENT_GUARD_ORDERS) == 0 &&
	       take_args(g, argc, argv) && (!g->has_deadline || take_deadline(g));
}

static void finish(struct guard *g)
{
	if (g->sandbox.tmp && g->orders.is_agent) {
		remove_tmp(g->sandbox.tmp);
	}
	agent_env_free(g->sandbox.reads);
	agent_env_free(g->sandbox.writes);
	agent_env_free(g->sandbox.roots);
	free((char *)g->sandbox.tmp);
	free(g->cgroup_dir);
	orders_finish(&g->orders);
}

int agent_guard_run(int argc, char **argv)
{
	sigset_t mask;
	struct guard g = {0};
	sandbox_shield();
	if (!take_orders(&g, argc, argv)) {
		fprintf(stderr, "holdfast " AGENT_GUARD_COMMAND " is for the server alone\n");
		return 2;
	}
	g.signals = descriptors_of_signals(&mask);
	pid_t self = getpid();
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	bool is_ready = g.signals >= 0 && prepare(&g) == 0;
	g.agent = is_ready ? fork() : -1;
	if (g.agent == 0) {
		run_agent(&g, self, &mask);
	}
	if (g.agent < 0) {
		fprintf(stderr, "holdfast " AGENT_GUARD_COMMAND ": %s\n", strerror(errno));
		return 127;
	}
	setpgid(g.agent, g.agent);
	step_back(argv);
	watch(&g);
	if (g.cgroup_dir) {
		g.look_at_ms = 0;
		look(&g); /* the kernel may have killed it for exceeding a limit */
		cgroup_kill(&g.cgroup);
	}
	sweep(&g);
	if (g.cgroup_dir) {
		cgroup_remove(&g.cgroup);
	}
	finish(&g);
	return end_alike(&g);
}
