/*
 * The names of a log: ids by which prompts, answers to permission requests and inputs are found for
 * as long as the log exists. keys.jsonl has a line for each name, and is written with the log. It
 * is read as a whole, on the thread pool, before the first lookup, and rebuilt then if it is
 * damaged (names_rebuild.c).
 */
#include "repair.h"
#include "store_internal.h"

#include "holdfast/diag.h"
#include "holdfast/json_text.h"
#include "holdfast/pack.h"
#include "holdfast/sealed_line.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
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

void log_keys_rest(struct log_keys *keys)
{
	name_table_finish(&keys->names);
	buffer_finish(&keys->found);
}

static void end_waits(struct log_keys *keys)
{
	struct list due;
	list_init(&due);
	list_move_all(&due, &keys->waits);
	while (!list_empty(&due)) {
		struct names_wait *wait = list_entry(due.next, struct names_wait, link);
		list_remove(&wait->link);
		wait->done(wait);
	}
}

void log_keys_finish(struct log_keys *keys)
{
	end_waits(keys);
	log_keys_rest(keys);
	buffer_finish(&keys->unwritten);
}

/* --- lines --- */

void log_keys_add(void *arg, const struct log_name *name)
{
	struct session_log *log = arg;
	struct log_keys *keys = &log->keys;
	struct raw_name raw;
	name_line_append(&keys->unwritten, log->store->ops->facts->name_kinds, name, &raw);
	if (keys->names.slots) {
		name_table_put(&keys->names, &raw);
	}
	log->dirty = true;
}

int name_lines_take(
	const struct store_facts *facts, struct name_table *names, const char *bytes, size_t len)
{
	const char *end = bytes + len;
	for (const char *at = bytes; at < end;) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		struct raw_name name;
		if (!newline || log_name_scan(facts, at, (size_t)(newline - at), &name) < 0) {
			return -EBADMSG;
		}
		if (name.kind) {
			name_table_put(names, &name);
		}
		at = newline + 1;
	}
	return 0;
}

/**
 * A replay of the journal gives a name that the log should have already. If lines of names are lost,
 * it may be one of them.
 */
static void recover_name(struct session_log *log, const struct log_name *name)
{
	struct log_key had;
	if (!log->store->opening || session_log_find_key(log, name->kind, name->key, &had) != 0 ||
		!log->keys.names.missing) {
		return;
	}
	log->keys.names.missing--;
	log->keys.recovered++;
	log_keys_add(log, name);
}

void log_keys_note_replayed(struct session_log *log, uint64_t seq)
{
	log->keys.known_to = seq > log->keys.known_to ? seq : log->keys.known_to;
}

void log_keys_doubt(struct session_log *log)
{
	struct log_keys *keys = &log->keys;
	if (log->last_seq <= keys->known_to) {
		return;
	}
	keys->doubtful = log->last_seq - keys->known_to;
	keys->input_names += keys->doubtful;
	keys->names.missing += keys->names.slots ? keys->doubtful : 0;
	log->dirty = true;
}

void log_keys_add_input(struct session_log *log, uint64_t nth, const struct log_name *name)
{
	if (nth < log->keys.input_names) {
		recover_name(log, name);
		return;
	}
	log->keys.input_names = nth + 1;
	log_keys_add(log, name);
}

uint64_t session_log_input_names(const struct session_log *log)
{
	return log->keys.input_names;
}

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
	int dir_fd = metadata_open_folder(job->store->sessions_fd, job->id, job->epoch);
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
	int dir_fd = metadata_open_folder(job->store->sessions_fd, job->id, job->epoch);
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
	int r = disk_read_file(job->store->sessions_fd, path, (size_t)job->size + 1, out);
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

void log_keys_tell_missing(struct session_log *log)
{
	uint64_t missing = log->keys.names.missing;
	if (missing && !log->keys.is_told && !log->store->opening) {
		log->keys.is_told = true;
		store_add_damaged(log->store, 1);
		diag(DIAG_ERROR,
			"session %s: %llu keys, runs or ids that inputs gave are lost; appends with a key or run that is not found are refused until holdfast repair",
			log->id, (unsigned long long)missing);
	}
}

/**
 * Loads the names if the caller has not waited for them, as recovery, tools and tests do not; this
 * blocks. After a failure on the thread pool, it is not retried before session_log_load_names().
 */
static int need_names(struct session_log *log)
{
	const struct log_keys *keys = &log->keys;
	return keys->names.slots ? 0
	       : keys->job       ? -EBUSY
	       : keys->error     ? keys->error
				 : log->store->engine->load_names(log, true);
}

uint64_t session_log_forget_names(struct session_log *log)
{
	const struct store_facts *facts = log->store->ops->facts;
	uint64_t missing = log->keys.names.missing;
	char count[24];
	unsigned kind = 1;
	while (!facts->name_kinds[kind].is_count) {
		kind++;
	}
	snprintf(count, sizeof(count), "%llu", (unsigned long long)missing);
	if (missing) {
		log_keys_add(log, &(struct log_name){.kind = kind, .key = count, .by = ""});
		log->keys.names.missing = 0;
	}
	return missing;
}

void session_log_get_names_repair(struct session_log *log, struct names_repaired *ret)
{
	*ret = (struct names_repaired){.status = need_names(log)};
	ret->is_remade = log->keys.is_remade;
	ret->recovered = log->keys.recovered;
	ret->missing = log->keys.names.missing;
	ret->doubtful = log->keys.doubtful;
}

bool session_log_lacks_names(const struct session_log *log)
{
	return log->keys.names.missing > 0;
}

void log_keys_loaded(struct session_log *log, struct name_table *names, int status)
{
	struct log_keys *keys = &log->keys;
	keys->error = status;
	if (status == 0) {
		log_keys_rest(keys);
		keys->names = *names;
		*names = (struct name_table){0};
		log_keys_tell_missing(log);
		int r = name_lines_take(log->store->ops->facts, &keys->names, keys->unwritten.data,
			keys->unwritten.len);
		assert(r == 0); /* this program made these lines */
	} else {
		diag(DIAG_ERROR, "session %s: the names cannot be read: %s", log->id,
			strerror(-status));
	}
	end_waits(keys);
}

static void take_job(struct session_log *log, struct names_job *job)
{
	struct log_keys *keys = &log->keys;
	keys->job = NULL;
	if (job->is_remade) {
		keys->size = job->remade_size;
		keys->disk = (struct durable_part){.certain = keys->size};
		keys->is_seen = true;
		keys->is_remade = true;
		/* Metadata with the old size would make the next start rebuild the file again. */
		log->dirty = true;
	}
	keys->is_seen = keys->is_seen || (job->status == 0 && job->size);
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
	struct names_job *job = xcalloc(1, sizeof(*job));
	const struct store_facts *facts = log->store->ops->facts;
	*job = (struct names_job){.store = log->store,
		.facts = facts,
		.id = xstrdup(log->id),
		.epoch = log->epoch,
		.size = log->keys.size,
		.is_unseen = !log->keys.is_seen && !log->is_writing,
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

int log_keys_load(struct session_log *log, bool now)
{
	if (now) {
		return load_now(log);
	}
	if (!log->keys.job && !log->is_writing) {
		load_later(log);
	}
	return 0;
}

bool session_log_has_names(const struct session_log *log)
{
	return log->keys.names.slots || (!log->keys.job && !log->keys.size);
}

void session_log_load_names(struct session_log *log, struct names_wait *wait)
{
	struct log_keys *keys = &log->keys;
	/* Who waits already has them loaded, or they are once nothing else uses their file. */
	bool is_first = wait && list_empty(&keys->waits);
	if (wait) {
		list_append(&keys->waits, &wait->link);
	}
	if (session_log_has_names(log)) {
		end_waits(keys);
	} else if (log->store->opening || is_first) {
		log->store->engine->load_names(log, log->store->opening);
	}
}

void log_keys_resume(struct session_log *log)
{
	if (!list_empty(&log->keys.waits) && !log->keys.job && !log->is_writing) {
		load_later(log);
	}
}

void names_wait_cancel(struct names_wait *wait)
{
	if (wait->link.next) {
		list_remove(&wait->link);
	}
}

/* --- writing --- */

void log_keys_flush(struct session_log *log)
{
	if (log->keys.unwritten.len >= UNWRITTEN_MAX) {
		log_write_whole(log, NULL);
	}
}

void log_keys_launch(struct session_log *log, bool all, struct file_append *ret)
{
	const struct log_keys *keys = &log->keys;
	*ret = (struct file_append){.name = "keys.jsonl",
		.size = keys->size,
		.is_seen = keys->is_seen,
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

int log_keys_land(struct session_log *log, struct file_append *append)
{
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
			file_append_run(append, store->sessions_fd, log->id);
		}
	} else if (append->status == -EBADMSG) {
		log_keys_rest(keys);
		load_later(log);
		return -EBUSY;
	}
	if (append->status == -ECANCELED) {
		return 0;
	}
	keys->is_seen = append->status == 0; /* else a part may be in the file */
	if (append->status == 0) {
		keys->size += append->bytes.len;
		keys->disk.is_unsynced = true;
		buffer_consume(&keys->unwritten, append->bytes.len);
		if (!keys->unwritten.len) {
			buffer_finish(&keys->unwritten);
		}
	}
	return append->status;
}

/* --- lookups --- */

/** The value of a JSON string in the table, in the buffer `found`. */
static const char *unescape(struct buffer *found, const char *string)
{
	json_t *json = json_read(string, strlen(string), JSON_DECODE_ANY, NULL, NULL);
	buffer_clear(found);
	buffer_append_str(found, json ? json_string_value(json) : "");
	json_decref(json);
	return buffer_cstr(found);
}

int session_log_find_key(
	struct session_log *log, unsigned kind, const char *key, struct log_key *ret_key)
{
	struct log_keys *keys = &log->keys;
	struct buffer escaped = {0};
	int r = need_names(log);
	if (r < 0) {
		return r;
	}
	buffer_append_json(&escaped, key, strlen(key));
	const struct name_slot *slot =
		name_table_get(&keys->names, kind, escaped.data + 1, escaped.len - 2);
	buffer_finish(&escaped);
	if (slot) {
		bool has_by = keys->names.kinds[kind].has_by;
		*ret_key = (struct log_key){.seq = slot->seq,
			.by = has_by ? unescape(&keys->found, keys->names.by.data + slot->value)
				     : "",
			.sum = {.value = has_by ? 0 : slot->value, .rule = slot->rule}};
	}
	return slot != NULL;
}

int session_log_each_listed(
	struct session_log *log, void (*visit)(void *arg, const char *key), void *arg)
{
	int r = need_names(log);
	const struct buffer *listed = &log->keys.names.listed;
	for (size_t at = 0; r == 0 && at < listed->len;) {
		const char *key = listed->data + at;
		visit(arg, unescape(&log->keys.found, key));
		at += strlen(key) + 1;
	}
	return r;
}
