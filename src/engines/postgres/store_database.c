/* Reads a database for the tools, in one transaction, so that all of it is from one moment. */
#include "pg_database.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Most rows, and bytes of them, that are read at a time; but always one row. */
#define PAGE_ROWS  "1000"
#define PAGE_BYTES ((int64_t)4 << 20)

/* --- rows --- */

int pg_row_read(struct pg_conn *conn, const char *id, struct pg_row *ret)
{
	struct pg_params params = {0};
	*ret = (struct pg_row){0};
	pg_add_text(&params, id, strlen(id));
	PGresult *rows = pg_run(conn,
		"SELECT sid, epoch, created_at, last_record, metadata FROM holdfast_session WHERE id = $1",
		&params, NULL);
	pg_params_finish(&params);
	int r = !rows ? -EIO : PQntuples(rows) ? 0 : -ENOENT;
	if (r == 0) {
		ret->sid = pg_get_bigint(rows, 0, 0);
		ret->epoch = (uint64_t)pg_get_bigint(rows, 0, 1);
		ret->created_at = pg_get_bigint(rows, 0, 2);
		ret->last_record = (uint64_t)pg_get_bigint(rows, 0, 3);
		ret->has_metadata = !PQgetisnull(rows, 0, 4);
		buffer_append(
			&ret->metadata, PQgetvalue(rows, 0, 4), (size_t)PQgetlength(rows, 0, 4));
	}
	PQclear(rows);
	return r;
}

void pg_row_finish(struct pg_row *row)
{
	buffer_finish(&row->metadata);
}

int pg_row_parse(const struct pg_row *row, const char *id, const struct store_facts *facts,
	struct metadata *ret, const char **ret_why)
{
	int r = 0;
	if (row->has_metadata) {
		r = metadata_parse(row->metadata.data, row->metadata.len, id, facts, ret, ret_why);
	} else {
		*ret = (struct metadata){.facts_ops = facts, .first_seq = 1, .base_seq = 1};
	}
	if (r == 0) {
		ret->epoch = row->epoch;
	}
	return r;
}

PGresult *pg_list_ids(struct pg_conn *conn)
{
	return pg_run(
		conn, "SELECT id FROM holdfast_session ORDER BY id COLLATE \"C\"", NULL, NULL);
}

/* --- pages of rows --- */

/* Rows of $1 behind $2, up to $3 bytes. `order`: the column that sorts them; `size` of a row. */
#define PAGE_SQL(columns, order, size, table)                                                    \
	"SELECT " columns " FROM (SELECT few.*, sum(" size ") OVER (ORDER BY " order             \
	") AS bytes, row_number() OVER (ORDER BY " order ") AS place FROM (SELECT * FROM " table \
	" WHERE sid = $1 AND " order " > $2 ORDER BY " order " LIMIT " PAGE_ROWS                 \
	") AS few) AS page WHERE bytes <= $3 OR place = 1 ORDER BY " order

/** Reads the next page. The first column of its rows is the one that sorts them. */
static PGresult *read_page(struct pg_conn *conn, const char *sql, int64_t sid, int64_t after)
{
	struct pg_params params = {0};
	pg_add_bigint(&params, sid);
	pg_add_bigint(&params, after);
	pg_add_bigint(&params, PAGE_BYTES);
	PGresult *rows = pg_run(conn, sql, &params, NULL);
	pg_params_finish(&params);
	return rows;
}

typedef int see_row(void *arg, const PGresult *rows, int row);

static int each_row(
	struct pg_conn *conn, const char *sql, int64_t sid, int64_t after, see_row *see, void *arg)
{
	int r = 0;
	for (int count = 1; r == 0 && count;) {
		PGresult *rows = read_page(conn, sql, sid, after);
		r = rows ? 0 : -EIO;
		count = PQntuples(rows);
		for (int row = 0; r == 0 && row < count; row++) {
			after = pg_get_bigint(rows, row, 0);
			r = see(arg, rows, row);
		}
		PQclear(rows);
	}
	return r;
}

struct seeing {
	pg_see_line *line;
	pg_see_record *record;
	pg_see_names *names;
	void *arg;
	struct record like; /* has the session's id and epoch */
};

static int see_line_row(void *arg, const PGresult *rows, int row)
{
	const struct seeing *seeing = arg;
	return seeing->line(seeing->arg, (uint64_t)pg_get_bigint(rows, row, 0),
		PQgetvalue(rows, row, 1), (size_t)PQgetlength(rows, row, 1));
}

int pg_each_line(struct pg_conn *conn, int64_t sid, uint64_t after, pg_see_line *see, void *arg)
{
	struct seeing seeing = {.line = see, .arg = arg};
	return each_row(conn, PAGE_SQL("seq, line", "seq", "octet_length(line)", "holdfast_event"),
		sid, (int64_t)after, see_line_row, &seeing);
}

static int see_record_row(void *arg, const PGresult *rows, int row)
{
	const struct seeing *seeing = arg;
	struct record record = seeing->like;
	record.kind = (enum record_kind)pg_get_bigint(rows, row, 1);
	record.ts = pg_get_bigint(rows, row, 2);
	record.data = PQgetvalue(rows, row, 3);
	record.data_len = (size_t)PQgetlength(rows, row, 3);
	return seeing->record(seeing->arg, (uint64_t)pg_get_bigint(rows, row, 0), &record);
}

int pg_each_record(struct pg_conn *conn, const char *id, const struct pg_row *row,
	pg_see_record *see, void *arg)
{
	struct seeing seeing = {.record = see,
		.arg = arg,
		.like = {.id = id, .id_len = strlen(id), .epoch = row->epoch}};
	return each_row(conn,
		PAGE_SQL("n, kind, ts, data", "n", "octet_length(data)", "holdfast_record"),
		row->sid, 0, see_record_row, &seeing);
}

static int see_names_row(void *arg, const PGresult *rows, int row)
{
	const struct seeing *seeing = arg;
	return seeing->names(seeing->arg, (uint64_t)pg_get_bigint(rows, row, 0),
		PQgetvalue(rows, row, 1), (size_t)PQgetlength(rows, row, 1));
}

int pg_each_names(struct pg_conn *conn, int64_t sid, pg_see_names *see, void *arg)
{
	struct seeing seeing = {.names = see, .arg = arg};
	return each_row(conn, PAGE_SQL("at, lines", "at", "octet_length(lines)", "holdfast_name"),
		sid, -1, see_names_row, &seeing);
}

static int see_blob(
	struct pg_conn *conn, int64_t sid, const char *name, pg_see_blob *see, void *arg)
{
	struct pg_params params = {0};
	pg_add_bigint(&params, sid);
	pg_add_text(&params, name, strlen(name));
	PGresult *rows = pg_run(conn,
		"SELECT bytes FROM holdfast_blob WHERE sid = $1 AND name = $2", &params, NULL);
	pg_params_finish(&params);
	int r = PQntuples(rows) != 1
			? -EIO
			: see(arg, name, PQgetvalue(rows, 0, 0), (size_t)PQgetlength(rows, 0, 0));
	PQclear(rows);
	return r;
}

int pg_each_blob(struct pg_conn *conn, int64_t sid, pg_see_blob *see, void *arg)
{
	struct pg_params params = {0};
	pg_add_bigint(&params, sid);
	PGresult *names = pg_run(conn,
		"SELECT name FROM holdfast_blob WHERE sid = $1 ORDER BY name COLLATE \"C\"",
		&params, NULL);
	pg_params_finish(&params);
	int r = names ? 0 : -EIO;
	for (int row = 0; r == 0 && row < PQntuples(names); row++) {
		r = see_blob(conn, sid, PQgetvalue(names, row, 0), see, arg);
	}
	PQclear(names);
	return r;
}

/* --- opening --- */

static int begin(struct pg_database *database, const char *address, char **ret_why)
{
	struct pg_conn *conn = &database->conn;
	if (!pg_address_check(address, ret_why)) {
		return -EINVAL;
	}
	int r = pg_connect(conn, address, PG_ANY, ret_why);
	r = r < 0 ? r
		  : pg_run_all(conn, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", ret_why);
	return r < 0 ? r : pg_schema_check(conn, ret_why);
}

static void close_database(struct store_database *base)
{
	struct pg_database *database = (struct pg_database *)base;
	pg_disconnect(&database->conn);
	free(database->address);
	free(database);
}

static int open_database(const char *address, struct store_database **ret, char **ret_why)
{
	struct pg_database *database = xcalloc(1, sizeof(*database));
	char *why = NULL;
	database->base.ops = &pg_database_ops;
	database->address = xstrdup(address);
	int r = begin(database, address, &why);
	if (r < 0) {
		*ret_why = xprintf("cannot use the database: %s", why ? why : strerror(-r));
		close_database(&database->base);
	} else {
		*ret = &database->base;
	}
	free(why);
	return r;
}

/* --- for the tools --- */

static struct pg_conn *conn_of(struct store_database *database)
{
	return &((struct pg_database *)database)->conn;
}

static int read_metadata(struct store_database *database, const char *id,
	const struct store_facts *facts, struct store_metadata *ret, const char **ret_why)
{
	struct pg_row row;
	struct metadata meta = {0};
	*ret = (struct store_metadata){0};
	int r = pg_row_read(conn_of(database), id, &row);
	*ret_why = r == -ENOENT ? "there is no such session" : r < 0 ? strerror(-r) : NULL;
	r = r < 0 ? r : pg_row_parse(&row, id, facts, &meta, ret_why);
	if (r == 0) {
		metadata_give(&meta, ret);
	}
	metadata_finish(&meta);
	pg_row_finish(&row);
	return r;
}

struct showing {
	store_database_line *visit;
	void *arg;
};

static int show_line(void *arg, uint64_t seq, const char *line, size_t len)
{
	const struct showing *showing = arg;
	return showing->visit(showing->arg, line, len);
}

static int each_line(struct store_database *database, const char *id, uint64_t after,
	store_database_line *visit, void *arg)
{
	struct pg_row row;
	struct showing showing = {.visit = visit, .arg = arg};
	int r = pg_row_read(conn_of(database), id, &row);
	r = r < 0 ? r : pg_each_line(conn_of(database), row.sid, after, show_line, &showing);
	pg_row_finish(&row);
	return r;
}

uint64_t pg_logs_size(struct pg_conn *conn, const char *session)
{
	struct pg_params params = {0};
	if (session) {
		pg_add_text(&params, session, strlen(session));
	} else {
		pg_add_null_text(&params);
	}
	PGresult *rows = pg_run(conn,
		"SELECT coalesce(sum(substring(metadata FROM '\"log_size\":([0-9]+)')::bigint), 0)::bigint"
		" FROM holdfast_session WHERE $1::text IS NULL OR id = $1",
		&params, NULL);
	pg_params_finish(&params);
	uint64_t size = PQntuples(rows) ? (uint64_t)pg_get_bigint(rows, 0, 0) : 0;
	PQclear(rows);
	return size;
}

static uint64_t size(struct store_database *database, const char *session)
{
	return pg_logs_size(conn_of(database), session);
}

const struct store_database_ops pg_database_ops = {
	.open = open_database,
	.close = close_database,
	.read_metadata = read_metadata,
	.each_line = each_line,
	.size = size,
	.check = pg_check,
	.rehearsal = &pg_rehearsal,
};
