/*
 * Blobs in a data directory. An upload is written to DIR/uploads/<number>. When it is complete, it
 * is synced and moved to sessions/<id>/blobs/<name>, and the folders are synced: a power cut leaves
 * all of it or nothing. Files found in uploads/ at the start are removed.
 */
#include "embedded.h"

#include "holdfast/diag.h"

#include "holdfast/beneath.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define UPLOADS "uploads"

static void name_upload(char path[40], uint64_t number)
{
	snprintf(path, 40, UPLOADS "/%llu", (unsigned long long)number);
}

static int open_upload(struct store *store, const char *path, bool is_first)
{
	int flags = O_WRONLY | O_APPEND | O_CLOEXEC | (is_first ? O_CREAT | O_TRUNC : 0);
	int fd = disk->openat(store->dir_fd, path, flags, 0600);
	if (fd < 0 && errno == ENOENT && is_first) {
		if (disk->mkdirat(store->dir_fd, UPLOADS, 0700) < 0 && errno != EEXIST) {
			return -errno;
		}
		fd = disk->openat(store->dir_fd, path, flags, 0600);
	}
	return fd < 0 ? -errno : fd;
}

int blob_file_write(
	struct store *store, uint64_t number, const char *bytes, size_t len, bool is_first)
{
	char path[40];
	name_upload(path, number);
	int fd = open_upload(store, path, is_first);
	if (fd < 0) {
		return fd == -ENOENT ? -EIO : fd; /* -ENOENT means that the session is gone */
	}
	int r = disk_write_all(fd, bytes, len);
	close(fd);
	return r;
}

void blob_file_drop(struct store *store, uint64_t number)
{
	char path[40];
	name_upload(path, number);
	disk->unlinkat(store->dir_fd, path, 0);
}

/** Syncs the folders of a blob. The session's may be new, too, and its checkpoint not done yet. */
static int sync_folders(struct store *store, int folder, int blobs)
{
	if (disk->fsync(blobs) < 0) {
		return -errno;
	}
	int r = disk_sync(folder, "metadata.json", O_RDONLY);
	if (r == 0 &&
		(disk->fsync(folder) < 0 || disk->fsync(embedded_of(store)->sessions_fd) < 0)) {
		r = -errno;
	}
	return r;
}

static int open_blobs(int folder)
{
	if (disk->mkdirat(folder, "blobs", 0700) < 0 && errno != EEXIST) {
		return -errno;
	}
	int fd = disk->openat(folder, "blobs", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

int blob_file_keep(
	struct store *store, uint64_t number, const struct blob_place *place, bool *ret_is_new)
{
	char path[40];
	struct stat st;
	name_upload(path, number);
	int r = disk_sync(store->dir_fd, path, O_WRONLY);
	if (r < 0) {
		return r == -ENOENT ? -EIO : r;
	}
	int folder = metadata_open_folder(embedded_of(store)->sessions_fd, place->id, place->epoch);
	if (folder < 0) {
		return folder;
	}
	int blobs = open_blobs(folder);
	r = blobs < 0 ? blobs : 0;
	if (r == 0) {
		uv_mutex_lock(&store->blobs.names);
		*ret_is_new = fstatat(blobs, place->file, &st, AT_SYMLINK_NOFOLLOW) < 0;
		r = disk->renameat(store->dir_fd, path, blobs, place->file) < 0 ? -errno : 0;
		uv_mutex_unlock(&store->blobs.names);
		r = r < 0 ? r : sync_folders(store, folder, blobs);
		close(blobs);
	}
	close(folder);
	return r == -ENOENT ? -EIO : r;
}

int blob_file_open(struct store *store, const struct blob_place *place)
{
	char path[BLOB_FILE_SIZE + 8];
	int folder = metadata_open_folder(embedded_of(store)->sessions_fd, place->id, place->epoch);
	if (folder < 0) {
		return folder;
	}
	snprintf(path, sizeof(path), "blobs/%s", place->file);
	int fd = disk->openat(folder, path, O_RDONLY | O_CLOEXEC, 0);
	int r = fd >= 0                  ? blob_check_opened(&store->blobs, fd, place->file)
		: file_is_foreign(errno) ? -EBADMSG
					 : -errno;
	close(folder);
	if (fd >= 0 && r < 0) {
		close(fd);
	}
	return r < 0 ? r : fd;
}

/* --- removing and measuring --- */

static void remove_all(int dir_fd, const char *name)
{
	char **names;
	size_t count;
	int fd = disk->openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (fd < 0 || disk_list(fd, ".", NULL, &names, &count) < 0) {
		if (fd >= 0) {
			close(fd);
		}
		return;
	}
	for (size_t i = 0; i < count; i++) {
		disk->unlinkat(fd, names[i], 0);
	}
	disk_list_free(names, count);
	close(fd);
}

void blob_files_remove(int dir_fd, const char *name)
{
	char path[400];
	snprintf(path, sizeof(path), "%s/blobs", name);
	remove_all(dir_fd, path);
	disk->unlinkat(dir_fd, path, AT_REMOVEDIR);
}

struct measure {
	uv_work_t work;
	struct store *store;
	struct buffer found; /* for each session with blobs: their size (8 bytes), its id, a NUL */
};

static uint64_t measure_folder(int sessions_fd, const char *id)
{
	char path[160];
	uint64_t sum = 0;
	snprintf(path, sizeof(path), "%s/blobs", id);
	int fd = disk_open_dir(sessions_fd, path);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		struct stat st;
		if (entry->d_name[0] != '.' &&
			fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
			sum += blob_room_for((uint64_t)st.st_size);
		}
	}
	if (dir) {
		closedir(dir);
	} else if (fd >= 0) {
		close(fd);
	}
	return sum;
}

static void measure_work(uv_work_t *work)
{
	struct measure *measure = work->data;
	struct store *store = measure->store;
	int fd = disk_open_dir(embedded_of(store)->sessions_fd, ".");
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	for (struct dirent *entry;
		dir && server_may(store->life, MAY_KEEP_UP) && (entry = readdir(dir));) {
		uint64_t size = entry->d_name[0] == '.' || strlen(entry->d_name) > 128
					? 0
					: measure_folder(fd, entry->d_name);
		if (size) {
			buffer_append(&measure->found, &size, sizeof(size));
			buffer_append(&measure->found, entry->d_name, strlen(entry->d_name) + 1);
		}
	}
	if (dir) {
		closedir(dir);
	} else if (fd >= 0) {
		close(fd);
	}
}

static void measure_done(uv_work_t *work, int status)
{
	struct measure *measure = work->data;
	for (size_t at = 0; at < measure->found.len;) {
		uint64_t size;
		memcpy(&size, measure->found.data + at, sizeof(size));
		const char *id = measure->found.data + at + sizeof(size);
		blobs_add(measure->store, id, (int64_t)size);
		at += sizeof(size) + strlen(id) + 1;
	}
	measure->store->jobs--;
	buffer_finish(&measure->found);
	free(measure);
}

void blob_files_begin(struct store *store)
{
	struct measure *measure = xcalloc(1, sizeof(*measure));
	remove_all(store->dir_fd, UPLOADS);
	measure->work.data = measure;
	measure->store = store;
	store->jobs++;
	uv_queue_work(store->loop, &measure->work, measure_work, measure_done);
}
