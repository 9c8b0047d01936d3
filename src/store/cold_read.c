/*
 * Reads of events that are not in memory: the index gives the place, the lines are read and checked,
 * all on the thread pool.
 */
#include "store_internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct cold_read {
	struct log_read *base;
	uv_work_t work;
	struct list link; /* session_log.waiting, while the index is made again */
	uint64_t first_seq; /* of the file */
	uint64_t log_size;
	uint64_t *offsets; /* where the events start, and where the last of them ends */
	size_t indexed; /* how many of the offsets are in the index file */
	bool is_unseen; /* nobody has looked at that in this life */
	bool is_second; /* the index was made again since the first try */
};

/* --- on the thread pool --- */

/** Chooses what fits: of the events from *first on, *count are left. */
static int choose_range(const struct cold_read *read, size_t *first, size_t *count)
{
	const uint64_t *at = read->offsets;
	size_t n = read->base->count;
	for (size_t i = 0; i < n; i++) {
		if (at[i] >= at[i + 1]) {
			return -ESTALE;
		}
	}
	if (at[n] > read->log_size) {
		return -ESTALE;
	}
	*first = 0;
	*count = n;
	size_t least = read->base->hot_count ? 0 : 1;
	if (read->base->page.is_fixed_at_end) {
		while (*count > least && at[n] - at[*first] > read->base->max_bytes) {
			(*first)++;
			(*count)--;
		}
	} else {
		while (*count > 1 && at[*count] - at[0] > read->base->max_bytes) {
			(*count)--;
		}
	}
	return 0;
}

/** Every line is checked again, and its seq must be the one asked for. */
static int parse_lines(struct cold_read *read, const char *bytes, size_t first, size_t count)
{
	const uint64_t *at = read->offsets + first;
	for (size_t i = 0; i < count; i++) {
		const char *line = bytes + (at[i] - at[0]);
		size_t len = (size_t)(at[i + 1] - at[i]) - 1;
		struct event *event;
		if (line[len] != '\n' || event_from_line(line, len, &event) < 0) {
			return -ESTALE;
		}
		read->base->events[read->base->got++] = event;
		if (event->seq != read->base->page.from + first + i) {
			return -ESTALE;
		}
	}
	return 0;
}

static int read_lines(struct cold_read *read, int fd)
{
	size_t first;
	size_t count;
	int r = choose_range(read, &first, &count);
	if (r < 0 || !count) {
		return r;
	}
	size_t len = (size_t)(read->offsets[first + count] - read->offsets[first]);
	char *bytes = malloc(len);
	if (!bytes) {
		return -ENOMEM;
	}
	r = disk_read_at(fd, read->offsets[first], bytes, len);
	if (r == 0) {
		r = parse_lines(read, bytes, first, count);
	}
	free(bytes);
	read->base->bytes = len;
	return r == -EBADMSG ? -ESTALE : r;
}

static int open_file(const struct cold_read *read, const char *name)
{
	char path[160];
	snprintf(path, sizeof(path), "%s/%s", read->base->id, name);
	int fd = disk->openat(read->base->store->sessions_fd, path, O_RDONLY | O_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

static int read_index(struct cold_read *read)
{
	int fd = open_file(read, "events.index");
	if (fd < 0) {
		return fd == -ENOENT ? -ESTALE : fd;
	}
	uint64_t epoch = read->base->epoch;
	uint64_t first_seq = read->first_seq;
	int r = read->is_unseen ? log_index_read_header(fd, &epoch, &first_seq) : 0;
	if (r == -EBADMSG || epoch != read->base->epoch || first_seq != read->first_seq) {
		r = -ESTALE;
	}
	r = r < 0 ? r
		  : log_index_read(fd, read->first_seq, read->base->page.from, read->offsets,
			    read->indexed);
	close(fd);
	return r;
}

static void read_work(uv_work_t *work)
{
	struct cold_read *read = work->data;
	if (read->base->status == 0 && read->indexed) {
		read->base->status = read_index(read);
	}
	int fd = read->base->status < 0 ? -1 : open_file(read, "events.jsonl");
	if (read->base->status == 0) {
		read->base->status = fd < 0 ? fd : read_lines(read, fd);
	}
	if (fd >= 0) {
		close(fd);
	}
}

/* --- on the loop --- */

static void finish(struct cold_read *read)
{
	struct log_read *base = read->base;
	free(read->offsets);
	free(read);
	log_read_end(base);
}

static void start(struct session_log *log, struct cold_read *read);

/** The index does not fit: it is made again, once in the life of a log, and the read goes on. */
static void retry(struct cold_read *read)
{
	struct session_log *log =
		session_log_of(read->base->store, read->base->id, read->base->epoch);
	log_read_drop(read->base);
	if (log && read->base->done && log->base_seq != read->first_seq) {
		start(log, read); /* another file has been put in the log's place */
		return;
	}
	bool is_first = !read->is_second && log && read->base->done;
	read->base->status = -EBADMSG;
	if (is_first && log->index.was_built && log->index.state == INDEX_GOOD) {
		is_first = false;
	}
	if (!is_first) {
		finish(read);
		return;
	}
	log_index_build(log);
	list_append(&log->waiting, &read->link);
}

static void read_done(uv_work_t *work, int status)
{
	struct cold_read *read = work->data;
	read->base->store->jobs--;
	if (read->base->status == 0 &&
		!session_log_of(read->base->store, read->base->id, read->base->epoch)) {
		read->base->status = -ENOENT; /* what has been read may be of another of its name */
	}
	if (read->base->status == -ESTALE) {
		retry(read);
	} else {
		finish(read);
	}
}

static void queue(struct cold_read *read)
{
	read->work.data = read;
	read->base->store->jobs++;
	int r = uv_queue_work(read->base->store->loop, &read->work, read_work, read_done);
	assert(r == 0);
}

/** Fills in the offsets that are in memory; the others precede them. */
static void take_offsets(struct session_log *log, struct cold_read *read)
{
	uint64_t fresh = log_index_first_fresh(log);
	read->indexed = 0;
	read->is_unseen = log->index.state == INDEX_UNSEEN;
	read->log_size = log->size;
	for (size_t i = 0; i <= read->base->count; i++) {
		uint64_t seq = read->base->page.from + i;
		if (seq == session_log_hot_first(log)) {
			read->offsets[i] = log->hot_count ? log->hot_offset : log->size;
		} else if (seq >= fresh) {
			read->offsets[i] = log_index_fresh_at(log, seq);
		} else {
			read->indexed = i + 1;
		}
	}
}

static void start(struct session_log *log, struct cold_read *read)
{
	read->first_seq = log->base_seq;
	read->base->status = 0;
	if (read->base->page.from < log->first_seq) {
		read->base->status = -ENOENT; /* pruned while it waited */
	} else if (log->index.state == INDEX_BUILDING) {
		list_append(&log->waiting, &read->link);
		return;
	} else if (log->index.state == INDEX_LOST) {
		read->base->status = -ESTALE;
	} else {
		take_offsets(log, read);
	}
	queue(read);
}

void log_reads_resume(struct session_log *log, int status)
{
	struct list due;
	list_init(&due);
	list_move_all(&due, &log->waiting);
	while (!list_empty(&due)) {
		struct cold_read *read = list_entry(due.next, struct cold_read, link);
		list_remove(&read->link);
		read->is_second = true;
		read->base->status = status;
		if (status == 0) {
			start(log, read);
		} else {
			queue(read); /* it fails, but not in here */
		}
	}
}

void cold_read_start(struct session_log *log, struct log_read *base)
{
	struct cold_read *read = xcalloc(1, sizeof(*read));
	read->base = base;
	list_init(&read->link);
	read->offsets = xcalloc(base->count + 1, sizeof(*read->offsets));
	start(log, read);
}
