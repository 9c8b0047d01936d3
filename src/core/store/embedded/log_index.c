/*
 * events.index: the offset of each event's line, so that any seq is found with one read. It is
 * written after the log and never trusted: lines found through it are checked, and if they do not
 * fit, the index is rebuilt from the log on the thread pool and the read repeated once.
 */
#include "embedded.h"

#include "holdfast/diag.h"
#include "holdfast/pack.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC       "HFINDX1\n"
#define HEADER_SIZE 32
#define ENTRY_SIZE  8

/* Entries are gathered in memory up to this many bytes, to save writes. */
#define FRESH_MAX 4096

static uint64_t file_size(uint64_t count)
{
	return count ? HEADER_SIZE + count * ENTRY_SIZE : 0;
}

uint64_t log_index_size(const struct log_index *index)
{
	return file_size(index->count);
}

static void append_header(struct buffer *out, uint64_t epoch, uint64_t first_seq)
{
	size_t start = out->len;
	buffer_append(out, MAGIC, 8);
	pack_le(out, epoch, 8);
	pack_le(out, first_seq, 8);
	pack_le(out, journal_checksum(out->data + start, out->len - start), 8);
}

void log_index_lose(struct log_index *index)
{
	index->state = INDEX_LOST;
	index->count = 0;
	index->disk = (struct durable_part){0};
	buffer_finish(&index->fresh);
}

void log_index_add(struct session_log *log, uint64_t offset)
{
	struct embedded_log *own = embedded_log_of(log);
	if (own->index.state != INDEX_LOST) {
		pack_le(&own->index.fresh, offset, ENTRY_SIZE);
	}
}

/** Adds the events that the file lacks to an index that was just begun. */
static void add_unwritten(struct session_log *log)
{
	uint64_t at;
	uint64_t seq = session_log_last_written(log, &at);
	while (seq++ < log->last_seq) {
		log_index_add(log, at);
		at += event_line_len(session_log_hot_at(log, seq));
	}
}

void log_index_take(struct session_log *log, uint64_t count)
{
	struct embedded_log *own = embedded_log_of(log);
	log_index_lose(&own->index);
	own->index.state = INDEX_GOOD;
	own->index.count = count;
	own->index.disk.certain = log_index_size(&own->index);
	add_unwritten(log);
}

void log_index_launch(struct session_log *log, bool all, struct file_append *ret)
{
	const struct log_index *index = &embedded_log_of(log)->index;
	*ret = (struct file_append){.name = "events.index",
		.size = file_size(index->count),
		.is_seen = index->state != INDEX_UNSEEN,
		.status = -ECANCELED};
	if (index->fresh.len < (all ? 1 : FRESH_MAX) || index->state == INDEX_BUILDING) {
		return;
	}
	append_header(index->count ? &ret->head : &ret->bytes, log->epoch, log->base_seq);
	buffer_append(&ret->bytes, index->fresh.data, index->fresh.len);
}

int log_index_land(struct session_log *log, const struct file_append *append)
{
	struct log_index *index = &embedded_log_of(log)->index;
	if (!append->bytes.len || append->status == -ECANCELED || index->state == INDEX_BUILDING) {
		return 0;
	}
	if (append->status == -EBADMSG) {
		log_index_lose(index);
		return 0;
	}
	/* After an error a part may be in the file. */
	index->state = append->status < 0 ? INDEX_UNSEEN : INDEX_GOOD;
	if (append->status == 0) {
		size_t len = append->bytes.len - (index->count ? 0 : HEADER_SIZE);
		index->count += len / ENTRY_SIZE;
		index->disk.is_unsynced = true;
		buffer_consume(&index->fresh, len);
		if (!index->fresh.len) {
			buffer_finish(&index->fresh);
		}
	}
	return append->status;
}

uint64_t log_index_first_fresh(const struct session_log *log)
{
	return log->base_seq + embedded_log_of(log)->index.count;
}

uint64_t log_index_fresh_at(const struct session_log *log, uint64_t seq)
{
	const struct embedded_log *own = embedded_log_of(log);
	size_t at = (size_t)(seq - log_index_first_fresh(log)) * ENTRY_SIZE;
	assert(at + ENTRY_SIZE <= own->index.fresh.len);
	struct unpack in = {.bytes = own->index.fresh.data + at, .len = ENTRY_SIZE};
	return unpack_le(&in, ENTRY_SIZE);
}

int log_index_read(int fd, uint64_t first_seq, uint64_t from, uint64_t *offsets, size_t count)
{
	int r = disk_read_at(
		fd, file_size(from - first_seq + 1) - ENTRY_SIZE, offsets, count * ENTRY_SIZE);
	for (size_t i = 0; i < count; i++) {
		offsets[i] = le64toh(offsets[i]);
	}
	return r == -EBADMSG ? -ESTALE : r;
}

int log_index_read_header(int fd, uint64_t *ret_epoch, uint64_t *ret_first_seq)
{
	char header[HEADER_SIZE];
	int r = disk_read_at(fd, 0, header, sizeof(header));
	if (r < 0) {
		return r == -EBADMSG ? -ESTALE : r;
	}
	struct unpack in = {.bytes = header + 8, .len = HEADER_SIZE - 8};
	*ret_epoch = unpack_le(&in, 8);
	*ret_first_seq = unpack_le(&in, 8);
	bool good = memcmp(header, MAGIC, 8) == 0 &&
		    unpack_le(&in, 8) == journal_checksum(header, HEADER_SIZE - 8);
	return good ? 0 : -EBADMSG;
}

/* --- rebuilding --- */

struct build {
	const struct index_source *source;
	struct buffer entries;
	uint64_t next_seq;
	uint64_t bad; /* offset of the first unreadable line since the last good one, or
			 UINT64_MAX */
	struct index_damage damage;
};

/** Adds entries for missing events before `seq`: the offset where they should be. */
static void skip_to(struct build *build, uint64_t seq, uint64_t offset)
{
	uint64_t at = build->bad == UINT64_MAX ? offset : build->bad;
	if (build->next_seq < seq && !build->damage.seq) {
		build->damage = (struct index_damage){.seq = build->next_seq, .offset = at};
	}
	for (; build->next_seq < seq; build->next_seq++) {
		pack_le(&build->entries, at, ENTRY_SIZE);
	}
}

/** A line that cannot be read loses its own events only: later ones are found by their seq. */
static int build_line(void *arg, const struct event_view *view, uint64_t offset, size_t len)
{
	struct build *build = arg;
	if (view && view->seq >= build->next_seq && view->seq <= build->source->last_seq) {
		skip_to(build, view->seq, offset);
		pack_le(&build->entries, offset, ENTRY_SIZE);
		build->next_seq++;
		build->bad = UINT64_MAX;
	} else if (build->bad == UINT64_MAX) {
		build->bad = offset;
	}
	return 0;
}

int log_index_make(const struct index_source *source, struct index_damage *ret_damage)
{
	struct build build = {.source = source, .next_seq = source->first_seq, .bad = UINT64_MAX};
	append_header(&build.entries, source->epoch, source->first_seq);
	int r = log_scan(source->fd, 0, source->end, build_line, &build);
	skip_to(&build, source->last_seq + 1, source->end);
	if (r == 0) {
		r = disk_replace(source->dir_fd, "events.index", &build.entries, true);
	}
	buffer_finish(&build.entries);
	*ret_damage = build.damage;
	return r;
}

/* --- on the thread pool --- */

struct job {
	uv_work_t work;
	struct store *store;
	char *id;
	struct index_source source;
	struct index_damage damage;
	int status;
};

static void build_work(uv_work_t *work)
{
	struct job *job = work->data;
	struct index_source *source = &job->source;
	source->dir_fd =
		metadata_open_folder(embedded_of(job->store)->sessions_fd, job->id, source->epoch);
	source->fd = source->dir_fd < 0 ? source->dir_fd
					: disk->openat(source->dir_fd, "events.jsonl",
						  O_RDONLY | O_CLOEXEC, 0);
	job->status = source->dir_fd < 0 ? source->dir_fd
		      : source->fd < 0   ? -errno
					 : log_index_make(source, &job->damage);
	close(source->fd);
	close(source->dir_fd);
}

static void report(const struct job *job)
{
	if (job->status < 0) {
		diag(DIAG_WARN, "session %s: its index cannot be rebuilt: %s", job->id,
			strerror(-job->status));
	} else if (job->damage.seq) {
		diag(DIAG_ERROR,
			"session %s: its log is damaged at byte %llu, where event %llu should be; what can be read of it is served, the rest is refused; restore it from a copy, or stop the server and run holdfast repair",
			job->id, (unsigned long long)job->damage.offset,
			(unsigned long long)job->damage.seq);
	} else {
		diag(DIAG_INFO, "session %s: its index has been rebuilt from its log", job->id);
	}
}

static void build_done(uv_work_t *work, int status)
{
	struct job *job = work->data;
	struct index_source *source = &job->source;
	struct session_log *log = session_log_of(job->store, job->id, source->epoch);
	job->store->jobs--;
	report(job);
	if (log && job->status == 0) {
		embedded_log_of(log)->index.state = INDEX_GOOD;
		embedded_log_of(log)->index.count = source->last_seq - source->first_seq + 1;
		embedded_log_of(log)->index.disk = (struct durable_part){
			.certain = log_index_size(&embedded_log_of(log)->index)};
		embedded_log_of(log)->has_new_files = true;
	} else if (log) {
		log_index_lose(&embedded_log_of(log)->index);
	}
	if (log) {
		log_reads_resume(log, job->status);
	}
	free(job->id);
	free(job);
}

void log_index_build(struct session_log *log)
{
	struct embedded_log *own = embedded_log_of(log);
	struct log_index *index = &own->index;
	if (index->state == INDEX_BUILDING) {
		return;
	}
	if (own->is_frozen || own->is_writing) {
		index->state = INDEX_BUILDING;
		index->build_is_due = true;
		return;
	}
	struct job *job = xcalloc(1, sizeof(*job));
	*job = (struct job){.store = log->store,
		.id = xstrdup(log->id),
		.source = {.epoch = log->epoch, .first_seq = log->base_seq}};
	job->work.data = job;
	job->source.last_seq = session_log_last_written(log, &job->source.end);
	log_index_lose(index);
	index->state = INDEX_BUILDING;
	add_unwritten(log);
	index->was_built = true;
	log->store->jobs++;
	int r = uv_queue_work(log->store->loop, &job->work, build_work, build_done);
	assert(r == 0);
}

void log_index_resume(struct session_log *log)
{
	struct embedded_log *own = embedded_log_of(log);
	if (!own->index.build_is_due || own->is_frozen || own->is_writing) {
		return;
	}
	own->index.build_is_due = false;
	if (own->index.state == INDEX_BUILDING) {
		log_index_lose(&own->index);
		log_index_build(log);
	} else {
		log_reads_resume(log, 0); /* a new index exists by now */
	}
}
