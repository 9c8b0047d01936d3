/*
 * Cold reads: events that are not in memory. The index gives the offsets, then the lines are read
 * and checked, all on the thread pool.
 */
#include "gaps.h"
#include "core/store/html/html_file.h"
#include "embedded.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * How many reads run at a time. When the file is in the page cache a read is pure computation; more
 * of them would only take processors from the loop, and the pool's threads from work that waits for
 * a disk.
 */
#define READS_AT_ONCE 2

struct cold_read {
	struct log_read *base;
	uv_work_t work;
	struct list link; /* store.reads_due; or session_log.waiting, while the index is rebuilt */
	uint64_t first_seq; /* of the file's first line */
	uint64_t log_size;
	uint64_t *offsets; /* where each event's line starts, and where the last one ends */
	size_t indexed; /* how many of the offsets must be read from the index file */
	struct event_block *block; /* the events being read */
	bool is_unseen; /* the index file has not been checked since the start */
	bool lacks_html; /* HTML is wanted, and some events have none yet */
	bool is_second; /* the index was rebuilt since the first attempt */
	bool is_rebuilt; /* the index cannot get better: lines that do not fit are damaged */
	uint64_t entries; /* of the index */
	uint64_t entries_end; /* where the line of the last entry ends */
	struct gap gap; /* the damage that was found last */
};

/* --- on the thread pool --- */

/** Chooses the events that fit into the page: *count of them, from index *first on. */
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

/** Parses the lines. Each is checked, and must have the expected seq; else -ESTALE. */
static int parse_lines(struct cold_read *read, size_t first, size_t count)
{
	const uint64_t *at = read->offsets + first;
	for (size_t i = 0; i < count; i++) {
		char *line = read->block->lines + (at[i] - at[0]);
		size_t len = (size_t)(at[i + 1] - at[i]) - 1;
		struct event *event;
		if (line[len] != '\n' || event_block_add(read->block, line, len, &event) < 0) {
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
	read->block = event_block_create(bytes, count);
	r = disk_read_at(fd, read->offsets[first], bytes, len);
	if (r == 0) {
		r = parse_lines(read, first, count);
	}
	read->base->bytes = len;
	return r == -EBADMSG ? -ESTALE : r;
}

static int open_file(const struct cold_read *read, const char *name)
{
	char path[160];
	snprintf(path, sizeof(path), "%s/%s", read->base->id, name);
	int fd = disk->openat(
		embedded_of(read->base->store)->sessions_fd, path, O_RDONLY | O_CLOEXEC, 0);
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

/** Its events hold references of their own. */
static void release_block(struct cold_read *read)
{
	if (read->block) {
		event_block_release(read->block);
		read->block = NULL;
	}
}

/* --- pages with damaged lines --- */

/** Reads an event, or makes a gap in its place; -EBADMSG if the page does not want gaps. */
static int read_or_stand_in(
	struct cold_read *read, const struct gap_source *source, size_t i, struct event **ret)
{
	uint64_t seq = read->base->page.from + i;
	int r = gap_read_line(source->fd, read->offsets[i], read->offsets[i + 1], seq, ret);
	if (r < 0 || *ret) {
		return r;
	}
	if (!read->gap.from || seq < read->gap.from || seq > read->gap.to) {
		r = gap_find(source, seq, &read->gap);
	}
	if (r == 0 && !read->base->page.gaps) {
		return -EBADMSG;
	}
	*ret = r < 0 ? NULL : event_create_gap(seq, read->gap.from, read->gap.to, read->gap.ts);
	return r;
}

/** Reads one event at a time, beginning at the fixed end of the page. */
static int read_apart(struct cold_read *read, const struct gap_source *source)
{
	struct log_read *base = read->base;
	bool is_backward = base->page.is_fixed_at_end;
	struct event **events = xcalloc(base->count, sizeof(struct event *));
	size_t got = 0;
	int r = 0;
	while (r == 0 && got < base->count && (!got || base->bytes < base->max_bytes)) {
		size_t i = is_backward ? base->count - 1 - got : got;
		r = read_or_stand_in(read, source, i, &events[i]);
		got += r == 0;
		base->bytes += r == 0 ? event_line_len(events[i]) : 0;
	}
	memcpy(base->events, events + (is_backward ? base->count - got : 0),
		got * sizeof(struct event *));
	base->got = got;
	free(events);
	return r;
}

/** Reads a page line by line, after the index was rebuilt. Returns the status of the read. */
static int read_damaged(struct cold_read *read, int fd)
{
	log_read_drop(read->base);
	release_block(read);
	read->base->bytes = 0;
	int index_fd = open_file(read, "events.index");
	if (index_fd < 0) {
		return index_fd == -ENOENT ? -ESTALE : index_fd;
	}
	uint64_t epoch;
	uint64_t first_seq;
	if (log_index_read_header(index_fd, &epoch, &first_seq) == 0 &&
		first_seq != read->first_seq) {
		close(index_fd);
		return -ESTALE; /* the log's file is being replaced: that is no damage */
	}
	const struct gap_source source = {.fd = fd,
		.index_fd = index_fd,
		.first_seq = read->first_seq,
		.count = read->entries,
		.end = read->entries_end};
	int r = read_apart(read, &source);
	close(index_fd);
	return r;
}

static struct html_place place_of(const struct cold_read *read)
{
	return (struct html_place){.sessions_fd = embedded_of(read->base->store)->sessions_fd,
		.id = read->base->id,
		.epoch = read->base->epoch,
		.base_seq = read->first_seq};
}

static bool page_lacks_html(const struct log_read *page)
{
	bool lacks = false;
	for (size_t i = 0; i < page->got; i++) {
		lacks = lacks || event_needs_rendering(page->events[i], FORMAT_HTML);
	}
	return lacks;
}

static void read_work(uv_work_t *work)
{
	struct cold_read *read = work->data;
	if (atomic_load(&read->base->is_unwanted)) {
		read->base->status = -ECANCELED;
	}
	if (read->base->status == 0 && read->indexed) {
		read->base->status = read_index(read);
	}
	int fd = read->base->status < 0 ? -1 : open_file(read, "events.jsonl");
	if (read->base->status == 0) {
		read->base->status = fd < 0 ? fd : read_lines(read, fd);
	}
	if (read->base->status == -ESTALE && read->is_rebuilt && fd >= 0) {
		read->base->status = read_damaged(read, fd);
	}
	if (fd >= 0) {
		close(fd);
	}
	/* A page that was read line by line has no block. */
	if (read->base->status == 0 && read->base->page.format == FORMAT_HTML && read->block) {
		const struct html_place place = place_of(read);
		html_file_give(&place, read->block);
		read->lacks_html = page_lacks_html(read->base);
	}
	release_block(read);
}

/* --- on the loop --- */

/** Has events.html brought up to date if events of the page had no HTML in it. */
static void follow(const struct cold_read *read)
{
	const struct log_read *base = read->base;
	struct session_log *log = session_log_of(base->store, base->id, base->epoch);
	if (log && read->lacks_html) {
		html_follow(log, true);
	}
}

static void finish(struct cold_read *read)
{
	struct log_read *base = read->base;
	struct session_log *log = session_log_of(base->store, base->id, base->epoch);
	if (base->status == 0) {
		follow(read);
	}
	if (read->gap.from && log) {
		session_log_note_damage(log, &read->gap);
	}
	free(read->offsets);
	free(read);
	log_read_end(base);
}

static void start(struct session_log *log, struct cold_read *read);

/** The index does not fit the log: it is rebuilt, once since the start, and the read repeated. */
static void retry(struct cold_read *read)
{
	struct session_log *log =
		session_log_of(read->base->store, read->base->id, read->base->epoch);
	log_read_drop(read->base);
	if (log && read->base->done && log->base_seq != read->first_seq) {
		start(log, read); /* the log's file has been replaced meanwhile */
		return;
	}
	bool is_first = !read->is_second && log && read->base->done;
	read->base->status = -EBADMSG;
	if (is_first && embedded_log_of(log)->index.was_built &&
		embedded_log_of(log)->index.state == INDEX_GOOD &&
		!embedded_log_of(log)->is_frozen) {
		is_first = false;
	}
	if (!is_first) {
		finish(read);
		return;
	}
	log_index_build(log);
	list_append(&embedded_log_of(log)->waiting, &read->link);
}

static void run(struct cold_read *read);

static void read_done(uv_work_t *work, int status)
{
	struct cold_read *read = work->data;
	struct store *store = read->base->store;
	struct embedded_store *emb = embedded_of(store);
	store->jobs--;
	emb->reads_running--;
	if (!list_empty(&emb->reads_due)) {
		struct cold_read *next = list_entry(emb->reads_due.next, struct cold_read, link);
		list_remove(&next->link);
		run(next);
	}
	if (read->base->status == 0 && !session_log_of(store, read->base->id, read->base->epoch)) {
		read->base->status = -ENOENT; /* the file may have been another session's */
	}
	if (read->base->status == -ESTALE) {
		retry(read);
	} else {
		finish(read);
	}
}

static void run(struct cold_read *read)
{
	struct store *store = read->base->store;
	embedded_of(store)->reads_running++;
	read->work.data = read;
	int r = uv_queue_work(store->loop, &read->work, read_work, read_done);
	assert(r == 0);
}

static void queue(struct cold_read *read)
{
	struct store *store = read->base->store;
	struct embedded_store *emb = embedded_of(store);
	store->jobs++;
	if (emb->reads_running < READS_AT_ONCE) {
		run(read);
	} else {
		list_append(&emb->reads_due, &read->link);
	}
}

/** Fills in the offsets that are in memory. Those before them must be read from the index. */
static void take_offsets(struct session_log *log, struct cold_read *read)
{
	struct embedded_log *own = embedded_log_of(log);
	uint64_t fresh = log_index_first_fresh(log);
	read->indexed = 0;
	read->is_unseen = own->index.state == INDEX_UNSEEN;
	read->is_rebuilt = own->index.was_built && own->index.state == INDEX_GOOD;
	read->entries = own->index.count;
	read->entries_end = own->index.fresh.len ? log_index_fresh_at(log, fresh) : log->size;
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
	struct embedded_log *own = embedded_log_of(log);
	read->first_seq = log->base_seq;
	read->base->status = 0;
	if (read->base->page.from < log->first_seq) {
		read->base->status = -ENOENT; /* pruned while it waited */
	} else if (own->index.state == INDEX_BUILDING) {
		list_append(&own->waiting, &read->link);
		return;
	} else if (own->index.state == INDEX_LOST) {
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
	list_move_all(&due, &embedded_log_of(log)->waiting);
	while (!list_empty(&due)) {
		struct cold_read *read = list_entry(due.next, struct cold_read, link);
		list_remove(&read->link);
		read->is_second = true;
		read->base->status = status;
		if (status == 0) {
			start(log, read);
		} else {
			queue(read); /* it fails, but not inside this call */
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
