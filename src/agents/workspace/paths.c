#include "workspace_internal.h"

#include "holdfast/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * The agent chooses paths, and can have put symlinks into its directory, or can put them there at
 * this very moment. So the kernel is asked to refuse whatever leads out of it (openat2), which
 * leaves no time between a check and its use.
 */

#define LINKS_MAX 8

/** Opens the directory `path` below root; missing directories are created. */
static int open_directory(int root, const char *path)
{
	int dir = open_beneath(root, *path ? path : ".", O_PATH | O_DIRECTORY);
	if (dir >= 0 || errno != ENOENT) {
		return dir;
	}
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	char *above = xstrndup(path, slash ? (size_t)(slash - path) : 0);
	int parent = open_directory(root, above);
	free(above);
	if (parent < 0) {
		return -1;
	}
	int made = *name ? mkdirat(parent, name, 0777) : 0;
	int err = errno;
	close(parent);
	if (made < 0 && err != EEXIST) {
		errno = err;
		return -1;
	}
	return open_beneath(root, path, O_PATH | O_DIRECTORY);
}

/**
 * Returns where the symlink `name` in the directory `parent` leads, relative to root. NULL with
 * errno: EINVAL if it is not a symlink, EXDEV if it is absolute.
 */
static char *link_target(int dir, const char *parent, const char *name)
{
	char target[PATH_MAX];
	ssize_t len = readlinkat(dir, name, target, sizeof(target));
	if (len < 0 || len == (ssize_t)sizeof(target)) {
		errno = len < 0 ? errno : ENAMETOOLONG;
		return NULL;
	}
	if (target[0] == '/') {
		errno = EXDEV;
		return NULL;
	}
	struct buffer path = {0};
	buffer_printf(&path, "%s/%.*s", *parent ? parent : ".", (int)len, target);
	char *copy = xstrdup(buffer_cstr(&path));
	buffer_finish(&path);
	return copy;
}

/**
 * One step of open_parent(). If the name is a symlink, *ret_dir stays -1 and *ret_next is where it
 * leads.
 */
static int open_parent_once(
	int root, const char *path, int *ret_dir, char **ret_name, char **ret_next)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
		return -EISDIR;
	}
	char *parent = xstrndup(path, slash ? (size_t)(slash - path) : 0);
	int dir = open_directory(root, parent);
	int err = dir < 0 ? -errno : 0;
	*ret_next = dir < 0 ? NULL : link_target(dir, parent, name);
	/* EINVAL: not a symlink. */
	if (dir >= 0 && !*ret_next && errno != EINVAL && errno != ENOENT) {
		err = -errno;
	}
	free(parent);
	if (err == 0 && !*ret_next) {
		*ret_dir = dir;
		*ret_name = xstrdup(name);
		return 0;
	}
	if (dir >= 0) {
		close(dir);
	}
	return err;
}

int open_parent(int root, const char *path, char **ret_name)
{
	int dir = -1;
	int err = 0;
	char *at = xstrdup(path);
	for (int i = 0; at && err == 0; i++) {
		char *next = NULL;
		err = i > LINKS_MAX ? -ELOOP : open_parent_once(root, at, &dir, ret_name, &next);
		free(at);
		at = next;
	}
	free(at);
	errno = -err;
	return dir;
}
