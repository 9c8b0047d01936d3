/* The journal's write side: group commit, rotation. The format is in proto/store-format.md. */
#include "store_internal.h"

#include "holdfast/pack.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t journal_checksum(const char *body, size_t len)
{
	return XXH3_64bits(body, len);
}

static void segment_name(uint64_t segment, char name[32])
{
	snprintf(name, 32, "%016llx.journal", (unsigned long long)segment);
}

void journal_init(struct journal *journal, struct store *store)
{
	*journal = (struct journal){.store = store, .dir_fd = -1, .fd = -1, .segment = 1};
}

void journal_finish(struct journal *journal)
{
	if (journal->fd >= 0) {
		close(journal->fd);
	}
	if (journal->dir_fd >= 0) {
		close(journal->dir_fd);
	}
	buffer_finish(&journal->gather);
	buffer_finish(&journal->flight);
}

static void append_segment_header(struct journal *journal)
{
	size_t start = journal->gather.len;
	buffer_append(&journal->gather, JOURNAL_MAGIC, 8);
	pack_le(&journal->gather, journal->segment, 8);
	pack_le(&journal->gather, 0, 8); /* flags: none yet */
	pack_le(&journal->gather,
		journal_checksum(journal->gather.data + start, journal->gather.len - start), 8);
}

int64_t store_append(struct store *store, const struct record *record)
{
	struct journal *journal = &store->journal;
	if (journal->error) {
		return journal->error;
	}
	if (journal->fd_segment != journal->segment && !journal->gather.len) {
		append_segment_header(journal);
	}
	struct buffer *out = &journal->gather;
	size_t start = out->len;
	pack_le(out, 0, 8); /* checksum, below */
	pack_le(out, 0, 4); /* body length, below */
	pack_le(out, (uint64_t)record->kind, 2);
	pack_le(out, record->id_len, 2);
	pack_le(out, record->epoch, 8);
	pack_le(out, (uint64_t)record->ts, 8);
	buffer_append(out, record->id, record->id_len);
	buffer_append(out, record->data, record->data_len);
	uint32_t body = (uint32_t)(out->len - start - RECORD_HEADER_SIZE);
	memcpy(out->data + start + 8, &(uint32_t){htole32(body)}, 4);
	uint64_t sum = journal_checksum(out->data + start + 8, out->len - start - 8);
	memcpy(out->data + start, &(uint64_t){htole64(sum)}, 8);
	return (int64_t)++journal->gather_lsn;
}

static int write_all(int fd, const char *bytes, size_t len)
{
	while (len) {
		ssize_t n = disk->write(fd, bytes, len);
		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n < 0) {
			return -errno;
		}
		bytes += n;
		len -= (size_t)n;
	}
	return 0;
}

/**
 * Begins the file of the batch's segment. The one before it must be whole on disk by then, also
 * when batches are not synced: recovery takes a torn record for damage in all but the newest.
 */
static int open_segment(struct journal *journal)
{
	char name[32];
	bool synced = journal->store->durability == DURABILITY_FSYNC;
	if (journal->fd >= 0 && !synced && disk->fdatasync(journal->fd) < 0) {
		return -errno;
	}
	segment_name(journal->fd_segment, name);
	int fd = disk->openat(journal->dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0) {
		return -errno;
	}
	if (journal->fd >= 0) {
		close(journal->fd);
	}
	journal->fd = fd;
	return 0;
}

/** Runs on the thread pool: puts the batch in flight on disk. */
static int write_batch(struct journal *journal)
{
	bool sync = journal->store->durability == DURABILITY_FSYNC;
	int r = journal->rotated ? open_segment(journal) : 0;
	if (r < 0) {
		return r;
	}
	r = write_all(journal->fd, journal->flight.data, journal->flight.len);
	if (r == 0 && sync && disk->fdatasync(journal->fd) < 0) {
		r = -errno;
	}
	if (r == 0 && sync && journal->rotated && disk->fsync(journal->dir_fd) < 0) {
		r = -errno;
	}
	if (r < 0) {
		/*
		 * Best effort: recovery cuts a torn tail anyway, and this segment is not written
		 * again.
		 */
		(void)!disk->ftruncate(journal->fd, (off_t)journal->segment_len);
	}
	return r;
}

/** Takes the gathered bytes into flight. */
static void launch(struct journal *journal)
{
	struct buffer empty = journal->flight;
	journal->flight = journal->gather;
	journal->gather = empty;
	journal->gather.len = 0;
	journal->flight_lsn = journal->gather_lsn;
	journal->rotated = journal->fd_segment != journal->segment;
	journal->in_flight = true;
}

/**
 * The batch is back: the store's owner hears of it, and old segments go when a new one has begun.
 */
static void land(struct journal *journal)
{
	struct store *store = journal->store;
	journal->in_flight = false;
	if (journal->result < 0) {
		journal->error = journal->result;
		journal->gather.len = 0;
		store->ops->failed(store->owner, journal->result);
		return;
	}
	journal->segment_len += journal->flight.len;
	journal->synced_lsn = journal->flight_lsn;
	store->ops->synced(store->owner, journal->synced_lsn);
	if (journal->rotated && journal->oldest_segment < journal->fd_segment && !store->closing &&
		!store->opening) {
		checkpoint_all(store, journal->fd_segment);
	}
}

static void batch_work(uv_work_t *work)
{
	struct journal *journal = work->data;
	journal->result = write_batch(journal);
}

static void batch_done(uv_work_t *work, int status)
{
	land(work->data);
	store_kick(((struct journal *)work->data)->store);
}

/**
 * After the last batch of a full segment has been taken: what is gathered from now on is the next
 * one's. The snapshots that a segment begins with do not count: if they alone filled it, there
 * would be no end.
 */
static void rotate_if_full(struct journal *journal)
{
	size_t len = journal->segment_len + journal->flight.len;
	if (len < journal->store->limits->segment_size + journal->snapshot_len) {
		return;
	}
	journal->segment++;
	journal->store->ops->rotated(journal->store->owner);
	journal->snapshot_len = journal->gather.len;
}

void store_kick(struct store *store)
{
	struct journal *journal = &store->journal;
	if (journal->in_flight || !journal->gather.len || journal->error) {
		return;
	}
	launch(journal);
	journal->fd_segment = journal->segment;
	if (journal->rotated) {
		journal->segment_len = 0;
	}
	rotate_if_full(journal);
	journal->work.data = journal;
	int r = uv_queue_work(store->loop, &journal->work, batch_work, batch_done);
	assert(r == 0);
}

int journal_sync_now(struct journal *journal)
{
	while (journal->in_flight && uv_run(journal->store->loop, UV_RUN_ONCE)) {
	}
	while (journal->gather.len && !journal->error) {
		launch(journal);
		journal->fd_segment = journal->segment;
		journal->result = write_batch(journal);
		land(journal);
	}
	return journal->error;
}

void journal_drop_before(struct journal *journal, uint64_t segment)
{
	for (; journal->oldest_segment < segment; journal->oldest_segment++) {
		char name[32];
		segment_name(journal->oldest_segment, name);
		disk->unlinkat(journal->dir_fd, name, 0);
	}
}

uint64_t store_segment(const struct store *store)
{
	return store->journal.segment;
}

uint64_t store_synced_lsn(const struct store *store)
{
	return store->journal.synced_lsn;
}

size_t store_backlog(const struct store *store)
{
	return store->journal.gather.len +
	       (store->journal.in_flight ? store->journal.flight.len : 0);
}
