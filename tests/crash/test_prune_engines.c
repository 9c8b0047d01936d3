/*
 * Retention is the same with files and in a database: the same cases on both, and then what only a database can
 * do. What it has left is looked through as `holdfast verify` does it.
 */
#include "postgres.h"
#include "reading.h"
#include "core/session/session_internal.h"
#include "core/store/store_internal.h"

#include "fake_socket.h"

#include "holdfast/diag.h"
#include "holdfast/store_check.h"
#include "holdfast/store_database.h"
#include "holdfast/store_postgres.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define DAY_MS ((int64_t)86400000)

static void begin(struct rig *rig)
{
	rig->limits.prune_ms = RIG_NEVER;
	rig->limits.prune_size = 1;
	rig->limits.hot_tail_size = 1024;
	rig->limits.journal_retry_ms = 1;
	rig->limits.clock_trust_ms = 0;
}

static int setup_embedded(void **state)
{
	struct rig *rig = xcalloc(1, sizeof(*rig));
	rig_init(rig);
	begin(rig);
	*state = rig;
	return 0;
}

static int setup_postgres(void **state)
{
	struct rig *rig = xcalloc(1, sizeof(*rig));
	postgres_clear();
	rig_init_in_postgres(rig, postgres_address());
	begin(rig);
	*state = rig;
	return 0;
}

static int teardown(void **state)
{
	rig_finish(*state);
	free(*state);
	return 0;
}

static struct session *open_with(struct rig *rig, uint64_t notes)
{
	assert_int_equal(rig_open(rig), 0);
	struct session *session = rig_session(rig, "s");
	for (uint64_t n = 1; n <= notes; n++) {
		assert_int_equal(rig_put(session, "x-note", "{\"text\":\"some text\"}"), n);
	}
	rig_settle(rig);
	return session;
}

static void prune(struct rig *rig)
{
	rig_settle(rig);
	store_prune(rig->table->store);
	rig_settle(rig);
}

static struct session_log *log_of(struct rig *rig)
{
	struct session_log *log = store_get_session(rig->table->store, "s", 1);
	assert_non_null(log);
	return log;
}

static void count_problem(void *owner, const char *place, const char *what)
{
	fprintf(stderr, "%s: %s\n", place, what);
	*(unsigned *)owner += 1;
}

static void ignore_progress(void *owner, uint64_t bytes)
{
}

static void expect_clean(const struct rig *rig)
{
	static const struct store_check_ops ops = {.problem = count_problem,
		.note = count_problem,
		.progress = ignore_progress,
		.facts = &session_facts_ops};
	struct store_check_counts counts;
	unsigned found = 0;
	char *why = NULL;
	if (rig->database) {
		struct store_database *opened;
		const struct store_database_ops *database = store_postgres.database;
		assert_int_equal(database->open(rig->database, &opened, &why), 0);
		assert_int_equal(database->check(opened, NULL, &ops, &found, &counts), 0);
		store_database_close(opened);
	} else {
		struct store_files files;
		assert_int_equal(store_files_open(rig->dir, &files, &why), 0);
		store_files_hold(&files);
		assert_int_equal(store_check(&files, NULL, &ops, &found, &counts), 0);
		store_files_close(&files);
	}
	assert_int_equal(found, 0);
}

/** It begins with this event, now and after a start, and has all from there on. */
static void expect_first(struct rig *rig, uint64_t first, uint64_t last)
{
	for (int starts = 0; starts < 2; starts++) {
		struct buffer text = {0};
		assert_int_equal(session_log_first_seq(log_of(rig)), first);
		assert_int_equal(session_log_last_seq(log_of(rig)), last);
		struct session *session = rig_session(rig, "s");
		for (uint64_t seq = first; seq <= last; seq++) {
			assert_int_equal(reading_page(rig, session, seq, seq, &text), 1);
		}
		buffer_finish(&text);
		if (rig->database) {
			assert_int_equal(postgres_count_events("s"), last - first + 1);
		}
		rig_close(rig);
		expect_clean(rig);
		assert_int_equal(rig_open(rig), 0);
	}
}

static void the_newest_stay(void **state)
{
	struct rig *rig = *state;
	rig->limits.keep_events = 10;
	open_with(rig, 100);
	prune(rig);
	expect_first(rig, 91, 100);
	assert_int_equal(rig_put(rig_session(rig, "s"), "x-note", "{}"), 101);
	prune(rig);
	expect_first(rig, 92, 101);
}

static void so_many_bytes_stay(void **state)
{
	struct rig *rig = *state;
	open_with(rig, 100);
	rig->limits.keep_bytes = log_of(rig)->size / 10;
	prune(rig);
	uint64_t first = session_log_first_seq(log_of(rig));
	assert_in_range(first, 90, 92);
	assert_true(log_of(rig)->size - log_of(rig)->first_at <= rig->limits.keep_bytes);
	expect_first(rig, first, 100);
	rig->limits.keep_bytes = 1; /* one stays all the same */
	prune(rig);
	expect_first(rig, 100, 100);
}

static void old_ones_go(void **state)
{
	struct rig *rig = *state;
	rig->limits.keep_days = 7;
	struct session *session = open_with(rig, 20);
	rig_pass(rig, 4 * DAY_MS);
	assert_int_equal(rig_put(session, "x-note", "{}"), 21);
	prune(rig);
	assert_int_equal(session_log_first_seq(log_of(rig)), 1);
	rig_pass(rig, 4 * DAY_MS);
	prune(rig);
	expect_first(rig, 21, 21);
	rig_pass(rig, 4 * DAY_MS);
	prune(rig);
	expect_first(rig, 22, 21); /* the session stays, and goes on with its numbers */
	assert_int_equal(rig_put(rig_session(rig, "s"), "x-note", "{}"), 22);
	prune(rig);
	expect_first(rig, 22, 22);
}

/** What a clock that was behind has told is not old; that is known over a restart. */
static void a_wrong_clock_makes_nothing_old(void **state)
{
	struct rig *rig = *state;
	rig->limits.keep_days = 7;
	rig_set_clock(rig, -100 * DAY_MS);
	open_with(rig, 5);
	store_prune(rig->table->store); /* it looks at the clock, too */
	rig_set_clock(rig, 100 * DAY_MS);
	prune(rig);
	expect_first(rig, 1, 5);
	prune(rig);
	expect_first(rig, 1, 5);
}

static void a_request_that_waits_stays(void **state)
{
	struct rig *rig = *state;
	rig->limits.keep_events = 5;
	assert_int_equal(rig_open(rig), 0);
	struct session *session = rig_session(rig, "s");
	rig_put(session, "permission_request", "{\"request_id\":\"q\",\"options\":[]}");
	for (int i = 0; i < 20; i++) {
		rig_put(session, "x-note", "{}");
	}
	prune(rig);
	assert_int_equal(session_log_first_seq(log_of(rig)), 1);
	rig_put(session, "permission_resolved", "{\"request_id\":\"q\",\"outcome\":\"cancelled\"}");
	prune(rig);
	expect_first(rig, 18, 22);
}

/** What was taken once is not taken again, however long ago that was. */
static void names_stay(void **state)
{
	struct rig *rig = *state;
	uint64_t seq;
	bool duplicate;
	rig->limits.keep_events = 1;
	rig->limits.evict_ms = 1;
	assert_int_equal(rig_open(rig), 0);
	struct session *session = rig_session(rig, "s");
	assert_int_equal(session_prompt(session, "go", 2, "p-1", AUTHOR("c"), &seq, &duplicate), 0);
	rig_put(session, "turn_end", "{}");
	rig_put(session, "x-note", "{}");
	rig_settle(rig);
	while (session_table_count_live(rig->table)) {
		rig_turn(rig); /* sessions at rest are pruned, too */
	}
	prune(rig);
	expect_first(rig, 3, 3);
	assert_int_equal(session_prompt(rig_session(rig, "s"), "go", 2, "p-1", AUTHOR("c"), &seq,
				 &duplicate),
		0);
	assert_true(duplicate);
	assert_int_equal(seq, 1);
}

static void a_pruned_position_is_reset(void **state)
{
	struct rig *rig = *state;
	struct fake_socket socket;
	rig->limits.keep_events = 10;
	struct session *session = open_with(rig, 100);
	prune(rig);
	fake_socket_open(&socket, session_channel(session), DELTAS_NONE);
	fake_socket_expect(&socket, "connected");
	for (uint64_t after = 89; after <= 90; after++) {
		fake_socket_load(&socket,
			&(struct load_request){.from = LOAD_AFTER, .seq = after, .limit = 5});
		rig_settle(rig);
	}
	fake_socket_expect(&socket,
		"events_loaded 96-100 more reset pruned; state idle; events_loaded 91-95 more");
	fake_socket_finish(&socket);
}

/* --- in a database --- */

static void many_go_in_steps(void **state)
{
	struct rig *rig = *state;
	rig->limits.keep_events = 10;
	open_with(rig, 0);
	for (int i = 0; i < 9; i++) {
		for (int n = 0; n < 1000; n++) {
			rig_put(rig_session(rig, "s"), "x-note", "{}");
		}
		rig_settle(rig);
	}
	postgres_ask(
		"CREATE TABLE cuts (n bigint);"
		"CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN"
		" INSERT INTO cuts SELECT count(*) FROM gone; RETURN NULL; END$$;"
		"CREATE TRIGGER note AFTER DELETE ON holdfast_event REFERENCING OLD TABLE AS gone"
		" FOR EACH STATEMENT EXECUTE FUNCTION note()");
	prune(rig);
	assert_in_range(postgres_ask("SELECT count(*) FROM cuts WHERE n > 0"), 3, 9);
	assert_in_range(postgres_ask("SELECT max(n) FROM cuts"), 1000, 5000);
	expect_first(rig, 8991, 9000);
}

static void refuse_deletions(bool refuses)
{
	postgres_ask(refuses ? "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN"
			       " RAISE 'no'; END$$;"
			       "CREATE TRIGGER no BEFORE DELETE ON holdfast_event"
			       " FOR EACH STATEMENT EXECUTE FUNCTION no()"
			     : "DROP TRIGGER no ON holdfast_event");
}

/** What could not be taken away goes later; nothing else is lost by that. */
static void a_refused_group_is_made_up_for(void **state)
{
	struct rig *rig = *state;
	rig->limits.keep_events = 10;
	open_with(rig, 30);
	refuse_deletions(true);
	prune(rig);
	/* It may try again already. */
	assert_non_null(strstr(buffer_cstr(&rig->told), "store failed"));
	assert_int_equal(postgres_count_events("s"), 30);
	refuse_deletions(false);
	rig_wait_for_store(rig);
	prune(rig);
	expect_first(rig, 21, 30);
}

static void an_answer_is_lost(struct rig *rig, enum postgres_fault fault)
{
	rig->limits.keep_events = 10;
	open_with(rig, 30);
	postgres_fault(fault);
	prune(rig);
	expect_first(rig, 21, 30);
}

static void a_lost_answer_is_made_up_for(void **state)
{
	an_answer_is_lost(*state, POSTGRES_ANSWER_IS_LOST);
}

static void a_late_group_is_made_up_for(void **state)
{
	an_answer_is_lost(*state, POSTGRES_IS_LATE);
}

/** Another server has it, which may keep more. */
static void who_has_lost_a_session_prunes_nothing_of_it(void **state)
{
	struct rig *rig = *state;
	rig->limits.keep_events = 10;
	open_with(rig, 30);
	postgres_take_over("s");
	prune(rig);
	assert_int_equal(postgres_count_events("s"), 30);
	assert_null(session_table_get(rig->table, "s", 1));
	rig->limits.keep_events = 0;
	rig_close(rig);
	assert_int_equal(rig_open(rig), 0);
	expect_first(rig, 1, 30);
}

static void put_blob(unsigned n, const char *age)
{
	char *sql = xprintf(
		"INSERT INTO holdfast_blob (sid, name, bytes, at) SELECT sid, '%064x', 'x', now() - interval '%s'"
		" FROM holdfast_session WHERE id = 's'",
		0xb10bU + n, age);
	postgres_ask(sql);
	free(sql);
}

/** Those of events that stay, young ones and those of prompts that wait, are kept. */
static void blobs_go_with_their_events(void **state)
{
	struct rig *rig = *state;
	uint64_t seq;
	bool duplicate;
	char data[128];
	rig->limits.keep_events = 3;
	struct session *session = open_with(rig, 0);
	for (unsigned n = 1; n <= 6; n++) {
		snprintf(data, sizeof(data), "{\"content\":[{\"blob\":\"%064x\"}]}", 0xb10bU + n);
		rig_put(session, "x-note", data);
	}
	rig_put(session, "user_prompt", "{\"message\":\"first\"}");
	snprintf(data, sizeof(data), "%064x", 0xb10bU + 100);
	json_t *content = json_pack("[{s:s, s:s, s:i}]", "type", "image", "blob", data, "size", 1);
	const struct request request = {.type = REQUEST_PROMPT,
		.prompt = {.message = "second",
			.message_len = 6,
			.prompt_id = "p",
			.content = content}};
	assert_int_equal(session_prompt_with(session, &request, AUTHOR("c"), &seq, &duplicate), 0);
	json_decref(content);
	rig_settle(rig);
	for (unsigned n = 1; n <= 6; n++) {
		put_blob(n, n == 2 ? "1 hour" : "3 days");
	}
	put_blob(100, "3 days");
	rig_close(rig);
	assert_int_equal(rig_open(rig), 0); /* it counts them */
	uint64_t used = rig->table->store->blobs.used;
	prune(rig);
	assert_int_equal(session_log_first_seq(log_of(rig)), 5);
	assert_int_equal(postgres_ask("SELECT count(*) FROM holdfast_blob"), 4); /* 2, 5, 6, 100 */
	assert_int_equal(
		postgres_ask(
			"SELECT count(*) FROM holdfast_blob WHERE at > now() - interval '1 day'"),
		1);
	assert_true(rig->table->store->blobs.used < used);
}

struct page {
	int status;
	bool is_done;
};

static void handle_page(void *arg, int status, struct event **events, size_t count)
{
	struct page *page = arg;
	*page = (struct page){.status = status, .is_done = true};
	for (size_t i = 0; i < count; i++) {
		event_unref(events[i]);
	}
}

/** Whoever shows it at another node has not been told yet, and finds out. */
static void a_mirror_finds_out(void **state)
{
	struct rig *rig = *state;
	struct rig other;
	struct page page = {0};
	rig->limits.keep_events = 10;
	rig->node_address = "a:1";
	open_with(rig, 30);
	rig_init_in_postgres(&other, postgres_address());
	begin(&other);
	other.node_address = "b:2";
	assert_int_equal(rig_open(&other), 0);
	const struct log_place place = {.number = session_log_number(log_of(rig)),
		.epoch = session_log_epoch(log_of(rig)),
		.first_seq = 1,
		.max_seq = 30};
	struct session_log *mirror = session_table_mirror(other.table, "s", &place, NULL);
	prune(rig);
	const struct log_page want = {.from = 5, .to = 25, .max_bytes = SIZE_MAX};
	assert_non_null(session_log_read(mirror, &want, handle_page, &page));
	rig_settle(&other);
	assert_true(page.is_done);
	assert_int_equal(page.status, -EBADMSG);
	assert_int_equal(session_log_first_seq(mirror), 21);
	session_log_mirror_free(mirror);
	rig_finish(&other);
	assert_int_equal(postgres_count_events("s"), 10);
}

int main(void)
{
#define BOTH(name)                                                         \
	{"embedded: " #name, name, setup_embedded, teardown, NULL},        \
	{                                                                  \
		"postgresql: " #name, name, setup_postgres, teardown, NULL \
	}
#define ONE(name) cmocka_unit_test_setup_teardown(name, setup_postgres, teardown)
	const struct CMUnitTest tests[] = {
		BOTH(the_newest_stay),
		BOTH(so_many_bytes_stay),
		BOTH(old_ones_go),
		BOTH(a_wrong_clock_makes_nothing_old),
		BOTH(a_request_that_waits_stays),
		BOTH(names_stay),
		BOTH(a_pruned_position_is_reset),
		ONE(many_go_in_steps),
		ONE(a_refused_group_is_made_up_for),
		ONE(a_lost_answer_is_made_up_for),
		ONE(a_late_group_is_made_up_for),
		ONE(who_has_lost_a_session_prunes_nothing_of_it),
		ONE(blobs_go_with_their_events),
		ONE(a_mirror_finds_out),
	};
	diag_set_level(DIAG_SILENT);
	return cmocka_run_group_tests_name(
		"prune-engines", tests, postgres_set_up, postgres_tear_down);
}
