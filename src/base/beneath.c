#include "holdfast/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * openat2 fails with EAGAIN when a rename races with the resolution of a path that contains "..".
 */
#define TRIES_MAX 64

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
