/* Complete reads, writes, appends, replacements and listings, built on the calls of disk.h. */
#include "store_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int disk_open_dir(int dir_fd, const char *name)
{
	return disk->openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
}

static DIR *open_list(int dir_fd, const char *name)
{
	int fd = disk_open_dir(dir_fd, name);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (fd >= 0 && !dir) {
		int err = errno;
		close(fd);
		errno = err;
	}
	return dir;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int disk_list(int dir_fd, const char *name, bool (*is_wanted)(const char *name), char ***ret_names,
	size_t *ret_count)
{
	char **names = NULL;
	size_t count = 0;
	struct dirent *entry;
	DIR *dir = open_list(dir_fd, name);
	*ret_names = NULL;
	*ret_count = 0;
	if (!dir) {
		return -errno;
	}
	while ((errno = 0, entry = readdir(dir))) {
		if (entry->d_name[0] != '.' && (!is_wanted || is_wanted(entry->d_name))) {
			names = xrealloc(names, (count + 1) * sizeof(*names));
			names[count++] = xstrdup(entry->d_name);
		}
	}
	int r = -errno;
	closedir(dir);
	if (count) {
		qsort(names, count, sizeof(*names), compare_names);
	}
	if (r < 0) {
		disk_list_free(names, count);
		return r;
	}
	*ret_names = names;
	*ret_count = count;
	return 0;
}

void disk_list_free(char **names, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(names[i]);
	}
	free(names);
}

static int read_first(int fd, size_t most, struct buffer *out)
{
	while (out->len < most) {
		buffer_reserve(out, 1 << 16);
		ssize_t n = disk->read(fd, out->data + out->len, out->cap - out->len);
		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n <= 0) {
			return n < 0 ? -errno : 0;
		}
		out->len += (size_t)n;
	}
	return 0;
}

int disk_read_file(int dir_fd, const char *name, size_t most, struct buffer *out)
{
	int fd = disk->openat(dir_fd, name, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0) {
		return -errno;
	}
	int r = read_first(fd, most, out);
	close(fd);
	return r;
}

int disk_read_whole(int dir_fd, const char *name, size_t most, struct buffer *out)
{
	struct stat st;
	int fd = disk->openat(dir_fd, name, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0) {
		return -errno;
	}
	int r = fstat(fd, &st) < 0 ? -errno : (uint64_t)st.st_size > most ? -EFBIG : 0;
	r = r < 0 ? r : read_first(fd, SIZE_MAX, out);
	close(fd);
	return r;
}

int disk_read_at(int fd, uint64_t offset, void *bytes, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = disk->pread(fd, (char *)bytes + at, len - at, (off_t)(offset + at));
		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n <= 0) {
			return n < 0 ? -errno : -EBADMSG;
		}
		at += (size_t)n;
	}
	return 0;
}

int disk_write_all(int fd, const void *bytes, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = disk->write(fd, (const char *)bytes + at, len - at);
		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n < 0) {
			return -errno;
		}
		at += (size_t)n;
	}
	return 0;
}

/** Checks that the file has the bytes that count, and cuts off those after them. */
static int look_at_file(const struct file_append *append, int fd)
{
	struct stat st;
	if (fstat(fd, &st) < 0) {
		return -errno;
	}
	if ((uint64_t)st.st_size < append->size) {
		return -EBADMSG;
	}
	if ((uint64_t)st.st_size > append->size && disk->ftruncate(fd, (off_t)append->size) < 0) {
		return -errno;
	}
	char head[64];
	size_t len = append->head.len;
	int r = disk_read_at(fd, 0, head, len);
	return r == 0 && len && memcmp(head, append->head.data, len) != 0 ? -EBADMSG : r;
}

static int append_to(struct file_append *append, int fd)
{
	int r = append->is_seen ? 0 : look_at_file(append, fd);
	if (r < 0) {
		return r;
	}
	r = disk_write_all(fd, append->bytes.data, append->bytes.len);
	if (r < 0) {
		(void)!disk->ftruncate(fd, (off_t)append->size);
	}
	return r;
}

void file_append_run(struct file_append *append, int sessions_fd, const char *id)
{
	if (!append->bytes.len) {
		return;
	}
	char path[160];
	snprintf(path, sizeof(path), "%s/%s", id, append->name);
	int flags = O_RDWR | O_APPEND | O_CLOEXEC | (append->size ? 0 : O_CREAT);
	int fd = disk->openat(sessions_fd, path, flags, 0600);
	if (fd < 0) {
		append->status = errno == ENOENT ? -EBADMSG : -errno;
		return;
	}
	append->is_new = !append->size;
	append->status = append_to(append, fd);
	close(fd);
}

void file_append_finish(struct file_append *append)
{
	buffer_finish(&append->bytes);
	buffer_finish(&append->head);
}

int disk_sync(int dir_fd, const char *name, int flags)
{
	int fd = disk->openat(dir_fd, name, flags | O_CLOEXEC, 0);
	if (fd < 0) {
		return -errno;
	}
	int r = (flags & O_DIRECTORY ? disk->fsync(fd) : disk->fdatasync(fd)) < 0 ? -errno : 0;
	close(fd);
	return r;
}

int disk_write_new(int dir_fd, const char *name, const struct buffer *bytes, bool sync)
{
	char fresh[64];
	snprintf(fresh, sizeof(fresh), "%s.new", name);
	int fd = disk->openat(dir_fd, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0) {
		return -errno;
	}
	int r = disk_write_all(fd, bytes->data, bytes->len);
	if (r == 0 && sync && disk->fdatasync(fd) < 0) {
		r = -errno;
	}
	close(fd);
	return r;
}

int disk_put_new(int dir_fd, const char *name, bool sync)
{
	char fresh[64];
	snprintf(fresh, sizeof(fresh), "%s.new", name);
	int r = disk->renameat(dir_fd, fresh, dir_fd, name) < 0 ? -errno : 0;
	return r == 0 && sync && disk->fsync(dir_fd) < 0 ? -errno : r;
}

int disk_replace(int dir_fd, const char *name, const struct buffer *bytes, bool sync)
{
	int r = disk_write_new(dir_fd, name, bytes, sync);
	return r < 0 ? r : disk_put_new(dir_fd, name, sync);
}
