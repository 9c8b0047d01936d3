/*
 * What a session has used, as its observers are told: the same in whatever way the reports come,
 * and whatever happens to the session, the server and the disk in between.
 */
#include "stage.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define ACKS_MAX 5

/** Hands events over as a producer does; `acks` has room for ACKS_MAX. */
static int append(struct session *session, const char *events, struct append_ack *acks,
	struct refusal *refusal)
{
	size_t bad;
	struct json_spans spans;
	assert_int_equal(json_spans_read(events, strlen(events), &spans), 0);
	size_t count = json_span_array_size(spans.all);
	assert_in_range(count, 1, ACKS_MAX);
	int r = intake_append(session, spans.all + 1, count, limits_default(), acks, &bad, refusal);
	json_spans_finish(&spans);
	return r;
}

/** One report; returns the seq of its event, 0: it is none. */
static uint64_t report(struct session *session, const char *data)
{
	struct append_ack acks[ACKS_MAX];
	struct refusal refusal = {0};
	struct buffer events = {0};
	buffer_printf(&events, "[{\"type\":\"usage\",\"data\":%s}]", data);
	if (append(session, buffer_cstr(&events), acks, &refusal) < 0) {
		fail_msg("%s: %s", data, refusal.message);
	}
	buffer_finish(&events);
	assert_false(acks[0].duplicate);
	return acks[0].seq;
}

static void assert_json(const char *got, const char *want)
{
	json_t *a = json_loads(got, JSON_DECODE_ANY, NULL);
	json_t *b = json_loads(want, JSON_DECODE_ANY, NULL);
	if (!json_equal(a, b)) {
		fail_msg("it is %s, not %s", got, want);
	}
	json_decref(a);
	json_decref(b);
}

static void expect_total(struct stage *st, const char *want)
{
	rig_settle(&st->rig);
	const char *usage = session_channel(rig_session(&st->rig, "s"))->status.usage;
	assert_json(usage ? usage : "null", want);
}

/* --- what may come in between --- */

enum meanwhile { NOTHING, RESTARTS, KILLS, LEAVES_MEMORY, MEANWHILE_COUNT };

/** Opens what a server that is killed now leaves. */
static void kill_server(struct stage *st)
{
	char *dir = rig_copy_dir(st->rig.dir);
	rig_finish(&st->rig);
	rig_init_on(&st->rig, dir);
	st->rig.owns_dir = true;
	free(dir);
	st->rig.limits.evict_ms = 1;
	assert_int_equal(rig_open(&st->rig), 0);
}

static void let_come(struct stage *st, enum meanwhile meanwhile)
{
	rig_settle(&st->rig);
	uv_timer_again(&st->rig.guard);
	if (meanwhile == RESTARTS) {
		rig_close(&st->rig);
		assert_int_equal(rig_open(&st->rig), 0);
	} else if (meanwhile == KILLS) {
		kill_server(st);
	}
	while (meanwhile == LEAVES_MEMORY && session_table_count_live(st->rig.table)) {
		uv_run(&st->rig.loop, UV_RUN_ONCE);
		session_table_end_tick(st->rig.table);
	}
}

static int setup_unwatched(void **state)
{
	struct stage *st = xcalloc(1, sizeof(*st));
	rig_init(&st->rig);
	st->rig.limits.evict_ms = 1;
	assert_int_equal(rig_open(&st->rig), 0);
	*state = st;
	return 0;
}

static int setup_watched(void **state)
{
	stage_setup_on_disk(state);
	stage_watch(*state);
	return 0;
}

struct habit {
	const char *reports[12];
	const char *total;
	uint64_t events; /* of these reports, those that changed the total */
};

/** Reports with something in between each time: whatever it is, it changes nothing. */
static void run_habit(struct stage *st, const struct habit *habit)
{
	for (enum meanwhile meanwhile = NOTHING; meanwhile < MEANWHILE_COUNT; meanwhile++) {
		uint64_t events = 0;
		for (size_t i = 0; habit->reports[i]; i++) {
			uint64_t seq = report(rig_session(&st->rig, "s"), habit->reports[i]);
			events += seq != 0;
			assert_true(!seq || seq == events);
			let_come(st, meanwhile);
		}
		expect_total(st, habit->total);
		assert_int_equal(events, habit->events);
		assert_int_equal(session_channel(rig_session(&st->rig, "s"))->max_seq, events);
		assert_int_equal(session_delete(rig_session(&st->rig, "s")), 0);
		rig_settle(&st->rig);
	}
}

#define DELTA(in, out) "{\"mode\":\"delta\",\"input\":" #in ",\"output\":" #out "}"
#define CUM(in, out)   "{\"mode\":\"cumulative\",\"input\":" #in ",\"output\":" #out "}"
#define MSG(id, in, out)                                                               \
	"{\"mode\":\"cumulative_in_message\",\"message_id\":\"" id "\",\"input\":" #in \
	",\"output\":" #out "}"

static void each_call_by_itself(void **state)
{
	run_habit(*state, &(struct habit){{DELTA(1200, 85), DELTA(900, 40), DELTA(0, 0),
						  DELTA(900, 40), DELTA(1500, 120)},
				  "{\"input\":4500,\"output\":285}", 4});
}

static void cumulative_within_a_message_and_repeated(void **state)
{
	run_habit(*state,
		&(struct habit){
			{MSG("m1", 1200, 1), MSG("m1", 1200, 40), MSG("m1", 1200, 85),
				MSG("m1", 1200, 85), MSG("m2", 900, 10), MSG("m1", 1200, 85),
				MSG("m2", 900, 40), MSG("m1", 0, 0), MSG("m2", 900, 40)},
			"{\"input\":2100,\"output\":125}", 5});
}

static void cumulative_late_and_out_of_order(void **state)
{
	run_habit(*state, &(struct habit){{CUM(1200, 85), CUM(2700, 165), CUM(2100, 125), CUM(0, 0),
						  CUM(2700, 165), CUM(3600, 245), CUM(2700, 165)},
				  "{\"input\":3600,\"output\":245}", 3});
}

static void models_and_costs(void **state)
{
	run_habit(*state,
		&(struct habit){
			{"{\"used\":1834,\"size\":200000}",
				"{\"mode\":\"delta\",\"model\":\"a\",\"t\":5}",
				"{\"mode\":\"cumulative\",\"used\":0,\"cost\":{\"amount\":0.0125,"
				"\"currency\":\"USD\"}}",
				"{\"mode\":\"delta\",\"model\":\"b\",\"t\":2,\"cost\":{"
				"\"amount\":0.1,\"currency\":\"USD\"}}"},
			"{\"used\":1834,\"size\":200000,\"t\":7,\"cost\":{\"amount\":0.1,"
			"\"currency\":"
			"\"USD\"},\"models\":{\"a\":{\"t\":5},\"b\":{\"t\":2,\"cost\":{\"amount\":"
			"0.1,"
			"\"currency\":\"USD\"}}}}",
			4});
}

/** A process that was started anew counts from 0, one that was resumed may count on. */
static void an_agent_that_starts_is_another_source(void **state)
{
	struct stage *st = *state;
	for (enum meanwhile meanwhile = NOTHING; meanwhile < MEANWHILE_COUNT; meanwhile++) {
		rig_put(rig_session(&st->rig, "s"), "agent_started", "{}");
		report(rig_session(&st->rig, "s"), CUM(100, 1));
		rig_put(rig_session(&st->rig, "s"), "agent_stopped", "{\"reason\":\"exit\"}");
		let_come(st, meanwhile);
		rig_put(rig_session(&st->rig, "s"), "agent_started", "{\"resumed\":false}");
		rig_put(rig_session(&st->rig, "s"), "agent_stopped", "{\"reason\":\"exit\"}");
		let_come(st, meanwhile);
		report(rig_session(&st->rig, "s"), CUM(130, 1));
		expect_total(st, "{\"input\":230,\"output\":2}");
		rig_put(rig_session(&st->rig, "s"), "agent_started", "{\"resumed\":true}");
		rig_put(rig_session(&st->rig, "s"), "agent_stopped", "{\"reason\":\"exit\"}");
		let_come(st, meanwhile);
		report(rig_session(&st->rig, "s"), CUM(150, 1));
		expect_total(st, "{\"input\":250,\"output\":2}");
		session_delete(rig_session(&st->rig, "s"));
		rig_settle(&st->rig);
	}
}

static void append_one(struct rig *rig, const char *event)
{
	struct append_ack acks[ACKS_MAX];
	struct refusal refusal = {0};
	struct buffer events = {0};
	buffer_printf(&events, "[%s]", event);
	if (append(rig_session(rig, "s"), buffer_cstr(&events), acks, &refusal) < 0) {
		fail_msg("%s: %s", event, refusal.message);
	}
	buffer_finish(&events);
}

#define RUN(id)          "{\"type\":\"run_start\",\"data\":{\"run_id\":\"" id "\"}}"
#define IN_RUN(id, data) "{\"type\":\"usage\",\"run_id\":\"" id "\",\"data\":" data "}"

/** A producer that comes back to its run counts on in it. */
static void a_run_is_another_source(void **state)
{
	struct stage *st = *state;
	for (enum meanwhile meanwhile = NOTHING; meanwhile < MEANWHILE_COUNT; meanwhile++) {
		append_one(&st->rig, RUN("a"));
		append_one(&st->rig, IN_RUN("a", CUM(100, 1)));
		let_come(st, meanwhile);
		append_one(&st->rig, RUN("a"));
		append_one(&st->rig, IN_RUN("a", CUM(110, 1)));
		let_come(st, meanwhile);
		expect_total(st, "{\"input\":110,\"output\":1}");
		append_one(&st->rig, RUN("b"));
		let_come(st, meanwhile);
		append_one(&st->rig, IN_RUN("b", CUM(120, 1)));
		expect_total(st, "{\"input\":230,\"output\":2}");
		session_delete(rig_session(&st->rig, "s"));
		rig_settle(&st->rig);
	}
}

/* --- what observers see --- */

static json_t *event_of(struct stage *st, size_t index)
{
	const json_t *frame = fake_socket_newest(&st->socket, "events");
	return json_array_get(json_object_get(frame, "events"), index);
}

static void assert_data(const json_t *event, const char *want)
{
	char *data = json_dumps(json_object_get(event, "data"), JSON_COMPACT);
	assert_json(data, want);
	free(data);
}

/** Its event waits for the end of the list; the state tells at once. */
static void a_report_is_held_mid_block(void **state)
{
	struct stage *st = *state;
	rig_say(st->session, "- a\n");
	assert_int_equal(report(st->session, CUM(7, 0)), 2);
	expect_total(st, "{\"input\":7,\"output\":0}");
	fake_socket_expect(&st->socket, "activity 2 usage; state running; delta 1 - a\n");
	assert_int_equal(report(st->session, CUM(7, 0)), 0);
	rig_settle(&st->rig);
	fake_socket_expect(&st->socket, "");
	assert_int_equal(report(st->session, "{\"mode\":\"delta\",\"model\":\"x\",\"input\":9,"
					     "\"tier\":\"y\"}"),
		3);
	rig_say(st->session, "- b\n\nText");
	rig_settle(&st->rig);
	assert_data(event_of(st, 1), "{\"mode\":\"cumulative\",\"input\":7,\"output\":0,\"total\":{"
				     "\"input\":7,\"output\":0}}");
	assert_data(event_of(st, 2), "{\"mode\":\"delta\",\"model\":\"x\",\"input\":9,\"tier\":"
				     "\"y\",\"total\":{\"input\":9,\"output\":0}}");
}

/** No event, no number, and text that is open stays so. */
static void what_changes_nothing_is_not_shown(void **state)
{
	struct stage *st = *state;
	report(st->session, CUM(7, 3));
	rig_settle(&st->rig);
	fake_socket_expect(&st->socket, "events 1-1; state idle");
	rig_say(st->session, "A paragraph\n");
	rig_settle(&st->rig);
	fake_socket_expect(&st->socket, "state running; delta 2 A paragraph\n");
	report(st->session, CUM(7, 3));
	report(st->session, CUM(0, 0));
	report(st->session, CUM(6, 2));
	report(st->session, "{\"note\":\"no figure\"}");
	rig_settle(&st->rig);
	fake_socket_expect(&st->socket, "");
	assert_int_equal(report(st->session, CUM(7, 4)), 3);
	rig_settle(&st->rig);
	fake_socket_expect(&st->socket, "events 2-3; state running");
}

static void observers_that_come_back_see_the_total(void **state)
{
	static const char *const reports[] = {
		CUM(5, 1), CUM(9, 2), CUM(5, 1), CUM(0, 0), CUM(11, 2)};
	static const char *const totals[] = {"{\"input\":5,\"output\":1}",
		"{\"input\":9,\"output\":2}", "{\"input\":9,\"output\":2}",
		"{\"input\":9,\"output\":2}", "{\"input\":11,\"output\":2}"};
	struct stage *st = *state;
	for (size_t i = 0; i < sizeof(reports) / sizeof(reports[0]); i++) {
		report(st->session, reports[i]);
		rig_settle(&st->rig);
		fake_socket_finish(&st->socket);
		stage_watch(st);
		const json_t *frame = fake_socket_newest(&st->socket, "state");
		char *usage = json_dumps(json_object_get(frame, "usage"), 0);
		assert_json(usage, totals[i]);
		free(usage);
	}
	stage_restart(st);
	expect_total(st, totals[4]);
}

/* --- refusals --- */

static void assert_refused(struct stage *st, const char *events, enum error_code code)
{
	struct append_ack acks[ACKS_MAX];
	struct refusal refusal = {0};
	assert_true(append(st->session, events, acks, &refusal) < 0);
	assert_int_equal(refusal.code, code);
	expect_total(st, "null");
	assert_int_equal(session_channel(st->session)->max_seq, 0);
}

#define USAGE(data) "{\"type\":\"usage\",\"data\":" data "}"
#define TWELVE(p)                                                                                  \
	"{\"mode\":\"delta\",\"" p "0\":1,\"" p "1\":1,\"" p "2\":1,\"" p "3\":1,\"" p             \
	"4\":1,\"" p "5\":1,\"" p "6\":1,\"" p "7\":1,\"" p "8\":1,\"" p "9\":1,\"" p "a\":1,\"" p \
	"b\":1}"

/* A source at 4, and another at 3 that reports 3 once more: the check expects the worst of it. */
#define N3      "{\"mode\":\"cumulative\",\"n\":3000000000000000}"
#define N4      "{\"mode\":\"cumulative\",\"n\":4000000000000000}"
#define STARTED "{\"type\":\"agent_started\",\"data\":{}}"

static void bad_reports_are_refused(void **state)
{
	struct stage *st = *state;
	assert_refused(st, "[" USAGE("{\"input\":7}") "]", ERROR_bad_request);
	assert_refused(st, "[" USAGE("{\"mode\":\"delta\",\"input\":-7}") "]", ERROR_bad_request);
	assert_refused(st, "[" USAGE("{\"mode\":\"delta\",\"total\":{}}") "]", ERROR_bad_request);
	assert_refused(st, "[" USAGE("{\"mode\":\"cumulative_in_message\",\"input\":7}") "]",
		ERROR_bad_request);
	/* Each fits by itself, but a batch is taken whole or not at all. */
	assert_refused(st,
		"[" USAGE(TWELVE("a")) "," USAGE(TWELVE("b")) "," USAGE(
			"{\"mode\":\"delta\",\"c\":1}") "]",
		ERROR_too_large);
	assert_refused(
		st, "[" USAGE(N4) "," STARTED "," USAGE(N3) "," USAGE(N3) "]", ERROR_too_large);
	assert_refused(st,
		"[" RUN("a") "," IN_RUN("a", N4) "," RUN("b") "," IN_RUN("b", N3) "," IN_RUN(
			"b", N3) "]",
		ERROR_too_large);
	json_t *data = json_pack("{s:s, s:i}", "mode", "delta", "n", -1);
	assert_int_equal(
		intake_event(st->session, "usage", data, "{\"mode\":\"delta\",\"n\":-1}"), -EINVAL);
	json_decref(data);
	/* An event's own message_id counts. */
	struct append_ack acks[ACKS_MAX];
	struct refusal refusal;
	assert_int_equal(
		append(st->session,
			"[{\"type\":\"usage\",\"message_id\":\"m\",\"data\":{\"mode\":"
			"\"cumulative_in_message\",\"n\":7}},{\"type\":\"usage\",\"message_"
			"id\":\"m\",\"data\":{\"mode\":\"cumulative_in_message\",\"n\":7}}]",
			acks, &refusal),
		0);
	assert_int_equal(acks[0].seq, 1);
	assert_int_equal(acks[1].seq, 0);
	expect_total(st, "{\"n\":7}");
}

/* --- the disk --- */

/** Until the first part of what is said is on disk, it may still be refused. */
static void a_failed_write_takes_the_total_back(void **state)
{
	struct stage *st = *state;
	struct rlimit was;
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &was);
	report(st->session, "{\"mode\":\"delta\",\"n\":5}");
	/* What it is taken back to is in the journal, then in memory only. */
	for (int i = 0; i < 2; i++) {
		rig_settle(&st->rig);
		setrlimit(
			RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = 100, .rlim_max = was.rlim_max});
		report(st->session, "{\"mode\":\"delta\",\"n\":7}");
		rig_settle(&st->rig);
		rig_expect_told(&st->rig, "store failed: File too large");
		expect_total(st, i ? "{\"n\":12}" : "{\"n\":5}");
		setrlimit(RLIMIT_FSIZE, &was);
		rig_wait_for_store(&st->rig);
		rig_expect_told(&st->rig, "store revived");
		assert_int_equal(report(st->session, "{\"mode\":\"delta\",\"n\":7}"), 2 + i);
		expect_total(st, i ? "{\"n\":19}" : "{\"n\":12}");
		stage_restart(st);
		expect_total(st, i ? "{\"n\":19}" : "{\"n\":12}");
	}
}

static void fill_segments(struct rig *rig, int batches)
{
	char data[600];
	snprintf(data, sizeof(data), "{\"text\":\"%0500d\"}", 0);
	for (int i = 0; i < batches; i++) {
		rig_put(rig_session(rig, "other"), "x-note", data);
		rig_settle(rig);
	}
}

/** Segments go once the logs have what they tell; a total that no log has goes on with the next. */
static void the_total_outlives_the_journal(void **state)
{
	struct stage *st = *state;
	char data[4100];
	kill_server(st);
	rig_close(&st->rig);
	st->rig.limits.segment_size = 4096;
	st->rig.limits.evict_ms = RIG_NEVER;
	assert_int_equal(rig_open(&st->rig), 0);
	report(rig_session(&st->rig, "s"), CUM(5, 1));
	fill_segments(&st->rig, 40);
	/* This time the segment ends with the very batch that has the report. */
	report(rig_session(&st->rig, "s"), CUM(9, 2));
	snprintf(data, sizeof(data), "{\"text\":\"%04000d\"}", 0);
	rig_put(rig_session(&st->rig, "other"), "x-note", data);
	fill_segments(&st->rig, 2);
	kill_server(st);
	expect_total(st, "{\"input\":9,\"output\":2}");
	assert_int_equal(report(rig_session(&st->rig, "s"), CUM(9, 2)), 0);
}

/** Puts the journal of an earlier copy in the place of the one that the server has. */
static void lose_end_of_journal(struct stage *st, const char *earlier)
{
	struct buffer from = {0};
	struct buffer to = {0};
	rig_settle(&st->rig);
	char *dir = rig_copy_dir(st->rig.dir);
	buffer_printf(&from, "%s/journal", earlier);
	buffer_printf(&to, "%s/journal", dir);
	rig_remove_dir(buffer_cstr(&to));
	assert_int_equal(rename(buffer_cstr(&from), buffer_cstr(&to)), 0);
	rig_remove_dir(earlier);
	rig_finish(&st->rig);
	rig_init_on(&st->rig, dir);
	st->rig.owns_dir = true;
	assert_int_equal(rig_open(&st->rig), 0);
	free(dir);
	buffer_finish(&from);
	buffer_finish(&to);
}

/** Without fdatasync the power may take it: the later of what is left counts. */
static void of_two_totals_the_later_one_counts(void **state)
{
	struct stage *st = *state;
	for (int has_metadata = 0; has_metadata < 2; has_metadata++) {
		report(rig_session(&st->rig, "s"), CUM(5, 1));
		rig_settle(&st->rig);
		char *earlier = rig_copy_dir(st->rig.dir);
		rig_say(rig_session(&st->rig, "s"), "Text");
		report(rig_session(&st->rig, "s"), CUM(9, 2));
		if (has_metadata) {
			rig_put(rig_session(&st->rig, "s"), "turn_end", "{}");
		}
		lose_end_of_journal(st, earlier);
		free(earlier);
		assert_int_equal(
			session_channel(rig_session(&st->rig, "s"))->max_seq, has_metadata ? 4 : 3);
		expect_total(st,
			has_metadata ? "{\"input\":9,\"output\":2}" : "{\"input\":5,\"output\":1}");
		session_delete(rig_session(&st->rig, "s"));
		rig_settle(&st->rig);
	}
}

int main(void)
{
#define TEST(setup, name) cmocka_unit_test_setup_teardown(name, setup, stage_teardown)
	const struct CMUnitTest tests[] = {
		TEST(setup_unwatched, each_call_by_itself),
		TEST(setup_unwatched, cumulative_within_a_message_and_repeated),
		TEST(setup_unwatched, cumulative_late_and_out_of_order),
		TEST(setup_unwatched, models_and_costs),
		TEST(setup_unwatched, an_agent_that_starts_is_another_source),
		TEST(setup_unwatched, a_run_is_another_source),
		TEST(setup_watched, a_report_is_held_mid_block),
		TEST(setup_watched, what_changes_nothing_is_not_shown),
		TEST(setup_watched, observers_that_come_back_see_the_total),
		TEST(setup_watched, bad_reports_are_refused),
		TEST(setup_watched, a_failed_write_takes_the_total_back),
		TEST(setup_unwatched, the_total_outlives_the_journal),
		TEST(setup_unwatched, of_two_totals_the_later_one_counts),
	};
	return cmocka_run_group_tests_name("session usage", tests, NULL, NULL);
}
