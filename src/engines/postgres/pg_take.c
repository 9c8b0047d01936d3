/*
 * Taking over sessions: all free ones when a server starts, and later those of a node that has
 * died. This raises their fences, so that whatever the last owner still writes is void. Then a log
 * is made of each session, from its metadata, the events behind it, and its records.
 */
#include "pg.h"

#include "holdfast/diag.h"
#include "holdfast/requests.h"
#include "holdfast/store_versions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * $1: the new owner, $2: the id of one session, or NULL, $3: how many sessions at most, $4: sids of
 * sessions that $1 may own already. The statement waits for the locks of the rows: once it returns,
 * every transaction with an old fence is over, or will change nothing. A session that another node
 * has taken meanwhile is left to it, even if `found` could not see that.
 */
#define TAKE_SQL(found)                                                                                \
	"WITH RECURSIVE " found ", free AS ("                                                          \
	"SELECT s.sid FROM holdfast_session AS s JOIN found USING (sid, owner)"                        \
	" ORDER BY s.sid FOR UPDATE OF s"                                                              \
	"), taken AS ("                                                                                \
	"UPDATE holdfast_session AS s SET fence = s.fence + 1, owner = $1 FROM free"                   \
	" WHERE s.sid = free.sid"                                                                      \
	" RETURNING s.sid, s.id, s.epoch, s.fence, s.created_at, s.created, s.last_record, s.metadata" \
	") SELECT * FROM taken ORDER BY sid"

#define HAS_NO_LEASE(owner)                                                  \
	"NOT EXISTS (SELECT FROM holdfast_node AS n WHERE n.holder = " owner \
	" AND n.lease_until > now())"

static const char take_one_sql[] =
	TAKE_SQL("found AS MATERIALIZED ("
		 "SELECT s.sid, s.owner FROM holdfast_session AS s"
		 " WHERE s.id = $2::text AND (s.owner = $1 AND s.sid = ANY($4)"
		 " OR s.owner <> $1 AND " HAS_NO_LEASE("s.owner") ") LIMIT $3)");

/* There are few owners. The index finds the next one in one step, however many sessions it has. */
static const char take_any_sql[] = TAKE_SQL(
	"owners AS ((SELECT owner FROM holdfast_session ORDER BY owner LIMIT 1)"
	" UNION ALL SELECT (SELECT s.owner FROM holdfast_session AS s WHERE s.owner > o.owner"
	" ORDER BY s.owner LIMIT 1) FROM owners AS o WHERE o.owner IS NOT NULL"
	"), dead AS ("
	"SELECT o.owner FROM owners AS o WHERE o.owner <> $1 AND " HAS_NO_LEASE(
		"o.owner") "), found AS MATERIALIZED ("
			   "SELECT s.sid, s.owner FROM holdfast_session AS s JOIN dead USING (owner) WHERE $2::text IS NULL"
			   " UNION ALL SELECT s.sid, s.owner FROM holdfast_session AS s"
			   " WHERE s.owner = $1 AND s.sid = ANY($4) ORDER BY 1 LIMIT $3)");

/* The event that the metadata names as the last, which must be there, and what has come behind it. */
static const char events_sql[] =
	"SELECT e.sid, e.seq, e.line FROM holdfast_event AS e JOIN holdfast_session AS s USING (sid)"
	" WHERE s.sid = ANY($1)"
	" AND e.seq >= coalesce(substring(s.metadata FROM '\"max_seq\":([0-9]+)')::bigint, 0)"
	" ORDER BY e.sid, e.seq";

static const char records_sql[] =
	"SELECT r.sid, r.n, r.kind, r.ts, r.data FROM holdfast_record AS r"
	" WHERE r.sid = ANY($1) ORDER BY r.sid, r.n";

static const char blobs_sql[] = "SELECT s.id, octet_length(b.bytes)::bigint FROM holdfast_blob AS b"
				" JOIN holdfast_session AS s USING (sid) WHERE s.sid = ANY($1)";

/* --- on any thread --- */

void pg_taken_finish(struct pg_taken *taken)
{
	PQclear(taken->sessions);
	PQclear(taken->events);
	PQclear(taken->records);
	PQclear(taken->blobs);
	*taken = (struct pg_taken){0};
}

static PGresult *run_take(struct pg_conn *conn, const struct pg_wish *wish, char **ret_why)
{
	struct pg_params params = {0};
	pg_add_text(&params, wish->owner, strlen(wish->owner));
	if (wish->id) {
		pg_add_text(&params, wish->id, strlen(wish->id));
	} else {
		pg_add_null_text(&params);
	}
	pg_add_bigint(&params, wish->most);
	int again = pg_add_array(&params, PG_BIGINT_ARRAY);
	for (size_t i = 0; i < wish->again_count; i++) {
		pg_put_bigint(&params, again, wish->again[i]);
	}
	PGresult *rows = pg_run(conn, wish->id ? take_one_sql : take_any_sql, &params, ret_why);
	pg_params_finish(&params);
	return rows;
}

/**
 * Reads holdfast_place.n. All sessions in `taken` are from that database, since changing it needs
 * the locks that this transaction holds on their rows.
 */
static int read_place(struct pg_conn *conn, struct pg_taken *taken, char **ret_why)
{
	PGresult *rows = pg_run(conn, "SELECT n FROM holdfast_place", NULL, ret_why);
	int r = rows ? 0 : -EIO;
	taken->place = PQntuples(rows) ? pg_get_bigint(rows, 0, 0) : 0;
	PQclear(rows);
	return r;
}

static int read_rest(struct pg_conn *conn, struct pg_taken *taken, char **ret_why)
{
	struct pg_params params = {0};
	int sid = pg_add_array(&params, PG_BIGINT_ARRAY);
	for (int row = 0; row < PQntuples(taken->sessions); row++) {
		pg_put_bigint(&params, sid, pg_get_bigint(taken->sessions, row, 0));
	}
	taken->events = pg_run(conn, events_sql, &params, ret_why);
	taken->records = taken->events ? pg_run(conn, records_sql, &params, ret_why) : NULL;
	taken->blobs = taken->records ? pg_run(conn, blobs_sql, &params, ret_why) : NULL;
	pg_params_finish(&params);
	return taken->blobs ? 0 : -EIO;
}

int pg_take_look(struct pg_conn *conn, int64_t sid, struct pg_taken *taken, char **ret_why)
{
	struct pg_params params = {0};
	*taken = (struct pg_taken){0};
	pg_add_bigint(&params, sid);
	taken->sessions = pg_run(conn,
		"SELECT sid, id, epoch, fence, created_at, created, last_record, metadata"
		" FROM holdfast_session WHERE sid = $1",
		&params, ret_why);
	pg_params_finish(&params);
	return !taken->sessions             ? -EIO
	       : PQntuples(taken->sessions) ? read_rest(conn, taken, ret_why)
					    : -ENOENT;
}

int pg_take(
	struct pg_conn *conn, const struct pg_wish *wish, struct pg_taken *taken, char **ret_why)
{
	*taken = (struct pg_taken){0};
	conn->has_warned = false;
	int r = pg_run_all(conn, "BEGIN", ret_why);
	taken->sessions = r < 0 ? NULL : run_take(conn, wish, ret_why);
	r = !taken->sessions ? -EIO : 0;
	if (r == 0 && PQntuples(taken->sessions)) {
		r = read_rest(conn, taken, ret_why);
		r = r < 0 ? r : read_place(conn, taken, ret_why);
	}
	if (r < 0) {
		(void)pg_run_all(conn, "ROLLBACK", NULL);
		return r;
	}
	if (pg_run_all(conn, "COMMIT", ret_why) < 0) {
		return -EINPROGRESS;
	}
	if (conn->has_warned && ret_why && !*ret_why) {
		*ret_why = xstrdup("a commit may not have reached its standby");
	}
	return conn->has_warned ? -EINPROGRESS : 0;
}

/* --- on the loop --- */

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
		/* The last owner may have pruned events without a sweep of their blobs. */
		pg_log_of(log)->rows_from = meta->first_seq;
		pg_log_of(log)->pruned_bytes = meta->first_seq > 1 ? UINT64_MAX / 2 : 0;
	}
	return log;
}

/** A session that cannot be made. Its rows stay as they are. */
static void set_aside(struct pg *pg, const PGresult *rows, int row, int error, const char *what)
{
	char *id = xstrndup(PQgetvalue(rows, row, 1), (size_t)PQgetlength(rows, row, 1));
	diag(DIAG_ERROR, "session %s in the database %s: %s", id,
		error == -EBADMSG ? "is damaged" : "cannot be read", what);
	aside_add(
		pg->store, id, pg_get_bigint(rows, row, 0), (uint64_t)pg_get_bigint(rows, row, 3));
	free(id);
}

static int make_log(struct pg *pg, const PGresult *rows, int row, struct session_log **ret_log,
	const char **ret_why)
{
	struct metadata meta = {0};
	int r = 0;
	char *id = xstrndup(PQgetvalue(rows, row, 1), (size_t)PQgetlength(rows, row, 1));
	struct session_log *other = store_get_session(pg->store, id, strlen(id));
	if (other) {
		store_fenced(other); /* being created here, but another server was first */
	}
	aside_remove(pg->store, id);
	if (!session_id_is_valid(id, strlen(id))) {
		*ret_why = "no session can have this name";
		r = -EBADMSG;
	} else if (!PQgetisnull(rows, row, 7)) {
		r = metadata_parse(PQgetvalue(rows, row, 7), (size_t)PQgetlength(rows, row, 7), id,
			pg->store->ops->facts, &meta, ret_why);
	}
	if (r == 0) {
		*ret_log = begin_log(pg, rows, row, id, &meta);
	}
	metadata_finish(&meta);
	free(id);
	return r;
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

static int take_events(struct session_log *log, const PGresult *rows, int first, int end)
{
	bool has_last = first < end && (uint64_t)pg_get_bigint(rows, first, 1) == log->last_seq;
	int r = has_last || log->last_seq < log->first_seq ? 0 : -EBADMSG;
	for (int row = first + has_last; row < end && r == 0; row++) {
		r = take_event(log, rows, row);
	}
	return r;
}

static struct record record_of(const struct session_log *log, const PGresult *records, int row)
{
	return (struct record){.kind = (enum record_kind)pg_get_bigint(records, row, 2),
		.id = log->id,
		.id_len = strlen(log->id),
		.epoch = log->epoch,
		.ts = pg_get_bigint(records, row, 3),
		.data = PQgetvalue(records, row, 4),
		.data_len = (size_t)PQgetlength(records, row, 4)};
}

int pg_replay(struct session_log *log, const PGresult *records, int first, int end)
{
	int r = 0;
	struct pg_log *kept = pg_log_of(log);
	for (int row = first; row < end && r == 0; row++) {
		const struct record record = record_of(log, records, row);
		r = store_replay(log, &record);
		kept->has_records = true;
	}
	return r;
}

static int replay(struct session_log *log, const PGresult *rows, int first, int end)
{
	if (first < end && !log->owner) {
		log->owner = log->store->ops->found(log->store->owner, log);
	}
	return pg_replay(log, rows, first, end);
}

/** The end of a session's rows, which begin at `first`; all rows are sorted by sid. */
static int end_of(const PGresult *rows, int first, int64_t sid)
{
	int end = first;
	while (end < PQntuples(rows) && pg_get_bigint(rows, end, 0) == sid) {
		end++;
	}
	return end;
}

static void drop_log(struct session_log *log)
{
	if (log->owner) {
		log->store->ops->lost(log->owner);
	}
	session_log_free(log);
}

/**
 * The records of a session must be consecutive, end with the one that its row names, and be of
 * formats that this program reads.
 */
static int check_records(const struct session_log *log, const PGresult *rows, int first, int end)
{
	int r = 0;
	uint64_t n = log->last_record + 1 - (uint64_t)(end - first);
	for (int row = first; row < end && r == 0; row++, n++) {
		struct buffer what = {0};
		struct record record = record_of(log, rows, row);
		r = versions_tell_record(log->store->ops->is_foreign, &record, &what) ? -ENOTSUP
		    : (uint64_t)pg_get_bigint(rows, row, 1) != n                      ? -EBADMSG
										      : 0;
		buffer_finish(&what);
	}
	return r;
}

/**
 * Makes a log of one session. `at` has the positions in the results of events and records, and is
 * moved behind the session's rows. Returns 0, or a negative errno and *ret_why (static text).
 */
static int adopt(struct pg *pg, const struct pg_taken *taken, int row, int at[2],
	struct session_log **ret_log, const char **ret_why)
{
	int64_t sid = pg_get_bigint(taken->sessions, row, 0);
	int first_event = at[0];
	int first_record = at[1];
	at[0] = end_of(taken->events, first_event, sid);
	at[1] = end_of(taken->records, first_record, sid);
	int r = make_log(pg, taken->sessions, row, ret_log, ret_why);
	if (r < 0) {
		return r;
	}
	r = take_events(*ret_log, taken->events, first_event, at[0]);
	r = r < 0 ? r : check_records(*ret_log, taken->records, first_record, at[1]);
	r = r < 0 ? r : replay(*ret_log, taken->records, first_record, at[1]);
	if (r < 0) {
		drop_log(*ret_log);
		*ret_why = r == -ENOTSUP ? "this program does not read the format of its records"
					 : "its events or records do not fit together";
	}
	return r;
}

int pg_try(struct pg *pg, const struct pg_taken *taken, const char **ret_why)
{
	struct session_log *log = NULL;
	struct names_repaired names = {0};
	int r = adopt(pg, taken, 0, (int[2]){0}, &log, ret_why);
	if (r < 0) {
		return r;
	}
	if (log->owner) { /* its records count names, too */
		session_log_get_names_repair(log, &names);
	}
	drop_log(log);
	*ret_why = names.missing ? "names that inputs gave are lost" : NULL;
	return names.missing ? -EBADMSG : names.status;
}

void pg_adopt(struct pg *pg, const struct pg_taken *taken)
{
	struct store *store = pg->store;
	int at[2] = {0};
	for (int row = 0; row < PQntuples(taken->sessions); row++) {
		struct session_log *log = NULL;
		const char *why = NULL;
		int r = adopt(pg, taken, row, at, &log, &why);
		if (r < 0) {
			set_aside(pg, taken->sessions, row, r, why);
		} else if (!store->opening) {
			store->ops->returned(store->owner, log);
		}
	}
	pg_blobs_count(store, taken->blobs);
}
