/* Checks the blobs of a session: the name of each must be the hash of its contents. */
#include "check.h"

#include "holdfast/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void tell(struct check *check, const char *place, int r)
{
	if (r == -EBADMSG) {
		check_problem(check, place, "its contents do not match the hash in its name");
	} else if (r < 0) {
		check_problem(check, place, "it cannot be read: %s", file_error(-r));
	}
	check->counts->blobs++;
}

static bool check_name(struct check *check, const char *place, const char *file)
{
	bool is_valid = blob_file_is_valid(file);
	if (!is_valid) {
		check_problem(
			check, place, "its name is not that of an image or file of a session");
	}
	return is_valid;
}

void check_blob_bytes(
	struct check *check, const char *place, const char *file, const void *bytes, size_t len)
{
	if (check_name(check, place, file)) {
		tell(check, place, blob_check_bytes(file, bytes, len));
	}
}

static void check_blob(struct check *check, const char *id, int dir_fd, const char *file)
{
	char place[320];
	snprintf(place, sizeof(place), "sessions/%s/blobs/%.80s", id, file);
	if (!check_name(check, place, file)) {
		return;
	}
	int fd = disk->openat(dir_fd, file, O_RDONLY | O_CLOEXEC, 0);
	int r = fd < 0 ? -errno : blob_check_file(fd, file);
	if (fd >= 0) {
		close(fd);
	}
	if (r != -ENOENT || !check->files->in_use) { /* else the server has deleted it */
		tell(check, place, r);
	}
}

void check_blobs(struct check *check, const char *id)
{
	char path[160];
	char **names;
	size_t count;
	snprintf(path, sizeof(path), "%s/blobs", id);
	int fd = disk->openat(
		check->files->sessions_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	int r = fd < 0 ? -errno : disk_list(fd, ".", NULL, &names, &count);
	if (r < 0) {
		if (r != -ENOENT) {
			check_problem(check, path, "it cannot be read: %s", file_error(-r));
		}
		if (fd >= 0) {
			close(fd);
		}
		return;
	}
	for (size_t i = 0; i < count; i++) {
		check_blob(check, id, fd, names[i]);
	}
	disk_list_free(names, count);
	close(fd);
}
