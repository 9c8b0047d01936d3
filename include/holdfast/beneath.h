/*
 * Opening files below a directory and nowhere else, whatever links lie on the way: the kernel is
 * asked to refuse what leads out of it (openat2), so that there is no moment between a check and
 * its use.
 */
#ifndef HOLDFAST_BENEATH_H
#define HOLDFAST_BENEATH_H

#include <stdbool.h>

/**
 * Opens a path below the directory `root`, with O_CLOEXEC. Returns the descriptor, or -1 with errno
 * (EXDEV: it leads out).
 */
int open_beneath(int root, const char *path, int flags);
/** The same where the kernel has no openat2: follows no symlink and takes no "..". */
int open_by_steps(int root, const char *path, int flags);

/** Whether a path is `dir` or below it, by their names; both absolute, without "." and "..". */
bool path_is_within(const char *path, const char *dir);
/**
 * Whether a path is in the server's data directory, and not in the part of it that agents may use; both
 * absolute.
 */
bool path_is_private(const char *path, const char *data_dir);

#endif
