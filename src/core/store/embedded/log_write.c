/*
 * Writes the files of sessions, in runs of the journal's thread. Only that thread makes and moves
 * the folders of sessions and appends to their files, so that no locks are needed. A run
 *
 *   1. moves folders of deleted sessions to the trash;
 *   2. writes what is left over: lines that a file did not take, names, entries of the index;
 *   3. writes and syncs the journal's batch;
 *   4. only then, and only if that succeeds, makes the folders of new sessions and appends the
 *      events that the batch's records complete to the logs.
 *
 * The loop prepares the work of a run, and takes its results. In between is_writing of the log is
 * set, and everything else that uses its files (loading names, rebuilding the index) waits. A log
 * that is being pruned is not written until it is known which file it has.
 *
 * When many sessions are created at once, the batch's results do not wait for all of their folders:
 * a run makes folders for FOLDERS_NS, and leaves the others and their lines to the next runs.
 */
#include "repair.h"

#include "holdfast/descriptors.h"
#include "holdfast/diag.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

/* How long a run makes folders (ns): at least one, and all that a checkpoint waits for. */
#define FOLDERS_NS 2000000
/* The most log files kept open; beyond this the least recently used one is closed. */
#define OPEN_LOGS_MAX 512

struct log_write {
	struct log_part part; /* the first member; in journal.gather_writes, or flight_writes */
	bool creates; /* the batch has its RECORD_CREATE */
	bool is_whole; /* write names and index entries even if they are few */
	bool closes; /* close the file */
	struct checkpoint_item *item; /* which waits for this, or NULL */

	/* Used by the journal's thread from the launch until the run ends. */
	bool is_held; /* the log is being pruned: do not touch its files */
	bool holds_events; /* the same, for the batch's events only */
	bool lacks_folder;
	bool may_move_old; /* a folder in its place is that of a deleted session */
	bool reopens; /* the log's file was replaced */
	bool is_late; /* its folder is left to the next run */
	bool has_new_files;
	struct buffer lines; /* that the file lacks */
	uint64_t written; /* bytes that the file has */
	struct file_append keys;
	struct file_append index;
	int status;
	int dir_fd; /* for the checkpoint */
	int fd;
};

struct removal {
	struct list link; /* journal.gather_removals, or flight_removals */
	struct session_log *log;
	uv_work_t work;
	struct store *store;
	bool has_folder;
	int status;
	char path[320];
};

/* --- gathering work --- */

static struct log_write *write_in(struct list *link)
{
	return list_entry(link, struct log_write, part.link);
}

/** The work on this log for the next run. */
static struct log_write *write_of(struct session_log *log)
{
	struct embedded_log *own = embedded_log_of(log);
	if (!own->write) {
		own->write = xcalloc(1, sizeof(*own->write));
		own->write->part.log = log;
		list_append(
			&embedded_of(log->store)->journal.gather_writes, &own->write->part.link);
	}
	return own->write;
}

struct log_part *log_write_part(struct session_log *log)
{
	return &write_of(log)->part;
}

void log_write_replayed(struct session_log *log, struct event *event, int64_t ts)
{
	event_append_line(event, &embedded_log_of(log)->unwritten);
	log_index_add(log, log->size);
	session_log_take(log, event, ts);
}

void log_write_wants_folder(struct session_log *log)
{
	struct embedded_log *own = embedded_log_of(log);
	struct metadata meta;
	assert(!log->last_seq);
	metadata_take(log, &meta);
	metadata_append(log->id, &meta, &own->first_metadata);
	metadata_finish(&meta);
	own->lacks_folder = true;
}

void log_write_create(struct session_log *log)
{
	write_of(log)->creates = true;
}

void log_write_whole(struct session_log *log, struct checkpoint_item *item)
{
	write_of(log)->is_whole = true;
	embedded_log_of(log)->write->item = item;
	embedded_of(log->store)->journal.wants_run = true;
}

void log_write_close(struct session_log *log)
{
	write_of(log)->closes = true;
	embedded_of(log->store)->journal.wants_run = true;
}

static void forget_events(struct log_write *write)
{
	log_part_forget(&write->part);
	write->creates = false;
}

static void finish(struct log_write *write)
{
	forget_events(write);
	list_remove(&write->part.link);
	buffer_finish(&write->lines);
	file_append_finish(&write->keys);
	file_append_finish(&write->index);
	free(write);
}

void log_writes_forget_events(struct journal *journal)
{
	list_for_each(link, &journal->gather_writes) {
		forget_events(write_in(link));
	}
}

int log_write_rest(struct session_log *log)
{
	struct embedded_log *own = embedded_log_of(log);
	if (own->is_frozen || log->keys.job || own->is_writing || own->write) {
		return -EBUSY;
	}
	if (own->unwritten.len || log->keys.unwritten.len ||
		(own->index.fresh.len && own->index.state != INDEX_BUILDING)) {
		log_write_whole(log, NULL);
		return -EBUSY;
	}
	log_write_close(log);
	return 0;
}

/** The log takes part in nothing any more: drops its work, and cancels reads that wait. */
static void stop(struct session_log *log)
{
	struct embedded_log *own = embedded_log_of(log);
	assert(!own->is_writing);
	if (own->write) {
		finish(own->write);
		own->write = NULL;
	}
	log_reads_resume(log, -ECANCELED);
	list_remove(&own->wanted_link);
	list_remove(&own->html.link);
}

void log_write_drop(struct session_log *log)
{
	struct embedded_log *own = embedded_log_of(log);
	if (!own) {
		return; /* its RECORD_CREATE was refused */
	}
	stop(log);
	log_file_close(log);
	repair_free(own->repair);
	buffer_finish(&own->unwritten);
	buffer_finish(&own->first_metadata);
	buffer_finish(&own->index.fresh);
	log->engine_data = NULL;
	pool_give(&embedded_of(log->store)->logs, own);
}

static void launch(struct log_write *write)
{
	struct session_log *log = write->part.log;
	struct embedded_log *own = embedded_log_of(log);
	own->write = NULL;
	own->is_writing = true;
	write->is_held = own->is_frozen && !write->item;
	write->holds_events = own->is_frozen;
	write->dir_fd = write->fd = -1;
	write->written = log->written;
	write->lines = own->unwritten;
	own->unwritten = (struct buffer){0};
	write->lacks_folder = own->lacks_folder;
	if (write->is_held) {
		return;
	}
	write->may_move_old = hash_get(embedded_of(log->store)->leftovers, log->id,
				      strlen(log->id)) == log->store;
	write->reopens = own->is_moved;
	own->is_moved = false;
	keys_file_launch(log, write->is_whole, &write->keys);
	log_index_launch(log, write->is_whole, &write->index);
}

void log_writes_launch(struct journal *journal)
{
	list_move_all(&journal->flight_removals, &journal->gather_removals);
	list_for_each(link, &journal->flight_removals) {
		struct removal *removal = list_entry(link, struct removal, link);
		removal->has_folder = !embedded_log_of(removal->log)->lacks_folder;
	}
	list_move_all(&journal->flight_writes, &journal->gather_writes);
	list_for_each(link, &journal->flight_writes) {
		launch(write_in(link));
	}
}

/* --- on the journal's thread --- */

void log_file_close(struct session_log *log)
{
	struct embedded_log *own = embedded_log_of(log);
	if (own->fd >= 0) {
		close(own->fd);
		own->fd = -1;
		list_remove(&own->fd_link);
		embedded_of(log->store)->open_count--;
	}
}

/** Opens the log's file unless it is open. Returns the descriptor or a negative errno. */
static int open_file(struct session_log *log)
{
	struct embedded_log *own = embedded_log_of(log);
	struct store *store = log->store;
	struct embedded_store *emb = embedded_of(store);
	if (own->fd >= 0) {
		list_remove(&own->fd_link);
		list_append(&emb->open_logs, &own->fd_link);
		return own->fd;
	}
	while (emb->open_count > 0 &&
		(emb->open_count >= OPEN_LOGS_MAX || descriptors_check(DESCRIPTORS_FOR_WORK) < 0)) {
		log_file_close(list_entry(emb->open_logs.next, struct embedded_log, fd_link)->log);
	}
	char path[160];
	snprintf(path, sizeof(path), "%s/events.jsonl", log->id);
	int fd =
		disk->openat(emb->sessions_fd, path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0) {
		return -errno;
	}
	own->fd = fd;
	list_append(&emb->open_logs, &own->fd_link);
	emb->open_count++;
	return fd;
}

/**
 * After a failed append the end of the file is unknown: some file systems write a part and report
 * that nothing was written. Cuts the file off after the bytes that are known to be written.
 */
static int cut_torn_end(struct session_log *log, uint64_t written)
{
	struct embedded_log *own = embedded_log_of(log);
	struct stat st;
	int r = fstat(own->fd, &st) < 0 ? -errno : 0;
	if (r == 0 && (uint64_t)st.st_size > written &&
		disk->ftruncate(own->fd, (off_t)written) < 0) {
		r = -errno;
	}
	own->has_torn_end = r < 0;
	return r;
}

static int write_lines(struct log_write *write)
{
	struct session_log *log = write->part.log;
	int fd = write->lines.len ? open_file(log) : 0;
	int r = fd < 0 ? fd
		: write->lines.len && embedded_log_of(log)->has_torn_end
			? cut_torn_end(log, write->written)
			: 0;
	while (r == 0 && write->lines.len) {
		ssize_t n = disk->write(fd, write->lines.data, write->lines.len);
		if (n >= 0) {
			buffer_consume(&write->lines, (size_t)n);
			write->written += (uint64_t)n;
		} else if (errno != EINTR) {
			r = -errno;
			(void)!cut_torn_end(log, write->written); /* else before the next append */
		}
	}
	return r;
}

static int move_old(struct session_log *log)
{
	char path[320];
	snprintf(path, sizeof(path), "trash/%s.before.%016llx", log->id,
		(unsigned long long)log->epoch);
	return disk->renameat(
		       embedded_of(log->store)->sessions_fd, log->id, log->store->dir_fd, path) < 0
		       ? -errno
		       : 0;
}

/**
 * Makes a session's folder, with a metadata.json that names its owner; if that fails, a checkpoint
 * writes it. It is the metadata of a log without events: events that the journal has by now are in
 * no file yet.
 */
static int make_folder(struct log_write *write)
{
	struct session_log *log = write->part.log;
	int sessions_fd = embedded_of(log->store)->sessions_fd;
	int r = disk->mkdirat(sessions_fd, log->id, 0700) < 0 ? -errno : 0;
	if (r == -EEXIST && write->may_move_old && move_old(log) == 0) {
		r = disk->mkdirat(sessions_fd, log->id, 0700) < 0 ? -errno : 0;
	}
	if (r < 0) {
		return r;
	}
	write->lacks_folder = false;
	write->has_new_files = true;
	int dir_fd = disk->openat(sessions_fd, log->id, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (dir_fd >= 0) {
		(void)!disk_replace(
			dir_fd, "metadata.json", &embedded_log_of(log)->first_metadata, false);
		close(dir_fd);
	}
	(void)!open_file(log);
	return 0;
}

/** Makes the folder; -EBUSY if this run has spent enough time on folders. */
static int make_folder_in_turn(struct log_write *write)
{
	struct journal *journal = &embedded_of(write->part.log->store)->journal;
	if (journal->folders_ns >= FOLDERS_NS && !write->item) {
		write->is_late = true;
		return -EBUSY;
	}
	uint64_t begun_ns = uv_hrtime();
	int r = make_folder(write);
	journal->folders_ns += uv_hrtime() - begun_ns;
	return r;
}

/** Opens what a checkpoint will sync, as another session may have the same id by then. */
static int open_for_item(struct log_write *write)
{
	struct session_log *log = write->part.log;
	int fd = open_file(log);
	if (fd < 0) {
		return fd;
	}
	write->dir_fd = disk->openat(embedded_of(log->store)->sessions_fd, log->id,
		O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	write->fd = write->dir_fd < 0 ? -1 : disk->dup(fd);
	if (write->fd >= 0) {
		return 0;
	}
	int r = -errno;
	close(write->dir_fd);
	return r;
}

static void run_before(struct log_write *write)
{
	struct session_log *log = write->part.log;
	if (write->is_held || write->creates) {
		return;
	}
	if (write->reopens) {
		log_file_close(log);
	}
	int r = write->lacks_folder ? make_folder_in_turn(write) : 0;
	r = r < 0 ? r : write_lines(write);
	if (r == 0) {
		file_append_run(&write->keys, embedded_of(log->store)->sessions_fd, log->id);
		file_append_run(&write->index, embedded_of(log->store)->sessions_fd, log->id);
	}
	write->status = r < 0 || !write->item ? r : open_for_item(write);
	if (write->closes && !write->item) {
		log_file_close(log);
	}
}

static void run_after(struct log_write *write)
{
	if (write->creates) {
		write->status = make_folder_in_turn(write);
	}
	for (size_t i = 0; i < write->part.count; i++) {
		event_append_line(write->part.events[i].event, &write->lines);
	}
	if (write->part.count && !write->holds_events && write->status == 0) {
		write->status = write_lines(write);
	}
}

static void run_removal(struct removal *removal)
{
	const struct store *store = removal->store;
	log_file_close(removal->log);
	if (removal->has_folder && disk->renameat(embedded_of(store)->sessions_fd, removal->log->id,
					   store->dir_fd, removal->path) < 0) {
		removal->status = -errno;
	}
}

void log_writes_before(struct journal *journal)
{
	journal->folders_ns = 0;
	list_for_each(link, &journal->flight_removals) {
		run_removal(list_entry(link, struct removal, link));
	}
	list_for_each(link, &journal->flight_writes) {
		run_before(write_in(link));
	}
}

void log_writes_after(struct journal *journal)
{
	list_for_each(link, &journal->flight_writes) {
		run_after(write_in(link));
	}
}

/* --- taking the results, on the loop --- */

static void take_folder(struct session_log *log, const struct log_write *write)
{
	struct embedded_log *own = embedded_log_of(log);
	if (own->lacks_folder && !write->lacks_folder) {
		hash_remove(embedded_of(log->store)->leftovers, log->id, strlen(log->id));
		own->lacks_folder = false;
		buffer_finish(&own->first_metadata);
	}
	own->has_new_files = own->has_new_files || write->has_new_files || write->keys.is_new ||
			     write->index.is_new;
}

/** Puts the lines that the file did not take before those that were added since. */
static void take_lines(struct session_log *log, struct log_write *write)
{
	struct embedded_log *own = embedded_log_of(log);
	buffer_append(&write->lines, own->unwritten.data, own->unwritten.len);
	buffer_finish(&own->unwritten);
	own->unwritten = write->lines;
	write->lines = (struct buffer){0};
	if (!write->is_held) { /* else the log's file may have been replaced */
		log->written = write->written;
	}
	if (!own->unwritten.len) {
		buffer_finish(&own->unwritten);
	}
}

/** Adds the entries of events that the log is about to have. */
static void add_entries(struct session_log *log, const struct log_part *part)
{
	uint64_t at = log->size;
	for (size_t i = 0; i < part->count; i++) {
		log_index_add(log, at);
		at += event_line_len(part->events[i].event);
	}
}

static int first_error(int a, int b)
{
	return a < 0 ? a : b;
}

static void land(struct log_write *write, bool is_synced)
{
	struct session_log *log = write->part.log;
	struct embedded_log *own = embedded_log_of(log);
	own->is_writing = false;
	own->is_unconfirmed = own->is_unconfirmed && !(write->creates && is_synced);
	take_folder(log, write);
	take_lines(log, write);
	if (is_synced) {
		if (write->part.count) {
			html_follow(log, false);
		}
		/* Names are written only with new ones, or a full disk would be retried forever. */
		bool is_more = write->part.count || write->part.names.len;
		add_entries(log, &write->part);
		log_part_land(&write->part);
		if (is_more) {
			keys_file_flush(log);
		}
	}
	int r = first_error(keys_file_land(log, &write->keys), log_index_land(log, &write->index));
	r = first_error(write->status, r);
	if (write->item) {
		checkpoint_item_written(write->item, log, r, write->dir_fd, write->fd);
	}
	if (r < 0 && r != -EBUSY) {
		diag(DIAG_WARN,
			"session %s: its files cannot be written: %s; its events are in the journal, and the write is retried",
			log->id, strerror(-r));
	}
	if (write->is_late) {
		write_of(log);
		embedded_of(log->store)->journal.wants_run = true;
	}
	session_log_trim(log);
	log_index_resume(log);
	keys_file_resume(log);
}

static void removal_work(uv_work_t *work)
{
	struct removal *removal = work->data;
	remove_folder(removal->store->dir_fd, removal->path);
}

static void removal_done(uv_work_t *work, int status)
{
	struct removal *removal = work->data;
	removal->store->jobs--;
	free(removal);
}

static void land_removal(struct removal *removal)
{
	struct store *store = removal->store;
	struct embedded_store *emb = embedded_of(store);
	struct session_log *log = removal->log;
	bool is_moved = removal->has_folder && removal->status == 0;
	list_remove(&removal->link);
	if (removal->status < 0) {
		diag(DIAG_WARN,
			"session %s: its folder cannot be removed: %s; the next start removes it",
			log->id, strerror(-removal->status));
		emb->has_leftover = true;
		hash_put(emb->leftovers, log->id, strlen(log->id), store);
	}
	session_log_free(log);
	if (!is_moved) {
		free(removal);
		return;
	}
	store->jobs++;
	int r = uv_queue_work(store->loop, &removal->work, removal_work, removal_done);
	assert(r == 0);
}

void log_writes_land(struct journal *journal, bool is_synced)
{
	list_for_each_safe(link, tmp, &journal->flight_writes) {
		struct log_write *write = write_in(link);
		land(write, is_synced);
		finish(write);
	}
	list_for_each_safe(link, tmp, &journal->flight_removals) {
		land_removal(list_entry(link, struct removal, link));
	}
}

void log_write_remove(struct session_log *log)
{
	struct store *store = log->store;
	struct embedded_store *emb = embedded_of(store);
	struct removal *removal = xcalloc(1, sizeof(*removal));
	removal->work.data = removal;
	removal->store = store;
	removal->log = log;
	snprintf(removal->path, sizeof(removal->path), "trash/%s.%016llx", log->id,
		(unsigned long long)log->epoch);
	stop(log);
	session_log_unlist(log);
	list_append(&emb->journal.gather_removals, &removal->link);
	emb->journal.wants_run = true;
}
