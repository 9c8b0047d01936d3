#include "holdfast/disk.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* openat() takes its mode as a variable argument. */
static int kernel_openat(int dir_fd, const char *path, int flags, mode_t mode)
{
	return openat(dir_fd, path, flags, mode);
}

static int kernel_dup(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

const struct disk_ops disk_kernel = {
	.openat = kernel_openat,
	.dup = kernel_dup,
	.read = read,
	.pread = pread,
	.write = write,
	.fdatasync = fdatasync,
	.fsync = fsync,
	.ftruncate = ftruncate,
	.fallocate = fallocate,
	.renameat = renameat,
	.unlinkat = unlinkat,
	.mkdirat = mkdirat,
};

const struct disk_ops *disk = &disk_kernel;
