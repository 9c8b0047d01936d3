/*
 * Stands in front of fdatasync() in a real server (LD_PRELOAD), for tests that need a disk which
 * fails or hangs at a certain moment. What the file that HOLDFAST_SYNC_FAULT names says, happens to
 * the syncs of journal segments:
 *
 *   pass    they go through; so they do while there is no such file
 *   fail    they fail with EIO
 *   hold    they wait until the file says something else
 *   stuck   they fail with EIO, and so do ftruncate() and unlinkat(): nothing can be taken back
 *   a number   so many go through, counted from the start of the process, and the others fail
 *
 * Files whose paths have what stands in HOLDFAST_SYNC_FAULT with .unreadable behind it cannot be
 * opened (EIO).
 *
 * Syncs of other files whose paths have what stands in HOLDFAST_SYNC_FAULT with .slow behind it
 * wait until it says something else; meanwhile there is one with .slow.held behind it. So does
 * what opens files whose paths have what stands in the one with .slow_open behind it.
 *
 * HOLDFAST_SYNC_FAULT with .seen behind it tells how many have gone through, and `held` while one
 * waits.
 *
 * slow_disk.c makes every disk call slow.
 */
#include "slow_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long passed;

static void read_file(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);
	text[n > 0 ? n : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	if (fd >= 0) {
		close(fd);
	}
}

/** Replaces the file as a whole: whoever reads it never sees half of it. */
static void tell(const char *control, const char *word)
{
	char path[4096];
	char fresh[4096];
	char text[64];
	snprintf(path, sizeof(path), "%s.seen", control);
	snprintf(fresh, sizeof(fresh), "%s.new", control);
	int len = snprintf(text, sizeof(text), "%ld%s", passed, word);
	int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, text, (size_t)len) != len || rename(fresh, path) < 0) {
		abort();
	}
	close(fd);
}

static int is_journal(int fd)
{
	char link[64];
	char path[4096] = "";
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return readlink(link, path, sizeof(path) - 1) > 0 && strstr(path, "/journal/");
}

/** Whether the sync goes through. */
static int decide(const char *control)
{
	char text[64];
	int is_held = 0;
	for (;;) {
		read_file(control, text, sizeof(text));
		if (strcmp(text, "hold") != 0) {
			break;
		}
		if (!is_held) {
			tell(control, " held");
		}
		is_held = 1;
		usleep(500);
	}
	int passes = !*text || strcmp(text, "pass") == 0 || passed < atol(text);
	passed += passes;
	tell(control, "");
	return passes;
}

static int is_slow(const char *control, const char *which, const char *path)
{
	char name[4096];
	char text[256];
	snprintf(name, sizeof(name), "%s.%s", control, which);
	read_file(name, text, sizeof(text));
	return *text && strstr(path, text);
}

static void wait_if_slow(const char *control, const char *which, const char *path)
{
	char held[4096];
	int was_held = 0;
	snprintf(held, sizeof(held), "%s.slow.held", control);
	while (is_slow(control, which, path)) {
		close(open(held, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
		was_held = 1;
		usleep(500);
	}
	if (was_held) {
		unlink(held);
	}
}

static void wait_if_sync_is_slow(const char *control, int fd)
{
	char link[64];
	char path[4096] = "";
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (readlink(link, path, sizeof(path) - 1) > 0) {
		wait_if_slow(control, "slow", path);
	}
}

int fdatasync(int fd)
{
	const char *control = getenv("HOLDFAST_SYNC_FAULT");
	slow_file("fdatasync", fd);
	if (control && !is_journal(fd)) {
		wait_if_sync_is_slow(control, fd);
	}
	if (control && is_journal(fd)) {
		pthread_mutex_lock(&lock);
		int passes = decide(control);
		pthread_mutex_unlock(&lock);
		if (!passes) {
			errno = EIO;
			return -1;
		}
	}
	return (int)syscall(SYS_fdatasync, fd);
}

static int is_stuck(void)
{
	const char *control = getenv("HOLDFAST_SYNC_FAULT");
	char text[64] = "";
	if (control) {
		read_file(control, text, sizeof(text));
	}
	errno = EIO;
	return strcmp(text, "stuck") == 0;
}

int ftruncate64(int fd, off_t len)
{
	slow_file("ftruncate", fd);
	return is_journal(fd) && is_stuck() ? -1 : (int)syscall(SYS_ftruncate, fd, len);
}

int unlinkat(int dir_fd, const char *path, int flags)
{
	slow_path("unlink", dir_fd, path);
	return strstr(path, ".journal") && is_stuck()
		       ? -1
		       : (int)syscall(SYS_unlinkat, dir_fd, path, flags);
}

static int is_unreadable(const char *path)
{
	const char *control = getenv("HOLDFAST_SYNC_FAULT");
	char name[4096];
	char text[256] = "";
	if (control) {
		snprintf(name, sizeof(name), "%s.unreadable", control);
		read_file(name, text, sizeof(text));
	}
	errno = EIO;
	return *text && strstr(path, text) != NULL;
}

/** The server opens a path step by step: the directory belongs to the name. */
static void name_whole(int dir_fd, const char *path, char whole[8192])
{
	char link[64];
	snprintf(link, sizeof(link), "/proc/self/fd/%d", dir_fd);
	ssize_t n = dir_fd == AT_FDCWD || *path == '/' ? 0 : readlink(link, whole, 4096);
	snprintf(whole + (n > 0 ? n : 0), 4096, "%s%s", n > 0 ? "/" : "", path);
}

int openat64(int dir_fd, const char *path, int flags, ...)
{
	va_list args;
	va_start(args, flags);
	mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
	va_end(args);
	const char *control = getenv("HOLDFAST_SYNC_FAULT");
	char whole[8192];
	slow_path("open", dir_fd, path);
	name_whole(dir_fd, path, whole);
	if (control) {
		wait_if_slow(control, "slow_open", whole);
	}
	return is_unreadable(whole) ? -1 : (int)syscall(SYS_openat, dir_fd, path, flags, mode);
}
