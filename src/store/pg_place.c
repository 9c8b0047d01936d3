/*
 * Whether the database is the one that the sessions were used in last. A copy that lacks the newest
 * commits (a restored backup, an asynchronous standby that was promoted) would give numbers a second
 * time under one epoch. So holdfast_place says which database it is, and nobody writes to one that is
 * another: whether to go on with the copy is the operator's to say. `holdfast new-epoch` gives all
 * sessions new epochs then, and servers go on by themselves: clients start over.
 *
 * What tells: the cluster's own number and timeline, which a promotion and a recovery change, and the
 * number of a table, which a restored dump changes. A new timeline alone is no other copy if commits
 * waited for a synchronous standby until then. And what a server remembers: the newest note that it
 * has seen there, and of its own sessions the last records, which cannot get fewer.
 */
#include "pg_nodes.h"

#include "holdfast/diag.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A standby says an error, and takes no writes anyway; so does what only speaks PostgreSQL's protocol. */
#define FACTS                                                                               \
	"SELECT c.system_identifier AS system, " PG_TIMELINE " AS timeline,"                \
	" 'holdfast_session'::regclass::oid::bigint AS relation,"                           \
	" (current_setting('synchronous_standby_names') <> '')::int::bigint AS synchronous" \
	" FROM pg_control_system() AS c"

static const char look_sql[] = "SELECT f.system, f.timeline, f.relation, f.synchronous,"
			       " p.system, p.timeline, p.relation, p.synchronous, p.n, p.noted"
			       " FROM (" FACTS ") AS f LEFT JOIN holdfast_place AS p ON true";

static const char lock_sql[] = "SELECT FROM holdfast_place FOR UPDATE";

/* `noted` and `n` have the time in them: they also grow if the copy is from before they grew last. */
#define NOW "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
static const char note_sql[] =
	"INSERT INTO holdfast_place AS p (system, timeline, relation, synchronous, noted, n)"
	" SELECT f.system, f.timeline, f.relation, f.synchronous, " NOW ", " NOW " FROM (" FACTS
	") AS f ON CONFLICT (one) DO UPDATE SET system = excluded.system,"
	" timeline = excluded.timeline, relation = excluded.relation,"
	" synchronous = excluded.synchronous, noted = greatest(excluded.noted, p.noted + 1),"
	" n = CASE $1 WHEN 1 THEN greatest(excluded.n, p.n + 1) ELSE p.n END RETURNING n, noted";

/*
 * Whatever anybody still writes with a fence that only the lost commits had is void: no fence is ever
 * raised so far. Nobody has the sessions after it.
 */
static const char renew_sql[] =
	"UPDATE holdfast_session SET owner = '', fence = fence + 1000000000,"
	" epoch = ('x' || encode(substr(sha256(convert_to(gen_random_uuid()::text, 'UTF8')), 1, 8),"
	" 'hex'))::bit(64)::bigint";

/* What only this server knows is noted, so that others refuse the copy, too, and it itself when it starts anew. */
static const char refuse_sql[] = "UPDATE holdfast_place SET system = 0";

enum verdict {
	IS_SAME,
	IS_NEW, /* nobody has noted anything */
	IS_PROMOTED, /* what had all commits */
	IS_OTHER_MODE, /* commits wait for a standby now, or do not any more */
	IS_OTHER,
};

struct look {
	enum verdict verdict;
	int64_t n;
	int64_t noted;
	int64_t timeline;
	int64_t timeline_before;
	bool is_refused; /* nobody may write to it */
};

static enum verdict judge(const PGresult *rows, int64_t noted)
{
	bool same_system = pg_get_bigint(rows, 0, 0) == pg_get_bigint(rows, 0, 4);
	bool same_relation = pg_get_bigint(rows, 0, 2) == pg_get_bigint(rows, 0, 6);
	int64_t timeline = pg_get_bigint(rows, 0, 1);
	int64_t before = pg_get_bigint(rows, 0, 5);
	if (!same_system || !same_relation || timeline < before ||
		pg_get_bigint(rows, 0, 9) < noted) {
		return IS_OTHER;
	}
	if (timeline > before) {
		return pg_get_bigint(rows, 0, 7) ? IS_PROMOTED : IS_OTHER;
	}
	return pg_get_bigint(rows, 0, 3) == pg_get_bigint(rows, 0, 7) ? IS_SAME : IS_OTHER_MODE;
}

/** -ENOTSUP: it does not say what it is. */
static int look(struct pg *pg, struct pg_conn *conn, struct look *ret)
{
	PGresult *rows = pg_run(conn, look_sql, NULL, NULL);
	if (!rows) {
		return pg_is_alive(conn) ? -ENOTSUP : -ENOTCONN;
	}
	*ret = (struct look){.timeline = pg_get_bigint(rows, 0, 1)};
	if (PQgetisnull(rows, 0, 8)) {
		ret->verdict = IS_NEW;
	} else {
		ret->verdict = judge(rows, atomic_load(&pg->place.noted));
		ret->timeline_before = pg_get_bigint(rows, 0, 5);
		ret->n = pg_get_bigint(rows, 0, 8);
		ret->noted = pg_get_bigint(rows, 0, 9);
	}
	PQclear(rows);
	return 0;
}

static int note(struct pg_conn *conn, struct look *at, char **ret_why)
{
	struct pg_params params = {0};
	pg_add_bigint(&params, at->verdict == IS_OTHER);
	PGresult *noted = pg_run(conn, note_sql, &params, ret_why);
	int r = noted ? 0 : -EIO;
	if (noted) {
		at->n = pg_get_bigint(noted, 0, 0);
		at->noted = pg_get_bigint(noted, 0, 1);
	}
	PQclear(noted);
	pg_params_finish(&params);
	return r;
}

static void say_older(const struct look *at, bool is_behind, char **ret_why)
{
	if (!ret_why) {
		return;
	}
	free(*ret_why);
	*ret_why = xprintf(
		"it is an older copy (%s; timeline %lld, before %lld). If you want to go on with it, run: holdfast new-epoch ADDRESS",
		is_behind ? "it lacks what this server has written"
			  : "restored, or a standby that may have lacked the newest commits",
		(long long)at->timeline, (long long)at->timeline_before);
}

/** In a transaction of its own: what was looked at is looked at again. `is_behind`: as of `n`. */
static int look_again(
	struct pg *pg, struct pg_conn *conn, bool is_behind, struct look *at, char **ret_why)
{
	int64_t n = at->n;
	int r = pg_run_all(conn, lock_sql, ret_why);
	r = r < 0 ? r : look(pg, conn, at);
	if (r < 0) {
		return r;
	}
	if (is_behind && at->n == n) {
		at->verdict = IS_OTHER;
	}
	if (at->verdict == IS_OTHER && !pg->store->takes_older) {
		say_older(at, is_behind, ret_why);
		at->is_refused = true;
		return is_behind ? pg_run_all(conn, refuse_sql, NULL) : 0;
	}
	if (at->verdict == IS_OTHER) {
		r = pg_run_all(conn, renew_sql, ret_why);
	}
	return r < 0 || at->verdict == IS_SAME ? r : note(conn, at, ret_why);
}

static void tell(const struct look *at)
{
	if (at->verdict == IS_PROMOTED) {
		diag(DIAG_INFO,
			"the database goes on as timeline %lld; commits waited for a standby, so nothing is lost",
			(long long)at->timeline);
	} else if (at->verdict == IS_OTHER) {
		diag(DIAG_WARN,
			"the database is an older copy (timeline %lld, before %lld): all sessions have new epochs, and clients start over",
			(long long)at->timeline, (long long)at->timeline_before);
	}
}

/** Another thread may have seen more. */
static void remember(atomic_llong *place, long long value)
{
	long long had = atomic_load(place);
	while (had < value && !atomic_compare_exchange_weak(place, &had, value)) {
	}
}

static int compare(struct pg *pg, struct pg_conn *conn, bool is_behind, char **ret_why)
{
	struct look at;
	int r = look(pg, conn, &at);
	if (r == 0 && (is_behind || at.verdict != IS_SAME)) {
		at.n = is_behind ? atomic_load(&pg->place.n) : at.n;
		r = pg_begin_alone(conn, ret_why);
		r = r < 0 ? r : look_again(pg, conn, is_behind, &at, ret_why);
		r = pg_end_alone(conn, r, ret_why);
		r = r == 0 && at.is_refused ? -ESTALE : r;
		if (r == 0) {
			tell(&at);
		}
	}
	if (r == 0) {
		remember(&pg->place.noted, at.noted);
		remember(&pg->place.n, at.n);
	}
	return r == -ENOTSUP ? 0 : r;
}

int pg_place_check(struct pg *pg, struct pg_conn *conn, char **ret_why)
{
	return compare(pg, conn, false, ret_why);
}

int pg_place_is_behind(struct pg *pg, struct pg_conn *conn, char **ret_why)
{
	return compare(pg, conn, true, ret_why);
}

/* --- on the loop --- */

void pg_place_begin(struct pg *pg)
{
	pg->place.known = atomic_load(&pg->place.n);
}

/** Blocks: nobody is told that there are no sessions. */
static int take_all(struct pg *pg, struct pg_taken *taken)
{
	size_t count;
	int64_t *again = pg_nodes_copy_unsure(pg->nodes, &count);
	const struct pg_wish all = {
		.owner = pg_owner(pg), .most = INT32_MAX, .again = again, .again_count = count};
	struct pg_conn conn;
	int r = -ENOTCONN;
	if (pg_reader_take(pg, &conn)) {
		r = pg_take(&conn, &all, taken, NULL);
		pg_reader_give(pg, &conn);
	}
	if (r == -EINPROGRESS) {
		pg_nodes_add_unsure(pg->nodes, taken);
	}
	free(again);
	return r;
}

void pg_place_start_over(struct pg *pg)
{
	struct store *store = pg->store;
	struct pg_taken taken = {0};
	int64_t n = atomic_load(&pg->place.n);
	if (pg->place.known == n || pg->is_busy || store->closing) {
		return;
	}
	bool is_alone = !store_is_shared(store);
	if (is_alone && take_all(pg, &taken) < 0) {
		pg_taken_finish(&taken);
		return; /* the next round tries it again */
	}
	pg->place.known = n;
	while (!list_empty(&store->logs)) {
		store_fenced(list_entry(store->logs.next, struct session_log, link));
	}
	if (is_alone) {
		char *why = NULL;
		pg_adopt(pg, &taken, &why);
	}
	pg_taken_finish(&taken);
}

bool pg_place_fits(struct pg *pg, const struct pg_taken *taken)
{
	if (!PQntuples(taken->sessions)) {
		return true;
	}
	remember(&pg->place.n, taken->place); /* the next round would find it, too */
	pg_place_start_over(pg);
	return taken->place == pg->place.known;
}
