/* For the calls that sync_fault.c stands in front of. */
#ifndef HOLDFAST_TESTS_SLOW_DISK_H
#define HOLDFAST_TESTS_SLOW_DISK_H

/** A call about a path, by its directory or AT_FDCWD. */
void slow_path(const char *name, int dir_fd, const char *path);
/** A call about an open file. */
void slow_file(const char *name, int fd);

#endif
