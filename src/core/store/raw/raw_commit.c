/*
 * Commits of raw streams: hands batches to the worker, shows the result to waits and watches once
 * it is durable, and recovers after a failed write.
 */
#include "raw_internal.h"

#include "holdfast/beneath.h"
#include "holdfast/diag.h"
#include "holdfast/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- waits and watches --- */

static void tell_waits(struct raw_store *store, uint64_t lsn, int status)
{
	struct list due;
	list_init(&due);
	list_for_each_safe(link, tmp, &store->waits) {
		struct raw_wait *wait = list_entry(link, struct raw_wait, link);
		if (wait->lsn <= lsn) {
			list_remove(link);
			list_append(&due, link);
		}
	}
	while (!list_empty(&due)) { /* done() may cancel other waits */
		struct raw_wait *wait = list_entry(due.next, struct raw_wait, link);
		list_remove(&wait->link);
		wait->lsn = 0;
		wait->done(wait, status);
	}
}

void raw_end_watches(struct raw_stream *stream)
{
	while (!list_empty(&stream->watches)) {
		struct raw_watch *watch = list_entry(stream->watches.next, struct raw_watch, link);
		list_remove(&watch->link);
		watch->news(watch, NULL, true);
	}
}

static void tell_watches(struct raw_stream *stream, struct raw_page *page)
{
	struct list told;
	list_init(&told);
	list_move_all(&told, &stream->watches);
	while (!list_empty(&told)) {
		struct raw_watch *watch = list_entry(told.next, struct raw_watch, link);
		list_remove(&watch->link);
		list_append(&stream->watches, &watch->link);
		watch->news(watch, page, false);
	}
}

/* --- durable batches --- */

/**
 * Makes a page of the bytes that the batch adds to a stream. NULL: no watches, no bytes, or too
 * many.
 */
static struct raw_page *gather_page(
	const struct raw_journal *journal, const struct raw_stream *stream, uint64_t from)
{
	struct buffer bytes = {0};
	if (list_empty(&stream->watches) || stream->flight_length == from ||
		stream->flight_length - from > RAW_PAGE_SIZE) {
		return NULL;
	}
	for (size_t i = 0; i < journal->flight_count; i++) {
		const struct raw_piece *piece = &journal->flight_pieces[i];
		if (piece->id == stream->id) {
			buffer_append(&bytes, journal->flight.data + piece->at, piece->len);
		}
	}
	struct raw_page *page = raw_page_new(from, bytes.data, bytes.len);
	buffer_finish(&bytes);
	return page;
}

static void show(struct raw_store *store, struct raw_stream *stream)
{
	uint64_t from = stream->is_shown ? stream->shown_length : stream->start;
	bool is_news = stream->shown_length != stream->flight_length ||
		       stream->shown_closed != stream->flight_closed;
	struct raw_page *page = gather_page(&store->journal, stream, from);
	stream->is_shown = true;
	stream->shown_length = stream->flight_length;
	stream->shown_closed = stream->flight_closed;
	if (is_news) {
		tell_watches(stream, page);
	}
	if (page) {
		raw_page_unref(page);
	}
	if (stream->is_deleted) {
		raw_end_watches(stream); /* for readers it is gone, even if forks keep it */
	}
}

static void land(struct raw_store *store)
{
	store->durable_lsn = store->flight_lsn;
	while (!list_empty(&store->in_flight)) {
		struct raw_stream *stream =
			list_entry(store->in_flight.next, struct raw_stream, changed_link);
		list_remove(&stream->changed_link);
		if (stream->lsn > store->flight_lsn && !stream->is_removed) {
			list_append(&store->changed, &stream->changed_link);
		}
		show(store, stream);
	}
	while (!list_empty(&store->removed_flight)) {
		struct raw_stream *stream =
			list_entry(store->removed_flight.next, struct raw_stream, link);
		list_remove(&stream->link);
		list_remove(&stream->changed_link);
		raw_end_watches(stream);
		raw_stream_free(stream);
	}
	tell_waits(store, store->durable_lsn, 0);
}

/* --- checkpoints --- */

static void begin_retry(struct raw_store *store)
{
	uv_timer_start(store->retry, raw_handle_retry,
		(uint64_t)store->config.limits->journal_retry_ms, 0);
}

/** Stops all writes until recovery from disk has succeeded. */
static void begin_failing(struct raw_store *store)
{
	store->damaged = raw_count_damaged(store);
	store->is_failing = true;
	begin_retry(store);
}

static void handle_checkpoint(uv_work_t *work, int status)
{
	struct raw_checkpoint *checkpoint = work->data;
	struct raw_store *store = checkpoint->store;
	store->journal.checkpoint = NULL;
	if (checkpoint->result == 0) {
		store->journal.oldest = checkpoint->to;
	} else {
		/*
		 * The kernel may have dropped pages of the file: recovery rewrites them from the
		 * journal.
		 */
		diag(DIAG_ERROR, "cannot sync a file of raw streams: %s",
			file_error(-checkpoint->result));
		begin_failing(store);
	}
	free(checkpoint->ids);
	free(checkpoint);
}

/** Prepares to sync all dirty files; then the segments before `to` are no longer needed. */
static void make_checkpoint(struct raw_store *store, uint64_t to)
{
	struct raw_checkpoint *checkpoint = xcalloc(1, sizeof(*checkpoint));
	checkpoint->store = store;
	checkpoint->ids = xcalloc(store->state->count + 1, sizeof(*checkpoint->ids));
	list_for_each(link, &store->state->streams) {
		struct raw_stream *stream = list_entry(link, struct raw_stream, link);
		if (stream->is_dirty) {
			checkpoint->ids[checkpoint->count++] = stream->id;
			stream->is_dirty = false;
		}
	}
	checkpoint->data_fd = store->journal.dirs.data_fd;
	checkpoint->journal_fd = store->journal.dirs.journal_fd;
	checkpoint->from = store->journal.oldest;
	checkpoint->to = to;
	checkpoint->work.data = checkpoint;
	store->journal.checkpoint = checkpoint;
}

static void run_checkpoint(struct raw_store *store)
{
	uv_queue_work(store->config.loop, &store->journal.checkpoint->work, raw_checkpoint_run,
		handle_checkpoint);
}

static void drop_checkpoint(struct raw_store *store)
{
	if (store->journal.checkpoint) {
		free(store->journal.checkpoint->ids);
		free(store->journal.checkpoint);
		store->journal.checkpoint = NULL;
	}
}

/* --- launch --- */

static void mark_dirty(struct raw_store *store)
{
	for (size_t i = 0; i < store->journal.piece_count; i++) {
		struct raw_stream *stream =
			raw_state_by_id(store->state, store->journal.pieces[i].id);
		if (stream) {
			stream->is_dirty = true;
		}
	}
}

void raw_launch(struct raw_store *store)
{
	struct raw_journal *journal = &store->journal;
	if (journal->is_at_work || store->is_failing || raw_journal_is_empty(journal)) {
		return;
	}
	bool begins = raw_journal_wants_segment(journal);
	mark_dirty(store);
	if (begins) {
		make_checkpoint(store, journal->segment + 1);
	}
	list_move_all(&store->in_flight, &store->changed);
	list_move_all(&store->removed_flight, &store->removed);
	list_for_each(link, &store->in_flight) {
		struct raw_stream *stream = list_entry(link, struct raw_stream, changed_link);
		stream->flight_length = stream->length;
		stream->flight_closed = stream->is_closed;
	}
	store->flight_lsn = store->lsn++;
	raw_journal_take_off(journal, begins ? store->state : NULL);
	journal->is_at_work = true;
	worker_start(journal->worker);
}

/* --- failures --- */

/** Drops all state in memory, which may be ahead of the disk, and fails all waits with `error`. */
static void forget_all(struct raw_store *store, int error)
{
	struct list streams;
	list_init(&streams);
	list_move_all(&streams, &store->state->streams);
	list_move_all(&streams, &store->removed);
	list_move_all(&streams, &store->removed_flight);
	list_for_each_safe(link, tmp, &streams) {
		struct raw_stream *stream = list_entry(link, struct raw_stream, link);
		list_remove(&stream->changed_link);
		stream->is_removed = true;
		raw_end_watches(stream);
	}
	raw_state_destroy(store->state);
	store->state = raw_state_create();
	list_for_each_safe(link, tmp, &streams) {
		raw_stream_free(list_entry(link, struct raw_stream, link));
	}
	raw_journal_clear(&store->journal);
	store->durable_lsn = store->lsn++;
	tell_waits(store, store->durable_lsn, error);
}

int raw_take_found(struct raw_store *store)
{
	struct raw_found *found = &store->journal.found;
	store->is_damaged = store->journal.result == -EBADMSG;
	if (store->is_damaged) {
		store->damaged = found->files ? found->files : 1;
	}
	if (store->journal.result < 0) {
		diag_limited(&store->warned, DIAG_ERROR,
			"%s: raw streams are unavailable; recovery is retried automatically%s",
			found->why ? found->why : file_error(-store->journal.result),
			store->is_damaged ? ". If it stays so, restore streams/ from a backup"
					  : "");
		free(found->why);
		return store->journal.result;
	}
	raw_state_destroy(store->state);
	store->state = found->state;
	list_for_each(link, &store->state->streams) {
		struct raw_stream *stream = list_entry(link, struct raw_stream, link);
		stream->is_shown = true;
		stream->may_be_newer = true;
		stream->shown_length = stream->length;
		stream->shown_closed = stream->is_closed;
	}
	store->is_failing = false;
	if (found->is_hurt) {
		diag(DIAG_ERROR,
			"%s: %zu streams are refused as damaged (holdfast verify names them); what is left is in streams/set-aside. Restore them from a backup, or delete them",
			found->why, raw_count_damaged(store));
	}
	free(found->why);
	found->why = NULL;
	make_checkpoint(store, store->journal.segment);
	run_checkpoint(store);
	return 0;
}

void raw_handle_retry(uv_timer_t *timer)
{
	struct raw_store *store = timer->data;
	if (store->journal.is_at_work || store->journal.checkpoint) {
		begin_retry(store);
		return;
	}
	forget_all(store, -EIO);
	store->journal.reopens = true;
	store->journal.is_at_work = true;
	worker_start(store->journal.worker);
}

static void handle_reopened(struct raw_store *store)
{
	store->journal.reopens = false;
	if (raw_take_found(store) < 0) {
		begin_retry(store);
	} else {
		diag(DIAG_INFO, "raw streams are available again");
	}
}

static void handle_failed(struct raw_store *store)
{
	diag(DIAG_ERROR,
		"cannot write the journal of raw streams: %s. They are unavailable until a retry succeeds",
		file_error(-store->journal.result));
	if (store->journal.begin.len) {
		drop_checkpoint(store); /* prepared for the segment that did not begin */
	}
	begin_failing(store);
	forget_all(store, store->journal.result);
}

void raw_handle_done(void *arg)
{
	struct raw_store *store = arg;
	struct raw_journal *journal = &store->journal;
	journal->is_at_work = false;
	if (journal->reopens) {
		handle_reopened(store);
		return;
	}
	if (journal->result < 0) {
		handle_failed(store);
		return;
	}
	if (journal->begin.len && journal->begin_result == 0) {
		run_checkpoint(store);
	} else if (journal->begin.len) {
		diag(DIAG_ERROR, "cannot begin a journal segment of raw streams: %s",
			file_error(-journal->begin_result));
		drop_checkpoint(store);
		begin_failing(store);
	}
	if (store->config.wrote) {
		store->config.wrote(
			store->config.arg, 2 * journal->flight.len + journal->begin.len);
	}
	land(store);
	raw_launch(store);
}
