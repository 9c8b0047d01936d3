/*
 * Reads of pages that are not in memory: the index gives the place, the lines are read and checked,
 * all on the thread pool; then they are rendered, if the page is asked for in another format. The
 * part of a page that is in memory is taken from there.
 */
#include "store_internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct log_read {
	uv_work_t work;
	struct list link; /* session_log.waiting, while the index is made again */
	struct store *store;
	char *id;
	uint64_t epoch;
	struct log_page page;
	log_read_done done; /* NULL once cancelled */
	void *arg;

	/* The part that is read. */
	uint64_t first_seq; /* of the file */
	uint64_t log_size;
	size_t count; /* events */
	uint64_t *offsets; /* where they start, and where the last of them ends */
	size_t indexed; /* how many of the offsets are in the index file */
	bool is_unseen; /* nobody has looked at that in this life */
	size_t max_bytes;
	int status;
	bool is_second; /* the index was made again since the first try */

	struct page_render render;
	struct event **events; /* what was read, and then what was in memory */
	size_t got;
	struct event **hot;
	size_t hot_count;
};

/* --- on the thread pool --- */

/** Chooses what fits: of the events from *first on, *count are left. */
static int choose_range(const struct log_read *read, size_t *first, size_t *count)
{
	const uint64_t *at = read->offsets;
	size_t n = read->count;
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
	size_t least = read->hot_count ? 0 : 1;
	if (read->page.is_fixed_at_end) {
		while (*count > least && at[n] - at[*first] > read->max_bytes) {
			(*first)++;
			(*count)--;
		}
	} else {
		while (*count > 1 && at[*count] - at[0] > read->max_bytes) {
			(*count)--;
		}
	}
	return 0;
}

/** Every line is checked again, and its seq must be the one asked for. */
static int parse_lines(struct log_read *read, const char *bytes, size_t first, size_t count)
{
	const uint64_t *at = read->offsets + first;
	for (size_t i = 0; i < count; i++) {
		const char *line = bytes + (at[i] - at[0]);
		size_t len = (size_t)(at[i + 1] - at[i]) - 1;
		struct event *event;
		if (line[len] != '\n' || event_from_line(line, len, &event) < 0) {
			return -ESTALE;
		}
		read->events[read->got++] = event;
		if (event->seq != read->page.from + first + i) {
			return -ESTALE;
		}
	}
	return 0;
}

static int read_lines(struct log_read *read, int fd)
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
	return r == -EBADMSG ? -ESTALE : r;
}

static void drop_events(struct log_read *read)
{
	for (size_t i = 0; i < read->got; i++) {
		event_unref(read->events[i]);
	}
	read->got = 0;
}

static int open_file(const struct log_read *read, const char *name)
{
	char path[160];
	snprintf(path, sizeof(path), "%s/%s", read->id, name);
	int fd = disk->openat(read->store->sessions_fd, path, O_RDONLY | O_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

static int read_index(struct log_read *read)
{
	int fd = open_file(read, "events.index");
	if (fd < 0) {
		return fd == -ENOENT ? -ESTALE : fd;
	}
	uint64_t epoch = read->epoch;
	uint64_t first_seq = read->first_seq;
	int r = read->is_unseen ? log_index_read_header(fd, &epoch, &first_seq) : 0;
	if (r == -EBADMSG || epoch != read->epoch || first_seq != read->first_seq) {
		r = -ESTALE;
	}
	r = r < 0 ? r
		  : log_index_read(
			    fd, read->first_seq, read->page.from, read->offsets, read->indexed);
	close(fd);
	return r;
}

static void read_work(uv_work_t *work)
{
	struct log_read *read = work->data;
	if (read->status == 0 && read->indexed) {
		read->status = read_index(read);
	}
	int fd = read->status < 0 ? -1 : open_file(read, "events.jsonl");
	if (read->status == 0) {
		read->status = fd < 0 ? fd : read_lines(read, fd);
	}
	if (fd >= 0) {
		close(fd);
	}
}

/* --- its end --- */

/** Behind the last event that was read, what was in memory goes on. */
static void add_hot(struct log_read *read)
{
	size_t bytes = read->got ? (size_t)(read->offsets[read->got] - read->offsets[0]) : 0;
	for (size_t i = 0; i < read->hot_count; i++) {
		struct event *event = read->hot[i];
		bytes += event->json_len[FORMAT_MARKDOWN];
		if (!read->page.is_fixed_at_end &&
			(read->got < read->count + i || bytes > read->page.max_bytes)) {
			break;
		}
		read->events[read->got++] = event_ref(event);
	}
}

static void tell(struct log_read *read)
{
	if (read->done && read->status == 0) {
		read->done(read->arg, 0, read->events, read->got);
	} else if (read->done) {
		read->done(read->arg, read->status, NULL, 0);
	} else {
		drop_events(read);
	}
	for (size_t i = 0; i < read->hot_count; i++) {
		event_unref(read->hot[i]);
	}
	free(read->hot);
	free(read->events);
	free(read->offsets);
	free(read->id);
	free(read);
}

static void handle_rendered(struct page_render *render)
{
	tell((struct log_read *)((char *)render - offsetof(struct log_read, render)));
}

static void finish(struct log_read *read)
{
	if (read->status == 0) {
		add_hot(read);
	} else {
		drop_events(read);
	}
	if (read->status < 0 || !read->done || read->page.format == FORMAT_MARKDOWN) {
		tell(read);
		return;
	}
	read->render = (struct page_render){.events = read->events,
		.count = read->got,
		.format = read->page.format,
		.done = handle_rendered};
	list_init(&read->render.link);
	page_render_start(read->store, &read->render);
}

static void start(struct session_log *log, struct log_read *read);

/** The index does not fit: it is made again, once in the life of a log, and the read goes on. */
static void retry(struct log_read *read)
{
	struct session_log *log = session_log_of(read->store, read->id, read->epoch);
	drop_events(read);
	if (log && read->done && log->base_seq != read->first_seq) {
		start(log, read); /* another file has been put in the log's place */
		return;
	}
	bool is_first = !read->is_second && log && read->done;
	read->status = -EBADMSG;
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
	struct log_read *read = work->data;
	read->store->jobs--;
	if (read->status == 0 && !session_log_of(read->store, read->id, read->epoch)) {
		read->status = -ENOENT; /* what has been read may be of another of its name */
	}
	if (read->status == -ESTALE) {
		retry(read);
	} else {
		finish(read);
	}
}

/* --- its beginning --- */

static void queue(struct log_read *read)
{
	read->work.data = read;
	read->store->jobs++;
	int r = uv_queue_work(read->store->loop, &read->work, read_work, read_done);
	assert(r == 0);
}

/** Fills in the offsets that are in memory; the others precede them. */
static void take_offsets(struct session_log *log, struct log_read *read)
{
	uint64_t fresh = log_index_first_fresh(log);
	read->indexed = 0;
	read->is_unseen = log->index.state == INDEX_UNSEEN;
	read->log_size = log->size;
	for (size_t i = 0; i <= read->count; i++) {
		uint64_t seq = read->page.from + i;
		if (seq == session_log_hot_first(log)) {
			read->offsets[i] = log->hot_count ? log->hot_offset : log->size;
		} else if (seq >= fresh) {
			read->offsets[i] = log_index_fresh_at(log, seq);
		} else {
			read->indexed = i + 1;
		}
	}
}

static void start(struct session_log *log, struct log_read *read)
{
	read->first_seq = log->base_seq;
	read->status = 0;
	if (read->page.from < log->first_seq) {
		read->status = -ENOENT; /* pruned while it waited */
	} else if (log->index.state == INDEX_BUILDING) {
		list_append(&log->waiting, &read->link);
		return;
	} else if (log->index.state == INDEX_LOST) {
		read->status = -ESTALE;
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
		struct log_read *read = list_entry(due.next, struct log_read, link);
		list_remove(&read->link);
		read->is_second = true;
		read->status = status;
		if (status == 0) {
			start(log, read);
		} else {
			queue(read); /* it fails, but not in here */
		}
	}
}

/** Takes the part of the page that is in memory. */
static void take_hot(struct session_log *log, struct log_read *read)
{
	uint64_t first = session_log_hot_first(log);
	read->max_bytes = read->page.max_bytes;
	if (!log->hot_count || first > read->page.to) {
		return;
	}
	struct log_page part = {.from = first, .to = read->page.to, .max_bytes = SIZE_MAX};
	read->hot = xcalloc((size_t)(part.to - part.from + 1), sizeof(struct event *));
	read->hot_count = session_log_get_hot(log, &part, read->hot);
	read->page.to = first - 1;
	for (size_t i = 0; read->page.is_fixed_at_end && i < read->hot_count; i++) {
		size_t len = read->hot[i]->json_len[FORMAT_MARKDOWN];
		read->max_bytes = read->max_bytes > len ? read->max_bytes - len : 0;
	}
}

struct log_read *session_log_read(
	struct session_log *log, const struct log_page *page, log_read_done done, void *arg)
{
	if (page->from < log->first_seq || page->to > log->last_seq || page->from > page->to ||
		page->from >= session_log_hot_first(log)) {
		return NULL;
	}
	struct log_read *read = xcalloc(1, sizeof(*read));
	read->store = log->store;
	read->id = xstrdup(log->id);
	read->epoch = log->epoch;
	read->page = *page;
	read->done = done;
	read->arg = arg;
	list_init(&read->link);
	take_hot(log, read);
	read->count = (size_t)(read->page.to - read->page.from + 1);
	read->offsets = xcalloc(read->count + 1, sizeof(*read->offsets));
	read->events = xcalloc(read->count + read->hot_count, sizeof(struct event *));
	start(log, read);
	return read;
}

void log_read_cancel(struct log_read *read)
{
	read->done = NULL;
	page_render_cancel(&read->render); /* it may not have begun: then it never will */
}
