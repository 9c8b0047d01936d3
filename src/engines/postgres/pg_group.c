/*
 * The loop's side of groups: gathers the inputs of a tick, hands them to the writer's thread as one
 * group, and applies the result to the logs.
 */
#include "pg.h"
#include "pg_nodes.h"

#include "holdfast/diag.h"
#include "holdfast/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* Bytes of unsaved names that can stay in memory; the records that contain them are durable. */
#define NAMES_MAX ((size_t)16 << 10)
/* A session gets a snapshot, which replaces its records, after so many of them or their bytes. */
#define RECORDS_MAX      2000
#define RECORD_BYTES_MAX ((size_t)1 << 20)

struct pg *pg_of(const struct store *store)
{
	return store->engine_state;
}

struct pg_log *pg_log_of(const struct session_log *log)
{
	return log->engine_data;
}

void pg_log_begin(struct session_log *log, int64_t sid, bool is_new)
{
	struct pg_log *kept = xcalloc(1, sizeof(*kept));
	*kept = (struct pg_log){
		.log = log, .sid = sid, .is_new = is_new, .rows_from = log->first_seq};
	list_init(&kept->prune_link);
	log->engine_data = kept;
}

static int64_t make_sid(void)
{
	uint64_t sid = 0;
	if (getrandom(&sid, sizeof(sid), 0) != sizeof(sid)) {
		abort(); /* it never fails for so few bytes */
	}
	return (int64_t)(sid >> 1);
}

static struct pg_part *part_in(struct list *link)
{
	return list_entry(link, struct pg_part, part.link);
}

static void part_free(struct pg_part *part)
{
	list_remove(&part->part.link);
	log_part_forget(&part->part);
	list_for_each_safe(link, tmp, &part->records) {
		free(list_entry(link, struct pg_record, link));
	}
	buffer_finish(&part->metadata);
	buffer_finish(&part->names);
	free(part->id);
	free(part);
}

static struct pg_part *part_of(struct session_log *log)
{
	struct pg_log *kept = pg_log_of(log);
	if (!kept->gathering) {
		struct pg_part *part = xcalloc(1, sizeof(*part));
		part->part.log = log;
		part->sid = kept->sid;
		part->fence = log->fence;
		part->after = part->last = log->last_record;
		part->is_new = kept->is_new;
		part->id = kept->is_new ? xstrdup(log->id) : NULL;
		part->epoch = log->epoch;
		kept->is_new = false;
		list_init(&part->records);
		list_append(&pg_of(log->store)->gather.parts, &part->part.link);
		kept->gathering = part;
	}
	return kept->gathering;
}

struct log_part *pg_get_part(struct session_log *log)
{
	return &part_of(log)->part;
}

static void want_save(struct session_log *log)
{
	if (!pg_log_of(log)->is_new) {
		part_of(log)->has_save = true;
	}
}

void pg_save(struct session_log *log)
{
	if (log->dirty || log->keys.unwritten.len) {
		want_save(log);
	}
}

int64_t pg_append(struct session_log *log, const struct record *record)
{
	struct pg_group *group = &pg_of(log->store)->gather;
	if (!log->engine_data && !pg_nodes_may_take(pg_of(log->store))) {
		return -EAGAIN;
	}
	if (!log->engine_data) {
		pg_log_begin(log, make_sid(), true);
		log->fence = 1;
	}
	struct pg_log *kept = pg_log_of(log);
	struct pg_part *part = part_of(log);
	struct pg_record *own = xmalloc(sizeof(*own) + record->data_len + 1);
	own->kind = record->kind;
	own->number = ++part->last;
	own->ts = record->ts;
	own->len = record->data_len;
	memcpy(own->data, record->data_len ? record->data : "", record->data_len);
	list_append(&part->records, &own->link);
	part->is_deletion = part->is_deletion || record->kind == RECORD_DELETE;
	group->bytes += record->data_len + 1;
	kept->records++;
	kept->bytes += record->data_len;
	if (kept->records > RECORDS_MAX || kept->bytes > RECORD_BYTES_MAX) {
		log->snapshot_round = 0; /* a snapshot precedes the next record */
		kept->records = kept->bytes = 0;
	}
	return (int64_t)group->lsn;
}

/* --- launching a group --- */

/** Saves the state of the log as it is now, before the group's events are added to it. */
static void take_save(struct pg_part *part)
{
	struct session_log *log = part->part.log;
	struct pg_log *kept = pg_log_of(log);
	struct metadata meta;
	part->forgets_records = part->forgets_records && list_empty(&part->records);
	part->trim_before = part->forgets_records ? part->after + 1 : kept->snapshot;
	if (kept->rows_from < log->first_seq) {
		part->prune_from = kept->rows_from;
		part->prune_before = log->first_seq;
	}
	part->names_at = log->keys.size;
	buffer_append(&part->names, log->keys.unwritten.data, log->keys.unwritten.len);
	metadata_take(log, &meta);
	meta.keys_size += part->names.len;
	metadata_append(log->id, &meta, &part->metadata);
	metadata_finish(&meta);
	part->metadata.len--; /* without the newline */
	log->dirty = false;
}

static void begin_flight(struct pg *pg)
{
	struct pg_group *flight = &pg->flight;
	list_move_all(&flight->parts, &pg->gather.parts);
	flight->lsn = pg->gather.lsn++;
	flight->bytes = pg->gather.bytes;
	strcpy(flight->owner, pg_owner(pg));
	flight->status = 0;
	pg->gather.bytes = 0;
	list_for_each(link, &flight->parts) {
		struct pg_part *part = part_in(link);
		struct pg_log *kept = pg_log_of(part->part.log);
		kept->gathering = NULL;
		kept->in_flight = true;
		part->fence_now = part->fence;
		part->has_save = part->has_save && !part->is_new && !part->is_deletion;
		if (part->has_save) {
			take_save(part);
		}
	}
	pg->is_busy = true;
	worker_start(pg->writer);
}

void pg_launch(struct store *store)
{
	struct pg *pg = pg_of(store);
	if (!pg->is_busy && !list_empty(&pg->gather.parts)) {
		begin_flight(pg);
	}
}

/* --- the result of a group --- */

static void land_records(struct pg_log *kept, const struct pg_part *part)
{
	list_for_each(link, &part->records) {
		const struct pg_record *record = list_entry(link, struct pg_record, link);
		kept->has_records = kept->has_records || record->kind != RECORD_CREATE;
		if (record->kind == RECORD_SNAPSHOT) {
			kept->snapshot = record->number;
		}
	}
}

static void land_save(struct session_log *log, const struct pg_part *part)
{
	struct pg_log *kept = pg_log_of(log);
	log->keys.size += part->names.len;
	buffer_consume(&log->keys.unwritten, part->names.len);
	if (!log->keys.unwritten.len) {
		buffer_finish(&log->keys.unwritten);
	}
	if (part->forgets_records) {
		kept->has_records = false;
		kept->snapshot = 0;
		log->snapshot_round = 0; /* a snapshot precedes the next record */
	}
	if (part->prune_before) {
		pg_prune_landed(log, part);
	}
}

static void land(struct pg_part *part)
{
	struct session_log *log = part->part.log;
	struct pg_log *kept = pg_log_of(log);
	uint64_t snapshot = kept->snapshot;
	kept->in_flight = false;
	if (part->has_save) {
		land_save(log, part);
	}
	land_records(kept, part);
	log_part_land(&part->part);
	log->written = log->size;
	session_log_trim(log);
	log->fence = part->fence_now;
	if (kept->gathering) {
		kept->gathering->fence = log->fence;
	}
	if (log->keys.unwritten.len > NAMES_MAX || snapshot != kept->snapshot) {
		want_save(log);
	}
}

static void land_all(struct pg *pg)
{
	while (!list_empty(&pg->flight.parts)) {
		struct pg_part *part = part_in(pg->flight.parts.next);
		struct session_log *log = part->part.log;
		bool is_fenced = log && part->is_fenced;
		if (log && !is_fenced) {
			land(part);
		}
		part_free(part);
		if (is_fenced) {
			diag(DIAG_WARN, "session %s: another server has taken it over", log->id);
			store_fenced(log); /* before store_synced() reports success to the others */
		}
	}
	store_synced(pg->store, pg->flight.lsn);
}

static void refuse_all(struct list *parts)
{
	while (!list_empty(parts)) {
		struct pg_part *part = part_in(parts->next);
		struct session_log *log = part->part.log;
		if (log) {
			struct pg_log *kept = pg_log_of(log);
			log->last_record = part->after;
			log->dirty = true;
			log->fence = part->fence_now > log->fence ? part->fence_now : log->fence;
			kept->in_flight = false;
			kept->gathering = kept->gathering == part ? NULL : kept->gathering;
			kept->is_new = part->is_new;
		}
		part_free(part);
	}
}

static void handle_retry(uv_timer_t *timer)
{
	struct pg *pg = timer->data;
	struct store *store = pg->store;
	if (store_try_again(store) < 0) {
		uv_timer_start(timer, handle_retry, (uint64_t)store->limits->journal_retry_ms, 0);
		return;
	}
	store_take_snapshots(store);
	if (!pg->is_busy) {
		begin_flight(pg); /* even an empty group shows whether the database works */
	}
}

/**
 * Notes the sessions of a group that a node has given up before its outcome was known. Returns false
 * if there is no doubt, or no later group: the store closes, or the server is alone, which gives up
 * a group only at its end.
 */
static bool note_doubtful(struct pg *pg)
{
	bool found = false;
	if (!pg->is_in_doubt || !server_may(pg->store->life, MAY_KEEP_UP) ||
		!store_is_shared(pg->store)) {
		return false;
	}
	list_for_each(link, &pg->flight.parts) {
		struct session_log *log = part_in(link)->part.log;
		if (log) {
			pg_nodes_doubt(pg->nodes, pg_log_of(log)->sid);
			pg_log_of(log)->is_doubtful = true;
			found = true;
		}
	}
	return found;
}

/**
 * Lets go of these logs, of which store_failed() has freed those of new sessions. Whoever takes the
 * sessions next reads what the database has of them.
 */
static void drop_doubtful(struct pg *pg)
{
	list_for_each_safe(link, tmp, &pg->store->logs) {
		struct session_log *log = list_entry(link, struct session_log, link);
		if (pg_log_of(log) && pg_log_of(log)->is_doubtful) {
			store_fenced(log);
		}
	}
	pg->is_in_doubt = false;
}

static void fail(struct pg *pg)
{
	struct store *store = pg->store;
	bool has_doubtful = note_doubtful(pg);
	refuse_all(&pg->gather.parts); /* newest first: last_record has to go back step by step */
	refuse_all(&pg->flight.parts);
	pg->gather.lsn++;
	pg->gather.bytes = 0;
	store_failed(store, pg->flight.status, pg->is_in_doubt ? pg->flight.lsn : 0);
	if (has_doubtful) {
		drop_doubtful(pg);
	}
	if (server_may(store->life, MAY_KEEP_UP)) {
		uint64_t ms = (uint64_t)store->limits->journal_retry_ms;
		uv_timer_start(pg->retry, handle_retry, ms, 0);
	}
}

void pg_group_land(struct pg *pg)
{
	pg->is_busy = false;
	pg_place_start_over(pg);
	if (pg->flight.status < 0) {
		fail(pg);
	} else {
		land_all(pg);
	}
}

/* --- other operations of the engine on groups --- */

int pg_sync(struct store *store)
{
	struct pg *pg = pg_of(store);
	/* If the database is down, do not wait forever: the group in flight is given up. */
	atomic_store(
		&pg->give_up_at, uv_hrtime() + (uint64_t)store->limits->stop_wait_ms * 1000000);
	while (pg->is_busy || !list_empty(&pg->gather.parts)) {
		if (!pg->is_busy) {
			begin_flight(pg);
		}
		pg_writer_wait(pg);
	}
	atomic_store(&pg->give_up_at, 0);
	return store->error;
}

size_t pg_backlog(const struct store *store)
{
	const struct pg *pg = pg_of(store);
	return pg->gather.bytes + (pg->is_busy ? pg->flight.bytes + 1 : 0);
}

int pg_rest(struct session_log *log)
{
	const struct pg_log *kept = pg_log_of(log);
	if (kept->gathering || kept->in_flight) {
		return -EBUSY;
	}
	if (log->dirty || log->keys.unwritten.len || kept->has_records) {
		struct pg_part *part = part_of(log);
		part->has_save = part->forgets_records = true;
		return -EBUSY;
	}
	return 0;
}

void pg_drop(struct session_log *log)
{
	struct pg *pg = pg_of(log->store);
	struct pg_log *kept = pg_log_of(log);
	if (!kept) {
		return;
	}
	pg_prune_drop(log);
	if (kept->gathering) {
		part_free(kept->gathering);
	}
	/* The writer's thread has the parts in flight: they stay, without their log. */
	list_for_each(link, &pg->flight.parts) {
		struct pg_part *part = part_in(link);
		part->part.log = part->part.log == log ? NULL : part->part.log;
	}
	free(kept);
	log->engine_data = NULL;
}

void pg_remove(struct session_log *log)
{
	struct pg *pg = pg_of(log->store);
	session_log_free(log);
	pg->has_garbage = true;
	pg_sweep(pg);
}

void pg_groups_init(struct pg *pg)
{
	list_init(&pg->gather.parts);
	list_init(&pg->flight.parts);
	list_init(&pg->prunes);
	pg->gather.lsn = 1;
}

void pg_groups_finish(struct pg *pg)
{
	while (!list_empty(&pg->gather.parts)) {
		part_free(part_in(pg->gather.parts.next));
	}
	while (!list_empty(&pg->flight.parts)) {
		part_free(part_in(pg->flight.parts.next));
	}
}
