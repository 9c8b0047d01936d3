/*
 * Retention in the database; prune.c decides which events are pruned. A thread finds the first
 * event that stays. The log begins there at once, so that readers know before a row is deleted. The
 * writer saves the new beginning in the metadata and deletes the rows in one transaction, under the
 * session's fence, so that only the owner prunes. A crash before that leaves the log as it was.
 * Many events are deleted in steps, so that no group has to wait long.
 */
#include "pg.h"

#include "holdfast/diag.h"

#include <stdlib.h>
#include <string.h>

/* About how many rows are deleted in one step. */
#define STEP_ROWS 4000
/* Most sessions in one step. */
#define STEP_LOGS 64

/** What the thread knows of a log, and its result. */
struct pg_cut {
	char *id;
	uint64_t epoch;
	int64_t sid;
	struct metadata meta; /* numbers only: where the log begins, then where it will begin */
	struct prune prune;
	bool was_looked_at;
	bool is_whole; /* nothing is left to prune after this step */
};

struct pg_cutting {
	uv_work_t work;
	struct pg *pg;
	struct pg_cut cuts[STEP_LOGS];
	size_t count;
};

/* --- on the thread pool --- */

/* Seq, time, and size with newline of the next events. */
static const char rows_sql[] = "SELECT seq, ts, octet_length(line)::bigint + 1 FROM holdfast_event"
			       " WHERE sid = $1 AND seq BETWEEN $2 AND $3 ORDER BY seq LIMIT $4";

static PGresult *read_rows(struct pg *pg, const struct pg_cut *cut, uint64_t from)
{
	struct pg_params params = {0};
	pg_add_bigint(&params, cut->sid);
	pg_add_bigint(&params, (int64_t)from);
	pg_add_bigint(&params, (int64_t)cut->meta.max_seq);
	pg_add_bigint(&params, STEP_ROWS);
	PGresult *rows = pg_query(pg, rows_sql, &params);
	pg_params_finish(&params);
	return rows;
}

/**
 * Moves the beginning in cut->meta behind the events to prune, or behind the first step of them.
 * Returns false if the database cannot be read.
 */
static bool find(struct pg *pg, struct pg_cut *cut)
{
	struct metadata *meta = &cut->meta;
	struct prune_search search = {.prune = &cut->prune, .meta = meta};
	uint64_t from = meta->first_seq;
	uint64_t offset = 0;
	int count;
	/* No step ends among events of unknown age, as a later event decides whether they go. */
	do {
		PGresult *rows = read_rows(pg, cut, from);
		count = PQntuples(rows);
		for (int row = 0; row < count && !cut->is_whole; row++) {
			size_t len = (size_t)pg_get_bigint(rows, row, 2);
			from = (uint64_t)pg_get_bigint(rows, row, 0) + 1;
			cut->is_whole = prune_search_line(
				&search, from - 1, pg_get_bigint(rows, row, 1), offset, len);
			offset += len;
		}
		PQclear(rows);
		if (!rows) {
			return false;
		}
	} while (!cut->is_whole && count == STEP_ROWS && search.may_be_younger);
	if (!cut->is_whole && count < STEP_ROWS) {
		cut->is_whole = true;
		if (!search.found) {
			meta->first_seq = meta->max_seq + 1;
			meta->first_at = meta->log_size;
			meta->first_ts = 0;
		}
	}
	return true;
}

static void cutting_work(uv_work_t *work)
{
	struct pg_cutting *cutting = work->data;
	uint64_t gone = 0;
	for (size_t i = 0; i < cutting->count && gone < STEP_ROWS; i++) {
		struct pg_cut *cut = &cutting->cuts[i];
		uint64_t first = cut->meta.first_seq;
		if (!server_may(cutting->pg->store->life, MAY_KEEP_UP) || !find(cutting->pg, cut)) {
			return; /* the next run of the timer tries again */
		}
		cut->was_looked_at = true;
		gone += cut->meta.first_seq - first;
	}
}

/* --- on the loop --- */

static void begin_step(struct pg *pg);

static void want(struct session_log *log)
{
	struct pg_log *kept = pg_log_of(log);
	log->wants_prune = true;
	if (list_empty(&kept->prune_link)) {
		list_append(&pg_of(log->store)->prunes, &kept->prune_link);
	}
}

static void forget(struct session_log *log)
{
	log->wants_prune = false;
	list_remove(&pg_log_of(log)->prune_link);
}

/** Moves the beginning of the log; its next group deletes the rows in front of it. */
static void take_cut(struct session_log *log, const struct metadata *meta)
{
	session_log_forget_before(log, meta->first_seq);
	log->first_seq = log->base_seq = meta->first_seq;
	log->first_ts = meta->first_ts;
	log->size -= meta->first_at;
	log->written -= meta->first_at;
	log->hot_offset -= log->hot_count ? meta->first_at : 0;
	log->dirty = true;
	pg_log_of(log)->pruned_bytes += meta->first_at;
	pg_of(log->store)->cuts_open++;
	pg_save(log);
	if (log->owner) {
		log->store->ops->pruned(log->owner);
	}
}

static void end_cut(struct store *store, const struct pg_cut *cut)
{
	struct session_log *log = session_log_of(store, cut->id, cut->epoch);
	if (!log || pg_log_of(log)->sid != cut->sid) {
		return;
	}
	bool may_begin = store->error == 0 && prune_may_begin(log);
	if (!may_begin || cut->is_whole) {
		forget(log);
	}
	if (may_begin && cut->was_looked_at && cut->meta.first_seq > log->first_seq) {
		take_cut(log, &cut->meta);
	}
}

static void cutting_done(uv_work_t *work, int status)
{
	struct pg_cutting *cutting = work->data;
	struct pg *pg = cutting->pg;
	bool goes_on = cutting->count && cutting->cuts[0].was_looked_at;
	pg->store->jobs--;
	pg->is_pruning = false;
	for (size_t i = 0; i < cutting->count; i++) {
		struct pg_cut *cut = &cutting->cuts[i];
		end_cut(pg->store, cut);
		buffer_finish(&cut->prune.waiting);
		free(cut->id);
	}
	free(cutting);
	if (goes_on) {
		begin_step(pg);
	}
}

static void add_cut(struct pg_cutting *cutting, struct session_log *log)
{
	struct pg_cut *cut = &cutting->cuts[cutting->count++];
	*cut = (struct pg_cut){.id = xstrdup(log->id),
		.epoch = log->epoch,
		.sid = pg_log_of(log)->sid,
		.meta = {.first_seq = log->first_seq,
			.first_ts = log->first_ts,
			.max_seq = log->last_seq,
			.log_size = log->size}};
	prune_take(log, &cut->prune);
}

/** Begins the next step, unless the last one has not been committed yet. */
static void begin_step(struct pg *pg)
{
	struct store *store = pg->store;
	if (pg->is_pruning || pg->cuts_open || !server_may(store->life, MAY_KEEP_UP) ||
		store->error) {
		return;
	}
	struct pg_cutting *cutting = xcalloc(1, sizeof(*cutting));
	list_for_each_safe(link, tmp, &pg->prunes) {
		struct pg_log *kept = list_entry(link, struct pg_log, prune_link);
		if (!prune_may_begin(kept->log)) {
			forget(kept->log);
		} else if (cutting->count < STEP_LOGS) {
			add_cut(cutting, kept->log);
		}
	}
	if (!cutting->count) {
		free(cutting);
		return;
	}
	cutting->work.data = cutting;
	cutting->pg = pg;
	pg->is_pruning = true;
	store->jobs++;
	uv_queue_work(store->loop, &cutting->work, cutting_work, cutting_done);
}

/** Saves logs once more whose pruned rows are left because their group failed. */
static void save_open(struct store *store)
{
	list_for_each(link, &store->logs) {
		struct session_log *log = list_entry(link, struct session_log, link);
		if (pg_log_of(log) && pg_log_of(log)->rows_from < log->first_seq) {
			pg_save(log);
		}
	}
}

void pg_prune(struct store *store)
{
	struct pg *pg = pg_of(store);
	if (store->error) {
		return;
	}
	prune_each_due(store, want);
	if (pg->cuts_open) {
		save_open(store);
	}
	begin_step(pg);
}

void pg_prune_landed(struct session_log *log, const struct pg_part *part)
{
	struct pg *pg = pg_of(log->store);
	struct pg_log *kept = pg_log_of(log);
	prune_tell(log, part->prune_before - kept->rows_from);
	kept->rows_from = part->prune_before;
	pg->cuts_open -= kept->rows_from == log->first_seq;
	if (kept->pruned_bytes >= log->store->limits->prune_size &&
		kept->pruned_bytes >= log->size && store_clock_is_trusted(log->store)) {
		kept->pruned_bytes = 0;
		pg_blobs_sweep(log);
	}
	begin_step(pg);
}

void pg_prune_drop(struct session_log *log)
{
	struct pg_log *kept = pg_log_of(log);
	list_remove(&kept->prune_link);
	if (!log->is_mirror) {
		pg_of(log->store)->cuts_open -= kept->rows_from < log->first_seq;
	}
}
