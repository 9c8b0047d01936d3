/*
 * The log of one session in memory: its numbers, and the hot tail (its newest events). The index is
 * in log_index.c, names are in log_keys.c, pages in log_read.c, writing the file is in log_write.c.
 */
#include "store_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct session_log *session_log_new(
	struct store *store, const char *id, uint64_t epoch, int64_t created_at, void *facts)
{
	struct session_log *log = pool_take(&store->by_id.pool);
	bool has_room = strlen(id) < sizeof(log->room);
	log->store = store;
	log->id = has_room ? strcpy(log->room, id) : xstrdup(id);
	log->facts = facts;
	log->epoch = epoch;
	log->created_at = log->updated_at = created_at;
	log->first_seq = log->base_seq = 1;
	list_init(&log->keys.waits);
	list_append(&store->logs, &log->link);
	log_table_put(&store->by_id, log);
	return log;
}

struct session_log *session_log_of(struct store *store, const char *id, uint64_t epoch)
{
	struct session_log *log = log_table_get(&store->by_id, id, strlen(id));
	return log && log->epoch == epoch ? log : NULL;
}

struct event *session_log_hot_at(const struct session_log *log, uint64_t seq)
{
	size_t i = log->hot_head + (size_t)(seq - session_log_hot_first(log));
	struct event *event = log->hot[i & (log->hot_capacity - 1)];
	assert(event->seq == seq);
	return event;
}

static void drop_hot(struct session_log *log)
{
	struct event *event = log->hot[log->hot_head];
	log->hot_size -= event->json_len[FORMAT_MARKDOWN];
	log->hot_offset += event_line_len(event);
	event_unref(event);
	log->hot_head = (log->hot_head + 1) & (log->hot_capacity - 1);
	log->hot_count--;
}

void session_log_forget_before(struct session_log *log, uint64_t seq)
{
	while (log->hot_count && session_log_hot_first(log) < seq) {
		drop_hot(log);
	}
}

void session_log_hide(struct session_log *log)
{
	if (!log->is_hidden) {
		log->is_hidden = true;
		log_table_remove(&log->store->by_id, log);
	}
}

void session_log_unlist(struct session_log *log)
{
	assert(!log->is_removed);
	log->is_removed = true;
	session_log_hide(log);
	store_add_damaged(log->store, -(log->damage_from != 0) - log->keys.is_told);
	list_remove(&log->link);
	/* Ends the waits for its names; a lookup of the session then finds that it is gone. */
	log_keys_finish(&log->keys);
}

void session_log_free(struct session_log *log)
{
	if (!log->is_removed) {
		session_log_unlist(log);
	}
	log->store->engine->drop(log);
	session_log_forget_before(log, UINT64_MAX);
	free(log->hot);
	if (log->facts) {
		log->store->ops->facts->destroy(log->facts);
	}
	if (log->id != log->room) {
		free(log->id);
	}
	pool_give(&log->store->by_id.pool, log);
}

/* --- appending --- */

uint64_t session_log_hot_first(const struct session_log *log)
{
	return log->last_seq - log->hot_count + 1;
}

void session_log_keep(struct session_log *log, struct event *event)
{
	if (log->hot_count == log->hot_capacity) {
		size_t capacity = log->hot_capacity ? log->hot_capacity * 2 : 16;
		struct event **hot = xcalloc(capacity, sizeof(struct event *));
		for (size_t i = 0; i < log->hot_count; i++) {
			hot[i] = log->hot[(log->hot_head + i) & (log->hot_capacity - 1)];
		}
		free(log->hot);
		log->hot = hot;
		log->hot_head = 0;
		log->hot_capacity = capacity;
	}
	log->hot[(log->hot_head + log->hot_count++) & (log->hot_capacity - 1)] = event_ref(event);
	log->hot_size += event->json_len[FORMAT_MARKDOWN];
}

void session_log_trim(struct session_log *log)
{
	while (log->hot_count && log->hot_size > log->store->limits->hot_tail_size &&
		log->hot_offset + event_line_len(log->hot[log->hot_head]) <= log->written) {
		drop_hot(log);
	}
}

void session_log_count(struct session_log *log, const struct event_view *view, size_t len)
{
	assert(view->seq == log->last_seq + 1);
	log->store->ops->facts->fold(log->facts, view);
	log->store->ops->facts->names_of(view, false, log_keys_add, log);
	if (log->first_seq > log->last_seq) {
		log->first_ts = view->ts;
	}
	log->last_seq = view->seq;
	log->size += len;
	log->dirty = true;
}

void session_log_take(struct session_log *log, struct event *event, int64_t ts)
{
	struct event_view view = {.seq = event->seq, .type = event->type, .turn = event->turn};
	const struct store_facts *facts = log->store->ops->facts;
	if (facts->names_need_data(event->type) || facts->needs_data(event->type)) {
		event_get_view(event, &view);
	}
	if (!log->hot_count) {
		log->hot_offset = log->size;
	}
	session_log_count(log, &view, event_line_len(event));
	session_log_keep(log, event);
	log->updated_at = ts;
}

int64_t session_log_append(
	struct session_log *log, enum record_kind kind, int64_t ts, const char *data, size_t len)
{
	struct store *store = log->store;
	if (store->error && !store->takes_snapshots) {
		return store->error;
	}
	int64_t lsn = store->engine->append(log, &(struct record){.kind = kind,
							 .id = log->id,
							 .id_len = strlen(log->id),
							 .epoch = log->epoch,
							 .ts = ts,
							 .data = data,
							 .data_len = len});
	log->last_record += lsn > 0;
	if (lsn > 0 && kind == RECORD_SNAPSHOT) {
		log->snapshot_round = store->snapshot_round;
	}
	return lsn;
}

void session_log_again(struct session_log *log, const struct event_view *view)
{
	log_keys_note_replayed(log, view->seq);
	if (log->store->engine->again) {
		log->store->engine->again(log, view);
	}
}

bool session_log_wants_snapshot(const struct session_log *log)
{
	return log->snapshot_round != log->store->snapshot_round;
}

int session_log_rest(struct session_log *log)
{
	int r = log->store->engine->rest(log);
	if (r < 0) {
		return r;
	}
	session_log_forget_before(log, UINT64_MAX);
	free(log->hot);
	log->hot = NULL;
	log->hot_capacity = log->hot_head = 0;
	log->snapshot_round = 0;
	log_keys_rest(&log->keys);
	return 0;
}

uint64_t session_log_last_written(const struct session_log *log, uint64_t *ret_end)
{
	uint64_t seq = log->last_seq;
	uint64_t end = log->size;
	while (end > log->written) {
		end -= event_line_len(session_log_hot_at(log, seq--));
	}
	*ret_end = end;
	return seq;
}

void session_log_note_damage(struct session_log *log, const struct gap *gap)
{
	if (!log->damage_from) {
		store_add_damaged(log->store, 1);
	}
	log->damage_from = gap->from;
	log->damage_to = gap->to;
}

/* --- the hot tail --- */

/** Finds where a page with a fixed end begins; false if that event is not in memory. */
static bool find_start(
	const struct session_log *log, const struct log_page *page, uint64_t *ret_start)
{
	size_t bytes = 0;
	uint64_t seq = page->to + 1;
	while (seq > page->from) {
		if (seq - 1 < session_log_hot_first(log)) {
			return false;
		}
		bytes += session_log_hot_at(log, seq - 1)->json_len[FORMAT_MARKDOWN];
		if (bytes > page->max_bytes && seq <= page->to) {
			break;
		}
		seq--;
	}
	*ret_start = seq;
	return true;
}

/* The most events of a page that may be rendered on the loop, by the caller. */
#define RENDERED_AT_ONCE 16

static bool takes_rendering(struct event **events, size_t count, enum event_format format)
{
	size_t found = 0;
	for (size_t i = 0; i < count && format != FORMAT_MARKDOWN; i++) {
		found += event_needs_rendering(events[i], format);
	}
	return found > RENDERED_AT_ONCE;
}

size_t session_log_get_hot(
	struct session_log *log, const struct log_page *page, struct event **events)
{
	uint64_t from = page->from;
	if (!log->hot_count || page->to > log->last_seq || page->to < page->from ||
		(page->is_fixed_at_end && !find_start(log, page, &from)) ||
		from < session_log_hot_first(log)) {
		return 0;
	}
	size_t n = 0;
	size_t bytes = 0;
	for (uint64_t seq = from; seq <= page->to; seq++) {
		struct event *event = session_log_hot_at(log, seq);
		if (!page->is_fixed_at_end && bytes >= page->max_bytes) {
			break;
		}
		bytes += event->json_len[FORMAT_MARKDOWN];
		events[n++] = event_ref(event);
	}
	if (takes_rendering(events, n, page->format)) {
		while (n) {
			event_unref(events[--n]);
		}
	}
	return n;
}

/* --- accessors --- */

const char *session_log_id(const struct session_log *log)
{
	return log->id;
}

uint64_t session_log_epoch(const struct session_log *log)
{
	return log->epoch;
}

int64_t session_log_created_at(const struct session_log *log)
{
	return log->created_at;
}

int64_t session_log_updated_at(const struct session_log *log)
{
	return log->updated_at;
}

uint64_t session_log_first_seq(const struct session_log *log)
{
	return log->first_seq;
}

uint64_t session_log_last_seq(const struct session_log *log)
{
	return log->last_seq;
}

enum storage_kind session_log_storage(const struct session_log *log)
{
	return store_storage(log->store);
}

bool session_log_get_damage(const struct session_log *log, uint64_t *ret_from, uint64_t *ret_to)
{
	*ret_from = log->damage_from;
	*ret_to = log->damage_to;
	return log->damage_from != 0;
}

void *session_log_facts(const struct session_log *log)
{
	return log->facts;
}

void session_log_facts_changed(struct session_log *log)
{
	log->dirty = true;
}
