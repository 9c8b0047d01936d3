/*
 * The database fails: every round trip that a server makes to it, one or several, in every way that
 * fits. What test_disk_fault.c is for files: the server never crashes, what it refused is not shown,
 * what it acknowledged is there, once, after a restart too; and it goes on by itself.
 */
#include "part.h"
#include "postgres.h"
#include "postgres_proxy.h"
#include "core/session/session_internal.h"
#include "core/store/store_internal.h"
#include "storm.h"

#include "holdfast/diag.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define WRONG_SHOWN 8
/* There is no power disk: everything that is noted happened at 0. */
#define AFTER_ALL 1

struct way {
	const char *name;
	enum proxy_fault fault;
	const char *sqlstate;
};

static const struct way ways[] = {
	{"cut before", PROXY_CUT_BEFORE, NULL},
	{"cut during", PROXY_CUT_DURING, NULL},
	{"late", PROXY_IS_LATE, NULL},
	{"cut in the answer", PROXY_CUT_IN_ANSWER, NULL},
	{"cut after", PROXY_CUT_AFTER, NULL},
	{"disk full", PROXY_REFUSES, "53100"},
	{"out of memory", PROXY_REFUSES, "53200"},
	{"too many connections", PROXY_REFUSES, "53300"},
	{"statement_timeout", PROXY_REFUSES, "57014"},
	{"read only", PROXY_REFUSES, "25006"},
	{"deadlock", PROXY_REFUSES, "40P01"},
	{"shut down", PROXY_REFUSES, "57P01"},
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

/* So many round trips, one after the other: in the middle of finding out what became of the first one, too. */
static const size_t counts[] = {1, 2, 3, 4};
#define COUNTS (sizeof(counts) / sizeof(counts[0]))

static const char *address; /* of the proxy */
static char now[160]; /* the run under way, for a failure that ends the test */
static size_t runs, hits, wrong;

static int start(void **state)
{
	postgres_start();
	address = proxy_start();
	return 0;
}

static int stop(void **state)
{
	proxy_stop();
	postgres_stop();
	return 0;
}

static int teardown(void **state)
{
	if (now[0]) {
		fprintf(stderr, "%s fails\n", now);
	}
	return 0;
}

static void begin_on(struct rig *rig)
{
	rig->database = address;
	rig->read_file = postgres_read_file;
	rig->limits.hot_tail_size = 64 << 20;
	rig->limits.journal_retry_ms = 1;
	rig->limits.prune_ms = RIG_NEVER;
}

static void begin(struct rig *rig, struct witness *w)
{
	postgres_clear();
	proxy_plan(NULL);
	rig_init(rig);
	begin_on(rig);
	witness_init(w, rig, NULL);
	w->takes_back = true;
}

/** Everything is as it was acknowledged, and goes on, where that server was: its lease is in nobody's way. */
static void check_restart(const struct witness *w, struct buffer *why)
{
	struct rig rig;
	rig_init_on(&rig, w->rig->dir);
	begin_on(&rig);
	if (rig_open(&rig) < 0) {
		buffer_printf(why, "it does not open: %s", rig.why ? rig.why : "?");
	} else if (witness_check(w, AFTER_ALL, &rig, why)) {
		witness_goes_on(w, AFTER_ALL, &rig, why);
	}
	rig_finish(&rig);
}

static void judge(struct witness *w, struct buffer *why)
{
	buffer_append(why, w->wrong.data, w->wrong.len);
	check_restart(w, why);
	if (why->len && wrong++ < WRONG_SHOWN) {
		fprintf(stderr, "%s: %.*s\n", now, (int)why->len, why->data);
	}
	now[0] = '\0';
}

static void name_run(const char *when, const struct way *way, const struct proxy_plan *plan)
{
	snprintf(now, sizeof(now), "%s, round trip %zu and %zu after it: %s", when, plan->nth,
		plan->count - 1, way->name);
}

/** The fault is over: so it is for the server. */
static void expect_resumed(struct witness *w, struct buffer *why)
{
	static const struct storm after = {.seed = 99, .steps = 8};
	proxy_plan(NULL);
	rig_wait_for_store(w->rig);
	size_t refused = w->refused;
	storm_run(&after, w);
	if (w->refused != refused) {
		buffer_append_str(why, "appends are refused when the fault is over; ");
	}
}

static void run_fault(
	const struct storm *storm, const struct way *way, const struct proxy_plan *plan)
{
	struct rig rig;
	struct witness w;
	struct buffer why = {0};
	name_run("while it runs", way, plan);
	begin(&rig, &w);
	assert_int_equal(witness_open(&w), 0);
	proxy_plan(plan);
	storm_run(storm, &w);
	runs++;
	hits += proxy_hits() > 0;
	witness_settle(&w);
	witness_reload(&w);
	expect_resumed(&w, &why);
	witness_close(&w);
	judge(&w, &why);
	buffer_finish(&why);
	witness_finish(&w);
	rig_finish(&rig);
}

/** A server that stops while the database fails is gone in time, and nothing is lost by it. */
static void run_stop(
	const struct storm *storm, const struct way *way, const struct proxy_plan *plan)
{
	struct rig rig;
	struct witness w;
	struct buffer why = {0};
	name_run("while it stops", way, plan);
	begin(&rig, &w);
	rig.limits.stop_wait_ms = 50;
	assert_int_equal(witness_open(&w), 0);
	storm_run(storm, &w);
	proxy_plan(plan);
	witness_close(&w);
	runs++;
	hits += proxy_hits() > 0;
	proxy_plan(NULL);
	judge(&w, &why);
	buffer_finish(&why);
	witness_finish(&w);
	rig_finish(&rig);
}

/** A start comes about, or says why not, and has spoilt nothing for the next one. */
static void run_start(
	const struct storm *storm, const struct way *way, const struct proxy_plan *plan)
{
	struct rig rig;
	struct witness w;
	struct buffer why = {0};
	name_run("while it starts", way, plan);
	begin(&rig, &w);
	assert_int_equal(witness_open(&w), 0);
	storm_run(storm, &w);
	witness_close(&w);
	proxy_plan(plan);
	if (rig_open(&rig) < 0 && (!rig.why || !*rig.why)) {
		buffer_append_str(&why, "it does not say why; ");
	}
	runs++;
	hits += proxy_hits() > 0;
	proxy_plan(NULL);
	rig_close(&rig);
	judge(&w, &why);
	buffer_finish(&why);
	witness_finish(&w);
	rig_finish(&rig);
}

/* --- all of them --- */

enum phase {
	RUNNING,
	STOPPING,
	STARTING,
	PHASES,
};

/** How many round trips there are when nothing fails. */
static void count_round_trips(const struct storm *storm, size_t ret[PHASES])
{
	struct rig rig;
	struct witness w;
	begin(&rig, &w);
	assert_int_equal(witness_open(&w), 0);
	proxy_plan(NULL);
	storm_run(storm, &w);
	ret[RUNNING] = proxy_count();
	proxy_plan(NULL);
	witness_close(&w);
	ret[STOPPING] = proxy_count();
	proxy_plan(NULL);
	assert_int_equal(rig_open(&rig), 0);
	ret[STARTING] = proxy_count();
	assert_int_equal(w.wrong.len, 0);
	witness_finish(&w);
	rig_finish(&rig);
}

static void fail_each(enum phase phase, const struct storm *storm)
{
	static void (*const run[PHASES])(const struct storm *storm, const struct way *way,
		const struct proxy_plan *plan) = {run_fault, run_stop, run_start};
	size_t trips[PHASES];
	runs = hits = wrong = 0;
	count_round_trips(storm, trips);
	for (size_t i = 0; i < WAYS; i++) {
		for (size_t nth = 0; nth < trips[phase]; nth++) {
			for (size_t k = 0; k < COUNTS; k++) {
				struct proxy_plan plan = {
					ways[i].fault, ways[i].sqlstate, nth, counts[k]};
				if (part_has_next()) {
					run[phase](storm, &ways[i], &plan);
				}
			}
		}
	}
	print_message("%zu round trips, %zu runs, the fault came in %zu, %zu of them wrong\n",
		trips[phase], runs, hits, wrong);
	assert_int_equal(wrong, 0);
	assert_true(hits > 0 || !part_is_whole());
}

static void what_is_refused_is_not_shown(void **state)
{
	fail_each(RUNNING, &(struct storm){.seed = 4711, .steps = 36});
}

static void a_stop_loses_nothing(void **state)
{
	fail_each(STOPPING, &(struct storm){.seed = 90125, .steps = 12});
}

static void a_start_that_fails_spoils_nothing(void **state)
{
	fail_each(STARTING, &(struct storm){.seed = 4712, .steps = 12});
}

static bool stays(void *arg, const char *id)
{
	return true;
}

static uint64_t shown(struct rig *rig, const char *id)
{
	return session_channel(rig_session(rig, id))->max_seq;
}

/**
 * A node that stops gives up a group whose outcome is unknown, and goes on for a while. It lets go of
 * the group's sessions, since it does not know their state; the next owner reads it.
 */
static void a_group_that_was_given_up_is_read_again(void **state)
{
	static const struct proxy_plan cut = {PROXY_CUT_AFTER, NULL, 0, 1000};
	struct rig rig;
	postgres_clear();
	proxy_plan(NULL);
	rig_init(&rig);
	begin_on(&rig);
	rig.node_address = "a:1";
	rig.limits.stop_wait_ms = 300;
	assert_int_equal(rig_open(&rig), 0);
	rig_put(rig_session(&rig, "s"), "x-note", "{}");
	rig_put(rig_session(&rig, "other"), "x-note", "{}");
	rig_settle(&rig);
	proxy_plan(&cut);
	rig_put(rig_session(&rig, "s"), "x-note", "{}");
	session_table_hand_over_most(rig.table, stays, NULL);
	assert_true(rig.is_failing);
	proxy_plan(NULL);
	rig_wait_for_store(&rig);
	assert_null(session_table_get(rig.table, "s", 1));
	rig_put(rig_session(&rig, "other"), "x-note", "{}");
	rig_settle(&rig);
	assert_int_equal(shown(&rig, "other"), 2);
	rig_close(&rig);
	assert_int_equal(rig_open(&rig), 0);
	assert_int_equal(shown(&rig, "s"), 2); /* it had been committed */
	assert_int_equal(shown(&rig, "other"), 2);
	rig_finish(&rig);
}

static void end_job(uv_timer_t *timer)
{
	((struct store *)timer->data)->jobs--;
	uv_close((uv_handle_t *)timer, NULL);
}

/** Such as the renewal of a lease, on a machine that is busy: a server would be gone by then. */
static void work_may_outlast_a_stop(void **state)
{
	struct rig rig;
	uv_timer_t timer;
	postgres_clear();
	proxy_plan(NULL);
	rig_init(&rig);
	begin_on(&rig);
	rig.limits.stop_wait_ms = 1;
	assert_int_equal(rig_open(&rig), 0);
	uv_timer_init(&rig.loop, &timer);
	timer.data = rig.table->store;
	rig.table->store->jobs++;
	uv_timer_start(&timer, end_job, 50, 0);
	rig_close(&rig);
	assert_int_equal(rig_open(&rig), 0); /* nothing of the first one is left */
	rig_finish(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(what_is_refused_is_not_shown, teardown),
		cmocka_unit_test_teardown(a_stop_loses_nothing, teardown),
		cmocka_unit_test_teardown(a_start_that_fails_spoils_nothing, teardown),
		cmocka_unit_test(a_group_that_was_given_up_is_read_again),
		cmocka_unit_test(work_may_outlast_a_stop),
	};
	diag_set_level(DIAG_SILENT);
	return cmocka_run_group_tests_name("database-fault", tests, start, stop);
}
