/*
 * The journal's write side: group commit, rotation, and recovery from write errors. The format is
 * in proto/store-format.md.
 *
 * After a failed write or sync, the content of the segment behind its last good batch is unknown (a
 * second fdatasync may succeed for bytes that the first one lost). So that segment is not written
 * again: a new one begins, whose header says how many bytes of the previous one count. Until that
 * succeeds, appends are refused and it is retried.
 */
#include "embedded.h"

#include "holdfast/loop.h"
#include "holdfast/pack.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void handle_revive(uv_timer_t *timer);
static void batch_work(void *arg);
static void batch_done(void *arg);

void journal_init(struct journal *journal, struct store *store, enum store_durability durability)
{
	*journal = (struct journal){.store = store,
		.durability = durability,
		.dir_fd = -1,
		.fd = -1,
		.segment = 1,
		.gather_lsn = 1};
	list_init(&journal->gather_writes);
	list_init(&journal->flight_writes);
	list_init(&journal->gather_removals);
	list_init(&journal->flight_removals);
	journal->revive_timer = loop_timer(store->loop, journal);
	journal->writer = worker_create(store->loop, batch_work, batch_done, journal);
}

void journal_finish(struct journal *journal)
{
	loop_close(journal->revive_timer);
	worker_destroy(journal->writer);
	if (journal->fd >= 0) {
		close(journal->fd);
	}
	if (journal->dir_fd >= 0) {
		close(journal->dir_fd);
	}
	buffer_finish(&journal->gather);
	buffer_finish(&journal->entries);
	buffer_finish(&journal->flight);
}

/* --- gathering --- */

static void seal(struct buffer *out, size_t start)
{
	pack_le(out, journal_checksum(out->data + start, out->len - start), 8);
}

static void append_segment_header(struct journal *journal)
{
	struct buffer *out = &journal->gather;
	size_t start = out->len;
	buffer_printf(out, "%s%d\n", JOURNAL_MAGIC_FAMILY, JOURNAL_FORMAT);
	pack_le(out, journal->segment, 8);
	pack_le(out, journal->before_segment, 8);
	pack_le(out, journal->before_len, 8);
	bool is_relaxed = journal->durability == DURABILITY_WRITE;
	pack_le(out, is_relaxed ? JOURNAL_FLAG_RELAXED : 0, 8);
	seal(out, start);
}

/** Begins a batch: reserves space for its header, after the segment's header if it is the first. */
static void begin_batch(struct journal *journal)
{
	static const char room[BATCH_HEADER_SIZE];
	if (journal->fd_segment != journal->segment) {
		append_segment_header(journal);
		journal->batch_number = 0;
	}
	journal->gather_start = journal->gather.len;
	buffer_append(&journal->gather, room, sizeof(room));
}

/** Fills in the header and adds the trailer. */
static void end_batch(struct journal *journal)
{
	struct buffer *out = &journal->gather;
	struct buffer header = {0};
	pack_le(&header, BATCH_MAGIC, 4);
	pack_le(&header, journal->gather_count, 4);
	pack_le(&header, out->len - journal->gather_start - BATCH_HEADER_SIZE, 8);
	pack_le(&header, journal->batch_number++, 8);
	seal(&header, 0);
	memcpy(out->data + journal->gather_start, header.data, header.len);
	buffer_finish(&header);
	size_t trailer = out->len;
	buffer_append(out, journal->entries.data, journal->entries.len);
	pack_le(out, journal->gather_count, 4);
	seal(out, trailer);
	buffer_clear(&journal->entries);
	journal->gather_count = 0;
}

static void forget_gathered(struct journal *journal)
{
	buffer_clear(&journal->gather);
	buffer_clear(&journal->entries);
	journal->gather_count = 0;
	journal->gather_lsn++; /* later records must not share the number of lost ones */
	log_writes_forget_events(journal);
}

int64_t journal_append(struct journal *journal, const struct record *record)
{
	if (!journal->gather.len) {
		begin_batch(journal);
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
	pack_le(&journal->entries, journal_session_hash(record->id, record->id_len, record->epoch),
		8);
	pack_le(&journal->entries, out->len - start, 4);
	journal->gather_count++;
	return (int64_t)journal->gather_lsn;
}

/* --- writing batches --- */

/**
 * Creates the file of the batch's segment. The previous segment must be durable before that, even
 * if batches are not synced: in any segment but the newest, recovery takes a torn batch for damage.
 */
static int open_segment(struct journal *journal)
{
	char name[32];
	bool synced = journal->durability == DURABILITY_FSYNC;
	if (journal->fd >= 0 && !synced && disk->fdatasync(journal->fd) < 0) {
		return -errno;
	}
	journal_segment_name(journal->fd_segment, name);
	int fd = disk->openat(journal->dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0) {
		return -errno;
	}
	if (journal->fd >= 0) {
		close(journal->fd);
	}
	journal->fd = fd;
	journal->room = 0;
	journal->has_no_room = false;
	return 0;
}

/** Truncates the open segment's file. Returns whether that is as durable as a batch would be. */
static bool cut_file(const struct journal *journal, size_t len)
{
	bool synced = journal->durability == DURABILITY_FSYNC;
	return disk->ftruncate(journal->fd, (off_t)len) == 0 &&
	       (!synced || disk->fdatasync(journal->fd) == 0);
}

/**
 * Removes the remains of a failed batch, which is about to be refused and must not reappear after a
 * restart. Returns whether that is certain; if not, it becomes so with the next segment, whose
 * header excludes the batch.
 */
static bool take_back(const struct journal *journal, bool opened)
{
	bool synced = journal->durability == DURABILITY_FSYNC;
	if (!journal->rotated) {
		return cut_file(journal, journal->segment_len);
	}
	if (!opened) {
		return true;
	}
	char name[32];
	journal_segment_name(journal->fd_segment, name);
	bool gone = disk->unlinkat(journal->dir_fd, name, 0) == 0 &&
		    (!synced || disk->fsync(journal->dir_fd) == 0);
	return gone || cut_file(journal, 0);
}

/**
 * Extends the segment's file ahead of a batch that does not fit, since a sync is much cheaper if it
 * need not write a new length. Failure is harmless: then the file grows with each batch. The last
 * batch of a segment does not extend the file, since nothing follows it.
 */
static void take_room(struct journal *journal)
{
	const struct limits *limits = journal->store->limits;
	size_t end = journal->segment_len + journal->flight.len;
	size_t ahead = limits->journal_ahead < limits->segment_size ? limits->journal_ahead
								    : limits->segment_size;
	bool is_last = journal->segment != journal->fd_segment;
	if (end <= journal->room || !ahead || is_last || journal->has_no_room) {
		return;
	}
	size_t from = journal->room > journal->segment_len ? journal->room : journal->segment_len;
	size_t to = end + ahead;
	if (disk->fallocate(journal->fd, 0, (off_t)from, (off_t)(to - from)) == 0) {
		journal->room = to;
	} else {
		journal->has_no_room = true; /* not tried again before the next segment */
	}
}

/** Cuts off preallocated space that is unused, so that a stopped server leaves no zeros. */
void journal_give_room_back(struct journal *journal)
{
	if (!journal->store->error && journal->room > journal->segment_len) {
		(void)!disk->ftruncate(journal->fd, (off_t)journal->segment_len);
		journal->room = 0;
	}
}

/** Writes and syncs the batch in flight. Runs on the journal's thread. */
static int write_batch(struct journal *journal)
{
	bool sync = journal->durability == DURABILITY_FSYNC;
	int r = journal->rotated ? open_segment(journal) : 0;
	bool opened = r == 0;
	if (r == 0 && sync) {
		take_room(journal);
	}
	if (r == 0) {
		r = disk_write_all(journal->fd, journal->flight.data, journal->flight.len);
	}
	if (r == 0 && sync && disk->fdatasync(journal->fd) < 0) {
		r = -errno;
	}
	if (r == 0 && sync && journal->rotated && disk->fsync(journal->dir_fd) < 0) {
		r = -errno;
	}
	journal->is_in_doubt = r < 0 && !take_back(journal, opened);
	return r;
}

/** Turns the gathered batch into the one in flight. */
static void launch_batch(struct journal *journal)
{
	journal->flight_count = journal->gather_count;
	end_batch(journal);
	struct buffer empty = journal->flight;
	journal->flight = journal->gather;
	journal->gather = empty;
	buffer_clear(&journal->gather);
	journal->flight_lsn = journal->gather_lsn++;
	journal->rotated = journal->fd_segment != journal->segment;
	journal->fd_segment = journal->segment;
	if (journal->rotated) {
		journal->segment_len = 0;
		journal->open_before_segment = journal->before_segment;
		journal->open_before_len = journal->before_len;
	}
}

/** Prepares a run of the thread: pending work on the logs, and the gathered batch if any. */
static void launch(struct journal *journal)
{
	journal->checkpoint = checkpoint_begin(journal->store);
	log_writes_launch(journal);
	journal->wants_run = false;
	journal->has_batch = journal->gather.len > 0;
	if (journal->has_batch) {
		launch_batch(journal);
	}
	journal->in_flight = true;
}

/**
 * Lets the next segment begin with the records gathered from now on, first a snapshot of every
 * session that needs one. Called when the batch in flight is the last of its segment, or has
 * failed.
 */
static void begin_segment(struct journal *journal)
{
	journal->segment++;
	store_take_snapshots(journal->store);
	journal->snapshot_len = journal->gather.len + journal->entries.len + BATCH_TRAILER_SIZE;
}

void journal_revive_later(struct journal *journal)
{
	if (server_may(journal->store->life, MAY_KEEP_UP) && !journal->store->opening) {
		uv_timer_start(journal->revive_timer, handle_revive,
			(uint64_t)journal->store->limits->journal_retry_ms, 0);
	}
}

/** Handles a failed batch: it is lost, with everything gathered after it. */
static void fail(struct journal *journal)
{
	struct store *store = journal->store;
	forget_gathered(journal);
	/* The segment counts up to this batch; if the batch began it, not at all. */
	journal->before_segment =
		journal->rotated ? journal->open_before_segment : journal->fd_segment;
	journal->before_len = journal->rotated ? journal->open_before_len : journal->segment_len;
	store_failed(store, journal->result, journal->is_in_doubt ? journal->flight_lsn : 0);
	journal_revive_later(journal);
}

/**
 * Reports a durable batch to the store's owner. If it began a segment, starts a round of
 * checkpoints, after which older segments are deleted.
 */
static void succeed(struct journal *journal)
{
	struct store *store = journal->store;
	journal->segment_len += journal->flight.len;
	store->use.written += journal->flight.len;
	metrics_observe(store->metrics, HISTOGRAM_SYNC_SECONDS, (double)journal->flight_ns / 1e9);
	metrics_observe(store->metrics, HISTOGRAM_SYNC_RECORDS, journal->flight_count);
	store_synced(store, journal->flight_lsn);
	if (journal->rotated && journal->oldest_segment < journal->fd_segment &&
		server_may(store->life, MAY_KEEP_UP) && !store->opening) {
		checkpoint_all(store, journal->fd_segment);
	}
}

/** Handles the end of a run, on the loop. */
static void land(struct journal *journal)
{
	bool is_good = !journal->has_batch || journal->result == 0;
	journal->in_flight = false;
	log_writes_land(journal, is_good);
	checkpoint_go(journal->checkpoint);
	if (!is_good) {
		fail(journal);
	} else if (journal->has_batch) {
		succeed(journal);
	}
}

static void batch_work(void *arg)
{
	struct journal *journal = arg;
	log_writes_before(journal);
	if (journal->has_batch) {
		uint64_t begun_ns = uv_hrtime();
		journal->result = write_batch(journal);
		journal->flight_ns = uv_hrtime() - begun_ns;
	}
	if (!journal->has_batch || journal->result == 0) {
		log_writes_after(journal);
	}
}

static void batch_done(void *arg)
{
	struct journal *journal = arg;
	land(journal);
	store_kick(journal->store);
}

/**
 * Begins the next segment if the batch in flight fills this one. The snapshots at its beginning do
 * not count: if they alone filled it, rotation would never end.
 */
static void rotate_if_full(struct journal *journal)
{
	size_t len = journal->segment_len + journal->flight.len;
	if (len < journal->store->limits->segment_size + journal->snapshot_len) {
		return;
	}
	journal->before_segment = journal->fd_segment;
	journal->before_len = len;
	begin_segment(journal);
}

void journal_launch(struct store *store)
{
	struct journal *journal = &embedded_of(store)->journal;
	bool has_work = journal->gather.len || journal->wants_run;
	if (journal->in_flight || !has_work) {
		return;
	}
	launch(journal);
	if (journal->has_batch) {
		rotate_if_full(journal);
	}
	worker_start(journal->writer);
}

/**
 * After an error: tries to begin a new segment, with a snapshot of every session that needs one.
 */
static void handle_revive(uv_timer_t *timer)
{
	struct journal *journal = timer->data;
	if (!journal->store->error) {
		return;
	}
	if (journal->in_flight || store_try_again(journal->store) < 0) {
		journal_revive_later(journal);
		return;
	}
	begin_segment(journal);
	if (!journal->gather.len) {
		begin_batch(journal); /* nothing to snapshot: an empty batch tests the disk */
	}
	launch(journal);
	worker_start(journal->writer);
}

void journal_run_now(struct journal *journal)
{
	launch(journal);
	batch_work(journal);
	land(journal);
}

int journal_sync_now(struct journal *journal)
{
	while (journal->in_flight) {
		worker_wait(journal->writer);
	}
	while (journal->gather.len || journal->wants_run) {
		journal_run_now(journal);
	}
	return journal->store->error;
}

uint64_t journal_drop(int dir_fd, uint64_t from, uint64_t to, bool sync_last)
{
	for (uint64_t segment = from; segment < to; segment++) {
		char name[32];
		bool is_last = segment + 1 == to;
		journal_segment_name(segment, name);
		/* The number of a segment that failed may have no file. */
		if ((disk->unlinkat(dir_fd, name, 0) < 0 && errno != ENOENT) ||
			((sync_last || !is_last) && disk->fsync(dir_fd) < 0)) {
			return segment;
		}
	}
	return to;
}

void journal_dropped(struct journal *journal, uint64_t oldest)
{
	if (oldest > journal->oldest_segment) {
		journal->oldest_segment = oldest;
	}
	if (journal->before_segment < oldest) {
		/* The next segment's header must not name one that was deleted. */
		journal->before_segment = 0;
		journal->before_len = 0;
	}
}

size_t journal_backlog(const struct store *store)
{
	const struct embedded_store *emb = embedded_of(store);
	return emb->journal.gather.len + (emb->journal.in_flight ? emb->journal.flight.len : 0);
}

/* --- journals made offline --- */

struct journal *journal_make(void)
{
	struct journal *journal = xcalloc(1, sizeof(*journal));
	journal->segment = 1;
	return journal;
}

static int write_made(struct journal *journal, int dir_fd)
{
	char name[32];
	end_batch(journal);
	journal_segment_name(journal->segment, name);
	int fd = disk->openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int r = fd < 0 ? -errno : disk_write_all(fd, journal->gather.data, journal->gather.len);
	r = r == 0 && disk->fdatasync(fd) < 0 ? -errno : r;
	if (fd >= 0) {
		close(fd);
	}
	return r == 0 && disk->fsync(dir_fd) < 0 ? -errno : r;
}

int journal_make_end(struct journal *journal, int dir_fd)
{
	int r = journal->gather.len ? write_made(journal, dir_fd) : 0;
	buffer_finish(&journal->gather);
	buffer_finish(&journal->entries);
	free(journal);
	return r;
}
