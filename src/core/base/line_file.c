#include "holdfast/line_file.h"

#include "holdfast/beneath.h"
#include "holdfast/sealed_line.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- writing --- */

int line_file_lock(const char *path)
{
	struct stat here;
	struct stat there;
	for (;;) {
		int fd = open_plain_path(path, O_RDWR | O_APPEND | O_CREAT, 0600);
		if (fd < 0 || flock(fd, LOCK_EX) < 0 || fstat(fd, &here) < 0) {
			int r = -errno;
			if (fd >= 0) {
				close(fd);
			}
			return r;
		}
		/* The file may have been replaced in the meantime. */
		if (lstat(path, &there) == 0 && here.st_ino == there.st_ino &&
			here.st_dev == there.st_dev) {
			return fd;
		}
		close(fd);
	}
}

/**
 * Finds out what to keep of what is behind the last newline. A crash can leave a part of a line, of
 * which nothing is kept. A whole line is one whose newline a disk has lost, or changed.
 */
static size_t count_kept(const char *tail, size_t len)
{
	size_t body;
	return !len                                      ? 0
	       : sealed_line_check(tail, len, &body)     ? len
	       : sealed_line_check(tail, len - 1, &body) ? len - 1
							 : 0;
}

static const char *find_tail(const struct buffer *bytes)
{
	const char *newline = bytes->len ? memrchr(bytes->data, '\n', bytes->len) : NULL;
	return newline ? newline + 1 : bytes->data;
}

void line_file_mend(struct buffer *bytes)
{
	const char *tail = find_tail(bytes);
	size_t before = bytes->len ? (size_t)(tail - bytes->data) : 0;
	size_t kept = count_kept(tail, bytes->len - before);
	if (kept) {
		bytes->len = before + kept;
		buffer_append_char(bytes, '\n');
	}
}

size_t line_file_torn(const struct buffer *bytes)
{
	return bytes->len ? bytes->len - (size_t)(find_tail(bytes) - bytes->data) : 0;
}

/** Gives the last line its newline, or cuts off what a crash left of one. */
static int mend_end(int fd)
{
	struct stat st;
	char last = '\n';
	if (fstat(fd, &st) < 0) {
		return -errno;
	}
	off_t end = st.st_size;
	while (end > 0 && pread(fd, &last, 1, end - 1) == 1 && last != '\n') {
		end--;
	}
	size_t len = (size_t)(st.st_size - end);
	if (!len) {
		return 0;
	}
	char *tail = xmalloc(len);
	bool is_read = pread(fd, tail, len, end) == (ssize_t)len;
	size_t kept = is_read ? count_kept(tail, len) : 0;
	free(tail);
	if (!is_read || ftruncate(fd, end + (off_t)kept) < 0) {
		return is_read ? -errno : -EIO;
	}
	return kept && write(fd, "\n", 1) != 1 ? -errno : 0;
}

static int write_all(int fd, const char *bytes, size_t len)
{
	while (len) {
		ssize_t n = write(fd, bytes, len);
		if (n < 0 && errno != EINTR) {
			return -errno;
		}
		bytes += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return fdatasync(fd) < 0 ? -errno : 0;
}

int line_file_append(const char *path, const char *lines, size_t len)
{
	int fd = line_file_lock(path);
	if (fd < 0) {
		return fd;
	}
	int r = mend_end(fd);
	off_t end = lseek(fd, 0, SEEK_END);
	if (r == 0) {
		r = write_all(fd, lines, len);
	}
	if (r < 0 && end >= 0 && ftruncate(fd, end) < 0) {
		r = -errno; /* a part may remain, as a torn line or one never acknowledged */
	}
	close(fd);
	return r;
}

int line_file_replace(const char *path, const struct buffer *lines)
{
	char *name = xprintf("%s.new", path);
	char *dir = xstrndup(path, (size_t)(strrchr(path, '/') - path));
	int fd = open_plain_path(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	int r = fd < 0 ? -errno : write_all(fd, lines->data, lines->len);
	if (r == 0 && rename(name, path) < 0) {
		r = -errno;
	}
	if (fd >= 0) {
		close(fd);
	}
	if (r == 0) {
		int dir_fd = open_named(dir, O_RDONLY | O_DIRECTORY, 0);
		r = dir_fd < 0 || fsync(dir_fd) < 0 ? -errno : 0;
		if (dir_fd >= 0) {
			close(dir_fd);
		}
	}
	free(name);
	free(dir);
	return r;
}

/* --- reading --- */

int line_file_read_all(int fd, struct buffer *ret)
{
	struct stat st;
	if (fstat(fd, &st) < 0) {
		return -errno;
	}
	if ((uint64_t)st.st_size > LINE_FILE_MAX) {
		return -EFBIG;
	}
	buffer_reserve(ret, (size_t)st.st_size + 1);
	ssize_t n = pread(fd, ret->data, (size_t)st.st_size, 0);
	ret->len = n > 0 ? (size_t)n : 0;
	return n < 0 ? -errno : 0;
}

int line_file_read(const char *path, struct buffer *ret)
{
	int fd = open_plain_path(path, O_RDONLY, 0);
	if (fd < 0) {
		return errno == ENOENT ? 0 : -errno;
	}
	int r = line_file_read_all(fd, ret);
	close(fd);
	if (r == 0) {
		line_file_mend(ret);
	}
	return r;
}

/* --- changing --- */

int line_file_change(const char *path,
	int (*change)(void *arg, const struct buffer *lines, struct buffer *ret_kept), void *arg)
{
	struct buffer bytes = {0};
	struct buffer kept = {0};
	int fd = line_file_lock(path);
	int r = fd < 0 ? fd : mend_end(fd);
	r = r < 0 ? r : line_file_read_all(fd, &bytes);
	r = r < 0 ? r : change(arg, &bytes, &kept);
	bool is_same = bytes.len == kept.len &&
		       (kept.len == 0 || memcmp(bytes.data, kept.data, kept.len) == 0);
	if (r == 0 && !is_same) {
		r = line_file_replace(path, &kept);
	}
	if (fd >= 0) {
		close(fd);
	}
	buffer_finish(&bytes);
	buffer_finish(&kept);
	return r;
}
