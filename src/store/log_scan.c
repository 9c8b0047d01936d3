/* Reading a log line by line, from disk: what recovery and the makers of indexes do. */
#include "store_internal.h"

#include <errno.h>
#include <string.h>

#define CHUNK (256 * 1024)

/** Shows the whole lines in `bytes` to `see`, and leaves the rest of them. */
static int see_lines(struct buffer *bytes, uint64_t *offset, log_scan_line see, void *arg)
{
	size_t at = 0;
	int r = 0;
	const char *newline;
	while (r == 0 && (newline = memchr(bytes->data + at, '\n', bytes->len - at))) {
		size_t len = (size_t)(newline - bytes->data) - at;
		struct event_view view;
		bool good = event_parse_line(bytes->data + at, len, &view) == 0;
		r = see(arg, good ? &view : NULL, *offset, len + 1);
		at += len + 1;
		*offset += len + 1;
	}
	buffer_consume(bytes, at);
	return r;
}

int log_scan(int fd, uint64_t from, uint64_t to, log_scan_line see, void *arg)
{
	struct buffer bytes = {0};
	uint64_t offset = from; /* of what stands first in `bytes` */
	int r = 0;
	while (r == 0 && offset + bytes.len < to) {
		uint64_t left = to - offset - bytes.len;
		buffer_reserve(&bytes, CHUNK);
		ssize_t n = disk->pread(fd, bytes.data + bytes.len, left < CHUNK ? left : CHUNK,
			(off_t)(offset + bytes.len));
		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n <= 0) {
			r = n < 0 ? -errno : 0;
			break;
		}
		bytes.len += (size_t)n;
		r = see_lines(&bytes, &offset, see, arg);
	}
	buffer_finish(&bytes);
	return r;
}

/** How far back the last line is looked for at first. */
#define LAST_LINE_GUESS 4096

int log_check_last(int fd, uint64_t size, uint64_t seq)
{
	struct buffer bytes = {0};
	int r;
	for (size_t len = LAST_LINE_GUESS;; len *= 16) {
		len = len < size ? len : (size_t)size;
		buffer_clear(&bytes);
		buffer_reserve(&bytes, len);
		r = disk_read_at(fd, size - len, bytes.data, len);
		if (r < 0) {
			break;
		}
		const char *end = bytes.data + len - 1;
		const char *before = memrchr(bytes.data, '\n', len - 1);
		r = -EBADMSG;
		if (*end != '\n') {
			break;
		}
		if (!before && len < size) {
			continue; /* the line is longer */
		}
		const char *line = before ? before + 1 : bytes.data;
		struct event_view view;
		bool good = event_parse_line(line, (size_t)(end - line), &view) == 0;
		r = good && view.seq == seq ? 0 : -EBADMSG;
		break;
	}
	buffer_finish(&bytes);
	return r;
}
