#include "disk.h"

#include "holdfast/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/** Closes a directory of open_plain_parent(), and gives `r` back. */
static int leave(int r, int dir, int dir_fd)
{
	int error = errno;
	if (dir >= 0 && dir != dir_fd) {
		close(dir);
	}
	errno = error;
	return r;
}

static int plain_unlinkat(int dir_fd, const char *path, int flags)
{
	const char *name;
	int dir = open_plain_parent(dir_fd, path, &name);
	return leave(dir < 0 ? -1 : unlinkat(dir, name, flags), dir, dir_fd);
}

static int plain_mkdirat(int dir_fd, const char *path, mode_t mode)
{
	const char *name;
	int dir = open_plain_parent(dir_fd, path, &name);
	return leave(dir < 0 ? -1 : mkdirat(dir, name, mode), dir, dir_fd);
}

static int plain_renameat(int from_fd, const char *from, int to_fd, const char *to)
{
	const char *old;
	const char *fresh;
	int from_dir = open_plain_parent(from_fd, from, &old);
	int to_dir = from_dir < 0 ? -1 : open_plain_parent(to_fd, to, &fresh);
	int r = to_dir < 0 ? -1 : renameat(from_dir, old, to_dir, fresh);
	return leave(leave(r, to_dir, to_fd), from_dir, from_fd);
}

static int kernel_dup(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

const struct disk_ops disk_kernel = {
	.openat = open_plain,
	.dup = kernel_dup,
	.read = read,
	.pread = pread,
	.write = write,
	.fdatasync = fdatasync,
	.fsync = fsync,
	.ftruncate = ftruncate,
	.fallocate = fallocate,
	.renameat = plain_renameat,
	.unlinkat = plain_unlinkat,
	.mkdirat = plain_mkdirat,
};

const struct disk_ops *disk = &disk_kernel;
