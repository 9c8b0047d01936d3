/*
 * A failed fdatasync() is not to be repeated: the kernel may have dropped what it could not write
 * and takes it for written. So the bytes are written again, after they have been read back and
 * checked.
 */
#include "store_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int check_lines(const char *bytes, size_t len)
{
	const char *end = bytes + len;
	while (bytes < end) {
		struct event_view view;
		const char *newline = memchr(bytes, '\n', (size_t)(end - bytes));
		if (!newline || event_parse_line(bytes, (size_t)(newline - bytes), &view) < 0) {
			return -EBADMSG;
		}
		bytes = newline + 1;
	}
	return 0;
}

int log_rewrite(int dir_fd, uint64_t from, uint64_t to)
{
	/* Not the log's own descriptor, which appends wherever it stands. */
	int fd = disk->openat(dir_fd, "events.jsonl", O_RDWR | O_CLOEXEC, 0);
	if (fd < 0) {
		return -errno;
	}
	size_t len = (size_t)(to - from);
	char *bytes = xmalloc(len + 1);
	int r = disk_read_at(fd, from, bytes, len);
	if (r == 0) {
		r = check_lines(bytes, len);
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
