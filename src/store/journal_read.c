/* The journal's read side. Nothing in a segment is trusted before its checksum has been seen. */
#include "store_internal.h"

#include "holdfast/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int read_file(int dir_fd, const char *name, struct buffer *out)
{
	int fd = disk->openat(dir_fd, name, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0) {
		return -errno;
	}
	int r = 0;
	for (;;) {
		buffer_reserve(out, 1 << 16);
		ssize_t n = disk->read(fd, out->data + out->len, out->cap - out->len);
		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n <= 0) {
			r = n < 0 ? -errno : 0;
			break;
		}
		out->len += (size_t)n;
	}
	close(fd);
	return r;
}

int journal_reader_open(struct journal_reader *reader, int dir_fd, const char *name)
{
	*reader = (struct journal_reader){0};
	int r = read_file(dir_fd, name, &reader->bytes);
	if (r < 0) {
		journal_reader_close(reader);
		return r;
	}
	struct unpack in = {.bytes = reader->bytes.data, .len = reader->bytes.len};
	if (in.len < JOURNAL_HEADER_SIZE || memcmp(in.bytes, JOURNAL_MAGIC, 8) != 0) {
		return -EBADMSG;
	}
	uint64_t sum = journal_checksum(in.bytes, JOURNAL_HEADER_SIZE - 8);
	in.bytes += JOURNAL_HEADER_SIZE - 8;
	if (unpack_le(&in, 8) != sum) {
		return -EBADMSG;
	}
	reader->at = reader->valid = JOURNAL_HEADER_SIZE;
	return 0;
}

void journal_reader_close(struct journal_reader *reader)
{
	buffer_finish(&reader->bytes);
}

int journal_reader_next(struct journal_reader *reader, struct record *ret_record)
{
	struct unpack in = {
		.bytes = reader->bytes.data + reader->at,
		.len = reader->bytes.len - reader->at,
	};
	uint64_t sum = unpack_le(&in, 8);
	const char *guarded = in.bytes;
	size_t body = (size_t)unpack_le(&in, 4);
	struct record record = {.kind = (enum record_kind)unpack_le(&in, 2)};
	record.id_len = (size_t)unpack_le(&in, 2);
	if (in.failed || in.len < body || body < 16 + record.id_len ||
		journal_checksum(guarded, RECORD_HEADER_SIZE - 8 + body) != sum) {
		return 0;
	}
	record.epoch = unpack_le(&in, 8);
	record.ts = (int64_t)unpack_le(&in, 8);
	record.id = in.bytes;
	record.data = in.bytes + record.id_len;
	record.data_len = body - 16 - record.id_len;
	reader->at += RECORD_HEADER_SIZE + body;
	reader->valid = reader->at;
	*ret_record = record;
	return 1;
}

bool journal_reader_has_tail(const struct journal_reader *reader)
{
	return reader->valid < reader->bytes.len;
}
