/*
 * keys.jsonl of a log: it has a line for each name, and is written with the log. It is read as a
 * whole, on the thread pool, before the first lookup, and rebuilt then if it is damaged
 * (names_rebuild.c). The names in memory are in log_keys.c.
 */
#include "repair.h"

#include "holdfast/diag.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Lines are gathered in memory up to this many bytes; until then the journal has their inputs. */
#define UNWRITTEN_MAX ((size_t)16 << 10)

/** A job that reads the names. It has no pointer to the log, which may be freed meanwhile. */
struct names_job {
	uv_work_t work;
	const struct store_facts *facts;
	struct store *store;
	char *id;
	uint64_t epoch;
	uint64_t size; /* bytes of the file that count */
	uint64_t log_size; /* of events.jsonl, from which a damaged file is rebuilt */
	struct name_table names;
	bool is_unseen; /* the file was not checked since the start: it may be longer */
	uint64_t inputs; /* how many names given by inputs those bytes should have */
	uint64_t remade_size; /* of the rebuilt file */
	bool is_remade; /* the file was rebuilt */
	int status;
};

/* --- rebuilding, on the thread pool --- */

static int remake_line(void *arg, const struct event_view *view, uint64_t offset, size_t len)
{
	if (view) {
		names_rebuild_event(arg, view);
	}
	return 0;
}

/**
 * Rebuilds the file from the log and from those of its lines that can still be read and that the
 * log does not have. These come first, because a metadata.json that still has the old file's size
 * may cut off the rest.
 */
static int remake(struct names_job *job, const struct buffer *old)
{
	int dir_fd =
		metadata_open_folder(embedded_of(job->store)->sessions_fd, job->id, job->epoch);
	if (dir_fd < 0) {
		return dir_fd;
	}
	uint64_t seed = job->names.seed;
	name_table_finish(&job->names);
	name_table_begin(&job->names, job->facts->name_kinds, seed);
	struct names_rebuild rebuild = {.facts = job->facts, .names = &job->names};
	names_rebuild_salvage(&rebuild, old->data, old->len);
	int fd = disk->openat(dir_fd, "events.jsonl", O_RDONLY | O_CLOEXEC, 0);
	int r = fd >= 0 ? log_scan(fd, 0, job->log_size, remake_line, &rebuild)
		: errno == ENOENT && !job->log_size ? 0
						    : -errno;
	if (fd >= 0) {
		close(fd);
	}
	r = r < 0 ? r : disk_write_new(dir_fd, "keys.jsonl", &rebuild.lines, true);
	if (r == 0) {
		repair_keep_file(job->store, job->id, dir_fd, "keys.jsonl");
		r = disk_put_new(dir_fd, "keys.jsonl", true);
	}
	close(dir_fd);
	job->is_remade = r == 0;
	job->remade_size = rebuild.lines.len;
	buffer_finish(&rebuild.lines);
	return r;
}

static void note_missing(struct names_job *job)
{
	struct name_table *names = &job->names;
	names->missing = job->inputs > names->inputs ? job->inputs - names->inputs : 0;
	if (job->is_remade) {
		diag(DIAG_WARN, "session %s: keys.jsonl was damaged, and is made anew", job->id);
	}
}

/* --- loading --- */

/** Cuts off the bytes that do not count. Nothing else writes to the file meanwhile. */
static int cut_file(const struct names_job *job)
{
	int dir_fd =
		metadata_open_folder(embedded_of(job->store)->sessions_fd, job->id, job->epoch);
	if (dir_fd < 0) {
		return dir_fd;
	}
	int fd = disk->openat(dir_fd, "keys.jsonl", O_RDWR | O_CLOEXEC, 0);
	int r = fd < 0 || disk->ftruncate(fd, (off_t)job->size) < 0 ? -errno : 0;
	close(fd);
	close(dir_fd);
	return r;
}

/** Reads the bytes that count; -EBADMSG if the file has fewer. */
static int read_file(const struct names_job *job, struct buffer *out)
{
	char path[160];
	snprintf(path, sizeof(path), "%s/keys.jsonl", job->id);
	int r = disk_read_file(
		embedded_of(job->store)->sessions_fd, path, (size_t)job->size + 1, out);
	if (job->is_unseen && r == 0 && out->len > job->size) {
		r = cut_file(job);
	}
	out->len = out->len < job->size ? out->len : (size_t)job->size;
	return r == -ENOENT || (r == 0 && out->len < job->size) ? -EBADMSG : r;
}

static void work(uv_work_t *work_req)
{
	struct names_job *job = work_req->data;
	struct buffer bytes = {0};
	int r = job->size ? read_file(job, &bytes) : 0;
	if (r == 0) {
		r = name_lines_take(job->facts, &job->names, bytes.data, bytes.len);
	}
	job->status = r == -EBADMSG ? remake(job, &bytes) : r;
	note_missing(job);
	buffer_finish(&bytes);
}

static void take_job(struct session_log *log, struct names_job *job)
{
	struct keys_file *file = &embedded_log_of(log)->keys;
	struct log_keys *keys = &log->keys;
	keys->job = NULL;
	if (job->is_remade) {
		keys->size = job->remade_size;
		file->disk = (struct durable_part){.certain = keys->size};
		file->is_seen = true;
		keys->is_remade = true;
		/* Metadata with the old size would make the next start rebuild the file again. */
		log->dirty = true;
	}
	file->is_seen = file->is_seen || (job->status == 0 && job->size);
	log_keys_loaded(log, &job->names, job->status);
}

/** `log` is NULL if it was freed meanwhile. */
static void end_job(struct names_job *job, struct session_log *log)
{
	if (log && log->keys.job == job) {
		take_job(log, job);
	}
	name_table_finish(&job->names);
	free(job->id);
	free(job);
}

static void work_done(uv_work_t *work_req, int status)
{
	struct names_job *job = work_req->data;
	job->store->jobs--;
	end_job(job, session_log_of(job->store, job->id, job->epoch));
}

static struct names_job *begin_job(struct session_log *log)
{
	struct embedded_log *own = embedded_log_of(log);
	struct names_job *job = xcalloc(1, sizeof(*job));
	const struct store_facts *facts = log->store->ops->facts;
	*job = (struct names_job){.store = log->store,
		.facts = facts,
		.id = xstrdup(log->id),
		.epoch = log->epoch,
		.size = log->keys.size,
		.is_unseen = !own->keys.is_seen && !own->is_writing,
		.inputs = log->keys.input_names - name_lines_count(facts, &log->keys.unwritten),
		.log_size = log->written};
	job->work.data = job;
	name_table_begin(&job->names, job->facts->name_kinds, log->store->by_id.seed);
	log->keys.job = job;
	return job;
}

/** Loads the names inside this call. */
static int load_now(struct session_log *log)
{
	struct names_job *job = begin_job(log);
	work(&job->work);
	end_job(job, log); /* the log may not be in the store's list yet */
	int r = log->keys.error;
	log->keys.error = 0;
	return r;
}

static void load_later(struct session_log *log)
{
	struct names_job *job = begin_job(log);
	log->store->jobs++;
	int r = uv_queue_work(log->store->loop, &job->work, work, work_done);
	assert(r == 0);
}

int keys_file_load(struct session_log *log, bool now)
{
	if (now) {
		return load_now(log);
	}
	if (!log->keys.job && !embedded_log_of(log)->is_writing) {
		load_later(log);
	}
	return 0;
}

void keys_file_resume(struct session_log *log)
{
	if (!list_empty(&log->keys.waits) && !log->keys.job && !embedded_log_of(log)->is_writing) {
		load_later(log);
	}
}

/* --- writing --- */

void keys_file_flush(struct session_log *log)
{
	if (log->keys.unwritten.len >= UNWRITTEN_MAX) {
		log_write_whole(log, NULL);
	}
}

void keys_file_launch(struct session_log *log, bool all, struct file_append *ret)
{
	const struct keys_file *file = &embedded_log_of(log)->keys;
	const struct log_keys *keys = &log->keys;
	*ret = (struct file_append){.name = "keys.jsonl",
		.size = keys->size,
		.is_seen = file->is_seen,
		.status = -ECANCELED};
	if (keys->unwritten.len < (all ? 1 : UNWRITTEN_MAX)) {
		return;
	}
	if (keys->job) {
		ret->status = all ? -EBUSY : 0; /* the file may be rebuilt, with another size */
		return;
	}
	buffer_append(&ret->bytes, keys->unwritten.data, keys->unwritten.len);
}

int keys_file_land(struct session_log *log, struct file_append *append)
{
	struct keys_file *file = &embedded_log_of(log)->keys;
	struct log_keys *keys = &log->keys;
	struct store *store = log->store;
	if (!append->bytes.len) {
		return append->status == -EBUSY ? -EBUSY : 0;
	}
	if (append->status == -EBADMSG && (store->opening || !server_may(store->life, MAY_WRITE))) {
		int r = load_now(log);
		append->size = keys->size;
		append->status = r;
		if (r == 0) {
			file_append_run(append, embedded_of(store)->sessions_fd, log->id);
		}
	} else if (append->status == -EBADMSG) {
		log_keys_rest(keys);
		load_later(log);
		return -EBUSY;
	}
	if (append->status == -ECANCELED) {
		return 0;
	}
	file->is_seen = append->status == 0; /* else a part may be in the file */
	if (append->status == 0) {
		keys->size += append->bytes.len;
		file->disk.is_unsynced = true;
		buffer_consume(&keys->unwritten, append->bytes.len);
		if (!keys->unwritten.len) {
			buffer_finish(&keys->unwritten);
		}
	}
	return append->status;
}
