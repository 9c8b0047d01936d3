/*
 * Reads events, names and records on the thread pool, where each job has a connection of its own,
 * and deletes the rows of deleted sessions there.
 */
#include "pg.h"

#include "holdfast/diag.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool pg_reader_take(struct pg *pg, struct pg_conn *ret)
{
	*ret = (struct pg_conn){0};
	pthread_mutex_lock(&pg->lock);
	if (pg->reader_count) {
		*ret = pg->readers[--pg->reader_count];
	}
	pthread_mutex_unlock(&pg->lock);
	if (!pg_is_alive(ret)) {
		return pg_connect(ret, pg->address, PG_PRIMARY, NULL) == 0;
	}
	pg_note_warnings(ret);
	return true;
}

void pg_reader_give(struct pg *pg, struct pg_conn *conn)
{
	pthread_mutex_lock(&pg->lock);
	bool is_kept = pg_is_alive(conn) && pg->reader_count < PG_READERS;
	if (is_kept) {
		pg->readers[pg->reader_count++] = *conn;
	}
	pthread_mutex_unlock(&pg->lock);
	if (!is_kept) {
		pg_disconnect(conn);
	}
}

PGresult *pg_query(struct pg *pg, const char *sql, struct pg_params *params)
{
	PGresult *result = NULL;
	/* Idle connections may be broken: try each of them, and then a new one. */
	for (int tries = 0; tries <= PG_READERS && !result; tries++) {
		struct pg_conn conn;
		char *why = NULL;
		if (!pg_reader_take(pg, &conn)) {
			return NULL;
		}
		result = pg_run(&conn, sql, params, &why);
		bool is_refused = !result && pg_is_alive(&conn);
		pg_reader_give(pg, &conn);
		if (is_refused) {
			diag(DIAG_ERROR, "the database refuses to read: %s", why ? why : "");
			tries = PG_READERS;
		}
		free(why);
	}
	return result;
}

/* --- events --- */

struct pg_page {
	uv_work_t work;
	struct log_read *base;
	struct pg *pg;
	int64_t sid;
	uint64_t first_seq; /* the session's first_seq in the database; 0: not read */
	uint64_t log_first; /* the log's, as this server knows it */
	struct gap gap; /* the damage that was found last */
};

/*
 * As many events as fit in $4 bytes, but at least $5: from the front of the range, or its end; and how
 * many rows there are in the range.
 */
#define PAGE_SQL(order)                                                                                         \
	"SELECT seq, line, total FROM (SELECT seq, line, sum(octet_length(line) + 1) OVER (ORDER BY seq " order \
	") AS bytes, row_number() OVER (ORDER BY seq " order                                                    \
	") AS place, count(*) OVER () AS total"                                                                 \
	" FROM holdfast_event WHERE sid = $1 AND seq BETWEEN $2 AND $3) AS page"                                \
	" WHERE bytes <= $4 OR place <= $5 ORDER BY seq"

static int take_lines(struct log_read *read, const PGresult *rows)
{
	uint64_t next = 0;
	int count = PQntuples(rows);
	for (int row = 0; row < count; row++) {
		struct event *event;
		if (read->got == read->count ||
			event_from_line(PQgetvalue(rows, row, 1), (size_t)PQgetlength(rows, row, 1),
				&event) < 0) {
			return -EBADMSG;
		}
		read->events[read->got++] = event;
		read->bytes += event_line_len(event);
		if (event->seq != (uint64_t)pg_get_bigint(rows, row, 0) ||
			(next && event->seq != next)) {
			return -EBADMSG;
		}
		next = event->seq + 1;
	}
	if (!count) {
		return read->page.is_fixed_at_end && read->hot_count ? 0 : -EBADMSG;
	}
	/* What did not fit in the page may be missing at one of its ends. */
	bool is_cut = count < pg_get_bigint(rows, 0, 2);
	bool has_from = next - (uint64_t)count == read->page.from;
	bool has_to = next == read->page.to + 1;
	bool fits = read->page.is_fixed_at_end ? has_to && (has_from || is_cut)
					       : has_from && (has_to || is_cut);
	return fits ? 0 : -EBADMSG;
}

/** For a mirror whose rows are missing: the owner may have pruned them. */
static uint64_t read_first_seq(struct pg *pg, int64_t sid)
{
	struct pg_params params = {0};
	pg_add_bigint(&params, sid);
	PGresult *rows = pg_query(pg,
		"SELECT coalesce(substring(metadata FROM '\"first_seq\":([0-9]+)')::bigint, 0)"
		" FROM holdfast_session WHERE sid = $1",
		&params);
	uint64_t seq = PQntuples(rows) ? (uint64_t)pg_get_bigint(rows, 0, 0) : 0;
	PQclear(rows);
	pg_params_finish(&params);
	return seq;
}

static void page_work(uv_work_t *work)
{
	struct pg_page *page = work->data;
	struct log_read *read = page->base;
	bool at_end = read->page.is_fixed_at_end;
	if (atomic_load(&read->is_unwanted)) {
		read->status = -ECANCELED;
		return;
	}
	struct pg_params params = {0};
	pg_add_bigint(&params, page->sid);
	pg_add_bigint(&params, (int64_t)read->page.from);
	pg_add_bigint(&params, (int64_t)read->page.to);
	pg_add_bigint(&params, read->max_bytes > INT64_MAX ? INT64_MAX : (int64_t)read->max_bytes);
	pg_add_bigint(&params, at_end && read->hot_count ? 0 : 1);
	PGresult *rows = pg_query(page->pg, at_end ? PAGE_SQL("DESC") : PAGE_SQL(""), &params);
	read->status = rows ? take_lines(read, rows) : -EIO;
	if (read->status == -EBADMSG && read->mirror) {
		page->first_seq = read_first_seq(page->pg, page->sid);
	}
	if (read->status == -EBADMSG && read->page.from >= page->first_seq) {
		const struct pg_apart apart = {.pg = page->pg,
			.sid = page->sid,
			.first_seq = page->log_first,
			.rows = rows};
		read->status = pg_read_apart(&apart, read, &page->gap);
	}
	PQclear(rows);
	pg_params_finish(&params);
}

/** The owner has pruned the requested events, and this node has not been told yet. */
static void note_pruned(struct log_read *read, uint64_t first_seq)
{
	uint64_t end = session_log_last_seq(read->mirror) + 1;
	session_log_mirror_prune(read->mirror, first_seq < end ? first_seq : end);
}

static void page_done(uv_work_t *work, int status)
{
	struct pg_page *page = work->data;
	struct log_read *read = page->base;
	struct session_log *log =
		read->mirror ? NULL : session_log_of(read->store, read->id, read->epoch);
	read->store->jobs--;
	if (read->status == 0 && !read->mirror && !log) {
		read->status = -ENOENT; /* the session has been deleted meanwhile */
	} else if (read->done && page->first_seq > read->page.from) {
		note_pruned(read, page->first_seq);
	}
	if (page->gap.from && log) {
		session_log_note_damage(log, &page->gap);
	}
	free(page);
	log_read_end(read);
}

void pg_read(struct session_log *log, struct log_read *read)
{
	struct pg_page *page = xcalloc(1, sizeof(*page));
	*page = (struct pg_page){.base = read,
		.pg = pg_of(log->store),
		.sid = pg_log_of(log)->sid,
		.log_first = log->first_seq};
	page->work.data = page;
	log->store->jobs++;
	uv_queue_work(log->store->loop, &page->work, page_work, page_done);
}

/* --- names --- */

struct pg_names {
	uv_work_t work;
	struct store *store;
	char *id;
	uint64_t epoch;
	int64_t sid;
	uint64_t size; /* how many bytes of lines to load */
	uint64_t inputs; /* how many names given by inputs they should have */
	struct name_table names;
	int status;
};

/* So many events are in memory at a time. */
#define EVENTS_AT_ONCE "200"

static int rebuild_from_events(struct pg_names *job, struct names_rebuild *rebuild)
{
	int64_t last = 0;
	int count = 1;
	while (count > 0) {
		struct pg_params params = {0};
		pg_add_bigint(&params, job->sid);
		pg_add_bigint(&params, last);
		PGresult *rows = pg_query(pg_of(job->store),
			"SELECT seq, line FROM holdfast_event WHERE sid = $1 AND seq > $2"
			" ORDER BY seq LIMIT " EVENTS_AT_ONCE,
			&params);
		count = rows ? PQntuples(rows) : -1;
		for (int row = 0; row < count; row++) {
			struct event_view view;
			last = pg_get_bigint(rows, row, 0);
			if (event_parse_line(PQgetvalue(rows, row, 1),
				    (size_t)PQgetlength(rows, row, 1), &view) == 0) {
				names_rebuild_event(rebuild, &view);
			}
		}
		PQclear(rows);
		pg_params_finish(&params);
	}
	return count < 0 ? -EIO : 0;
}

/** Takes the good names of the rows, and those of the session's events. The rows stay as they are. */
static int rebuild_names(struct pg_names *job, const PGresult *rows)
{
	struct names_rebuild rebuild = {.facts = job->store->ops->facts, .names = &job->names};
	uint64_t seed = job->names.seed;
	name_table_finish(&job->names);
	name_table_begin(&job->names, rebuild.facts->name_kinds, seed);
	for (int row = 0; row < PQntuples(rows); row++) {
		names_rebuild_salvage(
			&rebuild, PQgetvalue(rows, row, 1), (size_t)PQgetlength(rows, row, 1));
	}
	int r = rebuild_from_events(job, &rebuild);
	buffer_finish(&rebuild.lines);
	return r;
}

static void names_work(uv_work_t *work)
{
	struct pg_names *job = work->data;
	struct pg_params params = {0};
	uint64_t at = 0;
	pg_add_bigint(&params, job->sid);
	pg_add_bigint(&params, (int64_t)job->size);
	PGresult *rows = pg_query(pg_of(job->store),
		"SELECT at, lines FROM holdfast_name WHERE sid = $1 AND at < $2 ORDER BY at",
		&params);
	job->status = rows ? 0 : -EIO;
	for (int row = 0; job->status == 0 && row < PQntuples(rows); row++) {
		if ((uint64_t)pg_get_bigint(rows, row, 0) != at) {
			job->status = -EBADMSG;
			break;
		}
		at += (uint64_t)PQgetlength(rows, row, 1);
		job->status = name_lines_take(job->store->ops->facts, &job->names,
			PQgetvalue(rows, row, 1), (size_t)PQgetlength(rows, row, 1));
	}
	if (job->status == 0 && at != job->size) {
		job->status = -EBADMSG;
	}
	if (job->status == -EBADMSG) {
		job->status = rebuild_names(job, rows);
	}
	struct name_table *names = &job->names;
	names->missing = job->inputs > names->inputs ? job->inputs - names->inputs : 0;
	PQclear(rows);
	pg_params_finish(&params);
}

static int names_end(struct pg_names *job)
{
	struct session_log *log = session_log_of(job->store, job->id, job->epoch);
	int r = job->status;
	if (log && r == 0 && job->size != log->keys.size) {
		r = pg_load_names(log, false); /* more names have been saved meanwhile: again */
	} else if (log) {
		log_keys_loaded(log, &job->names, r);
	}
	name_table_finish(&job->names);
	free(job->id);
	free(job);
	return r;
}

static void names_done(uv_work_t *work, int status)
{
	struct pg_names *job = work->data;
	job->store->jobs--;
	names_end(job);
}

int pg_load_names(struct session_log *log, bool now)
{
	struct store *store = log->store;
	struct pg_names *job = xcalloc(1, sizeof(*job));
	*job = (struct pg_names){.store = store,
		.id = xstrdup(log->id),
		.epoch = log->epoch,
		.sid = pg_log_of(log)->sid,
		.size = log->keys.size,
		.inputs = log->keys.input_names -
			  name_lines_count(store->ops->facts, &log->keys.unwritten)};
	job->work.data = job;
	name_table_begin(&job->names, store->ops->facts->name_kinds, store->by_id.seed);
	if (now) {
		names_work(&job->work);
		return names_end(job);
	}
	store->jobs++;
	return uv_queue_work(store->loop, &job->work, names_work, names_done);
}

/* --- rewinding sessions to their durable state --- */

struct pg_look_back {
	uv_work_t work;
	struct store *store;
	struct pg_params params;
	PGresult *rows;
};

static void look_back_work(uv_work_t *work)
{
	struct pg_look_back *job = work->data;
	job->rows = pg_query(pg_of(job->store),
		"SELECT sid, n, kind, ts, data FROM holdfast_record WHERE sid = ANY($1) ORDER BY sid, n",
		&job->params);
}

/** The first row whose sid is not below `sid`; the rows are sorted by it. */
static int find_row(const PGresult *rows, int64_t sid)
{
	int first = 0;
	int end = PQntuples(rows);
	while (first < end) {
		int middle = first + (end - first) / 2;
		if (pg_get_bigint(rows, middle, 0) < sid) {
			first = middle + 1;
		} else {
			end = middle;
		}
	}
	return first;
}

static int replay_log(struct session_log *log, const PGresult *rows)
{
	int first = find_row(rows, pg_log_of(log)->sid);
	int count = PQntuples(rows);
	int end = first;
	while (end < count && pg_get_bigint(rows, end, 0) == pg_log_of(log)->sid) {
		end++;
	}
	return pg_replay(log, rows, first, end);
}

static void look_back_done(uv_work_t *work, int status)
{
	struct pg_look_back *job = work->data;
	struct store *store = job->store;
	int r = job->rows ? 0 : -EIO;
	store->jobs--;
	list_for_each(link, &store->logs) {
		struct session_log *log = list_entry(link, struct session_log, link);
		/* While the store closes, the owners are gone. */
		if (r == 0 && server_may(store->life, MAY_KEEP_UP) && log->rewind && log->owner) {
			r = replay_log(log, job->rows);
		}
	}
	PQclear(job->rows);
	pg_params_finish(&job->params);
	free(job);
	store_rewound(store, r);
}

void pg_rewind(struct store *store)
{
	struct pg_look_back *job = xcalloc(1, sizeof(*job));
	int sid = pg_add_array(&job->params, PG_BIGINT_ARRAY);
	job->store = store;
	job->work.data = job;
	list_for_each(link, &store->logs) {
		struct session_log *log = list_entry(link, struct session_log, link);
		if (log->rewind) {
			pg_put_bigint(&job->params, sid, pg_log_of(log)->sid);
		}
	}
	store->jobs++;
	uv_queue_work(store->loop, &job->work, look_back_work, look_back_done);
}

/* --- rows of deleted sessions --- */

struct pg_sweep {
	uv_work_t work;
	struct store *store;
};

#define SLICE "5000"
#define SWEEP_SQL(table)                                                         \
	"DELETE FROM " table " WHERE ctid = ANY(ARRAY(SELECT t.ctid FROM " table \
	" AS t JOIN holdfast_garbage AS g USING (sid) LIMIT " SLICE ")) RETURNING 1::bigint"

static void sweep_work(uv_work_t *work)
{
	static const char *const tables[] = {SWEEP_SQL("holdfast_event"),
		SWEEP_SQL("holdfast_record"), SWEEP_SQL("holdfast_name"),
		SWEEP_SQL("holdfast_blob")};
	const struct pg_sweep *job = work->data;
	struct pg *pg = pg_of(job->store);
	bool good = true;
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]) && good; i++) {
		for (int rows = 1; rows > 0 && good && server_may(job->store->life, MAY_KEEP_UP);) {
			PGresult *result = pg_query(pg, tables[i], NULL);
			good = result != NULL;
			rows = PQntuples(result);
			PQclear(result);
		}
	}
	if (good && server_may(job->store->life, MAY_KEEP_UP)) {
		PQclear(pg_query(pg,
			"DELETE FROM holdfast_garbage AS g"
			" WHERE NOT EXISTS (SELECT FROM holdfast_event AS e WHERE e.sid = g.sid)"
			" AND NOT EXISTS (SELECT FROM holdfast_record AS r WHERE r.sid = g.sid)"
			" AND NOT EXISTS (SELECT FROM holdfast_name AS n WHERE n.sid = g.sid)"
			" AND NOT EXISTS (SELECT FROM holdfast_blob AS b WHERE b.sid = g.sid)",
			NULL));
	}
}

static void sweep_done(uv_work_t *work, int status)
{
	struct pg_sweep *job = work->data;
	struct pg *pg = pg_of(job->store);
	job->store->jobs--;
	pg->is_sweeping = false;
	if (pg->has_garbage && server_may(job->store->life, MAY_KEEP_UP)) {
		pg_sweep(pg);
	}
	free(job);
}

void pg_sweep(struct pg *pg)
{
	if (pg->is_sweeping) {
		return;
	}
	struct pg_sweep *job = xcalloc(1, sizeof(*job));
	pg->is_sweeping = true;
	pg->has_garbage = false;
	job->store = pg->store;
	job->work.data = job;
	pg->store->jobs++;
	uv_queue_work(pg->store->loop, &job->work, sweep_work, sweep_done);
}
