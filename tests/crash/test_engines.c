/* What every engine of the store promises, and each of ours keeps: the same cases on both. */
#include "core/store/engine.h"
#include "fault_disk.h"
#include "memory_engine.h"
#include "engines/postgres/pg.h"
#include "postgres.h"
#include "rig.h"
#include "core/session/session_internal.h"

#include "holdfast/diag.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

static int setup(void **state, void (*init)(struct rig *rig))
{
	struct rig *rig = xcalloc(1, sizeof(*rig));
	init(rig);
	rig->limits.journal_retry_ms = 1;
	rig->limits.hot_tail_size = 1; /* older events are read from the engine */
	assert_int_equal(rig_open(rig), 0);
	*state = rig;
	return 0;
}

static int setup_embedded(void **state)
{
	return setup(state, rig_init);
}

static int setup_memory(void **state)
{
	return setup(state, rig_init_in_memory);
}

static void init_in_postgres(struct rig *rig)
{
	rig_init_in_postgres(rig, postgres_address());
}

static int setup_postgres(void **state)
{
	postgres_clear();
	return setup(state, init_in_postgres);
}

static int teardown(void **state)
{
	rig_finish(*state);
	free(*state);
	return 0;
}

static void reopen(struct rig *rig)
{
	rig_close(rig);
	assert_int_equal(rig_open(rig), 0);
}

static uint64_t shown(struct rig *rig, const char *id)
{
	return session_channel(rig_session(rig, id))->max_seq;
}

/** An event with a key. */
static uint64_t put_key(struct session *session, const char *key)
{
	uint64_t seq;
	bool duplicate;
	struct input_event in = {.type = event_type_of("x-note", 6),
		.type_name = "x-note",
		.type_len = 6,
		.key = key,
		.key_len = strlen(key),
		.data = "{}",
		.data_len = 2};
	assert_int_equal(session_input(session, &in, &seq, &duplicate), 0);
	return seq;
}

static int find(struct session *session, const char *key)
{
	struct log_key found;
	return session_find_name(session, LOG_KEY_INPUT, key, &found);
}

/** The group that is launched next is refused, and leaves nothing. */
static void break_next(struct rig *rig)
{
	if (rig->memory) {
		memory_fault(rig->memory, MEMORY_FAILS);
	} else if (rig->database) {
		postgres_refuse(true);
	} else {
		fault_disk_put(&(struct fault){.kind = CALL_WRITE, .error = EIO});
	}
}

static void mend(struct rig *rig)
{
	if (rig->database) {
		postgres_refuse(false);
	} else if (!rig->memory) {
		fault_disk_take_away();
	}
	rig_wait_for_store(rig);
}

struct told {
	struct durable_wait wait;
	bool is_told;
	int status;
};

static void handle_told(struct durable_wait *wait, int status)
{
	struct told *told = (struct told *)wait;
	told->is_told = true;
	told->status = status;
}

static void wait_for(struct session *session, struct told *told)
{
	*told = (struct told){.wait = {.done = handle_told}};
	session_wait_durable(session, &told->wait);
}

/* --- groups --- */

static void what_is_acknowledged_is_there(void **state)
{
	struct rig *rig = *state;
	struct told told;
	struct session *session = rig_session(rig, "s");
	assert_int_equal(put_key(session, "k1"), 1);
	rig_say(session, "an open block");
	wait_for(session, &told);
	assert_false(told.is_told);
	assert_int_equal(shown(rig, "s"), 0);
	rig_settle(rig);
	assert_true(told.is_told);
	assert_int_equal(told.status, 0);
	assert_int_equal(shown(rig, "s"), 1);
	for (int starts = 0; starts < 2; starts++) {
		reopen(rig);
		session = rig_session(rig, "s");
		assert_int_equal(shown(rig, "s"), 1);
		assert_int_equal(find(session, "k1"), 1);
		assert_int_equal(find(session, "k2"), 0);
	}
	/* The block goes on where it was. */
	rig_put(session, "turn_end", "{}");
	rig_settle(rig);
	assert_int_equal(shown(rig, "s"), 3);
}

static void a_refused_group_leaves_nothing(void **state)
{
	struct rig *rig = *state;
	struct told told;
	put_key(rig_session(rig, "s"), "k1");
	rig_say(rig_session(rig, "s"), "one ");
	rig_settle(rig);
	for (int round = 0; round < 2; round++) {
		break_next(rig);
		struct session *session = rig_session(rig, "s");
		assert_int_equal(put_key(session, "k2"), 3); /* the block is 2 */
		assert_int_equal(put_key(rig_session(rig, "made"), "k"), 1);
		assert_int_equal(find(session, "k2"), 1);
		wait_for(session, &told);
		rig_settle(rig);
		assert_true(told.is_told);
		assert_int_equal(told.status, -EIO);
		mend(rig);
		assert_int_equal(shown(rig, "s"), 1);
		assert_int_equal(find(rig_session(rig, "s"), "k2"), 0);
		assert_null(session_table_get(rig->table, "made", 4));
		if (round == 0) {
			reopen(rig);
			assert_null(session_table_get(rig->table, "made", 4));
		}
	}
	assert_int_equal(put_key(rig_session(rig, "s"), "k2"), 3);
	rig_settle(rig);
	reopen(rig);
	assert_int_equal(shown(rig, "s"), 3);
	assert_int_equal(find(rig_session(rig, "s"), "k2"), 1);
}

/**
 * Nobody says what became of a group. The engine finds out, or makes sure that it counts for
 * nothing, before it tells anybody.
 */
static void a_lost_answer(struct rig *rig, enum memory_fault fault, bool counts)
{
	struct told told;
	put_key(rig_session(rig, "s"), "k1");
	rig_settle(rig);
	if (rig->memory) {
		memory_fault(rig->memory, fault);
	} else if (rig->database) {
		postgres_fault(
			fault == MEMORY_IS_LATE ? POSTGRES_IS_LATE : POSTGRES_ANSWER_IS_LOST);
	} else {
		fault_disk_put(&(struct fault){.kind = CALL_FDATASYNC, .error = EIO});
	}
	put_key(rig_session(rig, "s"), "k2");
	wait_for(rig_session(rig, "s"), &told);
	rig_settle(rig);
	mend(rig);
	assert_true(told.is_told);
	assert_int_equal(told.status, counts ? 0 : -EIO);
	for (int starts = 0; starts < 2; starts++) {
		assert_int_equal(shown(rig, "s"), 1 + counts);
		assert_int_equal(find(rig_session(rig, "s"), "k2"), counts);
		reopen(rig);
	}
	assert_int_equal(put_key(rig_session(rig, "s"), "k3"), 2 + counts);
}

static void a_lost_answer_of_what_is_there(void **state)
{
	struct rig *rig = *state;
	a_lost_answer(rig, MEMORY_ANSWER_IS_LOST, rig->memory || rig->database);
}

static void a_lost_answer_of_what_comes_too_late(void **state)
{
	struct rig *rig = *state;
	/* Here the late one gets what it waits for, and settling waits for it in turn. */
	a_lost_answer(rig, MEMORY_IS_LATE, rig->database);
}

/* --- fences --- */

static void take_over(struct rig *rig, const char *id)
{
	if (rig->database) {
		postgres_take_over(id);
	} else {
		memory_take_over(rig->memory, id);
	}
}

static int count_events(struct rig *rig, const char *id)
{
	return rig->database ? postgres_count_events(id) : memory_count_events(rig->memory, id);
}

/** A session that another server has taken is let go; the others of its group are not touched. */
static void an_old_fence_changes_nothing(void **state)
{
	struct rig *rig = *state;
	struct told told[2];
	if (!rig->memory) { /* here a second server does not get that far */
		struct rig other;
		rig_init_on(&other, rig->dir);
		other.database = rig->database;
		assert_int_equal(rig_open(&other), -EBUSY);
		rig_finish(&other);
	}
	if (!rig->memory && !rig->database) {
		return;
	}
	put_key(rig_session(rig, "s"), "k1");
	put_key(rig_session(rig, "other"), "k1");
	rig_settle(rig);
	take_over(rig, "s");
	put_key(rig_session(rig, "s"), "k2");
	put_key(rig_session(rig, "other"), "k2");
	wait_for(rig_session(rig, "s"), &told[0]);
	wait_for(rig_session(rig, "other"), &told[1]);
	rig_expect_told(rig, "");
	rig_settle(rig);
	rig_expect_told(rig, "moved s");
	assert_true(told[0].is_told && told[0].status < 0);
	assert_true(told[1].is_told && told[1].status == 0);
	assert_null(session_table_get(rig->table, "s", 1));
	assert_int_equal(count_events(rig, "s"), 1);
	assert_int_equal(count_events(rig, "other"), 2);
	reopen(rig); /* it takes the session over in its turn */
	assert_int_equal(shown(rig, "s"), 1);
	assert_int_equal(put_key(rig_session(rig, "s"), "k2"), 2);
	rig_settle(rig);
	assert_int_equal(count_events(rig, "s"), 2);
}

struct visitor {
	struct names_wait wait; /* first */
	struct rig *rig;
	int calls;
	bool finds_it;
};

static void look_again(struct names_wait *wait)
{
	struct visitor *visitor = (struct visitor *)wait;
	visitor->calls++;
	visitor->finds_it = session_table_get(visitor->rig->table, "s", 1) != NULL;
}

/** Whoever waits for the names of a session that is let go looks for it again, and it is not there. */
static void who_waits_for_a_session_that_goes_is_told(void **state)
{
	struct rig *rig = *state;
	struct visitor visitor = {.wait.done = look_again, .rig = rig};
	if (!rig->memory && !rig->database) {
		return; /* nobody takes sessions from it */
	}
	rig->limits.evict_ms = 1;
	put_key(rig_session(rig, "s"), "k1");
	while (session_table_count_live(rig->table)) {
		rig_turn(rig);
	}
	struct session *session = rig_session(rig, "s");
	assert_false(session_has_names(session));
	session_load_names(session, &visitor.wait);
	store_fenced(session->log);
	assert_int_equal(visitor.calls, 1);
	assert_false(visitor.finds_it);
	rig_settle(rig);
	assert_int_equal(session_table_count(rig->table), 0);
	assert_int_equal(session_table_count_live(rig->table), 0);
}

/* --- reading --- */

struct page {
	bool is_done;
	int status;
	uint64_t first;
	size_t count;
};

static void handle_page(void *arg, int status, struct event **events, size_t count)
{
	struct page *page = arg;
	page->is_done = true;
	page->status = status;
	page->count = count;
	page->first = count ? events[0]->seq : 0;
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(events[i]->seq, page->first + i);
		event_unref(events[i]);
	}
}

static struct page read_page(struct rig *rig, const struct log_page *want)
{
	struct page page = {0};
	struct event *hot[64];
	struct session_log *log = rig_session(rig, "s")->log;
	size_t count = session_log_get_hot(log, want, hot);
	if (count) {
		handle_page(&page, 0, hot, count);
	} else {
		assert_non_null(session_log_read(log, want, handle_page, &page));
		assert_false(page.is_done);
	}
	while (!page.is_done) {
		uv_run(&rig->loop, UV_RUN_ONCE);
	}
	assert_int_equal(page.status, 0);
	return page;
}

static void pages_are_read(void **state)
{
	struct rig *rig = *state;
	for (int i = 1; i <= 50; i++) {
		rig_put(rig_session(rig, "s"), "x-note", "{\"text\":\"some text\"}");
	}
	rig_settle(rig);
	for (int starts = 0; starts < 2; starts++) {
		struct page all = read_page(
			rig, &(struct log_page){.from = 1, .to = 50, .max_bytes = SIZE_MAX});
		assert_int_equal(all.first, 1);
		assert_int_equal(all.count, 50);
		struct page front =
			read_page(rig, &(struct log_page){.from = 5, .to = 40, .max_bytes = 1000});
		assert_int_equal(front.first, 5);
		assert_in_range(front.count, 2, 30);
		struct page end = read_page(rig,
			&(struct log_page){
				.from = 5, .to = 40, .max_bytes = 1000, .is_fixed_at_end = true});
		assert_int_equal(end.first + end.count - 1, 40);
		assert_in_range(end.count, 2, 30);
		struct page one = read_page(rig, &(struct log_page){.from = 7, .to = 9});
		assert_int_equal(one.first, 7);
		assert_int_equal(one.count, 1);
		struct page html = read_page(rig,
			&(struct log_page){
				.from = 1, .to = 3, .max_bytes = SIZE_MAX, .format = FORMAT_HTML});
		assert_int_equal(html.count, 3);
		reopen(rig);
	}
}

struct waiting {
	struct names_wait wait;
	bool is_done;
};

static void handle_names(struct names_wait *wait)
{
	((struct waiting *)wait)->is_done = true;
}

/** A session that has left memory comes back with what it had; its names are waited for. */
static void a_session_comes_back_into_memory(void **state)
{
	struct rig *rig = *state;
	struct waiting first = {.wait = {.done = handle_names}};
	struct waiting second = {.wait = {.done = handle_names}};
	rig->limits.evict_ms = 1;
	put_key(rig_session(rig, "s"), "k1");
	while (session_table_count_live(rig->table)) {
		rig_turn(rig); /* it never waits for what has just happened */
	}
	struct session *session = rig_session(rig, "s");
	session_hold(session);
	assert_int_equal(shown(rig, "s"), 1);
	assert_false(session_has_names(session));
	size_t jobs = rig->table->store->jobs;
	session_load_names(session, &first.wait);
	session_load_names(session, &second.wait);
	assert_in_range(rig->table->store->jobs, jobs, jobs + 1); /* they are read once */
	assert_false(first.is_done);
	rig_settle(rig);
	assert_true(first.is_done && second.is_done);
	assert_true(session_has_names(session));
	assert_int_equal(find(session, "k1"), 1);
	assert_int_equal(put_key(session, "k2"), 2);
	rig_settle(rig);
	assert_int_equal(find(session, "k2"), 1);
	session_drop(session);
}

/* --- sessions --- */

static void count_object(const struct session_object *object, void *arg)
{
	int *sum = arg;
	*sum += (int)object->max_seq * (strcmp(object->id, "a") == 0 ? 1 : 10);
}

static void sessions_are_listed_and_deleted(void **state)
{
	struct rig *rig = *state;
	put_key(rig_session(rig, "a"), "k1");
	put_key(rig_session(rig, "b"), "k1");
	put_key(rig_session(rig, "b"), "k2");
	rig_settle(rig);
	for (int starts = 0; starts < 2; starts++) {
		int sum = 0;
		assert_int_equal(session_table_count(rig->table), 2);
		session_table_each_object(rig->table, count_object, &sum);
		assert_int_equal(sum, 21);
		reopen(rig);
	}
	uint64_t epoch = session_log_epoch(rig_session(rig, "b")->log);
	assert_int_equal(session_delete(rig_session(rig, "b")), 0);
	rig_settle(rig);
	assert_null(session_table_get(rig->table, "b", 1));
	assert_int_equal(put_key(rig_session(rig, "b"), "k2"), 1); /* it knows no key */
	rig_settle(rig);
	reopen(rig);
	assert_int_not_equal(session_log_epoch(rig_session(rig, "b")->log), epoch);
	assert_int_equal(shown(rig, "b"), 1);
	assert_int_equal(find(rig_session(rig, "b"), "k1"), 0);
}

static void an_epoch_is_changed_for_good(void **state)
{
	struct rig *rig = *state;
	uint64_t old;
	uint64_t fresh;
	put_key(rig_session(rig, "s"), "k1");
	rig_say(rig_session(rig, "s"), "an open block");
	rig_settle(rig);
	assert_int_equal(session_change_epoch(rig_session(rig, "s"), &old, &fresh), 0);
	reopen(rig);
	assert_int_equal(session_log_epoch(rig_session(rig, "s")->log), fresh);
	assert_int_equal(rig_put(rig_session(rig, "s"), "turn_end", "{}"), 3);
	rig_settle(rig);
	assert_int_equal(shown(rig, "s"), 3);
}

/** A connection goes from one reader to the next; its warnings are for the one that has it. */
static void a_warning_is_noted_where_the_connection_is(void **state)
{
	const struct rig *rig = *state;
	struct pg *pg = pg_of(rig->table->store);
	struct pg_conn first;
	struct pg_conn second;
	assert_true(pg_reader_take(pg, &first));
	const PGconn *conn = first.conn;
	pg_reader_give(pg, &first);
	assert_true(pg_reader_take(pg, &second));
	assert_ptr_equal(second.conn, conn);
	first.has_warned = second.has_warned = false;
	assert_int_equal(
		pg_run_all(&second, "DO $$ BEGIN RAISE WARNING 'not replicated'; END $$", NULL), 0);
	assert_true(second.has_warned);
	assert_false(first.has_warned);
	pg_reader_give(pg, &second);
}

int main(void)
{
#define CASE(name)                                                         \
	{"embedded: " #name, name, setup_embedded, teardown, NULL},        \
		{"memory: " #name, name, setup_memory, teardown, NULL},    \
	{                                                                  \
		"postgresql: " #name, name, setup_postgres, teardown, NULL \
	}
	const struct CMUnitTest tests[] = {
		CASE(what_is_acknowledged_is_there),
		CASE(a_refused_group_leaves_nothing),
		CASE(a_lost_answer_of_what_is_there),
		CASE(a_lost_answer_of_what_comes_too_late),
		CASE(an_old_fence_changes_nothing),
		CASE(who_waits_for_a_session_that_goes_is_told),
		CASE(pages_are_read),
		CASE(a_session_comes_back_into_memory),
		CASE(sessions_are_listed_and_deleted),
		CASE(an_epoch_is_changed_for_good),
		cmocka_unit_test_setup_teardown(
			a_warning_is_noted_where_the_connection_is, setup_postgres, teardown),
	};
	diag_set_level(DIAG_SILENT);
	return cmocka_run_group_tests_name("engines", tests, postgres_set_up, postgres_tear_down);
}
