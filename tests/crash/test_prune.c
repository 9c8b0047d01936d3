/*
 * Retention: events leave a log from its front, by number or by age, and nothing else changes: no
 * number, no name, no event that stays. A client whose position was pruned hears so.
 */
#include "core/store/embedded/embedded.h"
#include "point.h"
#include "reading.h"
#include "core/session/session_internal.h"

#include "fake_socket.h"

#include "holdfast/diag.h"
#include "core/store/disk.h"
#include "holdfast/observer.h"
#include "holdfast/store_check.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define DAY_MS ((int64_t)86400000)

static int setup(void **state)
{
	struct rig *rig = xcalloc(1, sizeof(*rig));
	rig_init(rig);
	rig->limits.prune_ms = RIG_NEVER;
	rig->limits.prune_size = 1;
	rig->limits.hot_tail_size = 1024;
	*state = rig;
	return 0;
}

static int teardown(void **state)
{
	rig_finish(*state);
	free(*state);
	return 0;
}

static void put_notes(struct session *session, uint64_t from, uint64_t to)
{
	for (uint64_t n = from; n <= to; n++) {
		char data[32];
		snprintf(data, sizeof(data), "{\"n\":%llu}", (unsigned long long)n);
		assert_int_equal(rig_put(session, "x-note", data), n);
	}
}

static void prune(struct rig *rig)
{
	rig_settle(rig);
	store_prune(rig->table->store);
	rig_settle(rig);
}

static uint64_t first_seq(struct session *session)
{
	return session_log_first_seq(session->log);
}

/** The events from `from` to `to` are there, each as it was put. */
static void expect_notes(struct rig *rig, struct session *session, uint64_t from, uint64_t to)
{
	struct buffer text = {0};
	for (uint64_t seq = from; seq <= to; seq++) {
		char want[32];
		buffer_clear(&text);
		assert_int_equal(reading_page(rig, session, seq, seq, &text), 1);
		snprintf(want, sizeof(want), "\"data\":{\"n\":%llu}", (unsigned long long)seq);
		assert_non_null(strstr(buffer_cstr(&text), want));
	}
	buffer_finish(&text);
}

static off_t log_size(const struct rig *rig, const char *id)
{
	struct buffer path = {0};
	struct stat st;
	log_path(&path, rig->dir, id, "events.jsonl");
	assert_int_equal(stat(path.data, &st), 0);
	buffer_finish(&path);
	return st.st_size;
}

static void fail_on_problem(void *owner, const char *place, const char *what)
{
	fprintf(stderr, "%s: %s\n", place, what);
	*(unsigned *)owner += 1;
}

static void ignore_progress(void *owner, uint64_t bytes)
{
}

/** Neither problems nor notes. */
static void expect_clean(const char *dir)
{
	static const struct store_check_ops ops = {.problem = fail_on_problem,
		.note = fail_on_problem,
		.progress = ignore_progress,
		.facts = &session_facts_ops};
	struct store_files files;
	struct store_check_counts counts;
	unsigned found = 0;
	char *why = NULL;
	assert_int_equal(store_files_open(dir, &files, &why), 0);
	store_files_hold(&files);
	assert_int_equal(store_check(&files, NULL, &ops, &found, &counts), 0);
	store_files_close(&files);
	assert_int_equal(found, 0);
}

static void the_newest_stay(void **state)
{
	struct rig *rig = *state;
	rig->limits.keep_events = 10;
	assert_int_equal(rig_open(rig), 0);
	struct session *session = rig_session(rig, "s");
	put_notes(session, 1, 100);
	prune(rig);
	assert_int_equal(first_seq(session), 91);
	assert_true(log_size(rig, "s") < 10 * 120);
	expect_notes(rig, session, 91, 100);
	put_notes(session, 101, 104);
	rig_settle(rig);
	expect_notes(rig, session, 91, 104);
	rig_close(rig);
	expect_clean(rig->dir);
	assert_int_equal(rig_open(rig), 0);
	session = rig_session(rig, "s");
	assert_int_equal(first_seq(session), 91);
	expect_notes(rig, session, 91, 104);
	prune(rig);
	assert_int_equal(first_seq(session), 95);
	put_notes(session, 105, 105);
	rig_settle(rig);
	expect_notes(rig, session, 95, 105);
	struct session_object object;
	session_get_object(session, &object);
	assert_int_equal(object.first_seq, 95);
	assert_int_equal(object.max_seq, 105);
}

/** A file is not written anew for every event that goes. */
static void the_file_waits(void **state)
{
	struct rig *rig = *state;
	rig->limits.keep_events = 60;
	assert_int_equal(rig_open(rig), 0);
	struct session *session = rig_session(rig, "s");
	put_notes(session, 1, 100);
	rig_settle(rig);
	off_t size = log_size(rig, "s");
	prune(rig);
	assert_int_equal(first_seq(session), 41);
	assert_int_equal(log_size(rig, "s"), size);
	expect_notes(rig, session, 41, 100);
	rig_close(rig);
	expect_clean(rig->dir);
	assert_int_equal(rig_open(rig), 0);
	session = rig_session(rig, "s");
	assert_int_equal(first_seq(session), 41);
	assert_int_equal(log_size(rig, "s"), size);
	expect_notes(rig, session, 41, 100);
	put_notes(session, 101, 130);
	prune(rig);
	assert_int_equal(first_seq(session), 71);
	assert_true(log_size(rig, "s") < size);
	expect_notes(rig, session, 71, 130);
}

static void old_ones_go(void **state)
{
	struct rig *rig = *state;
	rig->limits.keep_days = 7;
	assert_int_equal(rig_open(rig), 0);
	struct session *session = rig_session(rig, "s");
	put_notes(session, 1, 20);
	rig_settle(rig);
	rig_pass(rig, 4 * DAY_MS);
	put_notes(session, 21, 30);
	prune(rig);
	assert_int_equal(first_seq(session), 1);
	rig_pass(rig, 4 * DAY_MS);
	prune(rig);
	assert_int_equal(first_seq(session), 21);
	expect_notes(rig, session, 21, 30);
	/* All of it is old: the session stays, and goes on with its numbers. */
	rig_pass(rig, 4 * DAY_MS);
	prune(rig);
	assert_int_equal(first_seq(session), 31);
	assert_int_equal(log_size(rig, "s"), 0);
	rig_close(rig);
	expect_clean(rig->dir);
	assert_int_equal(rig_open(rig), 0);
	session = rig_session(rig, "s");
	assert_int_equal(first_seq(session), 31);
	put_notes(session, 31, 35);
	prune(rig);
	assert_int_equal(first_seq(session), 31);
	expect_notes(rig, session, 31, 35);
}

/** An index of the old file does not serve the new one. */
static void places_are_found_again(void **state)
{
	struct rig *rig = *state;
	rig->limits.keep_events = 200;
	assert_int_equal(rig_open(rig), 0);
	struct session *session = rig_session(rig, "s");
	put_notes(session, 1, 1000);
	rig_settle(rig);
	expect_notes(rig, session, 3, 5);
	prune(rig);
	assert_int_equal(first_seq(session), 801);
	expect_notes(rig, session, 801, 1000);
	put_notes(session, 1001, 1300);
	rig_settle(rig);
	expect_notes(rig, session, 900, 1300);
	prune(rig);
	expect_notes(rig, session, 1101, 1300);
	rig_close(rig);
	expect_clean(rig->dir);
}

/** Somebody may still have to answer it. */
static void a_request_that_waits_stays(void **state)
{
	struct rig *rig = *state;
	rig->limits.keep_events = 5;
	assert_int_equal(rig_open(rig), 0);
	struct session *session = rig_session(rig, "s");
	rig_put(session, "permission_request", "{\"request_id\":\"q\",\"options\":[]}");
	put_notes(session, 2, 30);
	prune(rig);
	assert_int_equal(first_seq(session), 1);
	rig_put(session, "permission_resolved", "{\"request_id\":\"q\",\"outcome\":\"cancelled\"}");
	prune(rig);
	assert_int_equal(first_seq(session), 27);
}

/** What was taken once is not taken again, however long ago that was. */
static void names_stay(void **state)
{
	struct rig *rig = *state;
	uint64_t seq;
	bool duplicate;
	rig->limits.keep_events = 5;
	assert_int_equal(rig_open(rig), 0);
	struct session *session = rig_session(rig, "s");
	assert_int_equal(session_prompt(session, "go", 2, "p-1", AUTHOR("c"), &seq, &duplicate), 0);
	rig_put(session, "turn_end", "{}");
	put_notes(session, 3, 50);
	prune(rig);
	assert_int_equal(first_seq(session), 46);
	rig_close(rig);
	expect_clean(rig->dir);
	assert_int_equal(rig_open(rig), 0);
	session = rig_session(rig, "s");
	assert_int_equal(session_prompt(session, "go", 2, "p-1", AUTHOR("c"), &seq, &duplicate), 0);
	assert_true(duplicate);
	assert_int_equal(seq, 1);
}

/** Takes the first `len` bytes off a session's log. */
static void shorten_log(const struct rig *rig, size_t len)
{
	struct buffer path = {0};
	struct buffer bytes = {0};
	log_path(&path, rig->dir, "s", "events.jsonl");
	assert_true(file_read(path.data, &bytes));
	assert_true(len <= bytes.len);
	assert_int_equal(truncate(path.data, 0), 0);
	file_append(path.data, bytes.data + len, bytes.len - len);
	buffer_finish(&bytes);
	buffer_finish(&path);
}

static uint64_t number_in_metadata(const struct rig *rig, const char *name)
{
	struct buffer path = {0};
	struct buffer bytes = {0};
	char member[40];
	log_path(&path, rig->dir, "s", "metadata.json");
	assert_true(file_read(path.data, &bytes));
	snprintf(member, sizeof(member), "\"%s\":", name);
	const char *at = strstr(buffer_cstr(&bytes), member);
	assert_non_null(at);
	uint64_t number = strtoull(at + strlen(member), NULL, 10);
	buffer_finish(&bytes);
	buffer_finish(&path);
	return number;
}

/** The power went after the new file was in place, and before metadata.json said so. */
static void new_file_is_known(struct rig *rig, uint64_t keep, bool has_more)
{
	rig->limits.keep_events = (int64_t)keep;
	rig->limits.keep_days = keep ? 0 : 1;
	rig->limits.prune_size = 1 << 20;
	assert_int_equal(rig_open(rig), 0);
	put_notes(rig_session(rig, "s"), 1, 40);
	rig_settle(rig);
	rig_pass(rig, 2 * DAY_MS);
	prune(rig);
	if (has_more) { /* and events came after it that metadata.json does not know either */
		put_notes(rig_session(rig, "s"), 41, 43);
		rig_settle(rig);
	}
	char *dir = rig_copy_dir(rig->dir);
	rig_close(rig);
	rig_remove_dir(rig->dir);
	assert_int_equal(rename(dir, rig->dir), 0);
	free(dir);
	assert_int_equal(number_in_metadata(rig, "base_seq"), 1);
	assert_int_equal(number_in_metadata(rig, "first_seq"), 41 - keep);
	shorten_log(rig, number_in_metadata(rig, "first_at"));
	rig->limits.keep_events = rig->limits.keep_days = 0;
	assert_int_equal(rig_open(rig), 0);
	struct session *session = rig_session(rig, "s");
	assert_int_equal(first_seq(session), 41 - keep);
	assert_int_equal(session_channel(session)->max_seq, has_more ? 43 : 40);
	expect_notes(rig, session, 41 - keep, has_more ? 43 : 40);
	put_notes(session, has_more ? 44 : 41, 50);
	rig_settle(rig);
	expect_notes(rig, session, 41 - keep, 50);
	rig_close(rig);
	assert_int_equal(number_in_metadata(rig, "base_seq"), 41 - keep);
	assert_int_equal(number_in_metadata(rig, "first_at"), 0);
	expect_clean(rig->dir);
}

static void a_new_file_is_known(void **state)
{
	new_file_is_known(*state, 8, false);
}

static void a_new_file_with_more_is_known(void **state)
{
	new_file_is_known(*state, 8, true);
}

static void an_empty_new_file_is_known(void **state)
{
	new_file_is_known(*state, 0, false);
}

static void an_empty_new_file_with_more_is_known(void **state)
{
	new_file_is_known(*state, 0, true);
}

/* --- who watches --- */

static void load_from(struct fake_socket *socket, uint64_t after, bool follow)
{
	fake_socket_load(
		socket, &(struct load_request){
				.from = LOAD_AFTER, .seq = after, .limit = 5, .follow = follow});
}

static void a_pruned_position_is_reset(void **state)
{
	struct rig *rig = *state;
	struct fake_socket socket;
	rig->limits.keep_events = 10;
	assert_int_equal(rig_open(rig), 0);
	struct session *session = rig_session(rig, "s");
	put_notes(session, 1, 100);
	prune(rig);
	fake_socket_open(&socket, session_channel(session), DELTAS_NONE);
	fake_socket_expect(&socket, "connected");
	load_from(&socket, 90, true);
	rig_settle(rig);
	fake_socket_expect(&socket, "events_loaded 91-95 more; events_loaded 96-100; state idle");
	load_from(&socket, 89, false);
	rig_settle(rig);
	fake_socket_expect(&socket, "events_loaded 96-100 more reset pruned; state idle");
	fake_socket_load(
		&socket, &(struct load_request){.from = LOAD_BEFORE, .seq = 94, .limit = 10});
	rig_settle(rig);
	fake_socket_expect(&socket, "events_loaded 91-93");
	fake_socket_load(
		&socket, &(struct load_request){.from = LOAD_BEFORE, .seq = 91, .limit = 10});
	rig_settle(rig);
	fake_socket_expect(&socket, "events_loaded 0-0");
	fake_socket_finish(&socket);
}

/** A slow socket in the middle of its load, and one that is live and behind. */
static void who_is_overtaken_is_reset(void **state)
{
	struct rig *rig = *state;
	struct fake_socket loading;
	struct fake_socket live;
	rig->limits.keep_events = 10;
	assert_int_equal(rig_open(rig), 0);
	struct session *session = rig_session(rig, "s");
	put_notes(session, 1, 20);
	rig_settle(rig);
	fake_socket_open(&live, session_channel(session), DELTAS_NONE);
	load_from(&live, 20, true);
	rig_settle(rig);
	fake_socket_expect(&live, "connected; events_loaded 0-0; state idle");
	live.budget = 0;
	fake_socket_open(&loading, session_channel(session), DELTAS_NONE);
	loading.budget = 1;
	load_from(&loading, 0, true);
	rig_settle(rig);
	fake_socket_expect(&loading, "connected; events_loaded 1-5 more");
	put_notes(session, 21, 60);
	prune(rig);
	assert_int_equal(first_seq(session), 51);
	fake_socket_drain(&loading, 100);
	fake_socket_drain(&live, 100);
	rig_settle(rig);
	fake_socket_expect(&loading, "events_loaded 51-60 reset pruned; state idle");
	fake_socket_expect(&live, "events_loaded 51-60 reset pruned; state idle");
	fake_socket_finish(&loading);
	fake_socket_finish(&live);
}

/**
 * While the last work on the disk is waited for, the sessions are gone, and nobody says what may be
 * pruned.
 */
static void a_store_that_closes_prunes_nothing_more(void **state)
{
	struct rig *rig = *state;
	uint64_t last = 0;
	rig->limits.keep_events = 5;
	rig->limits.prune_ms = 10;
	for (size_t turns = 0; turns < 8; turns++) {
		assert_int_equal(rig_open(rig), 0);
		struct session *a = rig_session(rig, "a");
		struct session *b = rig_session(rig, "b");
		put_notes(a, last + 1, last + 20);
		put_notes(b, last + 1, last + 20);
		last += 20;
		rig_settle(rig);
		store_prune(rig->table->store);
		for (size_t i = 0; i < turns; i++) {
			rig_turn(rig);
		}
		store_prune(rig->table->store);
		rig_close(rig);
	}
	assert_int_equal(rig_open(rig), 0);
	prune(rig);
	expect_notes(rig, rig_session(rig, "a"), last - 4, last);
	expect_notes(rig, rig_session(rig, "b"), last - 4, last);
}

static uv_sem_t is_moved;
static uv_sem_t may_go_on;

/** Stops the thread that has just put a new log in the place of the old one. */
static int stop_behind_rename(int from_fd, const char *from, int to_fd, const char *to)
{
	int r = disk_kernel.renameat(from_fd, from, to_fd, to);
	if (strcmp(to, "events.jsonl") == 0) {
		uv_sem_post(&is_moved);
		uv_sem_wait(&may_go_on);
	}
	return r;
}

static void take_page(void *arg, int status, struct event **events, size_t count)
{
	int *got = arg;
	*got = status < 0 ? status : (int)count;
	for (size_t i = 0; i < count; i++) {
		event_unref(events[i]);
	}
}

/** The file is new and the log does not know it: that is no damage, and the read is repeated. */
static void who_reads_while_the_file_is_replaced_waits(void **state)
{
	struct rig *rig = *state;
	struct disk_ops held = disk_kernel;
	struct buffer text = {0};
	uint64_t from;
	uint64_t to;
	rig->limits.keep_events = 10;
	rig->limits.hot_tail_size = 1;
	assert_int_equal(rig_open(rig), 0);
	struct session *session = rig_session(rig, "s");
	put_notes(session, 1, 100);
	rig_settle(rig);
	session_log_save(session->log);
	rig_settle(rig);
	log_path(&text, rig->dir, "s", "events.index");
	assert_int_equal(truncate(text.data, 0), 0);
	expect_notes(rig, session, 50, 50); /* the index has been made again once */
	uv_sem_init(&is_moved, 0);
	uv_sem_init(&may_go_on, 0);
	held.renameat = stop_behind_rename;
	disk = &held;
	store_prune(rig->table->store);
	while (uv_sem_trywait(&is_moved) < 0) {
		session_table_end_tick(rig->table);
		rig_turn(rig);
	}
	const struct log_page page = {.from = 95, .to = 96, .max_bytes = SIZE_MAX};
	int got = 0;
	assert_non_null(session_log_read(session->log, &page, take_page, &got));
	while (!got && list_empty(&embedded_log_of(session->log)->waiting)) {
		rig_turn(rig);
	}
	uv_sem_post(&may_go_on);
	rig_settle(rig);
	disk = &disk_kernel;
	assert_int_equal(got, 2);
	assert_false(session_log_get_damage(session->log, &from, &to));
	assert_int_equal(first_seq(session), 91);
	expect_notes(rig, session, 91, 100);
	uv_sem_destroy(&is_moved);
	uv_sem_destroy(&may_go_on);
	buffer_finish(&text);
}

static void damage_goes_with_its_events(void **state)
{
	struct rig *rig = *state;
	struct buffer text = {0};
	rig->limits.keep_events = 10;
	rig->limits.hot_tail_size = 1;
	assert_int_equal(rig_open(rig), 0);
	struct session *session = rig_session(rig, "s");
	put_notes(session, 1, 100);
	rig_settle(rig);
	log_path(&text, rig->dir, "s", "events.jsonl");
	file_spoil(text.data, FLIP, 300);
	assert_int_equal(reading_page(rig, session, 1, 20, &text), -EBADMSG);
	assert_int_equal(session_table_count_damaged(rig->table), 1);
	prune(rig);
	assert_int_equal(first_seq(session), 91);
	expect_notes(rig, session, 91, 100);
	assert_int_equal(session_table_count_damaged(rig->table), 0);
	buffer_finish(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_newest_stay, setup, teardown),
		cmocka_unit_test_setup_teardown(the_file_waits, setup, teardown),
		cmocka_unit_test_setup_teardown(old_ones_go, setup, teardown),
		cmocka_unit_test_setup_teardown(places_are_found_again, setup, teardown),
		cmocka_unit_test_setup_teardown(a_request_that_waits_stays, setup, teardown),
		cmocka_unit_test_setup_teardown(names_stay, setup, teardown),
		cmocka_unit_test_setup_teardown(a_new_file_is_known, setup, teardown),
		cmocka_unit_test_setup_teardown(a_new_file_with_more_is_known, setup, teardown),
		cmocka_unit_test_setup_teardown(an_empty_new_file_is_known, setup, teardown),
		cmocka_unit_test_setup_teardown(
			an_empty_new_file_with_more_is_known, setup, teardown),
		cmocka_unit_test_setup_teardown(a_pruned_position_is_reset, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_store_that_closes_prunes_nothing_more, setup, teardown),
		cmocka_unit_test_setup_teardown(who_is_overtaken_is_reset, setup, teardown),
		cmocka_unit_test_setup_teardown(damage_goes_with_its_events, setup, teardown),
		cmocka_unit_test_setup_teardown(
			who_reads_while_the_file_is_replaced_waits, setup, teardown),
	};
	diag_set_level(DIAG_SILENT);
	return cmocka_run_group_tests_name("prune", tests, NULL, NULL);
}
