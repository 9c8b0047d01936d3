/*
 * A checkpoint makes logs durable without the journal: it syncs events.jsonl, and then writes
 * metadata.json with the max_seq that is certain. Once every changed log had its checkpoint, the
 * journal's older segments are no longer needed.
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
#include <unistd.h>

/* Most logs in one job. Each holds two descriptors until the job ends. */
#define PORTION 64

/** A snapshot of one log for the thread pool; it shares nothing with the loop. */
struct checkpoint_item {
	char *id;
	uint64_t epoch;
	int dir_fd; /* the folder, held open: not that of a new session with this id */
	int fd; /* a duplicate of the log's descriptor */
	struct durable_part keys; /* as of the moment when the log was written */
	uint64_t keys_size;
	struct durable_part index;
	uint64_t index_size;
	bool has_new_files;
	struct metadata meta;
	struct prune prune;
	bool has_new_log; /* prune_rewrite() has replaced events.jsonl */
	uint64_t swept; /* bytes of blobs deleted with pruned events */
	bool is_suspect;
	uint64_t certain_size;
	uint64_t size;
	int status;
};

struct checkpoint {
	uv_work_t work;
	struct store *store;
	bool in_round; /* part of a round over all logs, after which old segments can be deleted */
	bool more; /* the round continues with another portion */
	bool all; /* every log could be written */
	struct checkpoint_item items[PORTION];
	size_t count;
	int status; /* of syncing sessions/, which concerns all items */
	uint64_t oldest_segment; /* on success, segments from this one on are deleted … */
	uint64_t drop_before; /* … up to the one before this; 0: none */
};

static int replace_metadata(int dir_fd, const char *id, const struct metadata *meta, bool sync)
{
	struct buffer json = {0};
	metadata_append(id, meta, &json);
	int r = disk_replace(dir_fd, "metadata.json", &json, sync);
	buffer_finish(&json);
	return r;
}

/** Writes the journal first, then metadata.json: until that is replaced, the old epoch counts. */
static int save_epoch(struct session_log *log)
{
	struct embedded_log *own = embedded_log_of(log);
	if (own->repair) {
		int status = journal_sync_now(&embedded_of(log->store)->journal);
		return status < 0 ? status : repair_write(log);
	}
	log_write_whole(log, NULL);
	int r = journal_sync_now(&embedded_of(log->store)->journal);
	if (r < 0 || own->unwritten.len) {
		return r < 0 ? r : -EIO;
	}
	int dir_fd = disk->openat(embedded_of(log->store)->sessions_fd, log->id,
		O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (dir_fd < 0) {
		return -errno;
	}
	struct metadata meta;
	metadata_take(log, &meta);
	r = replace_metadata(dir_fd, log->id, &meta, true);
	metadata_finish(&meta);
	close(dir_fd);
	return r;
}

int checkpoint_epoch(
	struct session_log *log, uint64_t epoch, int64_t ts, const struct buffer *snapshot)
{
	uint64_t old = log->epoch;
	log->epoch = epoch;
	int64_t lsn = snapshot ? session_log_append(
					 log, RECORD_SNAPSHOT, ts, snapshot->data, snapshot->len)
			       : 0;
	int r = lsn < 0 ? (int)lsn : save_epoch(log);
	if (r < 0) {
		log->epoch = old;
	}
	return r;
}

/**
 * Makes one log durable. Writes metadata.json last, when the contents and directory entries of the
 * other files are durable.
 */
static int checkpoint_item(struct checkpoint_item *item)
{
	int r = item->is_suspect ? log_rewrite(item->dir_fd, item->certain_size, item->size) : 0;
	if (r == 0 && disk->fdatasync(item->fd) < 0) {
		r = -errno;
	}
	if (r == 0 && item->keys.is_suspect) {
		r = log_keys_rewrite(item->dir_fd, item->keys.certain, item->keys_size);
	}
	if (r == 0 && item->keys.is_unsynced) {
		r = disk_sync(item->dir_fd, "keys.jsonl", O_RDWR);
	}
	if (r == 0 && item->index.is_suspect) {
		r = log_index_rewrite(item->dir_fd, item->index.certain, item->index_size);
	}
	if (r == 0 && item->index.is_unsynced) {
		r = disk_sync(item->dir_fd, "events.index", O_RDWR);
	}
	if (r == 0 && item->has_new_files && disk->fsync(item->dir_fd) < 0) {
		r = -errno;
	}
	if (r == 0 && item->prune.wanted) {
		r = prune_find(&item->prune, item->fd, &item->meta);
	}
	return r < 0 ? r : replace_metadata(item->dir_fd, item->id, &item->meta, true);
}

/**
 * Rewrites a log that has many pruned lines, and deletes blobs that it no longer needs. Failure to
 * rewrite is harmless and only logged.
 */
static int shorten_item(struct checkpoint_item *item, struct blobs *blobs)
{
	int r = prune_rewrite(item->dir_fd, item->fd, &item->meta);
	if (r < 0) {
		diag(DIAG_WARN, "session %s: its pruned events cannot be removed from disk: %s",
			item->id, strerror(-r));
		return 0;
	}
	item->has_new_log = true;
	if (disk->fsync(item->dir_fd) < 0) {
		return -errno;
	}
	r = replace_metadata(item->dir_fd, item->id, &item->meta, true);
	item->swept = r < 0 ? 0 : blob_sweep(blobs, item->dir_fd, &item->prune, &item->meta);
	return r;
}

static void checkpoint_run(struct checkpoint *cp)
{
	bool good = true;
	for (size_t i = 0; i < cp->count; i++) {
		struct checkpoint_item *item = &cp->items[i];
		item->status = checkpoint_item(item);
		if (item->status == 0 && prune_is_due(&item->prune, &item->meta)) {
			item->status = shorten_item(item, &cp->store->blobs);
		}
		good = good && item->status == 0;
		close(item->fd);
		close(item->dir_fd);
	}
	cp->status =
		cp->in_round && disk->fsync(embedded_of(cp->store)->sessions_fd) < 0 ? -errno : 0;
	if (good && cp->status == 0 && cp->drop_before) {
		cp->oldest_segment = journal_drop(embedded_of(cp->store)->journal.dir_fd,
			cp->oldest_segment, cp->drop_before, false);
	}
}

/**
 * Fills an item with the state that the log has once its pending bytes are written, and has them
 * written.
 */
static void take_log(struct session_log *log, struct checkpoint_item *item)
{
	item->id = xstrdup(log->id);
	item->epoch = log->epoch;
	item->size = log->size;
	metadata_take(log, &item->meta);
	prune_begin(log, &item->prune);
	log->wants_prune = false;
	log->dirty = false;
	log_write_whole(log, item);
}

void checkpoint_item_written(
	struct checkpoint_item *item, struct session_log *log, int status, int dir_fd, int fd)
{
	struct embedded_log *own = embedded_log_of(log);
	item->dir_fd = dir_fd;
	item->fd = fd;
	item->status = status;
	if (status < 0) {
		log->dirty = true;
		log->wants_prune = item->prune.wanted;
		if (item->prune.wanted) {
			prune_end(log, NULL, false);
		}
		return;
	}
	item->is_suspect = own->is_suspect && item->size > own->certain_size;
	item->certain_size = own->certain_size;
	item->keys = own->keys.disk;
	item->meta.keys_size = item->keys_size = log->keys.size;
	item->index = own->index.disk;
	item->index_size = log_index_size(&own->index);
	item->has_new_files = own->has_new_files;
	own->has_new_files = false;
	own->index.disk.is_unsynced = own->keys.disk.is_unsynced = false;
}

/**
 * Notes that bytes which a failed checkpoint did not sync may be lost, even if a later sync
 * succeeds.
 */
static void suspect(struct durable_part *part, const struct durable_part *taken)
{
	if (taken->is_unsynced) {
		part->is_unsynced = part->is_suspect = true;
	}
}

static void confirm(struct durable_part *part, uint64_t taken, uint64_t size)
{
	part->is_suspect = false;
	part->certain = taken < size ? taken : size; /* the file may have been rebuilt meanwhile */
}

/** Marks a log whose checkpoint failed as changed again. */
static void give_back(struct session_log *log, const struct checkpoint_item *item)
{
	struct embedded_log *own = embedded_log_of(log);
	log->dirty = own->is_suspect = true;
	own->has_new_files = own->has_new_files || item->has_new_files;
	suspect(&own->index.disk, &item->index);
	suspect(&own->keys.disk, &item->keys);
}

/** Applies the result of a checkpoint to its log. Returns whether it succeeded. */
static bool item_end(struct checkpoint_item *item, struct session_log *log)
{
	struct embedded_log *own = embedded_log_of(log);
	bool good = item->status == 0;
	if (item->prune.wanted) {
		bool has_meta = good || item->has_new_log;
		prune_end(log, has_meta ? &item->meta : NULL, item->has_new_log);
		if (item->swept) {
			blobs_add(log->store, log->id, -(int64_t)item->swept);
		}
	}
	if (good) {
		own->is_suspect = false;
		own->certain_size = item->meta.log_size;
		confirm(&own->keys.disk, item->keys_size, log->keys.size);
		if (!item->has_new_log) { /* a new log has a new index */
			confirm(&own->index.disk, item->index_size, log_index_size(&own->index));
		}
		return true;
	}
	diag(DIAG_WARN, "session %s: checkpoint failed: %s; the journal keeps its events", item->id,
		strerror(-item->status));
	give_back(log, item);
	return false;
}

static void free_item(struct checkpoint_item *item)
{
	free(item->id);
	metadata_finish(&item->meta);
	buffer_finish(&item->prune.waiting);
}

/** Drops the items whose files could not be written. */
static void drop_unwritten(struct checkpoint *cp)
{
	size_t kept = 0;
	for (size_t i = 0; i < cp->count; i++) {
		if (cp->items[i].status < 0) {
			cp->all = false;
			free_item(&cp->items[i]);
		} else {
			cp->items[kept++] = cp->items[i];
		}
	}
	cp->count = kept;
}

/** Applies all results on the loop. Returns whether all succeeded. */
static bool checkpoint_end(struct checkpoint *cp)
{
	bool good = cp->status == 0;
	for (size_t i = 0; i < cp->count; i++) {
		struct checkpoint_item *item = &cp->items[i];
		struct session_log *log = session_log_of(cp->store, item->id, item->epoch);
		if (log && !item_end(item, log)) {
			good = false;
		}
		free_item(item);
	}
	return good;
}

/** Adds a log, if it has changed and can be taken. */
static void add_log(struct checkpoint *cp, struct session_log *log)
{
	struct embedded_log *own = embedded_log_of(log);
	list_remove(&own->wanted_link);
	/* The records of an unconfirmed session are all in segments that stay. */
	if (!log->dirty || own->is_unconfirmed || own->repair) {
		return;
	}
	struct checkpoint_item *item = &cp->items[cp->count++];
	*item = (struct checkpoint_item){0};
	take_log(log, item);
}

/**
 * Returns whether to stop adding logs: at PORTION, or, after the first one, if descriptors run
 * short.
 */
static bool portion_is_full(const struct checkpoint *cp)
{
	return cp->count == PORTION ||
	       (cp->count > 0 && descriptors_check(DESCRIPTORS_FOR_WORK) < 0);
}

/** Collects the next portion of the round: changed logs that were not in it yet. */
static void collect_round(struct checkpoint *cp)
{
	struct store *store = cp->store;
	struct embedded_store *emb = embedded_of(store);
	cp->in_round = true;
	list_for_each(link, &store->logs) {
		struct session_log *log = list_entry(link, struct session_log, link);
		struct embedded_log *own = embedded_log_of(log);
		if (!log->dirty || own->round == emb->round) {
			continue;
		}
		if (portion_is_full(cp)) {
			cp->more = true;
			return;
		}
		own->round = emb->round;
		add_log(cp, log);
	}
}

/** Collects logs for which checkpoint_log() was called. */
static void collect_wanted(struct checkpoint *cp)
{
	while (!list_empty(&embedded_of(cp->store)->wanted) && !portion_is_full(cp)) {
		add_log(cp, list_entry(embedded_of(cp->store)->wanted.next, struct embedded_log,
				    wanted_link)
				    ->log);
	}
}

/** Returns whether a checkpoint is wanted and none is running. */
static bool is_due(const struct store *store)
{
	const struct embedded_store *emb = embedded_of(store);
	return !emb->checkpointing &&
	       (emb->round_segment || emb->drop_before || !list_empty(&emb->wanted));
}

static struct checkpoint *checkpoint_new(struct store *store)
{
	struct checkpoint *cp = xcalloc(1, sizeof(*cp));
	cp->work.data = cp;
	cp->store = store;
	cp->all = true;
	return cp;
}

static void work(uv_work_t *work_req)
{
	checkpoint_run(work_req->data);
}

static void end(struct checkpoint *cp)
{
	struct store *store = cp->store;
	struct embedded_store *emb = embedded_of(store);
	bool good = checkpoint_end(cp) && cp->all;
	emb->checkpointing = false;
	if (cp->in_round) {
		emb->round_is_good = emb->round_is_good && good;
		emb->round_segment = cp->more ? emb->round_segment : 0;
	}
	if (cp->drop_before) {
		journal_dropped(&emb->journal, cp->oldest_segment);
	}
	free(cp);
	emb->journal.wants_run = emb->journal.wants_run || is_due(store);
}

static void work_done(uv_work_t *work_req, int status)
{
	struct checkpoint *cp = work_req->data;
	cp->store->jobs--;
	end(cp);
}

/**
 * Begins a checkpoint of a portion of the logs, unless one is running. One at a time, so that no
 * two write the same metadata.json, that no segment is deleted while a log that counts as clean is
 * not yet durable, and that other work finds room on the thread pool, however many sessions end a
 * turn at once.
 */
struct checkpoint *checkpoint_begin(struct store *store)
{
	struct embedded_store *emb = embedded_of(store);
	if (!is_due(store) || store->opening || !server_may(store->life, MAY_KEEP_UP)) {
		return NULL;
	}
	if (!emb->round_segment && emb->drop_before) {
		emb->round_segment = emb->drop_before;
		emb->drop_before = 0;
		emb->round_is_good = true;
		emb->round++;
	}
	struct checkpoint *cp = checkpoint_new(store);
	if (emb->round_segment) {
		collect_round(cp);
	} else {
		collect_wanted(cp);
	}
	emb->checkpointing = true;
	return cp;
}

void checkpoint_go(struct checkpoint *cp)
{
	if (!cp) {
		return;
	}
	struct store *store = cp->store;
	struct embedded_store *emb = embedded_of(store);
	drop_unwritten(cp);
	if (!cp->count && !cp->in_round) {
		end(cp);
		return;
	}
	bool may_drop = cp->in_round && !cp->more && cp->all && emb->round_is_good;
	cp->drop_before = may_drop && !store_keeps_segments(store) ? emb->round_segment : 0;
	cp->oldest_segment = emb->journal.oldest_segment;
	store->jobs++;
	int r = uv_queue_work(store->loop, &cp->work, work, work_done);
	assert(r == 0);
}

void checkpoint_all(struct store *store, uint64_t segment)
{
	struct embedded_store *emb = embedded_of(store);
	emb->drop_before = segment;
	emb->journal.wants_run = true;
}

void checkpoint_log(struct session_log *log)
{
	struct embedded_log *own = embedded_log_of(log);
	log->dirty = true;
	if (list_empty(&own->wanted_link)) {
		list_append(&embedded_of(log->store)->wanted, &own->wanted_link);
	}
	embedded_of(log->store)->journal.wants_run = true;
}

int checkpoint_now(struct store *store)
{
	struct embedded_store *emb = embedded_of(store);
	bool good = true;
	bool more = true;
	emb->round++;
	while (more) {
		struct checkpoint *cp = checkpoint_new(store);
		collect_round(cp);
		journal_run_now(&emb->journal);
		drop_unwritten(cp);
		checkpoint_run(cp);
		good = checkpoint_end(cp) && cp->all && good;
		more = cp->more;
		free(cp);
	}
	return good ? 0 : -EIO;
}
