#include "holdfast/beneath.h"

#include "holdfast/buffer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * openat2 fails with EAGAIN when a rename races with the resolution of a path that contains "..".
 */
#define TRIES_MAX 64

/* --- files of our own --- */

static int fail(int fd, int error)
{
	if (fd >= 0) {
		close(fd);
	}
	errno = error;
	return -1;
}

/** The same of a path that the operator named, whose directories may be links. */
static int open_named_parent(const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	char *dir = slash == path ? xstrdup("/")
		    : slash       ? xstrndup(path, (size_t)(slash - path))
				  : xstrdup(".");
	int fd = open_named(dir, O_PATH | O_DIRECTORY, 0);
	int error = errno;
	free(dir);
	errno = error;
	*ret_name = slash ? slash + 1 : path;
	return fd;
}

int open_plain_parent(int dir_fd, const char *path, const char **ret_name)
{
	int dir = dir_fd;
	if (dir_fd == AT_FDCWD) {
		return open_named_parent(path, ret_name);
	}
	for (size_t len; path[len = strcspn(path, "/")]; path += len + 1) {
		char name[NAME_MAX + 1];
		bool is_up = len == 2 && memcmp(path, "..", 2) == 0;
		int next = -1;
		errno = is_up ? EXDEV : ENAMETOOLONG;
		if (len <= NAME_MAX && !is_up) {
			memcpy(name, path, len);
			name[len] = '\0';
			next = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		}
		int error = errno;
		if (dir != dir_fd) {
			close(dir);
		}
		if (next < 0) {
			return fail(-1, error);
		}
		dir = next;
	}
	*ret_name = path;
	return dir;
}

/** Whether what is written could be written to another place, too. */
static bool is_shared(const struct stat *st, int flags)
{
	return st->st_nlink > 1 && flags & (O_CREAT | O_APPEND) && !(flags & O_TRUNC);
}

/** Empties the file; if it has a second name, makes a new one in its place. */
static int empty(int fd, int dir, const char *name, const struct stat *st, int flags, mode_t mode)
{
	if (st->st_nlink <= 1) {
		return ftruncate(fd, 0) < 0 ? fail(fd, errno) : fd;
	}
	close(fd);
	flags = (flags & ~O_TRUNC) | O_CREAT | O_EXCL | O_CLOEXEC;
	return unlinkat(dir, name, 0) < 0 ? -1 : openat(dir, name, flags, mode);
}

static int open_in(int dir, const char *name, int flags, mode_t mode)
{
	struct stat st;
	int fd = openat(dir, name,
		(flags & ~O_TRUNC) | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode);
	if (fd < 0) {
		/* A socket, a pipe that nobody reads, or a device that is not there. */
		return fail(-1, errno == ENXIO ? EMEDIUMTYPE : errno);
	}
	if (flags & O_DIRECTORY) {
		return fd;
	}
	int error = fstat(fd, &st) < 0      ? errno
		    : S_ISDIR(st.st_mode)   ? EISDIR
		    : !S_ISREG(st.st_mode)  ? EMEDIUMTYPE
		    : is_shared(&st, flags) ? EMLINK
					    : 0;
	if (error) {
		return fail(fd, error);
	}
	return flags & O_TRUNC ? empty(fd, dir, name, &st, flags, mode) : fd;
}

int open_plain(int dir_fd, const char *path, int flags, mode_t mode)
{
	const char *name;
	if (dir_fd == AT_FDCWD) {
		assert(flags & O_DIRECTORY);
		return open_named(path, flags, mode);
	}
	int dir = open_plain_parent(dir_fd, path, &name);
	int fd = dir < 0 ? -1 : open_in(dir, name, flags, mode);
	if (dir >= 0 && dir != dir_fd) {
		int error = errno;
		close(dir);
		errno = error;
	}
	return fd;
}

int open_plain_path(const char *path, int flags, mode_t mode)
{
	const char *name;
	int dir_fd = open_named_parent(path, &name);
	int fd = dir_fd < 0 ? -1 : open_in(dir_fd, name, flags, mode);
	int error = errno;
	if (dir_fd >= 0) {
		close(dir_fd);
	}
	errno = error;
	return fd;
}

int read_opened(int fd, size_t most, struct buffer *out)
{
	struct stat st;
	size_t before = out->len;
	if (fstat(fd, &st) < 0) {
		return -errno;
	}
	if (S_ISREG(st.st_mode) && (uint64_t)st.st_size > most) {
		return -EFBIG;
	}
	for (;;) {
		buffer_reserve(out, 1 << 16);
		ssize_t n = read(fd, out->data + out->len, out->cap - out->len);
		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n <= 0) {
			return n < 0 ? -errno : 0;
		}
		out->len += (size_t)n;
		if (out->len - before > most) {
			return -EFBIG;
		}
	}
}

int read_plain_path(const char *path, size_t most, struct buffer *out)
{
	int fd = open_plain_path(path, O_RDONLY, 0);
	if (fd < 0) {
		return -errno;
	}
	int r = read_opened(fd, most, out);
	close(fd);
	return r;
}

bool file_is_foreign(int error)
{
	return error == ELOOP || error == EMEDIUMTYPE || error == EISDIR || error == ENOTDIR ||
	       error == EMLINK || error == EFBIG;
}

const char *file_error(int error)
{
	switch (error) {
	case ELOOP:
		return "it is a symbolic link, and links are not followed here";
	case EMEDIUMTYPE:
		return "it is neither a file nor a directory";
	case EMLINK:
		return "it has a second name (a hard link), and what is written here would be written there";
	case EFBIG:
		return "it is too large";
	case ENOTDIR:
		return "Not a directory, or a link to one";
	default:
		return strerror(error);
	}
}

/* --- files that the operator named --- */

int open_named(const char *path, int flags, mode_t mode)
{
	return open(path, flags | O_CLOEXEC, mode);
}

/* --- directories of others --- */

int open_by_steps(int root, const char *path, int flags)
{
	int dir = openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	while (dir >= 0) {
		path += strspn(path, "/");
		size_t len = strcspn(path, "/");
		char name[NAME_MAX + 1];
		if (len > NAME_MAX || (len == 2 && memcmp(path, "..", 2) == 0)) {
			close(dir);
			errno = len > NAME_MAX ? ENAMETOOLONG : EXDEV;
			return -1;
		}
		memcpy(name, len ? path : ".", len ? len : 1);
		name[len ? len : 1] = '\0';
		path += len;
		bool last = path[strspn(path, "/")] == '\0';
		int next = openat(
			dir, name, (last ? flags : O_PATH | O_DIRECTORY) | O_NOFOLLOW | O_CLOEXEC);
		int err = errno;
		close(dir);
		errno = err;
		if (last) {
			return next;
		}
		dir = next;
	}
	return -1;
}

int open_beneath(int root, const char *path, int flags)
{
	struct open_how how = {
		.flags = (uint64_t)(flags | O_CLOEXEC),
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
	};
	int fd = -1;
	errno = EAGAIN;
	for (int i = 0; i < TRIES_MAX && fd < 0 && errno == EAGAIN; i++) {
		fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	}
	/* Some container runtimes answer an unknown system call with EPERM. */
	if (fd < 0 && (errno == ENOSYS || errno == EPERM)) {
		return open_by_steps(root, path, flags);
	}
	return fd;
}

bool path_is_within(const char *path, const char *dir)
{
	size_t len = strcmp(dir, "/") == 0 ? 0 : strlen(dir);
	return strncmp(path, dir, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

bool path_is_private(const char *path, const char *data_dir)
{
	size_t len = strlen(data_dir);
	while (len > 0 && data_dir[len - 1] == '/') {
		len--;
	}
	if (!*data_dir || strncmp(path, data_dir, len) != 0 || (path[len] && path[len] != '/')) {
		return false;
	}
	return !path_is_within(path + len + strspn(path + len, "/"), "workspace");
}
