/*
 * A checkpoint makes logs durable on their own: syncs events.jsonl, then writes metadata.json with
 * the max_seq that is certain. Once it has been done for every log that changed, the journal's
 * older segments are not needed any more.
 */
#include "store_internal.h"

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
	struct buffer metadata;
	bool is_placed;
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
};

static void metadata_json(const struct session_log *log, struct buffer *out)
{
	buffer_append_str(out, "{\"id\":");
	buffer_append_json(out, log->id, strlen(log->id));
	buffer_printf(out,
		",\"epoch\":\"%016llx\",\"first_seq\":%llu,\"max_seq\":%llu,\"log_size\":%llu",
		(unsigned long long)log->epoch, (unsigned long long)log->first_seq,
		(unsigned long long)session_log_last_seq(log),
		(unsigned long long)(log->size - log->unwritten.len));
	buffer_printf(out,
		",\"created_at\":%lld,\"updated_at\":%lld,\"title\":", (long long)log->created_at,
		(long long)log->updated_at);
	buffer_append_json(out, log->title, strlen(log->title));
	buffer_printf(out, METADATA_CHECK_FORMAT,
		(unsigned long long)journal_checksum(out->data, out->len));
}

/**
 * Writes a file beside the old one and puts it in its place, so that a reader sees one or the
 * other.
 */
static int replace_metadata(int dir_fd, const struct buffer *json, bool sync)
{
	static const char fresh[] = "metadata.json.new";
	int fd = disk->openat(dir_fd, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0) {
		return -errno;
	}
	ssize_t n = disk->write(fd, json->data, json->len);
	int r = n < 0 ? -errno : (size_t)n < json->len ? -ENOSPC : 0;
	if (r == 0 && sync && disk->fdatasync(fd) < 0) {
		r = -errno;
	}
	close(fd);
	if (r == 0 && disk->renameat(dir_fd, fresh, dir_fd, "metadata.json") < 0) {
		r = -errno;
	}
	if (r == 0 && sync && disk->fsync(dir_fd) < 0) {
		r = -errno;
	}
	return r;
}

static int open_dir(const struct session_log *log)
{
	int fd = disk->openat(
		log->store->sessions_fd, log->id, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

int metadata_write(struct session_log *log, bool sync)
{
	int dir_fd = open_dir(log);
	if (dir_fd < 0) {
		return dir_fd;
	}
	struct buffer json = {0};
	metadata_json(log, &json);
	int r = replace_metadata(dir_fd, &json, sync);
	buffer_finish(&json);
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
 * The name of events.jsonl goes to the disk before a metadata.json that counts on it: names of one
 * folder may be written in any order.
 */
static int checkpoint_item(struct item *item)
{
	int r = item->is_suspect ? log_rewrite(item->dir_fd, item->certain_size, item->size) : 0;
	if (r < 0) {
		return r;
	}
	if (disk->fdatasync(item->fd) < 0 || (!item->is_placed && disk->fsync(item->dir_fd) < 0)) {
		return -errno;
	}
	return replace_metadata(item->dir_fd, &item->metadata, true);
}

static void checkpoint_run(struct checkpoint *cp)
{
	for (size_t i = 0; i < cp->count; i++) {
		cp->items[i].status = checkpoint_item(&cp->items[i]);
	}
	cp->status = cp->in_round && disk->fsync(cp->store->sessions_fd) < 0 ? -errno : 0;
}

/** Fills an item; false if the log's lines could not all be written to its file. */
static bool take_log(struct session_log *log, struct item *item)
{
	if (session_log_flush(log) < 0) {
		return false;
	}
	int fd = session_log_fd(log);
	item->dir_fd = open_dir(log);
	item->fd = fd < 0 ? -1 : dup(fd);
	if (item->fd < 0 || item->dir_fd < 0) {
		close(item->fd);
		close(item->dir_fd);
		return false;
	}
	item->id = xstrdup(log->id);
	item->epoch = log->epoch;
	item->is_placed = log->is_placed;
	item->is_suspect = log->is_suspect && log->size > log->certain_size;
	item->certain_size = log->certain_size;
	item->size = log->size;
	metadata_json(log, &item->metadata);
	log->dirty = false;
	return true;
}

/** The log that an item was taken of, if it is still there. */
static struct session_log *log_of(struct store *store, const struct item *item)
{
	struct session_log *log = hash_get(store->by_id, item->id, strlen(item->id));
	return log && log->epoch == item->epoch ? log : NULL;
}

/** Takes what failed as changed again. Returns whether all is well. */
static bool checkpoint_end(struct checkpoint *cp)
{
	bool good = cp->status == 0;
	for (size_t i = 0; i < cp->count; i++) {
		struct item *item = &cp->items[i];
		struct session_log *log = log_of(cp->store, item);
		if (log && item->status == 0) {
			log->is_placed = true;
			log->is_suspect = false;
			log->certain_size = item->size;
		} else if (log) {
			diag(DIAG_WARN,
				"session %s: checkpoint failed: %s; the journal keeps its events",
				item->id, strerror(-item->status));
			log->dirty = true;
			log->is_suspect = true;
			good = false;
		}
		close(item->fd);
		close(item->dir_fd);
		free(item->id);
		buffer_finish(&item->metadata);
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
		if (cp->count == PORTION) {
			cp->more = true;
			return;
		}
		log->round = store->round;
		add_log(cp, log);
	}
}

static void collect_wanted(struct checkpoint *cp)
{
	while (cp->count < PORTION && !list_empty(&cp->store->wanted)) {
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

void checkpoint_drop_before(struct store *store, uint64_t segment)
{
	struct journal *journal = &store->journal;
	bool good = true;
	while (good && journal->oldest_segment < segment) {
		bool is_last = journal->oldest_segment + 1 == segment;
		good = journal_drop_oldest(journal, !is_last) == 0;
	}
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
		if (!cp->more) {
			if (store->round_is_good && !store->has_leftover) {
				checkpoint_drop_before(store, store->round_segment);
			}
			store->round_segment = 0;
		}
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
