/* Gathers the facts for holdfast doctor: asks the database for its settings, and times commits. */
#include "pg_database.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COMMITS 21

/* Other roles' connections have no backend_type in pg_stat_activity, but a database and a user. */
static const char facts_sql[] =
	"SELECT current_setting('server_version_num')::bigint, pg_is_in_recovery()::int::bigint,"
	" (current_setting('fsync') = 'on')::int::bigint,"
	" (current_setting('full_page_writes') = 'on')::int::bigint,"
	" (pg_encoding_to_char(encoding) = 'UTF8')::int::bigint,"
	" (SELECT count(*) FROM pg_stat_replication),"
	" (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')),"
	" current_setting('max_connections')::bigint"
	" - current_setting('superuser_reserved_connections')::bigint"
	" - (SELECT count(*) FROM pg_stat_activity WHERE datid IS NOT NULL AND usesysid IS NOT NULL)"
	" FROM pg_database WHERE datname = current_database()";

static const char texts_sql[] =
	"SELECT current_setting('server_version'), current_setting('synchronous_standby_names'),"
	" (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit')";

/* Writes to the WAL and commits, but changes no table. */
static const char commit_sql[] = "SELECT pg_logical_emit_message(true, 'holdfast', 'doctor')";

static int64_t now_us(clockid_t clock)
{
	struct timespec ts;
	clock_gettime(clock, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static char *copy_text(const PGresult *rows, int column)
{
	return xstrndup(PQgetvalue(rows, 0, column), (size_t)PQgetlength(rows, 0, column));
}

static int take_facts(struct pg_conn *conn, struct store_facts_of_database *facts, char **ret_why)
{
	PGresult *rows = pg_run(conn, facts_sql, NULL, ret_why);
	PGresult *texts = rows ? pg_run(conn, texts_sql, NULL, ret_why) : NULL;
	if (texts) {
		facts->version = pg_get_bigint(rows, 0, 0);
		facts->is_standby = pg_get_bigint(rows, 0, 1);
		facts->has_fsync = pg_get_bigint(rows, 0, 2);
		facts->has_full_pages = pg_get_bigint(rows, 0, 3);
		facts->is_utf8 = pg_get_bigint(rows, 0, 4);
		facts->standbys = pg_get_bigint(rows, 0, 5);
		facts->synchronous = pg_get_bigint(rows, 0, 6);
		facts->connections_left = pg_get_bigint(rows, 0, 7);
		facts->version_text = copy_text(texts, 0);
		facts->standby_names = copy_text(texts, 1);
		facts->commit_level = copy_text(texts, 2);
	}
	int r = texts ? 0 : -EIO;
	PQclear(rows);
	PQclear(texts);
	return r;
}

/** The timelines; 0 if they cannot be read, which is no error. */
static void take_timeline(struct pg_conn *conn, struct store_facts_of_database *facts)
{
	PGresult *rows = pg_run(conn, "SELECT " PG_TIMELINE, NULL, NULL);
	facts->timeline = rows ? pg_get_bigint(rows, 0, 0) : 0;
	PQclear(rows);
	rows = pg_run(conn, "SELECT timeline FROM holdfast_place", NULL, NULL);
	facts->timeline_used = PQntuples(rows) ? pg_get_bigint(rows, 0, 0) : 0;
	PQclear(rows);
}

/** Assumes that the database read its clock in the middle of the round trip. */
static int take_clock(struct pg_conn *conn, struct store_facts_of_database *facts, char **ret_why)
{
	int64_t before = now_us(CLOCK_REALTIME);
	PGresult *rows = pg_run(conn,
		"SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint", NULL, ret_why);
	int64_t after = now_us(CLOCK_REALTIME);
	if (rows) {
		facts->clock_ahead_ms =
			(pg_get_bigint(rows, 0, 0) - before - (after - before) / 2) / 1000;
	}
	PQclear(rows);
	return rows ? 0 : -EIO;
}

static int compare_times(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a;
	int64_t y = *(const int64_t *)b;
	return x < y ? -1 : x > y;
}

static int take_commits(struct pg_conn *conn, struct store_facts_of_database *facts, char **ret_why)
{
	int64_t times[COMMITS];
	for (size_t i = 0; i < COMMITS; i++) {
		int64_t began = now_us(CLOCK_MONOTONIC);
		int r = pg_run_all(conn, commit_sql, ret_why);
		if (r < 0) {
			return r;
		}
		times[i] = now_us(CLOCK_MONOTONIC) - began;
	}
	qsort(times, COMMITS, sizeof(times[0]), compare_times);
	facts->commit_us = times[COMMITS / 2];
	facts->slowest_us = times[COMMITS - 1];
	facts->has_commits = true;
	return 0;
}

int pg_ask(const char *address, struct store_facts_of_database *ret_facts, char **ret_why)
{
	struct pg_conn conn = {0};
	if (!pg_address_check(address, ret_why)) {
		return -EINVAL;
	}
	int r = pg_connect(&conn, address, PG_ANY, ret_why);
	r = r < 0 ? r : take_facts(&conn, ret_facts, ret_why);
	r = r < 0 ? r : take_clock(&conn, ret_facts, ret_why);
	if (r == 0) {
		take_timeline(&conn, ret_facts);
	}
	/* A commit would wait forever for a missing standby, and is refused on one. */
	bool waits = r == 0 && *ret_facts->standby_names && !ret_facts->synchronous;
	if (r == 0 && !ret_facts->is_standby && !waits) {
		r = take_commits(&conn, ret_facts, ret_why);
	}
	pg_disconnect(&conn);
	return r;
}
