#include "holdfast/cgroup.h"

#include "process_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define MOUNT     "/sys/fs/cgroup"
#define READ_SIZE ((size_t)4096) /* the files that are read here are smaller */

/** Writes a file of a group. Returns 0, or -1 with errno. */
static int put(const char *dir, const char *name, const char *text)
{
	char *path = xprintf("%s/%s", dir, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ssize_t len = fd < 0 ? -1 : write(fd, text, strlen(text));
	int err = errno;
	if (fd >= 0) {
		close(fd);
	}
	free(path);
	errno = err;
	return len < 0 ? -1 : 0;
}

static int put_number(const char *dir, const char *name, uint64_t number)
{
	char text[32];
	snprintf(text, sizeof(text), "%" PRIu64, number);
	return put(dir, name, text);
}

/** Returns the contents of a file, "" if it cannot be read. The caller frees it. */
static char *get(const char *dir, const char *name)
{
	char *path = xprintf("%s/%s", dir, name);
	char *text = xcalloc(1, READ_SIZE);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, text, READ_SIZE - 1);
	text[len > 0 ? len : 0] = '\0';
	if (fd >= 0) {
		close(fd);
	}
	free(path);
	return text;
}

/** Whether a text of words separated by spaces contains a word. */
static bool has_word(const char *text, const char *word)
{
	size_t len = strlen(word);
	for (const char *at = text; (at = strstr(at, word)); at += len) {
		bool begins = at == text || at[-1] == ' ';
		if (begins && (at[len] == ' ' || at[len] == '\n' || !at[len])) {
			return true;
		}
	}
	return false;
}

/* --- startup of the server --- */

static char *find_missing(const char *dir, const struct cgroup_wish *wish)
{
	char *why = NULL;
	char *controllers = get(dir, "cgroup.controllers");
	const char *missing = wish->memory && !has_word(controllers, "memory")    ? "memory"
			      : wish->processes && !has_word(controllers, "pids") ? "pids"
										  : NULL;
	if (missing) {
		why = xprintf("%s has no controller \"%s\"", dir, missing);
	}
	free(controllers);
	return why;
}

static int switch_on(const char *dir, const struct cgroup_wish *wish)
{
	const char *order = !wish->memory ? "+pids" : wish->processes ? "+memory +pids" : "+memory";
	return put(dir, "cgroup.subtree_control", order);
}

/**
 * Whether a group is delegated to the server: systemd marks such groups. Without a mark, a server
 * that does not run as root may use a group that it can write to.
 */
static bool is_delegated(const char *dir)
{
	char value = '0';
	bool is_marked = getxattr(dir, "user.delegate", &value, 1) == 1 ||
			 getxattr(dir, "trusted.delegate", &value, 1) == 1;
	char *control = xprintf("%s/cgroup.subtree_control", dir);
	bool is_ours = geteuid() != 0 && access(control, W_OK) == 0 && access(dir, W_OK) == 0;
	free(control);
	return is_marked ? value == '1' : is_ours;
}

static bool is_alone(const char *dir)
{
	char pid[32];
	char *procs = get(dir, "cgroup.procs");
	snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
	bool is_alone = strcmp(procs, pid) == 0;
	free(procs);
	return is_alone;
}

/**
 * Makes the server's own group usable. A group that contains processes cannot have subgroups with
 * controllers, so the server moves itself into a subgroup. Returns NULL, or what is wrong (caller
 * frees).
 */
static char *take_own(const char *dir, const struct cgroup_wish *wish)
{
	if (!is_delegated(dir)) {
		return xprintf("%s is not delegated to the server", dir);
	}
	if (!is_alone(dir)) {
		return xprintf("%s has other processes in it", dir);
	}
	char *why = NULL;
	char *server = xprintf("%s/server", dir);
	bool is_made = mkdir(server, 0755) == 0 || errno == EEXIST;
	if (!is_made || put_number(server, "cgroup.procs", (uint64_t)getpid()) < 0 ||
		switch_on(dir, wish) < 0) {
		why = xprintf("%s cannot be divided: %s", dir, strerror(errno));
		put_number(dir, "cgroup.procs", (uint64_t)getpid());
		rmdir(server);
	}
	free(server);
	return why;
}

char *cgroup_find(const char *given, const struct cgroup_wish *wish, const char *mount,
	const char *self, char **ret_why)
{
	char *own = self ? xstrdup(self) : get("/proc/self", "cgroup");
	char *line = strncmp(own, "0::", 3) == 0 ? own : strstr(own, "\n0::");
	char *dir = NULL;
	*ret_why = NULL;
	if (given) {
		dir = xstrdup(given);
	} else if (line) {
		const char *path = strchr(line, '/');
		dir = xprintf(
			"%s%.*s", mount ? mount : MOUNT, path ? (int)strcspn(path, "\n") : 0, path);
	} else {
		*ret_why = xstrdup("the system has no control groups of version 2");
	}
	free(own);
	if (dir) {
		*ret_why = find_missing(dir, wish);
	}
	if (dir && !*ret_why && !given) {
		*ret_why = take_own(dir, wish);
	} else if (dir && !*ret_why && switch_on(dir, wish) < 0) {
		*ret_why = xprintf("%s/cgroup.subtree_control: %s", dir, strerror(errno));
	}
	if (*ret_why) {
		free(dir);
		dir = NULL;
	}
	return dir;
}

/* --- guards --- */

int cgroup_make(struct cgroup *group, const char *dir, uint64_t memory_max, uint64_t processes_max)
{
	group->dir = xstrdup(dir);
	group->part = xprintf("%s/%d", dir, (int)getpid());
	int r = mkdir(dir, 0755) == 0 || errno == EEXIST ? 0 : -1;
	if (r == 0 && memory_max > 0) {
		r = put_number(dir, "memory.max", memory_max);
		/* Not every kernel has these; the limit works without them. */
		put(dir, "memory.swap.max", "0");
		put(dir, "memory.oom.group", "1");
	}
	if (r == 0 && processes_max > 0) {
		r = put_number(dir, "pids.max", processes_max);
	}
	return r == 0 ? mkdir(group->part, 0755) : r;
}

int cgroup_join(const struct cgroup *group)
{
	return put_number(group->part, "cgroup.procs", (uint64_t)getpid());
}

/** Whether a counter in an events file is above zero. */
static bool has_happened(const char *dir, const char *file, const char *event)
{
	char *text = get(dir, file);
	char *lines = xprintf("\n%s", text);
	const char *at = strstr(lines, event);
	bool has = at && strtoull(at + strlen(event), NULL, 10) > 0;
	free(lines);
	free(text);
	return has;
}

struct usage cgroup_look(const struct cgroup *group, uint64_t memory_max, uint64_t processes_max)
{
	struct usage used = {0};
	if (memory_max > 0 && has_happened(group->dir, "memory.events", "\noom_kill ")) {
		used.memory = memory_max + 1;
	}
	if (processes_max > 0 && has_happened(group->dir, "pids.events", "\nmax ")) {
		used.processes = processes_max + 1;
	}
	return used;
}

void cgroup_kill(const struct cgroup *group)
{
	put(group->part, "cgroup.kill", "1");
}

void cgroup_remove(struct cgroup *group)
{
	rmdir(group->part);
	rmdir(group->dir);
	free(group->part);
	free(group->dir);
}
