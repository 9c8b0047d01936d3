/*
 * The journal of raw streams. On the worker's thread, the bytes of a batch are appended to the
 * files of their streams, which are not synced; then the batch is appended to the open segment,
 * with one fdatasync. A segment begins with a snapshot of all streams, so older segments are needed
 * only until the files are synced (raw_checkpoint_run()).
 */
#include "raw_internal.h"

#include "core/store/embedded/journal_read.h"
#include "core/store/embedded/rewrite.h"

#include "holdfast/diag.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A segment ends beyond journal.most bytes, but not before this many times its snapshot. */
#define SEGMENT_TIMES 4

/* --- gathering batch --- */

static void reserve_header(struct buffer *batch)
{
	static const char blank[RAW_BATCH_HEADER_SIZE];
	buffer_append(batch, blank, sizeof(blank));
}

void raw_journal_clear(struct raw_journal *journal)
{
	buffer_clear(&journal->gather);
	reserve_header(&journal->gather);
	journal->piece_count = 0;
	journal->removal_count = 0;
}

void raw_journal_finish(struct raw_journal *journal)
{
	buffer_finish(&journal->gather);
	buffer_finish(&journal->flight);
	buffer_finish(&journal->begin);
	free(journal->pieces);
	free(journal->flight_pieces);
	free(journal->removals);
	free(journal->flight_removals);
	if (journal->fd >= 0) {
		close(journal->fd);
	}
	raw_dirs_close(&journal->dirs);
}

bool raw_journal_is_empty(const struct raw_journal *journal)
{
	return journal->gather.len <= RAW_BATCH_HEADER_SIZE;
}

void raw_journal_piece(struct raw_journal *journal, uint64_t id, size_t len)
{
	if (journal->piece_count == journal->piece_cap) {
		journal->piece_cap = journal->piece_cap ? 2 * journal->piece_cap : 16;
		journal->pieces =
			xrealloc(journal->pieces, journal->piece_cap * sizeof(*journal->pieces));
	}
	journal->pieces[journal->piece_count++] =
		(struct raw_piece){.id = id, .at = journal->gather.len - len, .len = len};
}

void raw_journal_remove(struct raw_journal *journal, uint64_t id)
{
	size_t n = journal->removal_count++;
	if ((n & (n - 1)) == 0) {
		journal->removals =
			xrealloc(journal->removals, (n ? 2 * n : 1) * sizeof(*journal->removals));
	}
	journal->removals[n] = id;
}

bool raw_journal_wants_segment(const struct raw_journal *journal)
{
	return !journal->checkpoint && journal->size > journal->most &&
	       journal->size > journal->begun_size * SEGMENT_TIMES;
}

/** Builds the start of the next segment: its magic and the batch with the snapshot. */
static void make_begin(struct raw_journal *journal, const struct raw_state *state)
{
	buffer_append(&journal->begin, RAW_SEGMENT_MAGIC, RAW_SEGMENT_MAGIC_SIZE);
	reserve_header(&journal->begin);
	raw_put_state(&journal->begin, state, journal->is_relaxed ? RAW_SEGMENT_RELAXED : 0);
	raw_batch_close(&journal->begin, RAW_SEGMENT_MAGIC_SIZE, ++journal->batch);
}

void raw_journal_take_off(struct raw_journal *journal, const struct raw_state *begin_with)
{
	struct buffer landed = journal->flight;
	raw_batch_close(&journal->gather, 0, ++journal->batch);
	journal->flight = journal->gather;
	journal->gather = landed;
	free(journal->flight_pieces);
	journal->flight_pieces = journal->pieces;
	journal->flight_count = journal->piece_count;
	journal->pieces = NULL;
	journal->piece_cap = 0;
	free(journal->flight_removals);
	journal->flight_removals = journal->removals;
	journal->flight_removal_count = journal->removal_count;
	journal->removals = NULL;
	raw_journal_clear(journal);
	buffer_finish(&journal->begin);
	if (begin_with) {
		make_begin(journal, begin_with);
	}
}

/* --- worker thread --- */

static int write_piece(
	struct raw_journal *journal, const struct raw_piece *piece, int *fd, uint64_t *fd_id)
{
	char name[RAW_FILE_NAME_SIZE];
	if (*fd < 0 || *fd_id != piece->id) {
		if (*fd >= 0) {
			close(*fd);
		}
		raw_data_name(name, piece->id);
		*fd = disk->openat(journal->dirs.data_fd, name,
			O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
		*fd_id = piece->id;
	}
	return *fd < 0 ? -errno : disk_write_all(*fd, journal->flight.data + piece->at, piece->len);
}

static int write_pieces(struct raw_journal *journal)
{
	int fd = -1;
	uint64_t id = 0;
	int r = 0;
	for (size_t i = 0; i < journal->flight_count && r == 0; i++) {
		r = write_piece(journal, &journal->flight_pieces[i], &fd, &id);
	}
	if (fd >= 0) {
		close(fd);
	}
	return r;
}

/**
 * Syncs the batch if batches are synced, or if it removes streams, whose files are deleted next.
 */
static int sync_journal(const struct raw_journal *journal)
{
	bool syncs = !journal->is_relaxed || journal->flight_removal_count;
	return syncs && disk->fdatasync(journal->fd) < 0 ? -errno : 0;
}

/**
 * Closes the open segment and creates the next one, which begins with journal.begin. Both are
 * synced even if batches are not: the older segments are deleted next, and recovery needs what they
 * had.
 */
static int begin_segment(struct raw_journal *journal)
{
	char name[RAW_FILE_NAME_SIZE];
	if (journal->fd >= 0) {
		int r = journal->is_relaxed && disk->fdatasync(journal->fd) < 0 ? -errno : 0;
		close(journal->fd);
		journal->fd = -1;
		if (r < 0) {
			return r;
		}
	}
	raw_segment_name(name, ++journal->segment);
	journal->fd = disk->openat(journal->dirs.journal_fd, name,
		O_WRONLY | O_APPEND | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (journal->fd < 0) {
		return -errno;
	}
	journal->size = journal->begun_size = journal->begin.len;
	int r = disk_write_all(journal->fd, journal->begin.data, journal->begin.len);
	r = r == 0 && disk->fdatasync(journal->fd) < 0 ? -errno : r;
	return r == 0 && disk->fsync(journal->dirs.journal_fd) < 0 ? -errno : r;
}

static int write_batch(struct raw_journal *journal)
{
	int r = disk_write_all(journal->fd, journal->flight.data, journal->flight.len);
	return r < 0 ? r : sync_journal(journal);
}

/**
 * Removes a failed batch from the segment: it is refused, so a crash must not bring it back. If this
 * fails as well, it may.
 */
static void take_back(struct raw_journal *journal)
{
	if (disk->ftruncate(journal->fd, (off_t)journal->size) == 0) {
		(void)!disk->fdatasync(journal->fd);
	}
}

static void remove_files(struct raw_journal *journal)
{
	char name[RAW_FILE_NAME_SIZE];
	for (size_t i = 0; i < journal->flight_removal_count; i++) {
		raw_data_name(name, journal->flight_removals[i]);
		disk->unlinkat(journal->dirs.data_fd, name, 0); /* on failure recovery deletes it */
	}
}

/**
 * Syncs the newest segment found: the server that wrote it may have been stopped before its sync.
 * If a sync failed, the kernel takes the bytes for written, and another sync would do nothing: so
 * they are written again first. A failure of this write does no other harm.
 */
static int sync_found(const struct raw_journal *journal)
{
	char name[RAW_FILE_NAME_SIZE];
	raw_segment_name(name, journal->segment);
	int r = journal->segment ? journal_rewrite(journal->dirs.journal_fd, name,
					   journal->found.unsure_from, journal->found.unsure_to)
				 : 0;
	if (r < 0) {
		diag(DIAG_WARN, "streams/journal/%s cannot be written again: %s", name,
			strerror(-r));
	}
	return journal->segment ? disk_sync(journal->dirs.journal_fd, name, O_RDONLY) : 0;
}

static int reopen(struct raw_store *store)
{
	struct raw_journal *journal = &store->journal;
	int r = 0;
	journal->found = (struct raw_found){0};
	if (journal->fd >= 0) {
		close(journal->fd);
		journal->fd = -1;
	}
	if (journal->dirs.data_fd < 0) {
		raw_dirs_close(&journal->dirs);
		r = raw_dirs_open(store->config.dir, &journal->dirs);
	}
	r = r < 0 ? r : raw_recover(&journal->dirs, &journal->found);
	if (r < 0) {
		return r;
	}
	journal->segment = journal->found.newest;
	journal->oldest = journal->found.oldest;
	journal->batch = journal->found.batch;
	buffer_finish(&journal->begin);
	if (store->config.forgets_lost) {
		journal->found.state->is_incomplete = false;
	}
	make_begin(journal, journal->found.state);
	r = sync_found(journal);
	r = r < 0 ? r : begin_segment(journal);
	if (r < 0) {
		raw_state_destroy(journal->found.state);
		journal->found.state = NULL;
	}
	return r;
}

static int write_all(struct raw_journal *journal)
{
	int r = write_pieces(journal);
	if (r < 0) {
		return r;
	}
	r = write_batch(journal);
	if (r < 0) {
		take_back(journal);
		return r;
	}
	journal->size += journal->flight.len;
	remove_files(journal);
	journal->begin_result = journal->begin.len ? begin_segment(journal) : 0;
	return 0;
}

void raw_journal_run(void *arg)
{
	struct raw_store *store = arg;
	struct raw_journal *journal = &store->journal;
	journal->result = journal->reopens ? reopen(store) : write_all(journal);
}

/* --- checkpoints --- */

static int sync_file(int data_fd, uint64_t id)
{
	char name[RAW_FILE_NAME_SIZE];
	raw_data_name(name, id);
	int r = disk_sync(data_fd, name, O_RDONLY);
	return r == -ENOENT ? 0 : r; /* the stream has been deleted */
}

void raw_checkpoint_run(uv_work_t *work)
{
	struct raw_checkpoint *checkpoint = work->data;
	char name[RAW_FILE_NAME_SIZE];
	int r = 0;
	for (size_t i = 0; i < checkpoint->count && r == 0; i++) {
		r = sync_file(checkpoint->data_fd, checkpoint->ids[i]);
	}
	if (r == 0 && disk->fsync(checkpoint->data_fd) < 0) {
		r = -errno;
	}
	for (uint64_t n = checkpoint->from; n < checkpoint->to && r == 0; n++) {
		raw_segment_name(name, n);
		if (disk->unlinkat(checkpoint->journal_fd, name, 0) < 0 && errno != ENOENT) {
			r = -errno;
		}
	}
	checkpoint->result = r;
}
