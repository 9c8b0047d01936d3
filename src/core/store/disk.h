/*
 * The system calls by which the store reads and changes the disk, in one table, so that tests can
 * make them fail, cut them short and observe their order (tests/crash). Each behaves as its manual
 * page says, errno included, and may be called from any thread. No call follows a link on its way,
 * and openat() takes only regular files and directories (open_plain()).
 */
#ifndef HOLDFAST_DISK_H
#define HOLDFAST_DISK_H

#include <sys/types.h>

struct disk_ops {
	int (*openat)(int dir_fd, const char *path, int flags, mode_t mode);
	int (*dup)(int fd); /* sets close-on-exec */
	ssize_t (*read)(int fd, void *bytes, size_t len);
	ssize_t (*pread)(int fd, void *bytes, size_t len, off_t offset);
	ssize_t (*write)(int fd, const void *bytes, size_t len);
	int (*fdatasync)(int fd);
	int (*fsync)(int fd); /* of a directory: its entries */
	int (*ftruncate)(int fd, off_t len);
	int (*fallocate)(int fd, int mode, off_t offset, off_t len);
	int (*renameat)(int from_fd, const char *from, int to_fd, const char *to);
	int (*unlinkat)(int dir_fd, const char *path, int flags);
	int (*mkdirat)(int dir_fd, const char *path, mode_t mode);
};

/** The calls in use: the kernel's, unless a test has installed its own before store_open(). */
extern const struct disk_ops *disk;
/** The kernel's, for a test that forwards calls. */
extern const struct disk_ops disk_kernel;

#endif
