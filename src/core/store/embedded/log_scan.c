/* Reads files of lines piece by piece, and gives them line by line. Any thread. */
#include "embedded.h"

#include "holdfast/store_files.h"

#include <errno.h>
#include <string.h>

#define READ_SIZE ((size_t)256 * 1024)
/* Events are at most 64 MiB (the limit event_size), and JSON may need six bytes for one. */
#define LINE_MAX_SIZE ((size_t)512 << 20)

void log_lines_begin(struct log_lines *lines, int fd, uint64_t from, uint64_t to)
{
	*lines = (struct log_lines){.fd = fd, .offset = from, .end = to};
}

/** Reads more of the file. Returns the number of bytes, 0 at the end, or a negative errno. */
static ssize_t read_more(struct log_lines *lines)
{
	struct buffer *bytes = &lines->bytes;
	buffer_consume(bytes, lines->at);
	lines->at = 0;
	if (bytes->len > LINE_MAX_SIZE) {
		return -EMSGSIZE;
	}
	uint64_t at = lines->offset + bytes->len;
	uint64_t left = at < lines->end ? lines->end - at : 0;
	buffer_reserve(bytes, READ_SIZE);
	ssize_t n;
	do {
		n = disk->pread(lines->fd, bytes->data + bytes->len,
			left < READ_SIZE ? (size_t)left : READ_SIZE, (off_t)at);
	} while (n < 0 && errno == EINTR);
	if (n > 0) {
		bytes->len += (size_t)n;
	}
	return n < 0 ? -errno : n;
}

int log_lines_next(struct log_lines *lines, const char **ret_line, size_t *ret_len)
{
	struct buffer *bytes = &lines->bytes;
	size_t searched = 0; /* bytes of the line that have no newline in them */
	for (;;) {
		const char *line = bytes->data + lines->at;
		size_t have = bytes->len - lines->at;
		const char *newline =
			have > searched ? memchr(line + searched, '\n', have - searched) : NULL;
		if (newline) {
			*ret_line = line;
			*ret_len = (size_t)(newline - line);
			lines->at += *ret_len + 1;
			lines->offset += *ret_len + 1;
			lines->number++;
			return 1;
		}
		searched = have;
		ssize_t n = read_more(lines);
		if (n <= 0) {
			return (int)n;
		}
	}
}

size_t log_lines_rest(const struct log_lines *lines)
{
	return lines->bytes.len - lines->at;
}

int log_scan(int fd, uint64_t from, uint64_t to, log_scan_line see, void *arg)
{
	struct log_lines lines;
	const char *line;
	size_t len;
	int found = 0;
	int r = 0;
	log_lines_begin(&lines, fd, from, to);
	while (r == 0 && (found = log_lines_next(&lines, &line, &len)) > 0) {
		struct event_view view;
		bool good = event_parse_line(line, len, &view) == 0;
		r = see(arg, good ? &view : NULL, lines.offset - len - 1, len + 1);
	}
	buffer_finish(&lines.bytes);
	/* A line that is too long is damage, and so is everything after it: the scan ends well. */
	return r == 0 && found < 0 && found != -EMSGSIZE ? found : r;
}

/** How many bytes at the end of the file are searched first for its last line. */
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
			continue; /* the line is longer: search more */
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
