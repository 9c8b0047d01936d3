/*
 * The start: this server takes all sessions over, which makes void whatever the one before it may
 * still write, and makes a log of each, from its metadata and the events behind them.
 */
#include "pg.h"

#include "holdfast/diag.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Whatever was on its way with an old fence is over, or will change nothing, once this returns. */
static const char take_over_sql[] =
	"UPDATE holdfast_session SET fence = fence + 1, owner = $1"
	" RETURNING sid, id, epoch, fence, created_at, created, last_record, metadata";

static const char events_sql[] =
	"SELECT e.sid, e.seq, e.line FROM holdfast_event AS e JOIN holdfast_session AS s USING (sid)"
	" WHERE e.seq > coalesce(substring(s.metadata FROM '\"max_seq\":([0-9]+)')::bigint, 0)"
	" ORDER BY e.sid, e.seq";

static const char records_sql[] =
	"SELECT r.sid, r.n, r.kind, r.ts, r.data FROM holdfast_record AS r"
	" JOIN holdfast_session USING (sid) ORDER BY r.sid, r.n";

static int refuse(char **ret_why, const char *id, const char *what)
{
	free(*ret_why);
	*ret_why = xprintf("session %s in the database is damaged: %s", id, what);
	return -EBADMSG;
}

/* --- sessions --- */

static struct session_log *begin_log(
	struct pg *pg, const PGresult *rows, int row, const char *id, struct metadata *meta)
{
	struct store *store = pg->store;
	const struct store_facts *facts = store->ops->facts;
	bool has_metadata = meta->facts;
	void *own = has_metadata ? meta->facts
				 : facts->create(PQgetvalue(rows, row, 5),
					   (size_t)PQgetlength(rows, row, 5));
	struct session_log *log = session_log_new(
		store, id, (uint64_t)pg_get_bigint(rows, row, 2), pg_get_bigint(rows, row, 4), own);
	meta->facts = NULL;
	pg_log_begin(log, pg_get_bigint(rows, row, 0), false);
	log->fence = (uint64_t)pg_get_bigint(rows, row, 3);
	log->last_record = (uint64_t)pg_get_bigint(rows, row, 6);
	if (has_metadata) {
		log->updated_at = meta->updated_at;
		log->first_seq = meta->first_seq;
		log->first_ts = meta->first_ts;
		log->base_seq = meta->base_seq;
		log->last_seq = meta->max_seq;
		log->size = log->written = meta->log_size;
		log->keys.size = meta->keys_size;
		log->keys.input_names = meta->input_names;
	}
	return log;
}

static int make_log(struct pg *pg, const PGresult *rows, int row, char **ret_why)
{
	struct metadata meta = {0};
	const char *why = NULL;
	int r = 0;
	char *id = xstrndup(PQgetvalue(rows, row, 1), (size_t)PQgetlength(rows, row, 1));
	if (!PQgetisnull(rows, row, 7)) {
		r = metadata_parse(PQgetvalue(rows, row, 7), (size_t)PQgetlength(rows, row, 7), id,
			pg->store->ops->facts, &meta, &why);
	}
	if (r == 0) {
		begin_log(pg, rows, row, id, &meta);
	} else {
		r = refuse(ret_why, id, why);
	}
	metadata_finish(&meta);
	free(id);
	return r;
}

static int make_logs(struct pg *pg, char **ret_why)
{
	struct pg_params params = {0};
	pg_add_text(&params, pg->node, strlen(pg->node));
	PGresult *rows = pg_run(&pg->conn, take_over_sql, &params, ret_why);
	pg_params_finish(&params);
	int r = rows ? 0 : -EIO;
	for (int row = 0; r == 0 && row < PQntuples(rows); row++) {
		r = make_log(pg, rows, row, ret_why);
	}
	PQclear(rows);
	return r;
}

/* --- events and records --- */

static int compare_sids(const void *a, const void *b)
{
	int64_t x = pg_log_of(*(struct session_log *const *)a)->sid;
	int64_t y = pg_log_of(*(struct session_log *const *)b)->sid;
	return (x > y) - (x < y);
}

/** In the order in which rows come. */
static struct session_log **sort_logs(struct store *store, size_t *ret_count)
{
	size_t count = 0;
	struct session_log **logs =
		xcalloc(store_count_sessions(store) + 1, sizeof(struct session_log *));
	list_for_each(link, &store->logs) {
		logs[count++] = list_entry(link, struct session_log, link);
	}
	qsort(logs, count, sizeof(*logs), compare_sids);
	*ret_count = count;
	return logs;
}

static int take_event(struct session_log *log, const PGresult *rows, int row)
{
	const char *line = PQgetvalue(rows, row, 2);
	size_t len = (size_t)PQgetlength(rows, row, 2);
	struct event_view view;
	if (event_parse_line(line, len, &view) < 0 || view.seq != log->last_seq + 1 ||
		view.seq != (uint64_t)pg_get_bigint(rows, row, 1)) {
		return -EBADMSG;
	}
	log->updated_at = view.ts;
	session_log_count(log, &view, len + 1);
	log->written = log->size;
	return 0;
}

int pg_replay(struct session_log *log, const PGresult *records, int first, int end)
{
	int r = 0;
	struct pg_log *kept = pg_log_of(log);
	for (int row = first; row < end && r == 0; row++) {
		struct record record = {.kind = (enum record_kind)pg_get_bigint(records, row, 2),
			.id = log->id,
			.id_len = strlen(log->id),
			.epoch = log->epoch,
			.ts = pg_get_bigint(records, row, 3),
			.data = PQgetvalue(records, row, 4),
			.data_len = (size_t)PQgetlength(records, row, 4)};
		r = store_replay(log, &record);
		kept->has_records = true;
	}
	return r;
}

static int replay(struct session_log *log, const PGresult *rows, int first, int end)
{
	if (!log->owner) {
		log->owner = log->store->ops->found(log->store->owner, log);
	}
	return pg_replay(log, rows, first, end);
}

/** Gives each log its rows. */
static int deal(struct session_log **logs, size_t count, const PGresult *rows,
	int (*take)(struct session_log *log, const PGresult *rows, int first, int end),
	char **ret_why)
{
	size_t at = 0;
	for (int first = 0; first < PQntuples(rows);) {
		int64_t sid = pg_get_bigint(rows, first, 0);
		int end = first + 1;
		while (end < PQntuples(rows) && pg_get_bigint(rows, end, 0) == sid) {
			end++;
		}
		while (at < count && pg_log_of(logs[at])->sid < sid) {
			at++;
		}
		if (at < count && pg_log_of(logs[at])->sid == sid &&
			take(logs[at], rows, first, end) < 0) {
			return refuse(ret_why, logs[at]->id, "its events or records do not fit");
		}
		first = end;
	}
	return 0;
}

static int take_events(struct session_log *log, const PGresult *rows, int first, int end)
{
	int r = 0;
	for (int row = first; row < end && r == 0; row++) {
		r = take_event(log, rows, row);
	}
	return r;
}

int pg_recover(struct pg *pg, char **ret_why)
{
	int r = make_logs(pg, ret_why);
	PGresult *events = r < 0 ? NULL : pg_run(&pg->conn, events_sql, NULL, ret_why);
	PGresult *records = events ? pg_run(&pg->conn, records_sql, NULL, ret_why) : NULL;
	r = r == 0 && !records ? -EIO : r;
	if (r == 0) {
		size_t count;
		struct session_log **logs = sort_logs(pg->store, &count);
		r = deal(logs, count, events, take_events, ret_why);
		r = r < 0 ? r : deal(logs, count, records, replay, ret_why);
		free(logs);
	}
	PQclear(events);
	PQclear(records);
	return r;
}
