/*
 * Detects an older copy of the database: one that lacks the newest commits, such as a restored
 * backup or an asynchronous standby that was promoted. Writing to it would give the same numbers to
 * other events under the same epoch. So holdfast_place notes the identity of the database that the
 * sessions were used in last, and servers write nothing to a database with another identity. The
 * operator decides whether to use the copy. `holdfast new-epoch` gives all sessions new epochs in
 * it; then servers go on by themselves, and clients start over.
 *
 * The identity is the cluster's system identifier, its timeline, which a promotion or recovery
 * changes, and the OID of a table, which the restore of a dump changes. A new timeline alone does
 * not make an older copy if commits waited for a synchronous standby before. A server also notices
 * that the database is older than the newest note it has seen there, or that the database has fewer
 * records of the server's own sessions than it has committed.
 */
#include "pg_nodes.h"

#include "holdfast/diag.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Fails on a standby, which takes no writes anyway, and on other databases that merely speak
 * PostgreSQL's protocol.
 */
#define FACTS                                                                               \
	"SELECT c.system_identifier AS system, " PG_TIMELINE " AS timeline,"                \
	" 'holdfast_session'::regclass::oid::bigint AS relation,"                           \
	" (current_setting('synchronous_standby_names') <> '')::int::bigint AS synchronous" \
	" FROM pg_control_system() AS c"

static const char look_sql[] = "SELECT f.system, f.timeline, f.relation, f.synchronous,"
			       " p.system, p.timeline, p.relation, p.synchronous, p.n, p.noted"
			       " FROM (" FACTS ") AS f LEFT JOIN holdfast_place AS p ON true";

static const char lock_sql[] = "SELECT FROM holdfast_place FOR UPDATE";

/* `noted` and `n` are times, so that they also grow beyond values that an older copy lacks. */
#define NOW "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
static const char note_sql[] =
	"INSERT INTO holdfast_place AS p (system, timeline, relation, synchronous, noted, n)"
	" SELECT f.system, f.timeline, f.relation, f.synchronous, " NOW ", " NOW " FROM (" FACTS
	") AS f ON CONFLICT (one) DO UPDATE SET system = excluded.system,"
	" timeline = excluded.timeline, relation = excluded.relation,"
	" synchronous = excluded.synchronous, noted = greatest(excluded.noted, p.noted + 1),"
	" n = CASE $1 WHEN 1 THEN greatest(excluded.n, p.n + 1) ELSE p.n END RETURNING n, noted";

/*
 * Raises each fence far beyond any that the lost commits may have set, so that whatever is still
 * written with one of those is void. Afterwards the sessions have no owner.
 */
static const char renew_sql[] =
	"UPDATE holdfast_session SET owner = '', fence = fence + 1000000000,"
	" epoch = ('x' || encode(substr(sha256(convert_to(gen_random_uuid()::text, 'UTF8')), 1, 8),"
	" 'hex'))::bit(64)::bigint";

/*
 * If only this server can tell that the copy is older, this makes the other servers refuse it, too,
 * and this one after a restart.
 */
static const char refuse_sql[] = "UPDATE holdfast_place SET system = 0";

enum verdict {
	IS_SAME,
	IS_NEW, /* it has no note yet */
	IS_PROMOTED, /* a promoted standby that has all commits */
	IS_OTHER_MODE, /* the same, but commits have begun or stopped to wait for a standby */
	IS_OTHER, /* an older copy */
};

struct look {
	enum verdict verdict;
	int64_t n;
	int64_t noted;
	int64_t timeline;
	int64_t timeline_before;
	bool is_refused; /* an older copy that must not be written to */
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

/** Reads the identity and the note. -ENOTSUP: the database cannot tell its identity. */
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

/**
 * Looks again, in a transaction that locks the note, and acts on the result. `is_behind`: records
 * were missing from the database whose `n` is at->n.
 */
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

/** Raises *place to `value`, unless another thread has raised it further. */
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

/**
 * Takes all sessions. Blocks the loop on purpose: until they are back, clients would be told that
 * their sessions do not exist.
 */
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
	if (pg->place.known == n || pg->is_busy || !server_may(store->life, MAY_KEEP_UP)) {
		return;
	}
	/* A server alone takes its sessions again. */
	bool is_alone = !store_is_shared(store) && server_may(store->life, MAY_TAKE);
	if (is_alone && take_all(pg, &taken) < 0) {
		pg_taken_finish(&taken);
		return; /* the next round tries again */
	}
	pg->place.known = n;
	while (!list_empty(&store->logs)) {
		store_fenced(list_entry(store->logs.next, struct session_log, link));
	}
	aside_forget_all(store);
	if (is_alone) {
		pg_adopt(pg, &taken);
	}
	pg_taken_finish(&taken);
}

bool pg_place_fits(struct pg *pg, const struct pg_taken *taken)
{
	if (!PQntuples(taken->sessions)) {
		return true;
	}
	remember(&pg->place.n, taken->place); /* sooner than the next round would */
	pg_place_start_over(pg);
	return taken->place == pg->place.known;
}
