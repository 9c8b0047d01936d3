/*
 * One session's events.jsonl: append, index, the hot tail in memory, reads of pages on the thread
 * pool.
 */
#include "store_internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Logs kept open at once; beyond it the one that was not used for longest is closed. */
#define OPEN_LOGS_MAX 512

struct session_log *session_log_new(
	struct store *store, const char *id, uint64_t epoch, const char *title, int64_t created_at)
{
	struct session_log *log = xcalloc(1, sizeof(*log));
	log->store = store;
	log->id = xstrdup(id);
	log->title = xstrdup(title);
	log->epoch = epoch;
	log->created_at = log->updated_at = created_at;
	log->first_seq = 1;
	log->fd = -1;
	list_init(&log->fd_link);
	list_init(&log->wanted_link);
	list_append(&store->logs, &log->link);
	hash_put(store->by_id, id, strlen(id), log);
	return log;
}

static void close_fd(struct session_log *log)
{
	if (log->fd >= 0) {
		close(log->fd);
		log->fd = -1;
		list_remove(&log->fd_link);
		log->store->open_count--;
	}
}

static void drop_hot(struct session_log *log)
{
	struct event *event = log->hot[log->hot_head];
	log->hot_size -= event->json_len[FORMAT_MARKDOWN];
	event_unref(event);
	log->hot_head = (log->hot_head + 1) & (log->hot_capacity - 1);
	log->hot_count--;
}

void session_log_free(struct session_log *log)
{
	close_fd(log);
	while (log->hot_count) {
		drop_hot(log);
	}
	list_remove(&log->link);
	list_remove(&log->wanted_link);
	hash_remove(log->store->by_id, log->id, strlen(log->id));
	free(log->hot);
	free(log->offsets);
	buffer_finish(&log->unwritten);
	free(log->id);
	free(log->title);
	free(log);
}

int session_log_fd(struct session_log *log)
{
	struct store *store = log->store;
	if (log->fd >= 0) {
		list_remove(&log->fd_link);
		list_append(&store->open_logs, &log->fd_link);
		return log->fd;
	}
	if (store->open_count >= OPEN_LOGS_MAX) {
		close_fd(list_entry(store->open_logs.next, struct session_log, fd_link));
	}
	char path[160];
	snprintf(path, sizeof(path), "%s/events.jsonl", log->id);
	int fd = disk->openat(
		store->sessions_fd, path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0) {
		return -errno;
	}
	log->fd = fd;
	list_append(&store->open_logs, &log->fd_link);
	store->open_count++;
	return fd;
}

void session_log_index_add(struct session_log *log, size_t len)
{
	if (log->count == log->capacity) {
		log->capacity = log->capacity ? log->capacity * 2 : 16;
		log->offsets = xrealloc(log->offsets, log->capacity * sizeof(*log->offsets));
	}
	log->offsets[log->count++] = log->size;
	log->size += len;
}

/** Where the line of `seq` starts; the end of the log for last + 1. */
static uint64_t offset_of(const struct session_log *log, uint64_t seq)
{
	size_t i = (size_t)(seq - log->first_seq);
	return i < log->count ? log->offsets[i] : log->size;
}

static uint64_t hot_first(const struct session_log *log)
{
	return session_log_last_seq(log) - log->hot_count + 1;
}

static void add_hot(struct session_log *log, struct event *event)
{
	if (log->hot_count == log->hot_capacity) {
		size_t capacity = log->hot_capacity ? log->hot_capacity * 2 : 16;
		struct event **hot = xcalloc(capacity, sizeof(struct event *));
		for (size_t i = 0; i < log->hot_count; i++) {
			hot[i] = log->hot[(log->hot_head + i) & (log->hot_capacity - 1)];
		}
		free(log->hot);
		log->hot = hot;
		log->hot_head = 0;
		log->hot_capacity = capacity;
	}
	log->hot[(log->hot_head + log->hot_count++) & (log->hot_capacity - 1)] = event_ref(event);
	log->hot_size += event->json_len[FORMAT_MARKDOWN];
}

/** Drops the oldest of the hot tail beyond its size; what is not in the file yet stays. */
static void trim_hot(struct session_log *log)
{
	uint64_t written = log->size - log->unwritten.len;
	while (log->hot_count && log->hot_size > log->store->limits->hot_tail_size &&
		offset_of(log, hot_first(log) + 1) <= written) {
		drop_hot(log);
	}
}

void session_log_append(struct session_log *log, struct event *event, int64_t ts)
{
	assert(event->seq == session_log_last_seq(log) + 1);
	size_t before = log->unwritten.len;
	event_append_line(event, &log->unwritten);
	session_log_index_add(log, log->unwritten.len - before);
	add_hot(log, event);
	log->updated_at = ts;
	log->dirty = true;
}

int session_log_flush(struct session_log *log)
{
	int fd = log->unwritten.len ? session_log_fd(log) : 0;
	if (fd < 0) {
		return fd;
	}
	while (log->unwritten.len) {
		ssize_t n = disk->write(fd, log->unwritten.data, log->unwritten.len);
		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n < 0) {
			return -errno;
		}
		buffer_consume(&log->unwritten, (size_t)n);
	}
	trim_hot(log);
	return 0;
}

size_t session_log_get_hot(struct session_log *log, uint64_t from, size_t count, size_t max_bytes,
	struct event **events)
{
	uint64_t last = session_log_last_seq(log);
	if (!log->hot_count || from < hot_first(log) || from > last) {
		return 0;
	}
	size_t n = 0;
	size_t bytes = 0;
	for (uint64_t seq = from; seq <= last && n < count && bytes < max_bytes; seq++) {
		size_t i = log->hot_head + (size_t)(seq - hot_first(log));
		struct event *event = log->hot[i & (log->hot_capacity - 1)];
		assert(event->seq == seq);
		bytes += event->json_len[FORMAT_MARKDOWN];
		events[n++] = event_ref(event);
	}
	return n;
}

/* --- cold reads --- */

struct log_read {
	uv_work_t work;
	struct store *store;
	int fd; /* a duplicate: the log may be closed or removed meanwhile */
	uint64_t from;
	size_t count;
	uint64_t offset;
	size_t len;
	log_read_done done; /* NULL once cancelled */
	void *arg;
	int status;
	struct event **events;
	size_t got;
};

static int read_range(struct log_read *read, char *bytes)
{
	for (size_t at = 0; at < read->len;) {
		ssize_t n = disk->pread(
			read->fd, bytes + at, read->len - at, (off_t)(read->offset + at));
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

/** Runs on the thread pool. Every line is checked again, and its seq must be the one asked for. */
static void read_work(uv_work_t *work)
{
	struct log_read *read = work->data;
	char *bytes = xmalloc(read->len);
	read->status = read_range(read, bytes);
	const char *at = bytes;
	const char *end = bytes + read->len;
	while (read->status == 0 && read->got < read->count) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		struct event *event;
		read->status =
			newline ? event_from_line(at, (size_t)(newline - at), &event) : -EBADMSG;
		if (read->status == 0) {
			read->events[read->got++] = event;
			read->status = event->seq == read->from + read->got - 1 ? 0 : -EBADMSG;
			at = newline + 1;
		}
	}
	free(bytes);
	close(read->fd);
}

static void read_done(uv_work_t *work, int status)
{
	struct log_read *read = work->data;
	read->store->jobs--;
	if (read->done && read->status == 0) {
		read->done(read->arg, 0, read->events, read->got);
	} else {
		for (size_t i = 0; i < read->got; i++) {
			event_unref(read->events[i]);
		}
		if (read->done) {
			read->done(read->arg, read->status, NULL, 0);
		}
	}
	free(read->events);
	free(read);
}

/** How many events from `from` on fit: at most `count`, and the first one at least. */
static size_t page_count(
	const struct session_log *log, uint64_t from, size_t count, size_t max_bytes)
{
	uint64_t written = log->size - log->unwritten.len;
	uint64_t last = session_log_last_seq(log);
	size_t n = 0;
	while (n < count && from + n <= last && offset_of(log, from + n + 1) <= written &&
		(n == 0 || offset_of(log, from + n + 1) - offset_of(log, from) <= max_bytes)) {
		n++;
	}
	return n;
}

uint64_t session_log_page_start(
	const struct session_log *log, uint64_t from, uint64_t to, size_t max_bytes)
{
	while (from < to && offset_of(log, to + 1) - offset_of(log, from) > max_bytes) {
		from++;
	}
	return from;
}

struct log_read *session_log_read(struct session_log *log, uint64_t from, size_t count,
	size_t max_bytes, log_read_done done, void *arg)
{
	size_t n = from < log->first_seq ? 0 : page_count(log, from, count, max_bytes);
	if (!n) {
		return NULL;
	}
	struct log_read *read = xcalloc(1, sizeof(*read));
	int fd = session_log_fd(log);
	read->work.data = read;
	read->store = log->store;
	log->store->jobs++;
	read->fd = fd < 0 ? -1 : dup(fd);
	read->from = from;
	read->count = n;
	read->offset = offset_of(log, from);
	read->len = (size_t)(offset_of(log, from + n) - read->offset);
	read->events = xcalloc(n, sizeof(struct event *));
	read->done = done;
	read->arg = arg;
	/* A file that cannot be opened shows as a failed read, in the callback. */
	int r = uv_queue_work(log->store->loop, &read->work, read_work, read_done);
	assert(r == 0);
	return read;
}

void log_read_cancel(struct log_read *read)
{
	read->done = NULL;
}

/* --- looking --- */

const char *session_log_id(const struct session_log *log)
{
	return log->id;
}

uint64_t session_log_epoch(const struct session_log *log)
{
	return log->epoch;
}

const char *session_log_title(const struct session_log *log)
{
	return log->title;
}

int64_t session_log_created_at(const struct session_log *log)
{
	return log->created_at;
}

int64_t session_log_updated_at(const struct session_log *log)
{
	return log->updated_at;
}

uint64_t session_log_first_seq(const struct session_log *log)
{
	return log->first_seq;
}

uint64_t session_log_last_seq(const struct session_log *log)
{
	return log->first_seq + log->count - 1;
}
