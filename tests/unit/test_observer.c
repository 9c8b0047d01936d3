/*
 * Observers: pages, live events, and above all the moment between the two (proto/protocol.md).
 * The client in fake_socket.c checks every frame; these tests see to it that the moments come.
 */
#include "stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

/* --- pages --- */

static void pages_of_a_log(void **state)
{
	struct stage *st = *state;
	stage_fill(st, 12);
	stage_open_socket(st, DELTAS_NONE);
	fake_socket_load(&st->socket, &(struct load_request){.from = LOAD_AFTER, .limit = 5});
	rig_settle(&st->rig);
	fake_socket_expect(&st->socket, "events_loaded 1-5 more");
	struct load_request load = load_after(5, 5, false);
	fake_socket_load(&st->socket, &load);
	rig_settle(&st->rig);
	fake_socket_expect(&st->socket, "events_loaded 6-10 more");
	stage_fill(st, 1);
	fake_socket_expect(&st->socket, ""); /* not live yet */
	load = load_after(10, 5, false);
	fake_socket_load(&st->socket, &load);
	rig_settle(&st->rig);
	fake_socket_expect(&st->socket, "events_loaded 11-13; state idle");
	stage_fill(st, 2);
	fake_socket_expect(&st->socket, "events 14-15");
	load = load_before(4, 2);
	fake_socket_load(&st->socket, &load);
	rig_settle(&st->rig);
	fake_socket_expect(&st->socket, "events_loaded 2-3 more");
	load = load_before(3, 50);
	fake_socket_load(&st->socket, &load);
	rig_settle(&st->rig);
	load = load_before(1, 50);
	fake_socket_load(&st->socket, &load);
	fake_socket_expect(&st->socket, "events_loaded 1-2; events_loaded 0-0");
	stage_fill(st, 1);
	fake_socket_expect(&st->socket, "events 16-16");
}

static void follow_sends_page_after_page(void **state)
{
	struct stage *st = *state;
	stage_fill(st, 11);
	stage_open_socket(st, DELTAS_NONE);
	struct load_request load = load_after(0, 4, true);
	fake_socket_load(&st->socket, &load);
	rig_settle(&st->rig);
	fake_socket_expect(&st->socket,
		"events_loaded 1-4 more; events_loaded 5-8 more; events_loaded 9-11; state idle");
}

static void an_empty_session_is_live_at_once(void **state)
{
	struct stage *st = *state;
	struct fake_socket other;
	stage_open_socket(st, DELTAS_NONE);
	fake_socket_open(&other, st->channel, DELTAS_NONE);
	struct load_request load = load_newest(50);
	fake_socket_load(&st->socket, &load);
	fake_socket_expect(&st->socket, "events_loaded 0-0; state idle");
	load = load_after(0, 50, false);
	fake_socket_load(&other, &load);
	fake_socket_expect(&other, "connected; events_loaded 0-0; state idle");
	stage_fill(st, 1);
	fake_socket_expect(&st->socket, "events 1-1");
	fake_socket_expect(&other, "events 1-1");
	fake_socket_finish(&other);
}

static void the_server_is_always_right(void **state)
{
	struct stage *st = *state;
	stage_fill(st, 5);
	stage_open_socket(st, DELTAS_NONE);
	struct load_request load = load_after(6, 3, true);
	fake_socket_load(&st->socket, &load);
	rig_settle(&st->rig);
	fake_socket_expect(&st->socket, "events_loaded 3-5 more reset ahead; state idle");
	load = load_after(2, 3, false);
	load.has_epoch = true;
	load.epoch = session_log_epoch(st->channel->log) + 1;
	fake_socket_load(&st->socket, &load);
	rig_settle(&st->rig);
	fake_socket_expect(&st->socket, "events_loaded 3-5 more reset epoch; state idle");
	load.epoch--;
	fake_socket_load(&st->socket, &load);
	rig_settle(&st->rig);
	fake_socket_expect(&st->socket, "events_loaded 3-5; state idle");
}

static void a_page_is_bounded_in_bytes(void **state)
{
	struct stage *st = *state;
	st->rig.limits.page_size = 400;
	stage_fill(st, 20);
	stage_open_socket(st, DELTAS_NONE);
	struct load_request load = load_after(0, 50, true);
	fake_socket_load(&st->socket, &load);
	rig_settle(&st->rig);
	assert_int_equal(st->socket.last, 20);
	assert_true(fake_socket_count(&st->socket, "events_loaded") > 5);
	load = load_newest(50);
	fake_socket_load(&st->socket, &load);
	rig_settle(&st->rig);
	uint64_t first = (uint64_t)json_integer_value(
		json_object_get(fake_socket_newest(&st->socket, "events_loaded"), "first_seq"));
	assert_int_equal(st->socket.last, 20);
	assert_true(first > 10);
	load = load_before(first, 50);
	fake_socket_load(&st->socket, &load);
	rig_settle(&st->rig);
	assert_int_equal(json_integer_value(json_object_get(
				 fake_socket_newest(&st->socket, "events_loaded"), "last_seq")),
		first - 1);
}

/* --- the race --- */

/**
 * Where the commit falls: the thread pool has one thread, and does things in the order they came.
 */
enum moment {
	READ_FIRST, /* the read is done, then what came meanwhile is committed */
	COMMIT_FIRST, /* the load has begun, the commit comes before its read is done */
	COMMIT_BETWEEN, /* as the second, and another one right behind the read */
};

static void race(struct stage *st, const struct load_request *load, enum moment moment)
{
	if (moment != READ_FIRST) {
		stage_append(st, 3);
		session_table_end_tick(st->rig.table);
	}
	fake_socket_load(&st->socket, load);
	if (moment != COMMIT_FIRST) {
		stage_append(st, 3);
		session_table_end_tick(st->rig.table);
	}
	rig_settle(&st->rig);
}

/**
 * Runs one interleaving from the start, and says whether the observer has everything and is live.
 */
static void race_anew(
	const struct load_request *load, enum moment moment, size_t hot, enum deltas deltas)
{
	void *state;
	stage_setup_cold(&state);
	struct stage *st = state;
	st->rig.limits.hot_tail_size = hot;
	stage_fill(st, 20);
	fake_socket_open(&st->socket, st->channel, deltas);
	race(st, load, moment);
	if (load->from == LOAD_AFTER && !load->follow && !st->socket.live) {
		/* It was told has_more: it asks for the rest. */
		assert_int_equal(st->socket.last, 20);
		struct load_request rest = load_after(20, 50, false);
		fake_socket_load(&st->socket, &rest);
		rig_settle(&st->rig);
	}
	assert_true(st->socket.live);
	assert_int_equal(st->socket.last, st->channel->max_seq);
	assert_int_equal(st->channel->max_seq, moment == COMMIT_BETWEEN ? 26 : 23);
	stage_fill(st, 2);
	assert_int_equal(st->socket.last, st->channel->max_seq);
	stage_teardown(&state);
}

static void registration_race_sends_missed_events(void **state)
{
	static const enum moment moments[] = {READ_FIRST, COMMIT_FIRST, COMMIT_BETWEEN};
	static const size_t hot_sizes[] = {1, 300, 1 << 20};
	for (size_t m = 0; m < 3; m++) {
		for (size_t h = 0; h < 3; h++) {
			for (enum deltas deltas = DELTAS_NONE; deltas <= DELTAS_HTML; deltas++) {
				struct load_request loads[] = {load_after(0, 50, false),
					load_after(0, 4, true), load_after(13, 7, true),
					load_after(20, 50, false), load_newest(50), load_newest(3)};
				for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++) {
					race_anew(&loads[i], moments[m], hot_sizes[h], deltas);
				}
			}
		}
	}
	(void)state;
}

static const char *open_text(const struct stage *st)
{
	const json_t *page = fake_socket_newest(&st->socket, "events_loaded");
	const char *text =
		json_string_value(json_object_get(json_object_get(page, "open"), "text"));
	return text ? text : "";
}

static void who_comes_late_gets_the_open_text(void **state)
{
	struct stage *st = *state;
	stage_fill(st, 3);
	rig_say(st->session, "- a\n");
	rig_settle(&st->rig);
	stage_open_socket(st, DELTAS_TEXT);
	struct load_request load = load_after(0, 50, false);
	fake_socket_load(&st->socket, &load);
	rig_settle(&st->rig);
	assert_string_equal(open_text(st), "- a\n");
	rig_say(st->session, "- é\n");
	rig_settle(&st->rig);
	fake_socket_expect(&st->socket, "events_loaded 1-3; state running; delta 4 - é\n");
}

/**
 * The page is overtaken, so that it cannot tell the open text: then no part of that text is told.
 */
static void who_was_overtaken_gets_no_half_text(void **state)
{
	struct stage *st = *state;
	stage_fill(st, 20);
	stage_open_socket(st, DELTAS_TEXT);
	stage_append(st, 3);
	rig_say(st->session, "- a\n");
	session_table_end_tick(st->rig.table);
	struct load_request load = load_newest(3);
	fake_socket_load(&st->socket, &load);
	rig_settle(&st->rig);
	assert_string_equal(open_text(st), "");
	rig_say(st->session, "- b\n");
	rig_settle(&st->rig);
	/* Whether the sync or the page comes first: all of the open text, or nothing of it. */
	const char *got = buffer_cstr(&st->socket.log);
	bool has_all = strstr(got, "delta 24 - a") && strstr(got, "delta 24 - b");
	bool was_live = strstr(got, "state idle"); /* before the sync */
	fake_socket_expect(&st->socket,
		has_all && was_live
			? "events_loaded 18-20 more; state idle; delta 24 - a\n; events 21-23; state running; delta 24 - b\n"
		: has_all
			? "events_loaded 18-20 more; delta 24 - a\n; events 21-23; state running; delta 24 - b\n"
			: "events_loaded 18-20 more; events 21-23; state running");
	rig_say(st->session, "\nText");
	rig_settle(&st->rig);
	fake_socket_expect(&st->socket, "delta 25 Text; events 24-24");
}

/**
 * A page of older events is read from disk while live events come: they come after it, all of them.
 */
static void live_events_come_during_a_page_of_older_ones(void **state)
{
	struct stage *st = *state;
	stage_fill(st, 20);
	stage_open_socket(st, DELTAS_NONE);
	struct load_request load = load_newest(3);
	fake_socket_load(&st->socket, &load);
	rig_settle(&st->rig);
	fake_socket_expect(&st->socket, "events_loaded 18-20 more; state idle");
	load = load_before(18, 5);
	stage_append(st, 2);
	session_table_end_tick(st->rig.table);
	fake_socket_load(&st->socket, &load);
	stage_append(st, 2);
	rig_settle(&st->rig);
	fake_socket_expect(&st->socket, "events_loaded 13-17 more; events 21-22; events 23-24");
}

/** The follow load is as long as the log, which grows as it is read. */
static void a_load_that_is_overtaken_again_and_again(void **state)
{
	struct stage *st = *state;
	stage_fill(st, 30);
	stage_open_socket(st, DELTAS_NONE);
	struct load_request load = load_after(0, 5, true);
	fake_socket_load(&st->socket, &load);
	for (int i = 0; i < 20 && !st->socket.live; i++) {
		stage_append(st, 3);
		rig_turn(&st->rig);
	}
	rig_settle(&st->rig);
	assert_true(st->socket.live);
	assert_int_equal(st->socket.last, st->channel->max_seq);
}

static void a_deleted_session_ends_its_loads(void **state)
{
	struct stage *st = *state;
	stage_fill(st, 20);
	stage_open_socket(st, DELTAS_NONE);
	struct load_request load = load_after(0, 50, false);
	session_delete(st->session);
	session_table_end_tick(st->rig.table);
	fake_socket_load(&st->socket, &load);
	rig_settle(&st->rig);
	/* Its read may come before the deletion is on disk, and never after. */
	bool was_first = strstr(buffer_cstr(&st->socket.log), "events_loaded");
	fake_socket_expect(&st->socket,
		was_first ? "events_loaded 1-20; state idle; session_gone" : "session_gone");
	assert_int_equal(st->socket.closed, 4404);
	assert_int_equal(session_table_count(st->rig.table), 0);
	rig_expect_told(&st->rig, "deleted s");
}

static void a_closed_observer_forgets_its_read(void **state)
{
	struct stage *st = *state;
	stage_fill(st, 20);
	stage_open_socket(st, DELTAS_NONE);
	struct load_request load = load_after(0, 50, false);
	fake_socket_load(&st->socket, &load);
	observer_destroy(st->socket.observer);
	st->socket.observer = NULL;
	rig_settle(&st->rig);
	fake_socket_expect(&st->socket, "");
}

static void a_new_load_takes_the_place_of_the_old(void **state)
{
	struct stage *st = *state;
	stage_fill(st, 20);
	stage_open_socket(st, DELTAS_NONE);
	struct load_request load = load_after(0, 5, true);
	fake_socket_load(&st->socket, &load);
	load = load_newest(4);
	fake_socket_load(&st->socket, &load);
	rig_settle(&st->rig);
	fake_socket_expect(&st->socket, "events_loaded 17-20 more; state idle");
}

/**
 * Scrolling up while the newest is still being loaded must not leave the page without live events.
 */
static void a_page_of_older_events_interrupts_a_load(void **state)
{
	struct stage *st = *state;
	stage_fill(st, 20);
	stage_open_socket(st, DELTAS_NONE);
	struct load_request load = load_after(10, 5, true);
	fake_socket_load(&st->socket, &load);
	load = load_before(11, 3);
	fake_socket_load(&st->socket, &load);
	load = load_before(8, 2);
	fake_socket_load(&st->socket, &load);
	rig_settle(&st->rig);
	fake_socket_expect(&st->socket,
		"events_loaded 6-7 more; events_loaded 11-15 more; events_loaded 16-20; state idle");
}

/** Spoils the line of an event in the file. */
static void spoil(const struct stage *st, uint64_t seq)
{
	char path[256];
	char name[32];
	char *line = NULL;
	size_t size = 0;
	long at = 0;
	ssize_t len;
	snprintf(path, sizeof(path), "%s/sessions/s/events.jsonl", st->rig.dir);
	snprintf(name, sizeof(name), "{\"seq\":%llu,", (unsigned long long)seq);
	FILE *file = fopen(path, "r+");
	assert_non_null(file);
	while ((len = getline(&line, &size, file)) > 0 && strncmp(line, name, strlen(name)) != 0) {
		at += len;
	}
	assert_true(len > 0);
	assert_int_equal(fseek(file, at + len / 2, SEEK_SET), 0);
	fputc('#', file);
	assert_int_equal(fclose(file), 0);
	free(line);
}

/** The load goes on at once, and not with the next event. */
static void a_page_that_cannot_be_read_interrupts_a_load(void **state)
{
	struct stage *st = *state;
	stage_fill(st, 20);
	stage_open_socket(st, DELTAS_NONE);
	spoil(st, 9);
	struct load_request load = load_after(10, 5, true);
	fake_socket_load(&st->socket, &load);
	load = load_before(11, 3);
	fake_socket_load(&st->socket, &load);
	rig_settle(&st->rig);
	fake_socket_expect(
		&st->socket, "error; events_loaded 11-15 more; events_loaded 16-20; state idle");
}

/** What was committed while the page was being read comes behind the error. */
static void live_events_come_during_a_page_that_cannot_be_read(void **state)
{
	struct stage *st = *state;
	stage_fill(st, 20);
	stage_open_socket(st, DELTAS_NONE);
	struct load_request load = load_newest(3);
	fake_socket_load(&st->socket, &load);
	rig_settle(&st->rig);
	fake_socket_expect(&st->socket, "events_loaded 18-20 more; state idle");
	spoil(st, 16);
	stage_append(st, 2);
	session_table_end_tick(st->rig.table);
	load = load_before(18, 5);
	fake_socket_load(&st->socket, &load);
	rig_settle(&st->rig);
	fake_socket_expect(&st->socket, "error; events 21-22");
}

/* --- slow sockets --- */

static void a_full_socket_costs_a_cursor(void **state)
{
	struct stage *st = *state;
	stage_fill(st, 10);
	stage_open_socket(st, DELTAS_NONE);
	struct load_request load = load_newest(5);
	fake_socket_load(&st->socket, &load);
	rig_settle(&st->rig);
	fake_socket_expect(&st->socket, "events_loaded 6-10 more; state idle");
	fake_socket_drain(&st->socket, 0);
	for (int i = 0; i < 40; i++) {
		stage_fill(st, 20);
	}
	fake_socket_expect(&st->socket, "");
	assert_true(st->socket.wanted);
	while (st->socket.last < st->channel->max_seq) {
		fake_socket_drain(&st->socket, 1);
		rig_settle(&st->rig);
	}
	fake_socket_expect(&st->socket, "events 11-510; events 511-810");
}

/** The socket fills up while the page is being read: the page waits, and no event is lost. */
static void a_socket_that_fills_during_the_read(void **state)
{
	struct stage *st = *state;
	stage_fill(st, 20);
	stage_open_socket(st, DELTAS_NONE);
	struct load_request load = load_after(0, 8, true);
	fake_socket_load(&st->socket, &load);
	fake_socket_drain(&st->socket, 0);
	stage_append(st, 3);
	rig_settle(&st->rig);
	fake_socket_expect(&st->socket, "");
	while (!st->socket.live || st->socket.last < st->channel->max_seq) {
		assert_true(st->socket.wanted);
		fake_socket_drain(&st->socket, 1);
		rig_settle(&st->rig);
	}
	fake_socket_drain(&st->socket, 1);
	fake_socket_expect(&st->socket,
		"events_loaded 1-8 more; events_loaded 9-16 more; events_loaded 17-23; state idle");
}

static void answers_are_bounded(void **state)
{
	struct stage *st = *state;
	stage_open_socket(st, DELTAS_NONE);
	fake_socket_drain(&st->socket, 0);
	for (size_t i = 0; i < st->rig.limits.outbox_frames; i++) {
		observer_send(st->socket.observer, frame_make("note", "{}", 2));
		assert_int_equal(st->socket.closed, 0);
	}
	observer_send(st->socket.observer, frame_make("note", "{}", 2));
	assert_int_equal(st->socket.closed, 1008);
	observer_send(st->socket.observer, frame_make("note", "{}", 2));
	fake_socket_expect(&st->socket, "");
}

static void answers_keep_their_order_and_go_first(void **state)
{
	struct stage *st = *state;
	stage_fill(st, 3);
	stage_open_socket(st, DELTAS_NONE);
	fake_socket_drain(&st->socket, 0);
	struct load_request load = load_newest(5);
	fake_socket_load(&st->socket, &load);
	observer_send(st->socket.observer, frame_make("one", "{}", 2));
	observer_send(st->socket.observer, frame_make("two", "{}", 2));
	while (!st->socket.live) {
		fake_socket_drain(&st->socket, 1);
		rig_settle(&st->rig);
	}
	fake_socket_drain(&st->socket, 1);
	fake_socket_expect(&st->socket, "one; two; events_loaded 1-3; state idle");
}

/**
 * What is provisional is left out, and of the state only the newest counts: slow is no reason to
 * close.
 */
static void a_full_socket_is_not_filled_further(void **state)
{
	struct stage *st = *state;
	stage_open_socket(st, DELTAS_TEXT);
	struct load_request load = load_newest(5);
	fake_socket_load(&st->socket, &load);
	fake_socket_expect(&st->socket, "events_loaded 0-0; state idle");
	fake_socket_drain(&st->socket, 0);
	rig_say(st->session, "- a\n");
	for (size_t i = 0; i < st->rig.limits.outbox_frames; i++) {
		stage_append(st, 2);
		rig_say(st->session, "- b\n");
		rig_settle(&st->rig);
	}
	assert_int_equal(st->socket.closed, 0);
	rig_put(st->session, "turn_end", "{}");
	rig_say(st->session, "more");
	rig_settle(&st->rig);
	fake_socket_drain(&st->socket, SIZE_MAX);
	rig_settle(&st->rig);
	fake_socket_expect(&st->socket, "events 1-500; events 501-514; state running");
	assert_true(st->socket.prompting);
	/* Of the event that is open it has missed the beginning: the rest is left out, too. */
	rig_say(st->session, " text");
	rig_settle(&st->rig);
	fake_socket_expect(&st->socket, "");
	rig_put(st->session, "turn_end", "{}");
	rig_say(st->session, "new");
	rig_settle(&st->rig);
	fake_socket_expect(&st->socket, "delta 517 new; events 515-516; state running");
}

/** Whether what has come to it has this text in it. */
static bool has_got(const struct fake_socket *socket, const char *text)
{
	char *frames = json_dumps(socket->frames, 0);
	bool has = strstr(frames, text);
	free(frames);
	return has;
}

/** Frames are made once for those who see the same, whoever is told first. */
static void who_sees_less_shares_no_frame_with_the_others(void **state)
{
	struct stage *st = *state;
	struct fake_socket crowd[5];
	struct load_request load = load_newest(50);
	for (size_t i = 0; i < 5; i++) {
		fake_socket_open(&crowd[i], st->channel, DELTAS_NONE);
		observer_set_rights(crowd[i].observer, "viewer", i % 2 ? HIDE_NOTHING : HIDE_TOOLS);
		fake_socket_load(&crowd[i], &load);
	}
	rig_put(st->session, "tool_call", "{\"tool_call_id\":\"t\",\"title\":\"a secret\"}");
	rig_settle(&st->rig);
	for (size_t i = 0; i < 5; i++) {
		assert_int_equal(crowd[i].last, 1);
		assert_int_equal(has_got(&crowd[i], "a secret"), i % 2);
		fake_socket_finish(&crowd[i]);
	}
}

int main(void)
{
	/*
	 * One thread does the work in the order in which it was asked for: the races come out the
	 * same each time.
	 */
	setenv("UV_THREADPOOL_SIZE", "1", 1);
#define TEST(name) cmocka_unit_test_setup_teardown(name, stage_setup_cold, stage_teardown)
#define TEST_ON_DISK(name) \
	cmocka_unit_test_setup_teardown(name, stage_setup_cold_on_disk, stage_teardown)
	const struct CMUnitTest tests[] = {
		TEST(pages_of_a_log),
		TEST(follow_sends_page_after_page),
		TEST(an_empty_session_is_live_at_once),
		TEST(the_server_is_always_right),
		TEST(a_page_is_bounded_in_bytes),
		cmocka_unit_test(registration_race_sends_missed_events),
		TEST(who_comes_late_gets_the_open_text),
		TEST(who_was_overtaken_gets_no_half_text),
		TEST(live_events_come_during_a_page_of_older_ones),
		TEST(a_load_that_is_overtaken_again_and_again),
		TEST(a_deleted_session_ends_its_loads),
		TEST(a_closed_observer_forgets_its_read),
		TEST(a_new_load_takes_the_place_of_the_old),
		TEST(a_page_of_older_events_interrupts_a_load),
		TEST_ON_DISK(a_page_that_cannot_be_read_interrupts_a_load),
		TEST_ON_DISK(live_events_come_during_a_page_that_cannot_be_read),
		TEST(a_full_socket_costs_a_cursor),
		TEST(a_socket_that_fills_during_the_read),
		TEST(a_full_socket_is_not_filled_further),
		TEST(answers_are_bounded),
		TEST(answers_keep_their_order_and_go_first),
		cmocka_unit_test_setup_teardown(
			who_sees_less_shares_no_frame_with_the_others, stage_setup, stage_teardown),
	};
	return cmocka_run_group_tests_name("observer", tests, NULL, NULL);
}
