/* A database as one side of a migration. Each session is written in one transaction. */
#include "pg_database.h"

#include "holdfast/store_versions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define EVENTS_SIZE ((size_t)2 << 20)

struct moving_pg {
	struct pg_conn conn;
	const struct store_facts *facts;
	/* The session that is being written. */
	int64_t sid;
	struct pg_params events; /* collected for the next INSERT */
	size_t event_bytes;
	int64_t last_record;
};

static int run(struct moving_pg *pg, const char *sql, struct pg_params *params)
{
	PGresult *result = pg_run(&pg->conn, sql, params, NULL);
	pg_params_finish(params);
	PQclear(result);
	return result ? 0 : -EIO;
}

/* --- reading --- */

static int list(void *side, char ***ret_ids, size_t *ret_count)
{
	struct moving_pg *pg = side;
	PGresult *rows = pg_list_ids(&pg->conn);
	int count = PQntuples(rows);
	*ret_ids = xcalloc((size_t)count + 1, sizeof(**ret_ids));
	*ret_count = (size_t)count;
	for (int row = 0; row < count; row++) {
		(*ret_ids)[row] = xstrdup(PQgetvalue(rows, row, 0));
	}
	PQclear(rows);
	return rows ? 0 : -EIO;
}

/** The state of reading one session for a sink. */
struct reading {
	const struct moving_sink *sink;
	const struct metadata *meta;
	uint64_t names_end;
	uint64_t next_seq;
};

static int see_names(void *arg, uint64_t at, const char *lines, size_t len)
{
	struct reading *reading = arg;
	if (at != reading->names_end || at >= reading->meta->keys_size) {
		return at >= reading->meta->keys_size ? 0 : -EBADMSG;
	}
	reading->names_end += len;
	return reading->sink->names(reading->sink->arg, at, lines, len);
}

static int see_event(void *arg, uint64_t seq, const char *line, size_t len)
{
	struct reading *reading = arg;
	struct event_view view;
	if (event_parse_line(line, len, &view) < 0 || view.seq != seq || seq != reading->next_seq) {
		return -EBADMSG;
	}
	reading->next_seq++;
	return reading->sink->event(reading->sink->arg, &view, line, len);
}

static int see_blob(void *arg, const char *name, const void *bytes, size_t len)
{
	const struct reading *reading = arg;
	return reading->sink->blob(reading->sink->arg, name, bytes, len);
}

static int give(struct moving_pg *pg, const char *id, const struct pg_row *row,
	struct metadata *meta, const struct moving_sink *sink)
{
	struct reading reading = {.sink = sink, .meta = meta, .next_seq = meta->first_seq};
	moving_settle_metadata(meta);
	int r = sink->metadata(sink->arg, id, meta);
	r = r < 0 ? r : pg_each_names(&pg->conn, row->sid, see_names, &reading);
	r = r < 0 ? r : pg_each_line(&pg->conn, row->sid, meta->first_seq - 1, see_event, &reading);
	r = r < 0 ? r : pg_each_blob(&pg->conn, row->sid, see_blob, &reading);
	bool is_settled =
		reading.names_end == meta->keys_size && reading.next_seq == meta->max_seq + 1;
	return r < 0 ? r : is_settled ? 0 : -EAGAIN;
}

static int read_session(void *side, const char *id, const struct moving_sink *sink)
{
	struct moving_pg *pg = side;
	struct pg_row row;
	struct metadata meta = {0};
	const char *why;
	int r = pg_row_read(&pg->conn, id, &row);
	r = r == 0 && !row.has_metadata ? -EAGAIN : r;
	r = r < 0 ? r : pg_row_parse(&row, id, pg->facts, &meta, &why);
	r = r < 0 ? r : give(pg, id, &row, &meta, sink);
	metadata_finish(&meta);
	pg_row_finish(&row);
	return r;
}

static int see_record(void *arg, uint64_t n, const struct record *record)
{
	const struct reading *reading = arg;
	return record_is_known(record) ? reading->sink->record(reading->sink->arg, record) : 0;
}

static int read_records(void *side, const char *id, const struct moving_sink *sink)
{
	struct moving_pg *pg = side;
	struct pg_row row;
	struct reading reading = {.sink = sink};
	int r = pg_row_read(&pg->conn, id, &row);
	r = r < 0 ? r : pg_each_record(&pg->conn, id, &row, see_record, &reading);
	pg_row_finish(&row);
	return r;
}

/* --- writing --- */

/** Deletes the session; the next server deletes its rows in the other tables. */
static int drop(struct moving_pg *pg, const char *id)
{
	struct pg_params params = {0};
	pg_add_text(&params, id, strlen(id));
	return run(pg,
		"WITH gone AS (DELETE FROM holdfast_session WHERE id = $1 RETURNING sid)"
		" INSERT INTO holdfast_garbage (sid) SELECT sid FROM gone",
		&params);
}

static int begin(void *side, const char *id)
{
	struct moving_pg *pg = side;
	uint64_t sid = 0;
	if (getrandom(&sid, sizeof(sid), 0) != sizeof(sid)) {
		return -errno;
	}
	pg->sid = (int64_t)(sid >> 1);
	pg->last_record = 0;
	int r = pg_run_all(&pg->conn, "BEGIN", NULL);
	return r < 0 ? r : drop(pg, id);
}

static int put_metadata(void *arg, const char *id, const struct metadata *meta)
{
	struct moving_pg *pg = arg;
	struct pg_params params = {0};
	struct buffer text = {0};
	metadata_append(id, meta, &text);
	pg_add_bigint(&params, pg->sid);
	pg_add_text(&params, id, strlen(id));
	pg_add_bigint(&params, (int64_t)meta->epoch);
	pg_add_bigint(&params, meta->created_at);
	pg_add_text(&params, text.data, text.len - 1);
	buffer_finish(&text);
	return run(pg,
		"INSERT INTO holdfast_session"
		" (sid, id, epoch, fence, owner, created_at, created, last_record, metadata)"
		" VALUES ($1, $2, $3, 1, '', $4, '{}', 0, $5)",
		&params);
}

static int put_names(void *arg, uint64_t at, const char *lines, size_t len)
{
	struct moving_pg *pg = arg;
	struct pg_params params = {0};
	pg_add_bigint(&params, pg->sid);
	pg_add_bigint(&params, (int64_t)at);
	pg_add_text(&params, lines, len);
	return run(pg, "INSERT INTO holdfast_name (sid, at, lines) VALUES ($1, $2, $3)", &params);
}

static int flush_events(struct moving_pg *pg)
{
	pg->event_bytes = 0;
	return pg->events.count
		       ? run(pg,
				 "INSERT INTO holdfast_event (sid, seq, ts, line) SELECT $1, e.seq, e.ts, e.line"
				 " FROM unnest($2::bigint[], $3::bigint[], $4::text[]) AS e(seq, ts, line)",
				 &pg->events)
		       : 0;
}

enum { EVENT_SID, EVENT_SEQ, EVENT_TS, EVENT_LINE };

static int put_event(void *arg, const struct event_view *view, const char *line, size_t len)
{
	struct moving_pg *pg = arg;
	struct pg_params *params = &pg->events;
	if (!params->count) {
		pg_add_bigint(params, pg->sid);
		pg_add_array(params, PG_BIGINT_ARRAY);
		pg_add_array(params, PG_BIGINT_ARRAY);
		pg_add_array(params, PG_TEXT_ARRAY);
	}
	pg_put_bigint(params, EVENT_SEQ, (int64_t)view->seq);
	pg_put_bigint(params, EVENT_TS, view->ts);
	pg_put_bytes(params, EVENT_LINE, line, len);
	pg->event_bytes += len + 64;
	return pg->event_bytes < EVENTS_SIZE ? 0 : flush_events(pg);
}

static int put_blob(void *arg, const char *name, const void *bytes, size_t len)
{
	struct moving_pg *pg = arg;
	struct pg_params params = {0};
	pg_add_bigint(&params, pg->sid);
	pg_add_text(&params, name, strlen(name));
	pg_add_bytea(&params, bytes, len);
	return run(pg, "INSERT INTO holdfast_blob (sid, name, bytes) VALUES ($1, $2, $3)", &params);
}

static int put_record(void *arg, const struct record *record)
{
	struct moving_pg *pg = arg;
	struct pg_params params = {0};
	pg_add_bigint(&params, pg->sid);
	pg_add_bigint(&params, ++pg->last_record);
	pg_add_bigint(&params, record->kind);
	pg_add_bigint(&params, record->ts);
	pg_add_bytea(&params, record->data, record->data_len);
	return run(pg,
		"INSERT INTO holdfast_record (sid, n, kind, ts, data) VALUES ($1, $2, $3, $4, $5)",
		&params);
}

static int commit(struct moving_pg *pg)
{
	pg->conn.has_warned = false;
	int r = pg_run_all(&pg->conn, "COMMIT", NULL);
	return r < 0 ? r : pg->conn.has_warned ? -EIO : 0;
}

static int end(void *side, const char *id)
{
	struct moving_pg *pg = side;
	struct pg_params params = {0};
	int r = flush_events(pg);
	pg_add_bigint(&params, pg->sid);
	pg_add_bigint(&params, pg->last_record);
	r = r < 0 ? r
		  : run(pg, "UPDATE holdfast_session SET last_record = $2 WHERE sid = $1", &params);
	pg_params_finish(&params);
	return r < 0 ? r : commit(pg);
}

static int remove_session(void *side, const char *id)
{
	return drop(side, id);
}

/* --- secrets and access lines --- */

static int each_secret(void *side, moving_secret_fn *visit, void *arg)
{
	struct moving_pg *pg = side;
	PGresult *rows = pg_run(&pg->conn, "SELECT name, bytes FROM holdfast_secret", NULL, NULL);
	int r = rows ? 0 : -EIO;
	for (int row = 0; r == 0 && row < PQntuples(rows); row++) {
		r = visit(arg, PQgetvalue(rows, row, 0), PQgetvalue(rows, row, 1),
			(size_t)PQgetlength(rows, row, 1));
	}
	PQclear(rows);
	return r;
}

static int each_line(void *side, moving_line_fn *visit, void *arg)
{
	struct moving_pg *pg = side;
	PGresult *rows =
		pg_run(&pg->conn, "SELECT line FROM holdfast_access ORDER BY n", NULL, NULL);
	int r = rows ? 0 : -EIO;
	for (int row = 0; r == 0 && row < PQntuples(rows); row++) {
		r = visit(arg, PQgetvalue(rows, row, 0), (size_t)PQgetlength(rows, row, 0));
	}
	PQclear(rows);
	return r;
}

static int put_secret(void *side, const char *name, const char *bytes, size_t len)
{
	struct pg_params params = {0};
	pg_add_text(&params, name, strlen(name));
	pg_add_bytea(&params, bytes, len);
	return run(side,
		"INSERT INTO holdfast_secret (name, bytes) VALUES ($1, $2)"
		" ON CONFLICT (name) DO UPDATE SET bytes = excluded.bytes",
		&params);
}

static int put_lines(void *side, const char *lines, size_t len)
{
	struct moving_pg *pg = side;
	struct pg_params params = {0};
	pg_add_text(&params, lines, len);
	int r = pg_run_all(&pg->conn, "BEGIN; DELETE FROM holdfast_access", NULL);
	r = r < 0 ? r
		  : run(pg,
			    "INSERT INTO holdfast_access (writer, line) SELECT 'migrate', l.line"
			    " FROM regexp_split_to_table($1, E'\\n') WITH ORDINALITY AS l(line, place)"
			    " WHERE l.line <> '' ORDER BY l.place",
			    &params);
	pg_params_finish(&params);
	return r < 0 ? r : pg_run_all(&pg->conn, "COMMIT", NULL);
}

static const struct moving_shelf shelf = {
	.each_secret = each_secret,
	.each_line = each_line,
	.put_secret = put_secret,
	.put_lines = put_lines,
};

/* --- opening --- */

static int64_t ask(struct moving_pg *pg, const char *sql, char **ret_why)
{
	PGresult *rows = pg_run(&pg->conn, sql, NULL, ret_why);
	int64_t answer = PQntuples(rows) ? pg_get_bigint(rows, 0, 0) : -EIO;
	PQclear(rows);
	return answer;
}

/**
 * Keeps out other migrations and servers for as long as the connection lasts. The connection of a
 * killed migration may last a little longer, so this waits.
 */
static int take_lock(struct moving_pg *pg, char **ret_why)
{
	int r = pg_run_all(&pg->conn, "SET lock_timeout = '10s'", ret_why);
	r = r < 0 ? r
		  : pg_run_all(&pg->conn, "SELECT pg_advisory_lock(" PG_MOVING_LOCK ")", ret_why);
	if (r < 0 && pg_is_alive(&pg->conn)) {
		free(*ret_why);
		*ret_why = xstrdup("another migration is running there");
		return -EBUSY;
	}
	r = r < 0 ? r : pg_run_all(&pg->conn, "SET lock_timeout = 0", ret_why);
	int64_t nodes =
		r < 0 ? r
		      : ask(pg, "SELECT count(*) FROM holdfast_node WHERE lease_until > now()",
				ret_why);
	if (nodes > 0) {
		*ret_why = xstrdup(
			"a server uses it; stop all servers first. After a crash, wait until the server's lease has expired");
		return -EBUSY;
	}
	return nodes < 0 ? -EIO : 0;
}

/** Marks the database as incomplete. -EEXIST: it has sessions that are not from a migration. */
static int put_mark(struct moving_pg *pg, const char *from, char **ret_why)
{
	struct pg_params params = {0};
	pg_add_text(&params, from, strlen(from));
	PGresult *rows = pg_run(&pg->conn,
		"INSERT INTO holdfast_moving (source) SELECT $1::text WHERE NOT EXISTS"
		" (SELECT FROM holdfast_moving) AND NOT EXISTS (SELECT FROM holdfast_session)"
		" RETURNING 1::bigint",
		&params, ret_why);
	pg_params_finish(&params);
	int r = rows ? PQntuples(rows) : -EIO;
	PQclear(rows);
	int64_t marks = r ? r : ask(pg, "SELECT count(*) FROM holdfast_moving", ret_why);
	if (marks == 0) {
		*ret_why = xstrdup(
			"it has sessions already; create a new database for those of the directory");
		return -EEXIST;
	}
	return marks < 0 ? -EIO : 0;
}

static int begin_reading(struct moving_pg *pg, char **ret_why)
{
	int64_t marks = ask(pg, "SELECT count(*) FROM holdfast_moving", ret_why);
	if (marks > 0) {
		*ret_why = xstrdup("a migration into it was interrupted; run that again first");
		return -EINVAL;
	}
	/* A server that still believes it owns a session can no longer write to it. */
	int r = marks < 0 ? -EIO
			  : pg_run_all(&pg->conn,
				    "UPDATE holdfast_session SET fence = fence + 1, owner = ''",
				    ret_why);
	return r < 0 ? r
		     : pg_run_all(&pg->conn, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
			       ret_why);
}

static int connect_to(struct moving_pg *pg, const char *address, bool is_new, char **ret_why)
{
	if (!pg_address_check(address, ret_why)) {
		return -EINVAL;
	}
	int r = pg_connect(&pg->conn, address, PG_WRITABLE, ret_why);
	return r < 0 ? r : (is_new ? pg_schema_make : pg_schema_check)(&pg->conn, ret_why);
}

static uint64_t size(void *side)
{
	struct moving_pg *pg = side;
	return pg_logs_size(&pg->conn, NULL);
}

static int complete(void *side)
{
	struct moving_pg *pg = side;
	pg->conn.has_warned = false;
	int r = pg_run_all(&pg->conn, "DELETE FROM holdfast_moving", NULL);
	return r < 0 ? r : pg->conn.has_warned ? -EIO : 0;
}

static void close_side(void *side)
{
	struct moving_pg *pg = side;
	pg_params_finish(&pg->events);
	pg_disconnect(&pg->conn);
	free(pg);
}

int pg_open_side(const char *address, const char *from, const struct store_facts *facts,
	struct moving_side *ret_side, char **ret_why)
{
	char *why = NULL;
	struct moving_pg *pg = xcalloc(1, sizeof(*pg));
	pg->facts = facts;
	*ret_side = (struct moving_side){.side = pg,
		.shelf = &shelf,
		.close = close_side,
		.list = list,
		.read = read_session,
		.read_records = read_records,
		.size = size,
		.begin = begin,
		.sink = {.metadata = put_metadata,
			.names = put_names,
			.event = put_event,
			.blob = put_blob,
			.record = put_record,
			.arg = pg},
		.end = end,
		.remove = remove_session,
		.complete = complete};
	int r = connect_to(pg, address, from != NULL, &why);
	r = r < 0 ? r : take_lock(pg, &why);
	r = r < 0 ? r : from ? put_mark(pg, from, &why) : begin_reading(pg, &why);
	if (r < 0) {
		*ret_why = xprintf("cannot use the database: %s", why ? why : strerror(-r));
	}
	free(why);
	return r;
}
