#include "process_internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Finds the descendants of a process, from parents to children (/proc/PID/task/TID/children).
 * Processes that start others meanwhile may be missed, so callers that need all of them repeat the
 * search.
 */

#define READ_SIZE ((size_t)4096)

struct pids {
	pid_t *pids;
	size_t count;
	size_t room;
};

static void add_pid(struct pids *list, pid_t pid)
{
	if (list->count == list->room) {
		list->room = list->room ? 2 * list->room : 64;
		list->pids = xrealloc(list->pids, list->room * sizeof(*list->pids));
	}
	list->pids[list->count++] = pid;
}

/** Returns the text of a file in /proc, "" if its process is gone. Borrowed until the next call. */
static char *read_file(struct buffer *text, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : 0;
	buffer_clear(text);
	do {
		buffer_reserve(text, READ_SIZE);
		len = fd < 0 ? -1 : read(fd, text->data + text->len, READ_SIZE - 1);
		text->len += len > 0 ? (size_t)len : 0;
	} while (len > 0);
	text->data[text->len] = '\0';
	if (fd >= 0) {
		close(fd);
	}
	return text->data;
}

/** Adds the children of a process; each thread lists those that it has started. */
static void add_children(struct pids *list, struct buffer *text, pid_t pid)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	DIR *threads = opendir(path);
	struct dirent *thread;
	while (threads && (thread = readdir(threads))) {
		if (*thread->d_name == '.') {
			continue;
		}
		snprintf(path, sizeof(path), "/proc/%d/task/%.20s/children", (int)pid,
			thread->d_name);
		char *at = read_file(text, path);
		for (char *end; (end = strchr(at, ' ')); at = end + 1) {
			add_pid(list, (pid_t)strtol(at, NULL, 10));
		}
	}
	if (threads) {
		closedir(threads);
	}
}

void descendants_each(pid_t root, void (*visit)(pid_t pid, void *arg), void *arg)
{
	struct pids list = {0};
	struct buffer text = {0};
	add_children(&list, &text, root);
	for (size_t i = 0; i < list.count; i++) {
		visit(list.pids[i], arg);
		add_children(&list, &text, list.pids[i]);
	}
	free(list.pids);
	buffer_finish(&text);
}

struct sum {
	struct usage usage;
	struct buffer text;
	bool exact;
};

/** Returns the number that follows a name in a text; 0 if the name is missing. */
static uint64_t number_of(const char *text, const char *name)
{
	const char *at = strstr(text, name);
	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static void add_usage(pid_t pid, void *arg)
{
	struct sum *sum = arg;
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	const char *text = read_file(&sum->text, path);
	uint64_t kib = number_of(text, "\nRssAnon:") + number_of(text, "\nRssShmem:") +
		       number_of(text, "\nVmSwap:");
	sum->usage.processes += number_of(text, "\nThreads:");
	if (sum->exact && kib > 0) {
		/*
		 * Pss counts shared memory proportionally. The file is unreadable for processes
		 * that are not dumpable.
		 */
		snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
		text = read_file(&sum->text, path);
		uint64_t exact = number_of(text, "\nPss_Anon:") + number_of(text, "\nPss_Shmem:") +
				 number_of(text, "\nSwapPss:");
		kib = exact > 0 ? exact : kib;
	}
	sum->usage.memory += 1024 * kib;
}

struct usage descendants_measure(pid_t root, uint64_t memory_exact)
{
	struct sum sum = {0};
	descendants_each(root, add_usage, &sum);
	if (memory_exact > 0 && sum.usage.memory >= memory_exact) {
		sum.usage = (struct usage){0};
		sum.exact = true;
		descendants_each(root, add_usage, &sum);
	}
	buffer_finish(&sum.text);
	return sum.usage;
}
