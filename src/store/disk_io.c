/* Whole reads and whole appends, made of the system calls of disk.h. */
#include "store_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

DIR *disk_open_dir(int dir_fd, const char *name)
{
	int fd = disk->openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (fd >= 0 && !dir) {
		int err = errno;
		close(fd);
		errno = err;
	}
	return dir;
}

int disk_read_at(int fd, uint64_t offset, void *bytes, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = disk->pread(fd, (char *)bytes + at, len - at, (off_t)(offset + at));
		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n <= 0) {
			return n < 0 ? -errno : -EBADMSG;
		}
		at += (size_t)n;
	}
	return 0;
}

int disk_write_all(int fd, const void *bytes, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = disk->write(fd, (const char *)bytes + at, len - at);
		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n < 0) {
			return -errno;
		}
		at += (size_t)n;
	}
	return 0;
}

int disk_append(int fd, uint64_t size, const void *bytes, size_t len)
{
	int r = disk_write_all(fd, bytes, len);
	if (r < 0) {
		(void)!disk->ftruncate(fd, (off_t)size);
	}
	return r;
}
