/*
 * The shelf (shelf.h) in the database: data that all servers share besides sessions. Rows of
 * holdfast_secret, holdfast_access and holdfast_shown.
 */
#include "pg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * The lock is held until the commit, so that rows become visible in the order of their numbers. Its
 * number is "hfaccess" in ASCII.
 */
#define LOCK_SQL "WITH alone AS MATERIALIZED (SELECT pg_advisory_xact_lock(7522807307066241907))"

static const char append_sql[] =
	LOCK_SQL " INSERT INTO holdfast_access (writer, line) SELECT $1, l.line FROM alone,"
		 " unnest($2::text[]) WITH ORDINALITY AS l(line, place) ORDER BY l.place";

static const char append_once_sql[] =
	LOCK_SQL " INSERT INTO holdfast_access (writer, line) SELECT $1, l.line FROM alone,"
		 " unnest($2::text[]) WITH ORDINALITY AS l(line, place)"
		 " WHERE NOT EXISTS (SELECT FROM holdfast_access AS a WHERE a.line = l.line)"
		 " ORDER BY l.place";

static const char read_sql[] =
	"SELECT n, CASE WHEN writer = $2 THEN '=' ELSE '+' END || line FROM holdfast_access"
	" WHERE n > $1 ORDER BY n";

static const char forget_sql[] = "DELETE FROM holdfast_access WHERE line = ANY($1::text[])"
				 " AND at < now() - interval '1 day'";

static void hold(void *arg, bool is_held)
{
	struct pg *pg = arg;
	pg->store->jobs += is_held ? 1 : -1;
}

/** Runs a statement whose effect has to be durable; -EIO if this is not certain. */
static int put(struct pg *pg, const char *sql, struct pg_params *params)
{
	struct pg_conn conn;
	if (!pg_reader_take(pg, &conn)) {
		return -EIO;
	}
	conn.has_warned = false;
	PGresult *result = pg_run(&conn, sql, params, NULL);
	int r = result && !conn.has_warned ? 0 : -EIO;
	PQclear(result);
	pg_reader_give(pg, &conn);
	return r;
}

static int put_secret(struct pg *pg, const char *name, const struct buffer *text)
{
	struct pg_params params = {0};
	pg_add_text(&params, name, strlen(name));
	pg_add_bytea(&params, text->data, text->len);
	int r = put(pg,
		"INSERT INTO holdfast_secret (name, bytes) VALUES ($1, $2) ON CONFLICT DO NOTHING",
		&params);
	pg_params_finish(&params);
	return r;
}

static int secret(void *arg, const char *name, struct buffer *text)
{
	struct pg *pg = arg;
	struct pg_params params = {0};
	int r = put_secret(pg, name, text);
	pg_add_text(&params, name, strlen(name));
	PGresult *rows =
		r < 0 ? NULL
		      : pg_query(pg, "SELECT bytes FROM holdfast_secret WHERE name = $1", &params);
	pg_params_finish(&params);
	if (PQntuples(rows) == 1) {
		buffer_clear(text);
		buffer_append(text, PQgetvalue(rows, 0, 0), (size_t)PQgetlength(rows, 0, 0));
	} else {
		r = -EIO;
	}
	PQclear(rows);
	return r;
}

static void put_lines(struct pg_params *params, const char *lines, size_t len)
{
	int place = pg_add_array(params, PG_TEXT_ARRAY);
	const char *end = lines + len;
	const char *newline;
	while (lines < end && (newline = memchr(lines, '\n', (size_t)(end - lines)))) {
		pg_put_bytes(params, place, lines, (size_t)(newline - lines));
		lines = newline + 1;
	}
}

static int append(void *arg, const char *lines, size_t len, bool once)
{
	struct pg *pg = arg;
	struct pg_params params = {0};
	pg_add_text(&params, pg->writer_name, strlen(pg->writer_name));
	put_lines(&params, lines, len);
	int r = put(pg, once ? append_once_sql : append_sql, &params);
	pg_params_finish(&params);
	return r;
}

static void take_rows(const PGresult *rows, uint64_t *at, struct buffer *ret)
{
	for (int row = 0; row < PQntuples(rows); row++) {
		*at = (uint64_t)pg_get_bigint(rows, row, 0);
		buffer_append(ret, PQgetvalue(rows, row, 1), (size_t)PQgetlength(rows, row, 1));
		buffer_append_char(ret, '\n');
	}
}

static int read_lines(void *arg, uint64_t *at, struct buffer *ret)
{
	struct pg *pg = arg;
	struct pg_params params = {0};
	pg_add_bigint(&params, (int64_t)*at);
	pg_add_text(&params, pg->writer_name, strlen(pg->writer_name));
	PGresult *rows = pg_query(pg, read_sql, &params);
	pg_params_finish(&params);
	take_rows(rows, at, ret);
	PQclear(rows);
	return rows ? 0 : -EIO;
}

static int forget(void *arg, const char *lines, size_t len)
{
	struct pg_params params = {0};
	put_lines(&params, lines, len);
	int r = put(arg, forget_sql, &params);
	pg_params_finish(&params);
	return r;
}

/* --- sessions in lists --- */

static const char show_sql[] =
	"INSERT INTO holdfast_shown AS o (id, sid, object) SELECT s.id, s.sid, w.object"
	" FROM unnest($1::text[], $2::text[]) AS w(id, object) JOIN holdfast_session AS s USING (id)"
	" WHERE s.owner = $3 ON CONFLICT (id) DO UPDATE SET sid = excluded.sid, object = excluded.object,"
	" n = nextval('holdfast_shown_n'), at = now() WHERE o.object IS DISTINCT FROM excluded.object";

static const char read_shown_sql[] =
	"SELECT n, id || coalesce(' ' || sid || ' ' || object, '') FROM holdfast_shown WHERE n > $1 ORDER BY n";

static const char tidy_sql[] = "DELETE FROM holdfast_shown WHERE object IS NULL"
			       " AND at < now() - interval '1 day'";

static const char *owner_of(void *arg)
{
	return pg_owner(arg);
}

static void put_shown(struct pg_params *params, const char *lines, size_t len)
{
	int id = pg_add_array(params, PG_TEXT_ARRAY);
	int object = pg_add_array(params, PG_TEXT_ARRAY);
	const char *end = lines + len;
	while (lines < end) {
		const char *space = memchr(lines, ' ', (size_t)(end - lines));
		const char *newline = memchr(lines, '\n', (size_t)(end - lines));
		pg_put_bytes(params, id, lines, (size_t)(space - lines));
		pg_put_bytes(params, object, space + 1, (size_t)(newline - space - 1));
		lines = newline + 1;
	}
}

/**
 * The lock is taken by a statement of its own, so that the next one sees everything committed
 * before. Otherwise a session that is being deleted at the moment would be listed forever.
 */
static int show(void *arg, const char *owner, const char *lines, size_t len)
{
	struct pg *pg = arg;
	struct pg_conn conn;
	struct pg_params params = {0};
	if (!pg_reader_take(pg, &conn)) {
		return -EIO;
	}
	put_shown(&params, lines, len);
	pg_add_text(&params, owner, strlen(owner));
	int r = pg_run_all(&conn, "BEGIN", NULL);
	r = r < 0 ? r : pg_run_all(&conn, PG_SHOWN_LOCK, NULL);
	PGresult *result = r < 0 ? NULL : pg_run(&conn, show_sql, &params, NULL);
	r = pg_run_all(&conn, result ? "COMMIT" : "ROLLBACK", NULL);
	r = result ? r : -EIO;
	PQclear(result);
	pg_params_finish(&params);
	pg_reader_give(pg, &conn);
	return r;
}

static int read_shown(void *arg, uint64_t *at, struct buffer *ret)
{
	struct pg_params params = {0};
	if (!*at) {
		PQclear(pg_query(arg, tidy_sql, NULL));
	}
	pg_add_bigint(&params, (int64_t)*at);
	PGresult *rows = pg_query(arg, read_shown_sql, &params);
	pg_params_finish(&params);
	take_rows(rows, at, ret);
	PQclear(rows);
	return rows ? 0 : -EIO;
}

void pg_shelf_init(struct pg *pg)
{
	pg_make_name(pg->writer_name);
	pg->shelf = (struct shelf){.arg = pg,
		.hold = hold,
		.secret = secret,
		.append = append,
		.read = read_lines,
		.forget = forget,
		.owner = owner_of,
		.show = show,
		.read_shown = read_shown};
}

const struct shelf *pg_shelf(struct store *store)
{
	return &pg_of(store)->shelf;
}
