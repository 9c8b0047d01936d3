/*
 * A checkpoint makes logs durable on their own: syncs events.jsonl, then writes metadata.json with
 * the max_seq that is certain. Once it has been done for every log that changed, the journal's
 * older segments are not needed any more.
 */
#include "store_internal.h"

#include "holdfast/descriptors.h"
#include "holdfast/diag.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Logs in one job: each takes two descriptors for as long as it lasts. */
#define PORTION 64

/** What the thread pool needs of one log; nothing in it is shared with the loop. */
struct item {
	char *id;
	uint64_t epoch;
	int dir_fd; /* its folder: by handle, so that a new session of the same name is not meant */
	int fd; /* a duplicate of the log's */
	struct durable_part keys; /* as they are when the file is taken */
	uint64_t keys_size;
	struct durable_part index;
	uint64_t index_size;
	bool has_new_files;
	struct metadata meta;
	struct prune prune;
	bool has_new_log; /* prune_rewrite() has put one in place */
	bool is_suspect;
	uint64_t certain_size;
	uint64_t size;
	int status;
};

struct checkpoint {
	uv_work_t work;
	struct store *store;
	bool in_round; /* of the logs of all sessions, after which old segments may go */
	bool more; /* the round goes on with another portion */
	bool all; /* every log could be taken */
	struct item items[PORTION];
	size_t count;
	int status; /* of what they have in common */
	uint64_t oldest_segment; /* if all goes well, the segments from here on … */
	uint64_t drop_before; /* … up to this one go; 0: none does */
};

static int replace_metadata(int dir_fd, const char *id, const struct metadata *meta, bool sync)
{
	struct buffer json = {0};
	metadata_append(id, meta, &json);
	int r = disk_replace(dir_fd, "metadata.json", &json, sync);
	buffer_finish(&json);
	return r;
}

int metadata_write(struct session_log *log, bool sync)
{
	int dir_fd = session_log_dir(log);
	if (dir_fd < 0) {
		return dir_fd;
	}
	struct metadata meta;
	metadata_take(log, &meta);
	int r = replace_metadata(dir_fd, log->id, &meta, sync);
	metadata_finish(&meta);
	close(dir_fd);
	return r;
}

void session_log_set_epoch(struct session_log *log, uint64_t epoch)
{
	log->epoch = epoch;
}

int session_log_save_epoch(struct session_log *log)
{
	int r = session_log_flush(log);
	return r < 0 ? r : metadata_write(log, true);
}

/**
 * Metadata comes last: what it says of the other files is on disk by then, and so are their names.
 */
static int checkpoint_item(struct item *item)
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
 * A log that has become much shorter gets a file of its size. That it cannot have one is no harm.
 */
static int shorten_item(struct item *item)
{
	int r = prune_rewrite(item->dir_fd, item->fd, &item->meta);
	if (r < 0) {
		diag(DIAG_WARN, "session %s: its pruned events cannot be taken off the disk: %s",
			item->id, strerror(-r));
		return 0;
	}
	item->has_new_log = true;
	if (disk->fsync(item->dir_fd) < 0) {
		return -errno;
	}
	return replace_metadata(item->dir_fd, item->id, &item->meta, true);
}

static void checkpoint_run(struct checkpoint *cp)
{
	bool good = true;
	for (size_t i = 0; i < cp->count; i++) {
		struct item *item = &cp->items[i];
		item->status = checkpoint_item(item);
		if (item->status == 0 && prune_is_due(&item->prune, &item->meta)) {
			item->status = shorten_item(item);
		}
		good = good && item->status == 0;
	}
	cp->status = cp->in_round && disk->fsync(cp->store->sessions_fd) < 0 ? -errno : 0;
	if (good && cp->status == 0 && cp->drop_before) {
		cp->oldest_segment = journal_drop(
			cp->store->journal.dir_fd, cp->oldest_segment, cp->drop_before, false);
	}
}

/** Fills an item; false if the log's lines could not all be written to its file. */
static bool take_log(struct session_log *log, struct item *item)
{
	if (session_log_flush(log) < 0 || log_keys_flush(log) < 0 || log_index_flush(log) < 0) {
		return false;
	}
	int fd = session_log_fd(log);
	item->dir_fd = session_log_dir(log);
	item->fd = fd < 0 ? -1 : disk->dup(fd);
	if (item->fd < 0 || item->dir_fd < 0) {
		close(item->fd);
		close(item->dir_fd);
		return false;
	}
	item->id = xstrdup(log->id);
	item->epoch = log->epoch;
	item->is_suspect = log->is_suspect && log->size > log->certain_size;
	item->certain_size = log->certain_size;
	item->size = log->size;
	metadata_take(log, &item->meta);
	prune_begin(log, &item->prune);
	log->wants_prune = false;
	item->keys = log->keys.disk;
	item->keys_size = log->keys.size;
	item->index = log->index.disk;
	item->index_size = log_index_size(&log->index);
	item->has_new_files = log->has_new_files;
	log->dirty = log->has_new_files = false;
	log->index.disk.is_unsynced = log->keys.disk.is_unsynced = false;
	return true;
}

/** What a failed checkpoint was to sync may not be there, whatever a later sync says. */
static void suspect(struct durable_part *part, const struct durable_part *taken)
{
	if (taken->is_unsynced) {
		part->is_unsynced = part->is_suspect = true;
	}
}

static void confirm(struct durable_part *part, uint64_t taken, uint64_t size)
{
	part->is_suspect = false;
	part->certain = taken < size ? taken : size; /* it may have been made again meanwhile */
}

/** A log whose checkpoint failed has still changed. */
static void give_back(struct session_log *log, const struct item *item)
{
	log->dirty = log->is_suspect = true;
	log->has_new_files = log->has_new_files || item->has_new_files;
	suspect(&log->index.disk, &item->index);
	suspect(&log->keys.disk, &item->keys);
}

/** The log hears how its checkpoint went. Returns whether it went well. */
static bool item_end(struct item *item, struct session_log *log)
{
	bool good = item->status == 0;
	if (item->prune.wanted) {
		bool has_meta = good || item->has_new_log;
		prune_end(log, has_meta ? &item->meta : NULL, item->has_new_log);
	}
	if (good) {
		log->is_suspect = false;
		log->certain_size = item->meta.log_size;
		confirm(&log->keys.disk, item->keys_size, log->keys.size);
		if (!item->has_new_log) { /* which has an index of its own */
			confirm(&log->index.disk, item->index_size, log_index_size(&log->index));
		}
		return true;
	}
	diag(DIAG_WARN, "session %s: checkpoint failed: %s; the journal keeps its events", item->id,
		strerror(-item->status));
	give_back(log, item);
	return false;
}

/** Returns whether all is well. */
static bool checkpoint_end(struct checkpoint *cp)
{
	bool good = cp->status == 0;
	for (size_t i = 0; i < cp->count; i++) {
		struct item *item = &cp->items[i];
		struct session_log *log = session_log_of(cp->store, item->id, item->epoch);
		if (log && !item_end(item, log)) {
			good = false;
		}
		close(item->fd);
		close(item->dir_fd);
		free(item->id);
		metadata_finish(&item->meta);
	}
	return good;
}

/** Adds a log, if it has changed and can be taken. */
static void add_log(struct checkpoint *cp, struct session_log *log)
{
	list_remove(&log->wanted_link);
	/* What is not confirmed has all its records in segments that stay. */
	if (!log->dirty || log->is_unconfirmed) {
		return;
	}
	cp->items[cp->count] = (struct item){0};
	if (take_log(log, &cp->items[cp->count])) {
		cp->count++;
	} else {
		cp->all = false;
	}
}

/** Also with few descriptors left, which others need to work; but it has one log at least. */
static bool portion_is_full(const struct checkpoint *cp)
{
	return cp->count == PORTION ||
	       (cp->count > 0 && descriptors_check(DESCRIPTORS_FOR_WORK) < 0);
}

/** The next portion of the round: what has changed and was not in it yet. */
static void collect_round(struct checkpoint *cp)
{
	struct store *store = cp->store;
	cp->in_round = true;
	list_for_each(link, &store->logs) {
		struct session_log *log = list_entry(link, struct session_log, link);
		if (!log->dirty || log->round == store->round) {
			continue;
		}
		if (portion_is_full(cp)) {
			cp->more = true;
			return;
		}
		log->round = store->round;
		add_log(cp, log);
	}
}

static void collect_wanted(struct checkpoint *cp)
{
	while (!list_empty(&cp->store->wanted) && !portion_is_full(cp)) {
		add_log(cp, list_entry(cp->store->wanted.next, struct session_log, wanted_link));
	}
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

static void start_if_due(struct store *store);

static void work_done(uv_work_t *work_req, int status)
{
	struct checkpoint *cp = work_req->data;
	struct store *store = cp->store;
	bool good = checkpoint_end(cp) && cp->all;
	store->jobs--;
	store->checkpointing = false;
	if (cp->in_round) {
		store->round_is_good = store->round_is_good && good;
		store->round_segment = cp->more ? store->round_segment : 0;
	}
	if (cp->drop_before) {
		journal_dropped(&store->journal, cp->oldest_segment);
	}
	free(cp);
	start_if_due(store);
}

/**
 * One checkpoint at a time, of a portion of the logs: so no two write the same metadata.json,
 * segments do not go while a log that counts as clean is not on disk yet, and the journal's own
 * syncs find room on the thread pool, however many sessions end their turn at once.
 */
static void start_if_due(struct store *store)
{
	if (store->checkpointing || store->closing) {
		return;
	}
	if (!store->round_segment && store->drop_before) {
		store->round_segment = store->drop_before;
		store->drop_before = 0;
		store->round_is_good = true;
		store->round++;
	}
	struct checkpoint *cp = checkpoint_new(store);
	if (store->round_segment) {
		collect_round(cp);
		bool may_drop = !cp->more && cp->all && store->round_is_good;
		cp->drop_before =
			may_drop && !store_keeps_segments(store) ? store->round_segment : 0;
		cp->oldest_segment = store->journal.oldest_segment;
	} else {
		collect_wanted(cp);
	}
	if (!cp->count && !cp->in_round) {
		free(cp);
		return;
	}
	store->checkpointing = true;
	store->jobs++;
	int r = uv_queue_work(store->loop, &cp->work, work, work_done);
	assert(r == 0);
}

void checkpoint_all(struct store *store, uint64_t segment)
{
	store->drop_before = segment;
	start_if_due(store);
}

void session_log_checkpoint(struct session_log *log)
{
	log->dirty = true;
	if (list_empty(&log->wanted_link)) {
		list_append(&log->store->wanted, &log->wanted_link);
	}
	start_if_due(log->store);
}

int checkpoint_now(struct store *store)
{
	bool good = true;
	bool more = true;
	store->round++;
	while (more) {
		struct checkpoint *cp = checkpoint_new(store);
		collect_round(cp);
		checkpoint_run(cp);
		good = checkpoint_end(cp) && cp->all && good;
		more = cp->more;
		free(cp);
	}
	return good ? 0 : -EIO;
}
