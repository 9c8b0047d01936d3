/*
 * Opens files by their names. There are three kinds of names:
 *
 *   open_plain()    the program's own files, below a data directory, a backup or an archive
 *   open_named()    files that the operator named, in an option or on the command line
 *   open_beneath()  files below a directory that others write to (an agent's, the page's)
 *
 * Whoever can write to the second or third kind of place may lay links there; in the first one
 * nobody has any business to. No other function of the store and the tools opens a file.
 */
#ifndef HOLDFAST_BENEATH_H
#define HOLDFAST_BENEATH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct buffer;

/* --- files of our own --- */

/**
 * Opens a regular file below the directory `dir_fd`, or with O_DIRECTORY a directory, with
 * O_CLOEXEC. Follows no link, neither at the end of `path` nor on its way, and never waits, as
 * open() does for a pipe. A file that O_CREAT could make, or that is appended to, must not have a
 * second name (a hard link), because what is written to it would be written there, too; O_TRUNC
 * makes a new file in its place instead.
 *
 * With AT_FDCWD and O_DIRECTORY, `path` is a directory that the operator named: its links are
 * followed. Returns a descriptor, or -1 with errno: file_error() has words for it.
 */
int open_plain(int dir_fd, const char *path, int flags, mode_t mode);
/** The same for the last name of `path`; the operator named the directory in front of it. */
int open_plain_path(const char *path, int flags, mode_t mode);
/**
 * Reads such a file, and appends it to `out`. Returns 0 or a negative errno: -EFBIG if it has more
 * than `most` bytes.
 */
int read_plain_path(const char *path, size_t most, struct buffer *out);
/** Reads the rest of an open file in the same way. */
int read_opened(int fd, size_t most, struct buffer *out);
/**
 * Opens the directory in which the last name of `path` is, for unlinkat() and the like. Returns a
 * descriptor, which is `dir_fd` itself if there is no slash in `path`, or -1 with errno. `dir_fd` may
 * be AT_FDCWD: then the operator named the path, and its directories may be links.
 */
int open_plain_parent(int dir_fd, const char *path, const char **ret_name);
/** Whether open_plain() refuses a file with this errno because of what it is, not for a moment. */
bool file_is_foreign(int error);
/** What is wrong, in words: strerror(), unless open_plain() has a meaning of its own. */
const char *file_error(int error);

/* --- files that the operator named --- */

/** Opens a file with O_CLOEXEC. It may be a link, and a pipe; then this waits for its writer. */
int open_named(const char *path, int flags, mode_t mode);

/* --- directories of others --- */

/**
 * Opens a path below the directory `root`, whatever symlinks lie on the path: the kernel itself
 * refuses a path that leads out (openat2), so no check can be raced. Returns a descriptor with
 * O_CLOEXEC, or -1 with errno set (EXDEV: the path leads out).
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
