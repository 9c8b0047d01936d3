#include "holdfast/store_set_aside.h"

#include "embedded.h"
#include "store_set_aside.h"

#include "holdfast/beneath.h"
#include "holdfast/store_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail(const struct setting_aside *aside, int error, const char *path)
{
	*aside->ret_why = xprintf("%s cannot be set aside: %s", path, file_error(-error));
	return error;
}

/** Moves a file to set-aside/NAME.N, where N is the first number that is free. */
static int move(const struct setting_aside *aside, int dir_fd, const char *file, const char *id,
	char to[320])
{
	int r;
	unsigned number = 0;
	struct stat st;
	if (disk->mkdirat(aside->files.dir_fd, "set-aside", 0700) < 0 && errno != EEXIST) {
		return -errno;
	}
	do {
		snprintf(to, 320, "set-aside/%s.%.80s.%u", id, file, ++number);
	} while (fstatat(aside->files.dir_fd, to, &st, AT_SYMLINK_NOFOLLOW) == 0);
	r = disk->renameat(dir_fd, file, aside->files.dir_fd, to) < 0 ? -errno : 0;
	r = r < 0 ? r : disk_sync(aside->files.dir_fd, "set-aside", O_RDONLY | O_DIRECTORY);
	return r == 0 && disk->fsync(dir_fd) < 0 ? -errno : r;
}

/** Moves the file if it is damaged. One that cannot be read now may be whole: it stays. */
static int look_at_blob(
	const struct setting_aside *aside, int dir_fd, const char *id, const char *file)
{
	char to[320];
	char what[320];
	int fd = disk->openat(dir_fd, file, O_RDONLY | O_CLOEXEC, 0);
	int r = fd < 0 && !file_is_foreign(errno) ? -errno : -EBADMSG;
	if (fd >= 0 && blob_file_is_valid(file)) {
		r = blob_check_file(fd, file);
	}
	if (fd >= 0) {
		close(fd);
	}
	snprintf(what, sizeof(what), "session %s: the image or file %.80s", id, file);
	if (r == -EBADMSG) {
		r = move(aside, dir_fd, file, id, to);
		if (r == 0) {
			aside->moved(aside->owner, what, to);
		}
	}
	return r < 0 ? fail(aside, r, what) : 0;
}

static int look_at_session(const struct setting_aside *aside, const char *id)
{
	char path[160];
	char **names;
	size_t count;
	snprintf(path, sizeof(path), "%s/blobs", id);
	int fd = disk_open_dir(aside->files.sessions_fd, path);
	if (fd < 0) {
		return errno == ENOENT ? 0 : fail(aside, -errno, path);
	}
	int r = disk_list(fd, ".", NULL, &names, &count);
	for (size_t i = 0; r == 0 && i < count; i++) {
		r = look_at_blob(aside, fd, id, names[i]);
	}
	disk_list_free(names, count);
	close(fd);
	return r;
}

int store_set_aside(const char *dir, const char *only,
	void (*moved)(void *owner, const char *what, const char *to), void *owner, char **ret_why)
{
	struct setting_aside aside = {.moved = moved, .owner = owner, .ret_why = ret_why};
	char **ids = NULL;
	size_t count = 0;
	int r = store_files_open(dir, &aside.files, ret_why);
	r = r < 0 ? r : store_files_list_sessions(&aside.files, &ids, &count);
	for (size_t i = 0; r == 0 && i < count; i++) {
		if (!only || strcmp(only, ids[i]) == 0) {
			r = look_at_session(&aside, ids[i]);
		}
	}
	disk_list_free(ids, count);
	if (r == 0 && !only &&
		faccessat(aside.files.dir_fd, "streams", F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
		r = raw_set_aside(dir, &aside);
		r = r < 0 ? fail(&aside, r, "streams") : 0;
	}
	store_files_close(&aside.files);
	return r;
}
