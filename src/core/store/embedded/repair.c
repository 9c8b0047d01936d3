/*
 * Finds the damage of a log, and writes the log anew without it (repair.h has the order of steps).
 */
#include "repair.h"

#include "holdfast/diag.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Most events that can be missing in one place if the metadata, which has their number, is damaged.
 */
#define JUMP_MAX 1000000
/* The new file is written in pieces of this size. */
#define PIECE_SIZE ((size_t)1 << 20)

struct repair {
	const char *why; /* static text */
	bool has_metadata;
	uint64_t certain; /* the last event that metadata.json says is in the file */
	uint64_t scanned; /* the last event that the file has or should have */
	uint64_t lost; /* events missing in the file */
	uint64_t found; /* of these, recovered from the journal */
	uint64_t unused; /* records of the journal, because one of them is damaged */
	struct hash *events; /* struct event, by seq: recovered from the journal */
	struct buffer names; /* without metadata: lines of keys.jsonl that inputs gave */
	bool is_done;
};

/** A pass over the good lines of a log, in order. */
struct walk {
	struct repair *repair;
	struct session_log *log;
	uint64_t next; /* the next seq expected */
	bool has_begun;
	uint64_t bad; /* lines that do not belong to the log, before the last one that does */
	uint64_t bad_since; /* such lines after that */
	uint64_t lost;
	int (*see)(struct walk *walk, const struct event_view *view, const char *line, size_t len);
	/* Only while damage is looked for. */
	int index_fd; /* of events.index; 0: it is not compared */
	bool index_is_wrong;
	/* Only while the new file is written. */
	int fd;
	struct buffer out;
	uint64_t size;
	int64_t ts;
};

/** Returns whether a good line can be the next of the log. */
static bool belongs(const struct walk *walk, const struct event_view *view)
{
	const struct repair *repair = walk->repair;
	if (view->seq < walk->next || view->type == EVENT_UNKNOWN) {
		return false;
	}
	if (!repair->has_metadata) {
		return !walk->has_begun || view->seq - walk->next <= JUMP_MAX;
	}
	uint64_t tail = walk->next > repair->certain ? walk->next : repair->certain + 1;
	return view->seq <= repair->certain || view->seq == tail;
}

/** Compares the entry of a line, which begins at `at`, with what events.index says. */
static void check_entry(struct walk *walk, uint64_t seq, uint64_t at)
{
	uint64_t told;
	if (walk->index_fd && seq <= walk->repair->certain && !walk->index_is_wrong) {
		int r = log_index_read(walk->index_fd, walk->log->base_seq, seq, &told, 1);
		walk->index_is_wrong = r < 0 || told != at;
	}
}

static int walk_lines(struct walk *walk, int fd)
{
	struct log_lines lines;
	const char *line;
	size_t len;
	int found = 0;
	int r = 0;
	walk->next = walk->log->first_seq;
	log_lines_begin(&lines, fd, 0, UINT64_MAX);
	while (fd >= 0 && r == 0 && (found = log_lines_next(&lines, &line, &len)) > 0) {
		struct event_view view;
		bool good = event_parse_line(line, len, &view) == 0;
		if (good && view.seq < walk->log->first_seq) {
			continue; /* pruned */
		}
		if (!good || !belongs(walk, &view)) {
			walk->bad_since++;
			continue;
		}
		walk->bad += walk->bad_since;
		walk->bad_since = 0;
		if (!walk->repair->has_metadata && !walk->has_begun) {
			walk->next = view.seq;
		}
		walk->has_begun = true;
		check_entry(walk, view.seq, lines.offset - len - 1);
		walk->lost += view.seq - walk->next;
		r = walk->see ? walk->see(walk, &view, line, len) : 0;
		walk->next = view.seq + 1;
	}
	buffer_finish(&lines.bytes);
	return r == 0 && found < 0 && found != -EMSGSIZE ? found : r;
}

static int open_log(const struct session_log *log)
{
	char path[160];
	snprintf(path, sizeof(path), "%s/events.jsonl", log->id);
	int fd = disk->openat(embedded_of(log->store)->sessions_fd, path, O_RDONLY | O_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

/* --- detection --- */

/** Adds an event that metadata.json does not include to the session's facts. */
static int fold(struct walk *walk, const struct event_view *view, const char *line, size_t len)
{
	struct session_log *log = walk->log;
	if (!walk->repair->has_metadata && log->first_seq > log->last_seq) {
		log->first_seq = log->base_seq = view->seq;
		log->first_ts = log->created_at = view->ts;
	}
	if (view->seq > walk->repair->certain) {
		log->store->ops->facts->fold(log->facts, view);
		if (walk->repair->has_metadata) {
			log->store->ops->facts->names_of(view, false, log_keys_add, log);
		}
		log->updated_at = view->ts;
		log->last_seq = view->seq;
	}
	return 0;
}

/**
 * Takes the names that cannot be derived from events. Without metadata all good lines of the file
 * count.
 */
static void take_names(struct session_log *log, struct repair *repair)
{
	struct buffer bytes = {0};
	char path[160];
	snprintf(path, sizeof(path), "%s/keys.jsonl", log->id);
	if (disk_read_whole(embedded_of(log->store)->sessions_fd, path, NAMES_FILE_MAX, &bytes) ==
			0 &&
		bytes.len) {
		const char *end = memrchr(bytes.data, '\n', bytes.len);
		const char *at = bytes.data;
		const char *newline;
		for (; end && at <= end; at = newline + 1) {
			struct raw_name name;
			newline = memchr(at, '\n', (size_t)(end + 1 - at));
			const struct store_facts *facts = log->store->ops->facts;
			if (log_name_scan(facts, at, (size_t)(newline - at), &name) == 0 &&
				name.kind && !facts->name_kinds[name.kind].is_of_event) {
				buffer_append(&repair->names, at, (size_t)(newline + 1 - at));
				log->keys.input_names++;
			}
		}
	}
	buffer_finish(&bytes);
}

/** Fills the log in memory with what is readable. The files stay unchanged. */
static int take_damaged(struct session_log *log, struct repair *repair, int fd)
{
	struct embedded_log *own = embedded_log_of(log);
	struct stat st = {0};
	struct walk walk = {.repair = repair, .log = log, .see = fold};
	if (fd >= 0 && fstat(fd, &st) < 0) {
		return -errno;
	}
	if (!repair->has_metadata) {
		log->first_seq = log->base_seq = 1;
		log->last_seq = 0;
		take_names(log, repair);
	}
	int r = walk_lines(&walk, fd);
	log->size = log->written = (uint64_t)st.st_size;
	log_index_lose(&own->index);
	own->is_suspect = false;
	log->dirty = true;
	repair->scanned = log->last_seq;
	repair->lost = walk.lost;
	if (repair->certain >= walk.next) {
		repair->lost += repair->certain + 1 - walk.next;
	}
	repair->events = hash_create();
	own->repair = repair;
	return r;
}

/** Deletes an index that does not fit its log: it is made again when it is needed. */
static void drop_index(struct session_log *log)
{
	char path[160];
	snprintf(path, sizeof(path), "%s/events.index", log->id);
	disk->unlinkat(embedded_of(log->store)->sessions_fd, path, 0);
	log_index_lose(&embedded_log_of(log)->index);
}

static int open_index(const struct session_log *log)
{
	uint64_t epoch;
	uint64_t base;
	char path[160];
	snprintf(path, sizeof(path), "%s/events.index", log->id);
	int fd = disk->openat(embedded_of(log->store)->sessions_fd, path, O_RDONLY | O_CLOEXEC, 0);
	if (fd >= 0 && log_index_read_header(fd, &epoch, &base) == 0) {
		return fd;
	}
	if (fd >= 0) {
		close(fd);
	}
	return -1;
}

int repair_look(struct session_log *log, bool has_metadata, const char *why)
{
	struct repair look = {
		.has_metadata = has_metadata, .certain = has_metadata ? log->last_seq : 0};
	struct walk walk = {.repair = &look, .log = log};
	int fd = open_log(log);
	if (fd < 0 && fd != -ENOENT) {
		return fd;
	}
	int index_fd = open_index(log);
	walk.index_fd = index_fd >= 0 ? index_fd : 0;
	int r = walk_lines(&walk, fd);
	if (index_fd >= 0) {
		close(index_fd);
	}
	if (index_fd < 0 || walk.index_is_wrong) {
		drop_index(log);
	}
	bool lacks_some = has_metadata && walk.next <= look.certain;
	if (r == 0 && !why && (walk.bad || walk.lost || lacks_some)) {
		why = "its log is damaged";
	}
	if (r == 0 && why) {
		struct repair *repair = xcalloc(1, sizeof(*repair));
		*repair = look;
		repair->why = why;
		r = take_damaged(log, repair, fd);
	}
	if (fd >= 0) {
		close(fd);
	}
	return r;
}

void repair_note_journal(struct session_log *log, const char *why)
{
	struct embedded_log *own = embedded_log_of(log);
	if (!own->repair) {
		own->repair = xcalloc(1, sizeof(*own->repair));
		own->repair->has_metadata = true;
		own->repair->events = hash_create();
		uint64_t end;
		own->repair->certain = own->repair->scanned = session_log_last_written(log, &end);
	}
	own->repair->why = own->repair->why ? own->repair->why : why;
}

void repair_note_unused(struct session_log *log)
{
	embedded_log_of(log)->repair->unused++;
}

void repair_take_event(struct session_log *log, const struct event_view *view)
{
	struct repair *repair = embedded_log_of(log)->repair;
	if (!repair || view->seq > repair->scanned || view->seq < log->first_seq) {
		return;
	}
	struct event *event = event_create(view);
	const char *key = (const char *)&event->seq;
	event_unref(hash_put(repair->events, key, sizeof(event->seq), event));
}

static void free_event(void *value, void *arg)
{
	event_unref(value);
}

void repair_free(struct repair *repair)
{
	if (repair) {
		hash_each(repair->events, free_event, NULL);
		hash_destroy(repair->events);
		buffer_finish(&repair->names);
		free(repair);
	}
}

bool session_log_get_repair(const struct session_log *log, struct store_repaired *ret)
{
	const struct repair *repair = embedded_log_of(log)->repair;
	if (repair) {
		*ret = (struct store_repaired){.why = repair->why,
			.lost = repair->lost - repair->found,
			.found = repair->found,
			.unused = repair->unused,
			.is_done = repair->is_done};
	}
	return repair != NULL;
}

/* --- new log --- */

static struct event *get_event(const struct repair *repair, uint64_t seq)
{
	return hash_get(repair->events, (const char *)&seq, sizeof(seq));
}

static int put(struct walk *walk, const char *bytes, size_t len, bool is_end)
{
	int r = 0;
	buffer_append(&walk->out, bytes, len);
	walk->size += len;
	if (walk->out.len >= PIECE_SIZE || is_end) {
		r = disk_write_all(walk->fd, walk->out.data, walk->out.len);
		buffer_clear(&walk->out);
	}
	return r;
}

/** Without metadata keys.jsonl is rebuilt, so collects the names of each event. */
static void take_event_names(struct walk *walk, const struct event_view *view)
{
	if (!walk->repair->has_metadata) {
		const struct store_facts *facts = walk->log->store->ops->facts;
		facts->names_of(view, false, log_keys_add, walk->log);
	}
}

static int put_event(struct walk *walk, struct event *event)
{
	struct buffer line = {0};
	struct event_view view;
	event_get_view(event, &view);
	walk->ts = view.ts;
	take_event_names(walk, &view);
	event_append_line(event, &line);
	int r = put(walk, line.data, line.len, false);
	buffer_finish(&line);
	return r;
}

/** Writes gap events `from` to `to`, with time `ts`. */
static int put_gap(struct walk *walk, uint64_t from, uint64_t to, int64_t ts)
{
	int r = 0;
	for (uint64_t seq = from; r == 0 && seq <= to; seq++) {
		struct event *event = event_create_gap(seq, from, to, ts);
		r = put_event(walk, event);
		event_unref(event);
	}
	return r;
}

/**
 * Writes events that the file lacks: those recovered from the journal, and gaps for the others. A
 * gap gets the time of the event before it, or `ts_behind` if there is none.
 */
static int put_missing(struct walk *walk, uint64_t from, uint64_t to, int64_t ts_behind)
{
	int r = 0;
	for (uint64_t seq = from; r == 0 && seq <= to;) {
		struct event *event = get_event(walk->repair, seq);
		if (event) {
			r = put_event(walk, event);
			walk->repair->found++;
			seq++;
			continue;
		}
		uint64_t end = seq;
		while (end < to && !get_event(walk->repair, end + 1)) {
			end++;
		}
		r = put_gap(walk, seq, end, walk->ts ? walk->ts : ts_behind);
		seq = end + 1;
	}
	return r;
}

static int put_line(struct walk *walk, const struct event_view *view, const char *line, size_t len)
{
	int r = view->seq > walk->next ? put_missing(walk, walk->next, view->seq - 1, view->ts) : 0;
	walk->ts = view->ts;
	take_event_names(walk, view);
	if (r == 0) {
		r = put(walk, line, len, false);
	}
	return r == 0 ? put(walk, "\n", 1, false) : r;
}

static int write_lines(struct walk *walk, int old_fd)
{
	const struct session_log *log = walk->log;
	struct embedded_log *own = embedded_log_of(log);
	struct repair *repair = walk->repair;
	struct buffer *names = &walk->log->keys.unwritten;
	struct buffer behind = *names; /* of events that replay appended after the log's last one */
	*names = repair->names;
	repair->names = (struct buffer){0};
	repair->found = 0;
	int r = walk_lines(walk, old_fd);
	if (r == 0 && walk->next <= walk->repair->scanned) {
		r = put_missing(walk, walk->next, walk->repair->scanned, log->created_at);
	}
	/* Events that replay appended after the log's last one. */
	buffer_append(names, behind.data, behind.len);
	buffer_finish(&behind);
	if (r == 0) {
		r = put(walk, own->unwritten.data, own->unwritten.len, true);
	}
	return r == 0 && disk->fdatasync(walk->fd) < 0 ? -errno : r;
}

/** Deletes the files derived from the damaged log. */
static void drop_derived(int dir_fd)
{
	static const char *const names[] = {"events.index", "events.html.index", "events.html"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		disk->unlinkat(dir_fd, names[i], 0);
	}
}

/** Creates DIR/repair/<id>, durably. */
static int begin_finishing(struct store *store, const char *id)
{
	char path[160];
	if (disk->mkdirat(store->dir_fd, "repair", 0700) < 0 && errno != EEXIST) {
		return -errno;
	}
	snprintf(path, sizeof(path), "repair/%s", id);
	int fd = disk->openat(store->dir_fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0) {
		return -errno;
	}
	close(fd);
	int r = disk_sync(store->dir_fd, "repair", O_RDONLY | O_DIRECTORY);
	return r == 0 && disk->fsync(store->dir_fd) < 0 ? -errno : r;
}

/** Makes the log in memory match the new file. */
static void take_written(struct session_log *log, uint64_t size)
{
	struct embedded_log *own = embedded_log_of(log);
	log->base_seq = log->first_seq;
	log->first_at = 0;
	log->size = log->written = own->certain_size = size;
	own->is_moved = true;
	session_log_forget_before(log, UINT64_MAX);
	buffer_finish(&own->unwritten);
	log_index_lose(&own->index);
}

/** Makes the names durable that metadata.json will count as certain. */
static int write_names(struct session_log *log, int dir_fd)
{
	struct file_append append;
	keys_file_launch(log, true, &append);
	file_append_run(&append, embedded_of(log->store)->sessions_fd, log->id);
	int r = keys_file_land(log, &append);
	file_append_finish(&append);
	return r == 0 && log->keys.size ? disk_sync(dir_fd, "keys.jsonl", O_RDWR) : r;
}

static int put_in_place(struct session_log *log, int dir_fd, const char *fresh)
{
	struct metadata meta;
	struct buffer json = {0};
	repair_keep_file(log->store, log->id, dir_fd, "metadata.json");
	int r = write_names(log, dir_fd);
	if (r < 0) {
		return r;
	}
	drop_derived(dir_fd);
	metadata_take(log, &meta);
	metadata_append(log->id, &meta, &json);
	r = disk_replace(dir_fd, "metadata.json", &json, true);
	buffer_finish(&json);
	metadata_finish(&meta);
	r = r < 0 ? r : repair_put_log(log->store, log->id, dir_fd, fresh);
	return r == 0 && disk->fsync(dir_fd) < 0 ? -errno : r;
}

int repair_write(struct session_log *log)
{
	struct embedded_log *own = embedded_log_of(log);
	char fresh[64];
	struct store *store = log->store;
	struct walk walk = {.repair = own->repair, .log = log, .see = put_line};
	int dir_fd = disk->openat(
		embedded_of(store)->sessions_fd, log->id, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (dir_fd < 0) {
		return -errno;
	}
	snprintf(fresh, sizeof(fresh), "events.jsonl.%016" PRIx64, log->epoch);
	int r = begin_finishing(store, log->id);
	walk.fd =
		r < 0 ? -1
		      : disk->openat(dir_fd, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	r = r == 0 && walk.fd < 0 ? -errno : r;
	int old_fd = r < 0 ? -1 : open_log(log);
	if (r == 0) {
		r = old_fd < 0 && old_fd != -ENOENT ? old_fd : write_lines(&walk, old_fd);
	}
	if (r == 0) {
		take_written(log, walk.size);
		r = put_in_place(log, dir_fd, fresh);
	}
	own->repair->is_done = r == 0;
	if (r == 0) {
		repair_end(store, log->id);
	}
	buffer_finish(&walk.out);
	for (int i = 0, fds[] = {walk.fd, old_fd, dir_fd}; i < 3; i++) {
		if (fds[i] >= 0) {
			close(fds[i]);
		}
	}
	return r;
}
