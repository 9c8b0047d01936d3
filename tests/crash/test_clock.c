/*
 * The wall clock is set, the machine sleeps, the server is started again meanwhile: nothing waits
 * for it, no ts goes back, and nothing is pruned that is young.
 */
#include "reading.h"
#include "core/session/session_internal.h"
#include "core/store/store_internal.h"

#include "holdfast/sealed_line.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define HOUR_MS ((int64_t)3600000)
#define DAY_MS  (24 * HOUR_MS)
/* Timeouts that no test comes to by itself, but by the clock. */
#define TIMEOUT_MS (2 * HOUR_MS)

static int setup(void **state)
{
	struct rig *rig = xcalloc(1, sizeof(*rig));
	rig_init(rig);
	rig->limits.prune_ms = RIG_NEVER;
	rig->limits.prune_size = 1;
	rig->limits.hot_tail_size = 1 << 20;
	rig->clock.boot_id = "first";
	*state = rig;
	return 0;
}

static int teardown(void **state)
{
	rig_finish(*state);
	free(*state);
	return 0;
}

static void open_rig(struct rig *rig)
{
	assert_int_equal(rig_open(rig), 0);
}

/** As after kill -9: what is on disk now is what the next start finds. */
static void kill_rig(struct rig *rig)
{
	char *dir = rig_copy_dir(rig->dir);
	rig_close(rig);
	rig_remove_dir(rig->dir);
	assert_int_equal(rename(dir, rig->dir), 0);
	free(dir);
}

static int64_t ts_of(struct rig *rig, struct session *session, uint64_t seq)
{
	struct buffer text = {0};
	assert_int_equal(reading_page(rig, session, seq, seq, &text), 1);
	const char *at = strstr(buffer_cstr(&text), "\"ts\":");
	assert_non_null(at);
	int64_t ts = strtoll(at + 5, NULL, 10);
	buffer_finish(&text);
	return ts;
}

static void put_notes(struct session *session, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		rig_put(session, "x-note", "{}");
	}
}

static void prune(struct rig *rig)
{
	rig_settle(rig);
	store_prune(rig->table->store);
	rig_settle(rig);
}

static uint64_t first_seq(struct rig *rig, const char *id)
{
	return session_log_first_seq(rig_session(rig, id)->log);
}

static uint64_t max_seq(struct rig *rig, const char *id)
{
	return session_channel(rig_session(rig, id))->max_seq;
}

/* --- timers --- */

/** An open list, and a tool call that is held behind it. */
static void hold(struct rig *rig, struct session *session)
{
	rig_say(session, "- one\n- two\n");
	rig_put(session, "tool_call", "{\"tool_call_id\":\"t\",\"title\":\"T\"}");
	rig_settle(rig);
	assert_int_equal(session_channel(session)->max_seq, 0);
}

static void time_goes_by(struct rig *rig, int64_t ms)
{
	rig_pass(rig, ms);
	session_table_clock_changed(rig->table);
}

/** Not before its timeout, and then at once. */
static void expect_timeout(struct rig *rig, struct session *session, int64_t left)
{
	time_goes_by(rig, left - 60000);
	rig_turn(rig);
	rig_settle(rig);
	assert_int_equal(session_channel(session)->max_seq, 0);
	time_goes_by(rig, 60000);
	rig_wait_for_seq(rig, session, 2);
}

/** Set by so much while the server was down, or in front of its eyes. */
static void the_clock_is_set_while_something_is_held(struct rig *rig, int64_t ms, bool at_restart)
{
	rig_set_timeouts(rig, TIMEOUT_MS);
	open_rig(rig);
	struct session *session = rig_session(rig, "s");
	hold(rig, session);
	if (at_restart) {
		kill_rig(rig);
		rig_set_clock(rig, ms);
		open_rig(rig);
		session = rig_session(rig, "s");
		rig_settle(rig);
	} else {
		rig_set_clock(rig, ms);
		session_table_clock_changed(rig->table);
	}
	expect_timeout(rig, session, TIMEOUT_MS);
}

static void set_back_at_a_restart(void **state)
{
	the_clock_is_set_while_something_is_held(*state, -HOUR_MS, true);
}

static void set_ahead_at_a_restart(void **state)
{
	the_clock_is_set_while_something_is_held(*state, 30 * HOUR_MS, true);
}

static void set_back_meanwhile(void **state)
{
	the_clock_is_set_while_something_is_held(*state, -40 * HOUR_MS, false);
}

static void set_ahead_meanwhile(void **state)
{
	the_clock_is_set_while_something_is_held(*state, 40 * HOUR_MS, false);
}

/** Once more, with other inputs that keep coming while the wall clock is behind. */
static void what_is_held_goes_out_although_more_comes(void **state)
{
	struct rig *rig = *state;
	rig_set_timeouts(rig, TIMEOUT_MS);
	open_rig(rig);
	struct session *session = rig_session(rig, "s");
	hold(rig, session);
	rig_set_clock(rig, -10 * HOUR_MS);
	for (int i = 0; i < 4; i++) {
		time_goes_by(rig, TIMEOUT_MS / 4);
		if (i < 3) {
			rig_put(session, "tool_call_update", "{\"tool_call_id\":\"t\"}");
			rig_settle(rig);
			assert_int_equal(session_channel(session)->max_seq, 0);
		}
	}
	rig_wait_for_seq(rig, session, 5);
}

/** A timer has left at a start what it had left when the server was killed. */
static void what_is_left_of_a_timer_stays(void **state)
{
	struct rig *rig = *state;
	rig_set_timeouts(rig, TIMEOUT_MS);
	open_rig(rig);
	struct session *session = rig_session(rig, "s");
	rig_say(session, "- one\n- two\n");
	rig_put(session, "tool_call", "{\"tool_call_id\":\"t\",\"title\":\"T\"}");
	time_goes_by(rig, TIMEOUT_MS / 2);
	rig_put(session, "tool_call_update", "{\"tool_call_id\":\"t\"}");
	rig_settle(rig);
	kill_rig(rig);
	rig_pass(rig, 5 * DAY_MS); /* nobody was there to cut anything */
	open_rig(rig);
	session = rig_session(rig, "s");
	expect_timeout(rig, session, TIMEOUT_MS / 2);
}

static void timers_count_a_suspend(void **state)
{
	struct rig *rig = *state;
	rig_set_timeouts(rig, TIMEOUT_MS);
	open_rig(rig);
	struct session *session = rig_session(rig, "s");
	hold(rig, session);
	time_goes_by(rig, 8 * HOUR_MS);
	rig_wait_for_seq(rig, session, 2);
	uint64_t seq = rig_put(session, "x-note", "{}");
	rig_settle(rig);
	int64_t behind = clock_now_ms(&rig->clock) - ts_of(rig, session, seq);
	assert_in_range(behind, 0, 60000);
	assert_true(ts_of(rig, session, seq) - ts_of(rig, session, 1) >= 8 * HOUR_MS);
}

/* --- ts --- */

static void no_ts_goes_back(void **state)
{
	static const int64_t sets[] = {-HOUR_MS, -DAY_MS, 3 * DAY_MS, 60000, -30 * DAY_MS};
	struct rig *rig = *state;
	open_rig(rig);
	int64_t last = session_log_created_at(rig_session(rig, "s")->log);
	uint64_t seq = 0;
	for (size_t i = 0; i < 2 * sizeof(sets) / sizeof(sets[0]); i++) {
		struct session *session = rig_session(rig, "s");
		rig_set_clock(rig, sets[i / 2]);
		if (i & 1) {
			kill_rig(rig);
			open_rig(rig);
			session = rig_session(rig, "s");
		}
		int64_t now = clock_now_ms(&rig->clock);
		seq = rig_put(session, "x-note", "{}");
		rig_settle(rig);
		int64_t ts = ts_of(rig, session, seq);
		assert_true(ts >= last && ts >= now);
		assert_true(ts - last < 60000 || ts - now < 60000);
		last = ts;
	}
	/* One that was made now has nothing to do with the other's past. */
	seq = rig_put(rig_session(rig, "t"), "x-note", "{}");
	rig_settle(rig);
	int64_t behind = clock_now_ms(&rig->clock) - ts_of(rig, rig_session(rig, "t"), seq);
	assert_in_range(behind, 0, 60000);
}

/* --- age --- */

/** Forty days later, by wall clock and truth, all of it is old. */
static void expect_pruned_in_the_end(struct rig *rig, const char *id, int64_t ms)
{
	rig_pass(rig, ms);
	prune(rig);
	assert_int_equal(first_seq(rig, id), max_seq(rig, id) + 1);
}

/** It is noticed while the server runs, or at its next start. */
static void started_behind(struct rig *rig, bool is_noticed, bool is_killed)
{
	open_rig(rig);
	put_notes(rig_session(rig, "old"), 10);
	rig_settle(rig);
	rig_close(rig);
	rig_pass(rig, 32 * DAY_MS);
	rig->clock.boot_id = "second";
	rig_set_clock(rig, -40 * DAY_MS);
	open_rig(rig);
	put_notes(rig_session(rig, "s"), 10);
	put_notes(rig_session(rig, "old"), 10);
	rig_settle(rig);
	rig_set_clock(rig, is_noticed ? 40 * DAY_MS : 0);
	put_notes(rig_session(rig, "s"), 10);
	rig_settle(rig);
	if (is_killed) {
		kill_rig(rig);
	} else {
		rig_close(rig);
	}
	rig_set_clock(rig, is_noticed ? 0 : 40 * DAY_MS);
	rig->limits.keep_days = 30;
	open_rig(rig);
	put_notes(rig_session(rig, "s"), 10);
	prune(rig);
	assert_int_equal(first_seq(rig, "s"), 1);
	/* When those before this boot were received cannot be told from the others any more. */
	assert_in_range(first_seq(rig, "old"), 1, 11);
	rig_pass(rig, 29 * DAY_MS);
	prune(rig);
	assert_int_equal(first_seq(rig, "s"), 1);
	assert_in_range(first_seq(rig, "old"), 1, 11);
	expect_pruned_in_the_end(rig, "s", 2 * DAY_MS);
	expect_pruned_in_the_end(rig, "old", 40 * DAY_MS);
}

static void set_right_while_it_ran(void **state)
{
	started_behind(*state, true, false);
}

static void set_right_while_it_ran_and_killed(void **state)
{
	started_behind(*state, true, true);
}

static void set_right_while_it_was_down(void **state)
{
	started_behind(*state, false, false);
}

static void set_right_while_it_was_down_and_killed(void **state)
{
	started_behind(*state, false, true);
}

/** Somebody errs, by a year, and notices. */
static void set_ahead_and_back(void **state)
{
	struct rig *rig = *state;
	rig->limits.keep_days = 30;
	open_rig(rig);
	put_notes(rig_session(rig, "s"), 10);
	rig_settle(rig);
	rig_set_clock(rig, 365 * DAY_MS);
	prune(rig);
	rig_pass(rig, DAY_MS);
	prune(rig);
	assert_int_equal(first_seq(rig, "s"), 1);
	put_notes(rig_session(rig, "ahead"), 10);
	rig_settle(rig);
	rig_pass(rig, 1000);
	put_notes(rig_session(rig, "ahead"), 1);
	rig_settle(rig);
	rig_set_clock(rig, -365 * DAY_MS);
	prune(rig);
	rig_pass(rig, 27 * DAY_MS);
	put_notes(rig_session(rig, "ahead"), 5);
	prune(rig);
	assert_int_equal(first_seq(rig, "s"), 1);
	assert_int_equal(first_seq(rig, "ahead"), 1);
	kill_rig(rig);
	rig_pass(rig, 4 * DAY_MS);
	open_rig(rig);
	prune(rig);
	assert_int_equal(first_seq(rig, "s"), 11);
	/* The newest ts that it was given then, those after it were given too: they are young. */
	assert_int_equal(first_seq(rig, "ahead"), 11);
	/* Once the wall clock has come there, ages are as it tells. */
	rig_pass(rig, 365 * DAY_MS);
	prune(rig);
	expect_pruned_in_the_end(rig, "ahead", 31 * DAY_MS);
}

/** Without NTP nothing goes until the clocks have agreed for an hour. */
static void an_hour_of_agreement(void **state)
{
	struct rig *rig = *state;
	open_rig(rig);
	put_notes(rig_session(rig, "s"), 10);
	rig_settle(rig);
	rig_close(rig);
	rig_pass(rig, 8 * DAY_MS);
	rig->clock.boot_id = "second";
	rig->clock.sync = CLOCK_SYNC_NO;
	rig->limits.keep_days = 7;
	open_rig(rig);
	prune(rig);
	assert_int_equal(first_seq(rig, "s"), 1);
	rig_pass(rig, HOUR_MS - 60000);
	prune(rig);
	assert_int_equal(first_seq(rig, "s"), 1);
	rig_set_clock(rig, 2 * HOUR_MS);
	prune(rig);
	rig_pass(rig, HOUR_MS - 60000);
	prune(rig);
	assert_int_equal(first_seq(rig, "s"), 1);
	/* What is no step does not count. */
	rig_set_clock(rig, 60000);
	rig_pass(rig, 60000);
	prune(rig);
	assert_int_equal(first_seq(rig, "s"), 11);
}

static void told_by_ntp(void **state)
{
	struct rig *rig = *state;
	open_rig(rig);
	put_notes(rig_session(rig, "s"), 10);
	rig_settle(rig);
	rig_close(rig);
	rig_pass(rig, 8 * DAY_MS);
	rig->clock.sync = CLOCK_SYNC_NO;
	rig->limits.keep_days = 7;
	rig->limits.keep_events = 5;
	open_rig(rig);
	prune(rig);
	assert_int_equal(first_seq(rig, "s"), 6); /* their number is no matter of the clock */
	rig->clock.sync = CLOCK_SYNC_YES;
	prune(rig);
	assert_int_equal(first_seq(rig, "s"), 11);
}

/* --- clock.json --- */

static void write_clock(struct rig *rig, const char *text)
{
	struct buffer path = {0};
	buffer_printf(&path, "%s/clock.json", rig->dir);
	FILE *file = fopen(buffer_cstr(&path), "we");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	buffer_finish(&path);
}

static void read_clock(struct rig *rig, struct buffer *out)
{
	struct buffer path = {0};
	buffer_printf(&path, "%s/clock.json", rig->dir);
	FILE *file = fopen(buffer_cstr(&path), "re");
	assert_non_null(file);
	buffer_reserve(out, 4096);
	out->len = fread(out->data, 1, 4096, file);
	fclose(file);
	buffer_finish(&path);
}

static void a_damaged_one_is_made_again(void **state)
{
	struct rig *rig = *state;
	open_rig(rig);
	rig_close(rig);
	struct buffer before = {0};
	struct buffer after = {0};
	struct ages ages;
	read_clock(rig, &before);
	assert_int_equal(ages_parse(before.data, before.len, &ages), 0);
	for (size_t i = 0; i < before.len; i += 5) {
		char was = before.data[i];
		before.data[i] ^= 4;
		assert_int_equal(ages_parse(before.data, before.len, &ages), -EBADMSG);
		before.data[i] = was;
		assert_int_equal(ages_parse(before.data, i, &ages), -EBADMSG);
	}
	write_clock(rig, "{\"format\":1}\n");
	open_rig(rig);
	rig_close(rig);
	read_clock(rig, &after);
	assert_int_equal(ages_parse(after.data, after.len, &ages), 0);
	assert_string_equal(ages.boot_id, "first");
	buffer_finish(&before);
	buffer_finish(&after);
}

/** It is not ours to replace, and what it says of the past is not known. */
static void one_of_a_newer_format_stays(void **state)
{
	struct rig *rig = *state;
	struct buffer line = {0};
	struct buffer after = {0};
	struct ages ages;
	buffer_append_str(&line, "{\"format\":2");
	sealed_line_end(&line, 0);
	assert_int_equal(ages_parse(line.data, line.len, &ages), -ENOTSUP);
	open_rig(rig);
	put_notes(rig_session(rig, "s"), 10);
	rig_settle(rig);
	rig_close(rig);
	write_clock(rig, buffer_cstr(&line));
	rig_pass(rig, 40 * DAY_MS);
	rig->limits.keep_days = 30;
	open_rig(rig);
	prune(rig);
	assert_int_equal(first_seq(rig, "s"), 1);
	rig_close(rig);
	read_clock(rig, &after);
	assert_int_equal(after.len, line.len);
	assert_memory_equal(after.data, line.data, line.len);
	buffer_finish(&line);
	buffer_finish(&after);
}

static void many_steps_are_kept_together(void **state)
{
	struct ages ages;
	struct ages again;
	struct buffer line = {0};
	struct clock clock = {.boot_id = "x"};
	ages_init(&ages, &clock);
	int64_t elapsed = clock_elapsed_ms(&clock);
	int64_t now = ages.offset + elapsed;
	int64_t then = now;
	for (int i = 0; i < 100; i++) {
		now += 3 * HOUR_MS;
		elapsed += HOUR_MS;
		assert_int_equal(ages_see(&ages, now, elapsed), 2 * HOUR_MS);
		assert_true(ages.count <= AGES_STEPS_MAX);
		/* An hour a turn has gone by since. */
		assert_true(ages_true_ts(&ages, then, now) >= now - (i + 1) * HOUR_MS);
	}
	ages_append(&ages, &line);
	assert_int_equal(ages_parse(line.data, line.len, &again), 0);
	struct buffer same = {0};
	ages_append(&again, &same);
	assert_string_equal(buffer_cstr(&same), buffer_cstr(&line));
	buffer_finish(&same);
	buffer_finish(&line);
	(void)state;
}

/** The system's own clocks, and the watch. */
static void the_real_ones(void **state)
{
	struct clock clock;
	char boot_id[CLOCK_BOOT_ID_SIZE];
	clock_init(&clock);
	int64_t elapsed = clock_elapsed_ms(&clock);
	assert_true(clock_now_ms(&clock) > 1700000000000);
	assert_true(clock_elapsed_ms(&clock) >= elapsed);
	clock_get_boot_id(&clock, boot_id);
	assert_true(strlen(boot_id) == 0 || strlen(boot_id) == CLOCK_BOOT_ID_SIZE - 1);
	int fd = clock_watch_open();
	if (fd >= 0) {
		clock_watch_take(fd); /* does not block */
		close(fd);
	}
	(void)state;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(set_back_at_a_restart),
		TEST(set_ahead_at_a_restart),
		TEST(set_back_meanwhile),
		TEST(set_ahead_meanwhile),
		TEST(what_is_held_goes_out_although_more_comes),
		TEST(what_is_left_of_a_timer_stays),
		TEST(timers_count_a_suspend),
		TEST(no_ts_goes_back),
		TEST(set_right_while_it_ran),
		TEST(set_right_while_it_ran_and_killed),
		TEST(set_right_while_it_was_down),
		TEST(set_right_while_it_was_down_and_killed),
		TEST(set_ahead_and_back),
		TEST(an_hour_of_agreement),
		TEST(told_by_ntp),
		TEST(a_damaged_one_is_made_again),
		TEST(one_of_a_newer_format_stays),
		TEST(many_steps_are_kept_together),
		TEST(the_real_ones),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
