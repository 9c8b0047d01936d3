/*
 * The HTML cache of a log. events.html has, for each event that is rendered, a checksum and a delta
 * that turns the event's JSON in markdown into that in HTML. events.html.index has two offsets for
 * each event: the end of its part of events.html, and the end of its line in events.jsonl.
 */
#include "html_file.h"

#include "core/store/embedded/embedded.h"

#include "core/base/delta.h"
#include "holdfast/pack.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define MAGIC       "HFHTML1\n"
#define HEADER_SIZE 40
#define ENTRY_SIZE  16
#define SUM_SIZE    8
/* A portion of work: how much of the log is read (more only for a longer line), and how long it may
   render (ns). */
#define READ_SIZE  ((size_t)128 * 1024)
#define PORTION_NS 10000000
/* No page has more HTML than this. */
#define PAGE_MOST ((uint64_t)256 * 1024 * 1024)

struct entry {
	uint64_t html_end;
	uint64_t line_end;
};

static int open_part(const struct html_place *place, const char *name, int flags)
{
	char path[160];
	snprintf(path, sizeof(path), "%s/%s", place->id, name);
	int fd = disk->openat(place->sessions_fd, path, flags | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : fd;
}

/** Appends the header that an index of this log, made by this renderer, begins with. */
static void append_header(const struct html_place *place, struct buffer *out)
{
	buffer_append(out, MAGIC, 8);
	pack_le(out, event_html_version(), 8);
	pack_le(out, place->epoch, 8);
	pack_le(out, place->base_seq, 8);
	pack_le(out, journal_checksum(out->data, out->len), 8);
}

static bool has_header(const struct html_place *place, int fd)
{
	struct buffer want = {0};
	char found[HEADER_SIZE];
	append_header(place, &want);
	bool is_same = disk_read_at(fd, 0, found, sizeof(found)) == 0 &&
		       memcmp(found, want.data, sizeof(found)) == 0;
	buffer_finish(&want);
	return is_same;
}

static uint64_t get_u64(const char *at)
{
	uint64_t value;
	memcpy(&value, at, sizeof(value));
	return le64toh(value);
}

static struct entry get_entry(const char *at)
{
	return (struct entry){get_u64(at), get_u64(at + 8)};
}

/** The checksum of an event's HTML; includes the markdown that it was made from. */
static uint64_t sum_of(const struct event *event, const char *json, size_t len)
{
	uint64_t seed = XXH3_64bits(event->json[FORMAT_MARKDOWN], event->json_len[FORMAT_MARKDOWN]);
	return XXH3_64bits_withSeed(json, len, seed);
}

/* --- reading --- */

/**
 * Reads the entries of up to `count` events from `seq` on, preceded by that of the event before
 * them. Returns the number of events.
 */
static size_t read_entries(
	const struct html_place *place, int fd, uint64_t seq, size_t count, char *entries)
{
	struct stat st;
	uint64_t nth = seq - place->base_seq;
	if (seq < place->base_seq || fstat(fd, &st) < 0 || st.st_size < HEADER_SIZE ||
		!has_header(place, fd)) {
		return 0;
	}
	uint64_t there = ((uint64_t)st.st_size - HEADER_SIZE) / ENTRY_SIZE;
	if (there <= nth) {
		return 0;
	}
	count = there - nth < count ? (size_t)(there - nth) : count;
	memset(entries, 0, ENTRY_SIZE);
	size_t before = nth ? 1 : 0;
	return disk_read_at(fd, HEADER_SIZE + (nth - before) * ENTRY_SIZE,
		       entries + (1 - before) * ENTRY_SIZE, (count + before) * ENTRY_SIZE) < 0
		       ? 0
		       : count;
}

/** Writes an event's HTML to `out` and lends it to the event; -EBADMSG if its checksum is wrong. */
static int give(struct event *event, const char *bytes, size_t len, char *out, size_t *ret_len)
{
	*ret_len = 0;
	if (event->type != EVENT_AGENT_MESSAGE) {
		return len == 0 ? 0 : -EBADMSG;
	}
	if (len < SUM_SIZE ||
		delta_apply(event->json[FORMAT_MARKDOWN], event->json_len[FORMAT_MARKDOWN],
			bytes + SUM_SIZE, len - SUM_SIZE, out, ret_len) < 0 ||
		!*ret_len || sum_of(event, out, *ret_len) != get_u64(bytes)) {
		return -EBADMSG;
	}
	event_lend_html(event, out, *ret_len);
	return 0;
}

/**
 * Gives `count` events their HTML from the deltas in `bytes`. What a delta makes is at most as long
 * as the delta and its event together, so block->html has room for all.
 */
static int give_all(
	struct event_block *block, size_t count, const char *entries, const char *bytes, size_t len)
{
	uint64_t start = get_entry(entries).html_end;
	uint64_t at = start;
	char *out = block->html;
	for (size_t i = 0; i < count; i++) {
		uint64_t next = get_entry(entries + (i + 1) * ENTRY_SIZE).html_end;
		size_t made;
		if (next < at || next - start > len ||
			give(&block->events[i], bytes + (at - start), (size_t)(next - at), out,
				&made) < 0) {
			return -EBADMSG;
		}
		out += made;
		at = next;
	}
	return 0;
}

static int read_deltas(const struct html_place *place, uint64_t start, char *bytes, size_t len)
{
	struct stat st;
	int fd = open_part(place, "events.html", O_RDONLY);
	if (fd < 0) {
		return fd;
	}
	int r = fstat(fd, &st) == 0 && start + len <= (uint64_t)st.st_size
			? disk_read_at(fd, start, bytes, len)
			: -EBADMSG;
	close(fd);
	return r;
}

static int give_there(const struct html_place *place, struct event_block *block, size_t count,
	const char *entries)
{
	uint64_t start = get_entry(entries).html_end;
	uint64_t end = get_entry(entries + count * ENTRY_SIZE).html_end;
	if (end < start || end - start > PAGE_MOST) {
		return -EBADMSG;
	}
	size_t len = (size_t)(end - start);
	size_t room = len + 1;
	for (size_t i = 0; i < count; i++) {
		room += block->events[i].json_len[FORMAT_MARKDOWN];
	}
	char *bytes = malloc(len + 1);
	block->html = malloc(room);
	int r = bytes && block->html ? read_deltas(place, start, bytes, len) : -ENOMEM;
	if (r == 0) {
		r = give_all(block, count, entries, bytes, len);
	}
	free(bytes);
	return r;
}

void html_file_give(const struct html_place *place, struct event_block *block)
{
	int fd = block->count ? open_part(place, "events.html.index", O_RDONLY) : -ENOENT;
	if (fd < 0) {
		return;
	}
	char *entries = xmalloc((block->count + 1) * ENTRY_SIZE);
	size_t there = read_entries(place, fd, block->events[0].seq, block->count, entries);
	close(fd);
	int r = there ? give_there(place, block, there, entries) : 0;
	if (r < 0 && r != -ENOMEM) {
		/* The cache is damaged: the page is rendered, and the files are begun anew. */
		char path[160];
		snprintf(path, sizeof(path), "%s/events.html.index", place->id);
		disk->unlinkat(place->sessions_fd, path, 0);
	}
	free(entries);
}

/* --- writing --- */

struct adding {
	const struct html_place *place;
	struct html_portion *portion;
	int index_fd;
	int html_fd;
	int log_fd;
	struct entry last; /* the last entry, including those to be added */
	struct buffer entries; /* to be added to the index */
	struct buffer html; /* to be added to events.html */
	size_t ready_next; /* in portion->ready */
	uint64_t begun;
};

static int start_anew(struct adding *adding)
{
	adding->last = (struct entry){0};
	adding->portion->next_seq = adding->place->base_seq;
	if (disk->ftruncate(adding->index_fd, 0) < 0 || disk->ftruncate(adding->html_fd, 0) < 0) {
		return -errno;
	}
	append_header(adding->place, &adding->entries);
	return 0;
}

/** Finds where to continue the files, cuts off torn ends, or begins them anew. */
static int find_end(struct adding *adding)
{
	struct stat index;
	struct stat html;
	char last[ENTRY_SIZE];
	if (fstat(adding->index_fd, &index) < 0 || fstat(adding->html_fd, &html) < 0) {
		return -errno;
	}
	if (index.st_size < HEADER_SIZE || !has_header(adding->place, adding->index_fd)) {
		return start_anew(adding);
	}
	uint64_t count = ((uint64_t)index.st_size - HEADER_SIZE) / ENTRY_SIZE;
	uint64_t size = HEADER_SIZE + count * ENTRY_SIZE;
	if (count && disk_read_at(adding->index_fd, size - ENTRY_SIZE, last, sizeof(last)) < 0) {
		return start_anew(adding);
	}
	adding->last = count ? get_entry(last) : (struct entry){0};
	adding->portion->next_seq = adding->place->base_seq + count;
	if (adding->last.html_end > (uint64_t)html.st_size ||
		adding->last.line_end > adding->portion->log_size) {
		return start_anew(adding);
	}
	if (((uint64_t)index.st_size > size &&
		    disk->ftruncate(adding->index_fd, (off_t)size) < 0) ||
		((uint64_t)html.st_size > adding->last.html_end &&
			disk->ftruncate(adding->html_fd, (off_t)adding->last.html_end) < 0)) {
		return -errno;
	}
	return 0;
}

static const struct html_ready *find_ready(struct adding *adding, uint64_t seq)
{
	const struct html_portion *portion = adding->portion;
	while (adding->ready_next < portion->ready_count &&
		portion->ready[adding->ready_next].seq < seq) {
		adding->ready_next++;
	}
	const struct html_ready *ready = portion->ready + adding->ready_next;
	return adding->ready_next < portion->ready_count && ready->seq == seq ? ready : NULL;
}

static void add_html(struct adding *adding, struct event *event)
{
	struct buffer made = {0};
	const struct html_ready *ready = find_ready(adding, event->seq);
	if (!ready) {
		event_render(event, FORMAT_HTML, &made);
		adding->portion->rendered++;
	}
	const char *json = ready ? ready->json : made.data;
	size_t len = ready ? ready->len : made.len;
	pack_le(&adding->html, sum_of(event, json, len), SUM_SIZE);
	delta_make(event->json[FORMAT_MARKDOWN], event->json_len[FORMAT_MARKDOWN], json, len,
		&adding->html);
	buffer_finish(&made);
}

static int add_line(struct adding *adding, const char *line, size_t len)
{
	struct event *event;
	if (event_from_line(line, len, &event) < 0) {
		return -EBADMSG;
	}
	bool is_next = event->seq == adding->portion->next_seq;
	size_t before = adding->html.len;
	if (is_next && event->type == EVENT_AGENT_MESSAGE) {
		add_html(adding, event);
	}
	event_unref(event);
	if (!is_next) {
		return -EBADMSG;
	}
	adding->portion->next_seq++;
	adding->last.html_end += adding->html.len - before;
	adding->last.line_end += len + 1;
	pack_le(&adding->entries, adding->last.html_end, 8);
	pack_le(&adding->entries, adding->last.line_end, 8);
	return 0;
}

static int add_lines(struct adding *adding, const char *bytes, size_t len)
{
	int r = 0;
	const char *end = bytes + len;
	const char *newline;
	while (r == 0 && (newline = memchr(bytes, '\n', (size_t)(end - bytes))) &&
		uv_hrtime() - adding->begun < PORTION_NS) {
		r = add_line(adding, bytes, (size_t)(newline - bytes));
		bytes = newline + 1;
	}
	return r;
}

/** Reads and adds some lines of the log, at least one. */
static int read_log(struct adding *adding)
{
	uint64_t left = adding->portion->log_size - adding->last.line_end;
	int r = 0;
	bool is_found = false;
	for (size_t size = READ_SIZE; r == 0 && left && !is_found; size *= 8) {
		size_t len = left < size ? (size_t)left : size;
		char *bytes = malloc(len);
		r = bytes ? disk_read_at(adding->log_fd, adding->last.line_end, bytes, len)
			  : -ENOMEM;
		is_found = r == 0 && memchr(bytes, '\n', len);
		if (is_found) {
			r = add_lines(adding, bytes, len);
		} else if (r == 0 && len == left) {
			r = -EBADMSG;
		}
		free(bytes);
	}
	return r;
}

/** Writes the HTML before the entries that refer to it. */
static int write_both(struct adding *adding)
{
	int r = disk_write_all(adding->html_fd, adding->html.data, adding->html.len);
	return r < 0 ? r
		     : disk_write_all(adding->index_fd, adding->entries.data, adding->entries.len);
}

static int add(struct adding *adding)
{
	int r = find_end(adding);
	if (r == 0) {
		r = read_log(adding);
	}
	if (r == -EBADMSG) {
		/* The log's file has been replaced, or the cache does not fit it. */
		disk->ftruncate(adding->index_fd, 0);
		disk->ftruncate(adding->html_fd, 0);
		return -ESTALE;
	}
	if (r == 0) {
		r = write_both(adding);
	}
	adding->portion->is_whole = adding->last.line_end == adding->portion->log_size;
	return r;
}

int html_file_add(const struct html_place *place, struct html_portion *portion)
{
	struct adding adding = {.place = place, .portion = portion, .begun = uv_hrtime()};
	/* Opens the log last: whoever replaces it deletes the other two after that (prune_file.c). */
	const int flags = O_RDWR | O_CREAT | O_APPEND;
	adding.index_fd = open_part(place, "events.html.index", flags);
	adding.html_fd = open_part(place, "events.html", flags);
	adding.log_fd = open_part(place, "events.jsonl", O_RDONLY);
	const int fds[] = {adding.index_fd, adding.html_fd, adding.log_fd};
	int r = 0;
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		r = fds[i] < 0 ? fds[i] : r;
	}
	r = r < 0 ? r : add(&adding);
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (fds[i] >= 0) {
			close(fds[i]);
		}
	}
	buffer_finish(&adding.entries);
	buffer_finish(&adding.html);
	return r;
}
