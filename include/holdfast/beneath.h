/*
 * Opens files below a directory and nowhere else, whatever symlinks lie on the path: the kernel
 * itself refuses a path that leads out (openat2), so no check can be raced.
 */
#ifndef HOLDFAST_BENEATH_H
#define HOLDFAST_BENEATH_H

#include <stdbool.h>

/**
 * Opens a path below the directory `root`, with O_CLOEXEC. Returns the descriptor, or -1 with errno
 * set (EXDEV: the path leads out).
 */
int open_beneath(int root, const char *path, int flags);
/** Fallback for kernels without openat2: follows no symlink and refuses "..". */
int open_by_steps(int root, const char *path, int flags);

/**
 * Whether `path` is `dir` or below it. Compares names only; both must be absolute and free of "."
 * and "..".
 */
bool path_is_within(const char *path, const char *dir);
/**
 * Whether a path is in the server's data directory but not in `workspace`, the part that agents can
 * use. Both must be absolute.
 */
bool path_is_private(const char *path, const char *data_dir);

#endif
