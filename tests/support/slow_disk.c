/*
 * Makes every disk call of a real server slow, and notes which thread made it. While there is a file
 * HOLDFAST_SYNC_FAULT with .all_slow behind it, each call about a file below the directory that it
 * names takes 200 ms longer, and adds a line to HOLDFAST_SYNC_FAULT with .calls behind it:
 *
 *   thread id, name of the call, path
 */
#include "slow_disk.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLOW_US 200000

/** Reads a small file by bare system calls, which nobody watches. */
static long read_small(const char *path, char *text, size_t size)
{
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
	long n = fd < 0 ? -1 : syscall(SYS_read, fd, text, size - 1);
	text[n > 0 ? n : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	if (fd >= 0) {
		syscall(SYS_close, fd);
	}
	return n;
}

static void note(const char *control, const char *name, const char *path)
{
	char calls[4096];
	char line[8192];
	snprintf(calls, sizeof(calls), "%s.calls", control);
	int len =
		snprintf(line, sizeof(line), "%ld %s %s\n", (long)syscall(SYS_gettid), name, path);
	int fd = (int)syscall(
		SYS_openat, AT_FDCWD, calls, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0 || syscall(SYS_write, fd, line, (size_t)len) != len) {
		abort();
	}
	syscall(SYS_close, fd);
}

void slow_path(const char *name, int dir_fd, const char *path)
{
	char slow[4096];
	char dir[4096];
	char whole[8192] = "";
	const char *control = getenv("HOLDFAST_SYNC_FAULT");
	if (!control) {
		return;
	}
	snprintf(slow, sizeof(slow), "%s.all_slow", control);
	if (read_small(slow, dir, sizeof(dir)) <= 0) {
		return;
	}
	if (*path != '/') {
		char link[64];
		snprintf(link, sizeof(link), "/proc/self/fd/%d", dir_fd);
		long n = syscall(SYS_readlinkat, AT_FDCWD,
			dir_fd == AT_FDCWD ? "/proc/self/cwd" : link, whole, 4096);
		whole[n > 0 ? n : 0] = '\0';
		if (*path) {
			strcat(whole, "/");
		}
	}
	strncat(whole, path, 4000);
	if (strncmp(whole, dir, strlen(dir)) == 0) {
		note(control, name, whole);
		usleep(SLOW_US);
	}
}

void slow_file(const char *name, int fd)
{
	slow_path(name, fd, "");
}

/* --- the calls that nothing else stands in front of --- */

ssize_t read(int fd, void *bytes, size_t len)
{
	slow_file("read", fd);
	return syscall(SYS_read, fd, bytes, len);
}

ssize_t pread64(int fd, void *bytes, size_t len, off_t offset)
{
	slow_file("pread", fd);
	return syscall(SYS_pread64, fd, bytes, len, offset);
}

ssize_t write(int fd, const void *bytes, size_t len)
{
	slow_file("write", fd);
	return syscall(SYS_write, fd, bytes, len);
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off_t offset)
{
	slow_file("pwrite", fd);
	return syscall(SYS_pwrite64, fd, bytes, len, offset);
}

int close(int fd)
{
	slow_file("close", fd);
	return (int)syscall(SYS_close, fd);
}

int fsync(int fd)
{
	slow_file("fsync", fd);
	return (int)syscall(SYS_fsync, fd);
}

int fallocate64(int fd, int mode, off_t offset, off_t len)
{
	slow_file("fallocate", fd);
	return (int)syscall(SYS_fallocate, fd, mode, offset, len);
}

int mkdirat(int dir_fd, const char *path, mode_t mode)
{
	slow_path("mkdir", dir_fd, path);
	return (int)syscall(SYS_mkdirat, dir_fd, path, mode);
}

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
	slow_path("rename", from_fd, from);
	return (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, 0);
}

int fstat64(int fd, struct stat64 *ret)
{
	slow_file("fstat", fd);
	return (int)syscall(SYS_newfstatat, fd, "", ret, AT_EMPTY_PATH);
}

int fstatat64(int dir_fd, const char *path, struct stat64 *ret, int flags)
{
	slow_path("fstat", dir_fd, path);
	return (int)syscall(SYS_newfstatat, dir_fd, path, ret, flags);
}

int stat64(const char *path, struct stat64 *ret)
{
	slow_path("stat", AT_FDCWD, path);
	return (int)syscall(SYS_newfstatat, AT_FDCWD, path, ret, 0);
}

int access(const char *path, int mode)
{
	slow_path("access", AT_FDCWD, path);
	return (int)syscall(SYS_faccessat, AT_FDCWD, path, mode);
}

int open64(const char *path, int flags, ...)
{
	va_list args;
	va_start(args, flags);
	mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
	va_end(args);
	slow_path("open", AT_FDCWD, path);
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
