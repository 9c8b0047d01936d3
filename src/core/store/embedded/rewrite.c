/*
 * Rewrites parts of files after a failed fdatasync(). Calling fdatasync() again is not enough: the
 * kernel may have dropped the bytes and taken them for written. So they are read back, checked and
 * written again before the next sync.
 */
#include "embedded.h"

#include "holdfast/sealed_line.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef bool (*is_line)(const char *line, size_t len);

static bool is_event(const char *line, size_t len)
{
	struct event_view view;
	return event_parse_line(line, len, &view) == 0;
}

static bool is_name(const char *line, size_t len)
{
	size_t body;
	return sealed_line_check(line, len, &body);
}

static int check_lines(const char *bytes, size_t len, is_line is_good)
{
	const char *end = bytes + len;
	while (bytes < end) {
		const char *newline = memchr(bytes, '\n', (size_t)(end - bytes));
		if (!newline || !is_good(bytes, (size_t)(newline - bytes))) {
			return -EBADMSG;
		}
		bytes = newline + 1;
	}
	return 0;
}

/**
 * Rewrites the bytes between two offsets. `is_good` NULL: no check, readers of this file check it.
 */
static int rewrite(int dir_fd, const char *name, uint64_t from, uint64_t to, is_line is_good)
{
	if (from >= to) {
		return 0;
	}
	/* The log's own descriptor is no use: it is in append mode. */
	int fd = disk->openat(dir_fd, name, O_RDWR | O_CLOEXEC, 0);
	if (fd < 0) {
		return -errno;
	}
	size_t len = (size_t)(to - from);
	char *bytes = xmalloc(len);
	int r = disk_read_at(fd, from, bytes, len);
	if (r == 0 && is_good) {
		r = check_lines(bytes, len, is_good);
	}
	if (r == 0 && lseek(fd, (off_t)from, SEEK_SET) < 0) {
		r = -errno;
	}
	if (r == 0) {
		r = disk_write_all(fd, bytes, len);
	}
	free(bytes);
	close(fd);
	return r;
}

int journal_rewrite(int dir_fd, const char *name, uint64_t from, uint64_t to)
{
	return rewrite(dir_fd, name, from, to, NULL);
}

int log_rewrite(int dir_fd, uint64_t from, uint64_t to)
{
	return rewrite(dir_fd, "events.jsonl", from, to, is_event);
}

int log_keys_rewrite(int dir_fd, uint64_t from, uint64_t to)
{
	return rewrite(dir_fd, "keys.jsonl", from, to, is_name);
}

int log_index_rewrite(int dir_fd, uint64_t from, uint64_t to)
{
	return rewrite(dir_fd, "events.index", from, to, NULL);
}
