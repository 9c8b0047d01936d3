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

/** What the thread pool needs of one log; nothing in it is shared with the loop. */
struct item {
	char *id;
	uint64_t epoch;
	int dir_fd; /* its folder: by handle, so that a new session of the same name is not meant */
	int fd; /* a duplicate of the log's */
	struct buffer metadata;
	int status;
};

struct checkpoint {
	uv_work_t work;
	struct store *store;
	struct session_log *only; /* NULL: all */
	uint64_t segment;
	struct item *items;
	size_t count;
	size_t capacity;
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
	buffer_append_str(out, "}\n");
}

/**
 * Writes a file beside the old one and puts it in its place, so that a reader sees one or the
 * other.
 */
static int replace_metadata(int dir_fd, const struct buffer *json, bool sync)
{
	static const char fresh[] = "metadata.json.new";
	int fd = openat(dir_fd, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0) {
		return -errno;
	}
	ssize_t n = write(fd, json->data, json->len);
	int r = n < 0 ? -errno : (size_t)n < json->len ? -ENOSPC : 0;
	if (r == 0 && sync && fdatasync(fd) < 0) {
		r = -errno;
	}
	close(fd);
	if (r == 0 && renameat(dir_fd, fresh, dir_fd, "metadata.json") < 0) {
		r = -errno;
	}
	if (r == 0 && sync && fsync(dir_fd) < 0) {
		r = -errno;
	}
	return r;
}

static int open_dir(const struct session_log *log)
{
	int fd = openat(log->store->sessions_fd, log->id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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

static int checkpoint_item(struct item *item)
{
	if (fdatasync(item->fd) < 0) {
		return -errno;
	}
	return replace_metadata(item->dir_fd, &item->metadata, true);
}

static void checkpoint_run(struct checkpoint *cp)
{
	for (size_t i = 0; i < cp->count; i++) {
		cp->items[i].status = checkpoint_item(&cp->items[i]);
	}
	cp->status = !cp->only && fsync(cp->store->sessions_fd) < 0 ? -errno : 0;
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
		struct session_log *log = item->status < 0 ? log_of(cp->store, item) : NULL;
		if (log) {
			diag(DIAG_WARN,
				"session %s: checkpoint failed: %s; the journal keeps its events",
				item->id, strerror(-item->status));
			log->dirty = true;
			good = false;
		}
		close(item->fd);
		close(item->dir_fd);
		free(item->id);
		buffer_finish(&item->metadata);
	}
	free(cp->items);
	return good;
}

/** Adds a log to the checkpoint; false if it could not be taken. */
static bool add_log(struct checkpoint *cp, struct session_log *log)
{
	if (!log->dirty) {
		return true;
	}
	if (cp->count == cp->capacity) {
		cp->capacity = cp->capacity ? cp->capacity * 2 : 1;
		cp->items = xrealloc(cp->items, cp->capacity * sizeof(*cp->items));
	}
	cp->items[cp->count] = (struct item){0};
	if (!take_log(log, &cp->items[cp->count])) {
		return false;
	}
	cp->count++;
	return true;
}

/** Collects the logs; false if one of them could not be taken: then old segments must stay. */
static bool collect(struct checkpoint *cp)
{
	if (cp->only) {
		return add_log(cp, cp->only);
	}
	bool all = true;
	list_for_each(link, &cp->store->logs) {
		all = add_log(cp, list_entry(link, struct session_log, link)) && all;
	}
	return all;
}

static void work(uv_work_t *work_req)
{
	checkpoint_run(work_req->data);
}

static void start_all_if_due(struct store *store);

static void end_single(struct checkpoint *cp)
{
	struct store *store = cp->store;
	struct session_log *log = cp->count ? log_of(store, &cp->items[0]) : NULL;
	store->checkpoints--;
	checkpoint_end(cp);
	if (log) {
		log->checkpointing = false;
		if (log->again && !store->closing) {
			session_log_checkpoint(log);
		}
	}
}

static void end_all(struct checkpoint *cp)
{
	struct store *store = cp->store;
	uint64_t segment = cp->segment;
	store->checkpointing_all = false;
	if (checkpoint_end(cp)) {
		journal_drop_before(&store->journal, segment);
	}
}

static void work_done(uv_work_t *work_req, int status)
{
	struct checkpoint *cp = work_req->data;
	struct store *store = cp->store;
	store->jobs--;
	if (cp->only) {
		end_single(cp);
	} else {
		end_all(cp);
	}
	free(cp);
	start_all_if_due(store);
}

static void start(struct store *store, struct session_log *only, uint64_t segment)
{
	struct checkpoint *cp = xcalloc(1, sizeof(*cp));
	cp->work.data = cp;
	cp->store = store;
	cp->only = only;
	cp->segment = collect(cp) ? segment : 0;
	store->jobs++;
	int r = uv_queue_work(store->loop, &cp->work, work, work_done);
	assert(r == 0);
}

/**
 * The checkpoint after which segments go waits until none of a single log is under way: such a log
 * counts as clean already, but is not on disk yet. Nor do the two write the same metadata.json at
 * once.
 */
static void start_all_if_due(struct store *store)
{
	if (store->drop_before && !store->checkpoints && !store->checkpointing_all &&
		!store->closing) {
		uint64_t segment = store->drop_before;
		store->drop_before = 0;
		store->checkpointing_all = true;
		start(store, NULL, segment);
	}
}

void checkpoint_all(struct store *store, uint64_t segment)
{
	store->drop_before = segment;
	start_all_if_due(store);
}

void session_log_checkpoint(struct session_log *log)
{
	struct store *store = log->store;
	log->dirty = true;
	log->again = log->checkpointing;
	if (log->checkpointing || store->checkpointing_all || store->drop_before) {
		return; /* it stays changed, and its turn comes with the next one */
	}
	log->checkpointing = true;
	store->checkpoints++;
	start(store, log, 0);
}

int checkpoint_now(struct store *store)
{
	struct checkpoint cp = {.store = store};
	bool all = collect(&cp);
	checkpoint_run(&cp);
	return checkpoint_end(&cp) && all ? 0 : -EIO;
}
