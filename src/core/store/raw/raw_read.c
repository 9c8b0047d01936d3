/*
 * Reads raw streams on the thread pool, one page at a time, from the file of a stream and those of
 * its sources. The loop collects the chain of sources once for each page; the thread touches no
 * stream.
 */
#include "raw_internal.h"

#include "holdfast/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Bytes of a read beyond the first page, to find the end of a longer message, and of a read in
 * raw_find().
 */
#define FIND_SIZE ((size_t)1024 * 1024)

/** A range of positions that is in one file. */
struct part {
	uint64_t id; /* of the stream whose file it is */
	uint64_t from;
	uint64_t to;
	uint64_t start; /* position of the file's first byte */
};

struct raw_read {
	uv_work_t work;
	struct raw_store *store;
	int data_fd;
	bool is_json;
	bool keeps_text;
	bool counts; /* raw_find(): look for a position */
	uint64_t count; /* messages to skip */
	uint64_t from;
	uint64_t to; /* the end of the stream */
	struct part parts[RAW_DEPTH_MAX + 1]; /* of the stream and its sources, newest first */
	size_t part_count;
	struct raw_page *page;
	int status;
	void (*done)(void *arg, struct raw_page *page, int status); /* NULL: cancelled */
	void *arg;
	atomic_bool is_unwanted; /* the same, for the thread pool */
};

struct raw_page *raw_page_new(uint64_t from, const char *bytes, size_t len)
{
	struct raw_page *page = xcalloc(1, sizeof(*page));
	page->refs = 1;
	page->from = from;
	page->to = from + len;
	buffer_append(&page->bytes, bytes, len);
	return page;
}

void raw_page_unref(struct raw_page *page)
{
	if (--page->refs == 0) {
		if (page->shown) {
			page->drop_shown(page->shown);
		}
		buffer_finish(&page->bytes);
		free(page);
	}
}

/* --- thread pool --- */

static int read_part(const struct raw_read *read, const struct part *part, uint64_t from,
	uint64_t to, char *bytes)
{
	char name[RAW_FILE_NAME_SIZE];
	raw_data_name(name, part->id);
	int fd = disk->openat(read->data_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0);
	if (fd < 0) {
		return -errno;
	}
	int r = disk_read_at(fd, from - part->start, bytes, (size_t)(to - from));
	close(fd);
	return r;
}

/** Appends the bytes between two positions to `out`. */
static int read_bytes(const struct raw_read *read, uint64_t from, uint64_t to, struct buffer *out)
{
	size_t len = (size_t)(to - from);
	buffer_reserve(out, len);
	for (size_t i = 0; i < read->part_count; i++) {
		const struct part *part = &read->parts[i];
		uint64_t begin = from > part->from ? from : part->from;
		uint64_t end = to < part->to ? to : part->to;
		int r = begin < end ? read_part(read, part, begin, end,
					      out->data + out->len + (begin - from))
				    : 0;
		if (r < 0) {
			return r;
		}
	}
	out->len += len;
	return 0;
}

/** Returns -EINVAL if read->from is not the beginning of a JSON message. */
static int check_begin(const struct raw_read *read)
{
	struct buffer before = {0};
	if (!read->is_json || !read->from) {
		return 0;
	}
	int r = read_bytes(read, read->from - 1, read->from, &before);
	if (r == 0 && before.data[0] != '\n') {
		r = -EINVAL;
	}
	buffer_finish(&before);
	return r;
}

/**
 * Returns how many of the bytes to keep so that they end with a whole message or character; 0:
 * none.
 */
static size_t whole_len(const struct raw_read *read, const struct buffer *bytes)
{
	size_t len = bytes->len;
	if (read->is_json) {
		const char *end = memrchr(bytes->data, '\n', len);
		return end ? (size_t)(end - bytes->data) + 1 : 0;
	}
	size_t half = read->keeps_text ? utf8_half(bytes->data, len) : 0;
	return len > half ? len - half : len;
}

static int read_page(struct raw_read *read)
{
	struct buffer *bytes = &read->page->bytes;
	uint64_t at = read->from;
	size_t step = RAW_PAGE_SIZE;
	int r = check_begin(read);
	while (r == 0 && at < read->to && !read->is_unwanted) {
		uint64_t end = read->to - at > step ? at + step : read->to;
		r = read_bytes(read, at, end, bytes);
		at = end;
		step = FIND_SIZE;
		size_t len = r < 0 || at == read->to ? bytes->len : whole_len(read, bytes);
		if (len) {
			bytes->len = len;
			break;
		}
	}
	read->page->to = read->from + bytes->len;
	return r;
}

static int find_message(struct raw_read *read)
{
	uint64_t at = read->from;
	uint64_t left = read->count;
	int r = check_begin(read);
	while (r == 0 && left && at < read->to && !read->is_unwanted) {
		struct buffer bytes = {0};
		uint64_t end = read->to - at > FIND_SIZE ? at + FIND_SIZE : read->to;
		r = read_bytes(read, at, end, &bytes);
		const char *from = bytes.data;
		for (const char *next;
			r == 0 && left &&
			(next = memchr(from, '\n', bytes.len - (size_t)(from - bytes.data)));) {
			from = next + 1;
			left--;
		}
		at = left ? end : at + (uint64_t)(from - bytes.data);
		buffer_finish(&bytes);
	}
	read->page->to = at;
	return r < 0 ? r : left ? -EINVAL : 0;
}

static void work(uv_work_t *work)
{
	struct raw_read *read = work->data;
	read->status = read->counts ? find_message(read) : read_page(read);
}

/* --- loop --- */

static void handle_read(uv_work_t *work, int status)
{
	struct raw_read *read = work->data;
	struct raw_page *page = read->page;
	read->store->reads--;
	if (read->done) {
		page->refs++;
		read->done(read->arg, read->status < 0 ? NULL : page, read->status);
		if (read->status < 0) {
			raw_page_unref(page);
		}
	}
	raw_page_unref(page);
	free(read);
}

/** Collects the files that have the bytes up to read->to. */
static void find_parts(struct raw_read *read, const struct raw_stream *stream)
{
	uint64_t to = read->to;
	for (; stream && read->part_count <= RAW_DEPTH_MAX; stream = stream->source) {
		if (to > stream->start) {
			read->parts[read->part_count++] = (struct part){.id = stream->id,
				.from = stream->start,
				.to = to,
				.start = stream->start};
			to = stream->start;
		}
	}
}

static struct raw_read *begin(struct raw_store *store, const char *name, uint64_t from,
	void (*done)(void *arg, struct raw_page *page, int status), void *arg)
{
	struct raw_read *read = xcalloc(1, sizeof(*read));
	struct raw_stream *stream = NULL;
	enum raw_result result = raw_find_stream(store, name, true, &stream);
	read->store = store;
	read->work.data = read;
	read->done = done;
	read->arg = arg;
	read->from = from;
	read->page = raw_page_new(from, "", 0);
	read->data_fd = store->journal.dirs.data_fd;
	read->status = result == RAW_DONE      ? 0
		       : result == RAW_FAILED  ? -EIO
		       : result == RAW_DAMAGED ? -EBADMSG
					       : -ENOENT;
	if (result == RAW_DONE) {
		read->is_json = stream->is_json;
		read->to = stream->shown_length;
		read->status = from > read->to ? -EINVAL : 0;
		find_parts(read, stream);
	}
	return read;
}

static void refuse_work(uv_work_t *work)
{
	/* read->status already has the error; done() must still be called later. */
}

static struct raw_read *queue(struct raw_read *read)
{
	read->store->reads++;
	uv_queue_work(read->store->config.loop, &read->work, read->status < 0 ? refuse_work : work,
		handle_read);
	return read;
}

struct raw_read *raw_read(struct raw_store *store, const char *name, uint64_t from, bool keeps_text,
	void (*done)(void *arg, struct raw_page *page, int status), void *arg)
{
	struct raw_read *read = begin(store, name, from, done, arg);
	read->keeps_text = keeps_text;
	return queue(read);
}

struct raw_read *raw_find(struct raw_store *store, const char *name, uint64_t from, uint64_t count,
	void (*done)(void *arg, struct raw_page *page, int status), void *arg)
{
	struct raw_read *read = begin(store, name, from, done, arg);
	read->counts = true;
	read->count = count;
	return queue(read);
}

void raw_read_cancel(struct raw_read *read)
{
	read->done = NULL;
	read->is_unwanted = true;
}
