/*
 * Several nodes on one database: who has a session, how it goes from one to another, and that the
 * one before changes nothing any more. Both nodes are in this process, each with a loop of its own,
 * so that a test decides which of them gets on.
 */
#include "postgres.h"
#include "rig.h"
#include "core/session/session_internal.h"

#include "holdfast/diag.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

/* Longer than anything here takes; where a lease is to end, the test sees to it. */
#define LEASE_MS 5000

struct nodes {
	struct rig a;
	struct rig b;
};

static void init(struct rig *rig, const char *address)
{
	rig_init_in_postgres(rig, postgres_address());
	rig->node_address = address;
	rig->limits.journal_retry_ms = 1;
	rig->limits.node_lease_ms = LEASE_MS;
}

static int setup(void **state)
{
	struct nodes *nodes = xcalloc(1, sizeof(*nodes));
	postgres_clear();
	init(&nodes->a, "a:1");
	init(&nodes->b, "b:2");
	assert_int_equal(rig_open(&nodes->a), 0);
	assert_int_equal(rig_open(&nodes->b), 0);
	*state = nodes;
	return 0;
}

static int teardown(void **state)
{
	struct nodes *nodes = *state;
	rig_finish(&nodes->a);
	rig_finish(&nodes->b);
	free(nodes);
	return 0;
}

static void step(struct rig *rig)
{
	if (rig->table) {
		uv_timer_again(&rig->guard);
		uv_run(&rig->loop, UV_RUN_NOWAIT);
		session_table_end_tick(rig->table);
	}
}

/** The nodes that are given get on for a moment; NULL: that one does not. */
static void run(struct rig *rig, struct rig *other)
{
	step(rig);
	if (other) {
		step(other);
	}
	nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

struct sought {
	struct place_wait wait; /* the first member */
	bool is_done;
	int status;
	enum session_place place;
	char address[32];
};

static void handle_sought(
	struct place_wait *wait, int status, enum session_place place, const char *address)
{
	struct sought *sought = (struct sought *)wait;
	assert_false(sought->is_done);
	sought->is_done = true;
	sought->status = status;
	sought->place = place;
	snprintf(sought->address, sizeof(sought->address), "%s", address ? address : "");
}

static void begin_seek(struct rig *rig, const char *id, struct sought *sought)
{
	*sought = (struct sought){.wait.done = handle_sought};
	session_table_seek(rig->table, id, &sought->wait);
	assert_false(sought->is_done);
}

static struct sought seek(struct rig *rig, const char *id, struct rig *other)
{
	struct sought sought;
	begin_seek(rig, id, &sought);
	while (!sought.is_done) {
		run(rig, other);
	}
	return sought;
}

static void expect_elsewhere(struct sought sought, const char *address)
{
	assert_int_equal(sought.status, 0);
	assert_int_equal(sought.place, PLACE_ELSEWHERE);
	assert_string_equal(sought.address, address);
}

static void expect_here(struct sought sought)
{
	assert_int_equal(sought.status, 0);
	assert_int_equal(sought.place, PLACE_HERE);
	assert_string_equal(sought.address, "");
}

static struct session *get(struct rig *rig, const char *id)
{
	return session_table_get(rig->table, id, strlen(id));
}

static uint64_t shown(struct rig *rig, const char *id)
{
	return session_channel(get(rig, id))->max_seq;
}

static uint64_t put_key(struct session *session, const char *key, bool *ret_duplicate)
{
	uint64_t seq;
	struct input_event in = {.type = event_type_of("x-note", 6),
		.type_name = "x-note",
		.type_len = 6,
		.key = key,
		.key_len = strlen(key),
		.data = "{}",
		.data_len = 2};
	assert_int_equal(session_input(session, &in, &seq, ret_duplicate), 0);
	return seq;
}

/** A session in the middle of everything: an open list, what is held behind it, a question. */
static void make_busy(struct rig *rig, const char *id)
{
	bool duplicate;
	struct session *session = rig_session(rig, id);
	put_key(session, "k1", &duplicate);
	rig_put(session, "permission_request",
		"{\"request_id\":\"q\",\"tool_call_id\":\"t\",\"title\":\"May it?\",\"options\":[{\"option_id\":\"yes\",\"name\":\"Yes\",\"kind\":\"allow_once\"}]}");
	rig_say(session, "- one\n- two");
	rig_put(session, "x-note", "{\"held\":true}");
	rig_settle(rig);
	assert_int_equal(shown(rig, id), 2);
}

static void handle_names(struct names_wait *wait)
{
}

/** Whether the session has the key. */
static int find_key(struct rig *rig, const char *id, const char *name)
{
	struct log_key key;
	struct names_wait wait = {.done = handle_names};
	struct session *session = get(rig, id);
	session_hold(session);
	if (!session_has_names(session)) {
		session_load_names(session, &wait);
	}
	while (!session_has_names(session)) {
		run(rig, NULL);
	}
	int r = session_find_name(session, LOG_KEY_INPUT, name, &key);
	session_drop(session);
	return r;
}

/** It goes on where it was: nothing is lost, repeated, or has another number. */
static void expect_busy(struct rig *rig, const char *id)
{
	struct session *session = get(rig, id);
	assert_int_equal(shown(rig, id), 2);
	assert_int_equal(session_count_permissions(session).open, 1);
	assert_int_equal(find_key(rig, id, "k1"), 1);
	rig_say(session, "\n\nThe end.\n\n");
	rig_put(session, "turn_end", "{}");
	rig_settle(rig);
	/* The list, the note, a paragraph, the question without an answer, the end. */
	assert_int_equal(shown(rig, id), 7);
	assert_int_equal(postgres_count_events(id), 7);
}

/* --- cases --- */

static void another_node_is_named(void **state)
{
	struct nodes *nodes = *state;
	rig_session(&nodes->a, "s");
	rig_settle(&nodes->a);
	expect_elsewhere(seek(&nodes->b, "s", &nodes->a), "a:1");
	assert_int_equal(seek(&nodes->b, "other", &nodes->a).place, PLACE_NOWHERE);
	rig_session(&nodes->b, "other");
	rig_settle(&nodes->b);
	expect_elsewhere(seek(&nodes->a, "other", &nodes->b), "b:2");
	assert_memory_equal(session_table_node_key(nodes->a.table),
		session_table_node_key(nodes->b.table), NODE_KEY_SIZE);
}

static void many_ask_at_once(void **state)
{
	struct nodes *nodes = *state;
	struct sought sought[3];
	rig_session(&nodes->a, "s");
	rig_settle(&nodes->a);
	for (size_t i = 0; i < 3; i++) {
		begin_seek(&nodes->b, "s", &sought[i]);
	}
	place_wait_cancel(&sought[1].wait);
	while (!sought[2].is_done) {
		run(&nodes->b, &nodes->a);
	}
	expect_elsewhere(sought[0], "a:1");
	assert_false(sought[1].is_done);
	expect_elsewhere(sought[2], "a:1");
}

static void a_node_that_stops_hands_over(void **state)
{
	struct nodes *nodes = *state;
	make_busy(&nodes->a, "s");
	rig_close(&nodes->a);
	expect_here(seek(&nodes->b, "s", NULL));
	expect_busy(&nodes->b, "s");
}

/** Before it has stopped: whoever has left it finds the session elsewhere. */
static void a_node_hands_over_while_it_stops(void **state)
{
	struct nodes *nodes = *state;
	bool duplicate;
	make_busy(&nodes->a, "s");
	put_key(get(&nodes->a, "s"), "last", &duplicate); /* held behind the list */
	session_table_hand_over(nodes->a.table);
	assert_int_equal(shown(&nodes->a, "s"), 2); /* what it has can be read */
	struct input_event in = {.type = EVENT_TURN_END};
	uint64_t seq;
	assert_true(session_input(get(&nodes->a, "s"), &in, &seq, &duplicate) < 0);
	expect_here(seek(&nodes->b, "s", &nodes->a));
	assert_int_equal(find_key(&nodes->b, "s", "last"), 1);
	rig_close(&nodes->a);
	expect_here(seek(&nodes->b, "s", NULL));
	rig_put(get(&nodes->b, "s"), "turn_end", "{}");
	rig_settle(&nodes->b);
	/* The list, two notes, the question without an answer, the end. */
	assert_int_equal(shown(&nodes->b, "s"), 7);
	assert_int_equal(postgres_count_events("s"), 7);
}

/** It has been told to stop: neither who asks for a session makes it take one, nor its timer. */
static void a_node_that_drains_takes_nothing_over(void **state)
{
	struct nodes *nodes = *state;
	make_busy(&nodes->a, "s");
	rig_close(&nodes->a);
	server_reach(&nodes->b.life, SERVER_DRAINING);
	assert_int_equal(seek(&nodes->b, "s", NULL).status, -EAGAIN);
	for (int i = 0; i < 500; i++) {
		run(&nodes->b, NULL);
	}
	assert_null(get(&nodes->b, "s"));
}

static void what_nobody_asks_for_is_taken_too(void **state)
{
	struct nodes *nodes = *state;
	make_busy(&nodes->a, "s");
	make_busy(&nodes->a, "t");
	rig_close(&nodes->a);
	while (!get(&nodes->b, "s") || !get(&nodes->b, "t")) {
		run(&nodes->b, NULL);
	}
	expect_busy(&nodes->b, "s");
	expect_busy(&nodes->b, "t");
}

/** It was asleep, or paused: its lease is over, and it does not know. */
static void a_paused_owner_wakes(void **state)
{
	struct nodes *nodes = *state;
	bool duplicate;
	make_busy(&nodes->a, "s");
	expect_elsewhere(seek(&nodes->b, "s", NULL), "a:1"); /* its lease is not over yet */
	put_key(get(&nodes->a, "s"), "late", &duplicate);
	postgres_ask("UPDATE holdfast_node SET lease_until = now() WHERE address = 'a:1'");
	while (!get(&nodes->b, "s")) {
		run(&nodes->b, NULL);
	}
	rig_expect_told(&nodes->a, "");
	session_table_end_tick(nodes->a.table); /* the group goes out, with the old fence */
	while (get(&nodes->a, "s")) {
		run(&nodes->a, NULL);
	}
	rig_expect_told(&nodes->a, "moved s");
	expect_busy(&nodes->b, "s");
	expect_elsewhere(seek(&nodes->a, "s", &nodes->b), "b:2");
}

/** Before its lease is over it has let go, and what it has lost it may take again. */
static void a_node_that_is_cut_off_lets_go(void **state)
{
	struct nodes *nodes = *state;
	rig_close(&nodes->a);
	nodes->a.limits.node_lease_ms = 1000;
	assert_int_equal(rig_open(&nodes->a), 0);
	make_busy(&nodes->a, "s");
	postgres_ask("BEGIN");
	postgres_ask("LOCK TABLE holdfast_node IN ACCESS EXCLUSIVE MODE");
	/* With the lease it is not there any more; a moment later it is told. */
	while (get(&nodes->a, "s") || !nodes->a.told.len) {
		run(&nodes->a, NULL);
	}
	nodes->a.limits.node_lease_ms = LEASE_MS;
	postgres_ask("COMMIT");
	rig_expect_told(&nodes->a, "moved s");
	while (!get(&nodes->a, "s")) {
		run(&nodes->a, NULL);
	}
	expect_busy(&nodes->a, "s");
}

/** Somebody has copied the data directory, and with it the node's name. */
static void a_name_is_used_twice(void **state)
{
	struct nodes *nodes = *state;
	make_busy(&nodes->a, "s");
	postgres_ask("UPDATE holdfast_node SET holder = 'another' WHERE address = 'a:1'");
	while (get(&nodes->a, "s") || !nodes->a.told.len) {
		run(&nodes->a, NULL);
	}
	rig_expect_told(&nodes->a, "moved s");
	while (!get(&nodes->a, "s")) {
		run(&nodes->a, NULL);
	}
	expect_busy(&nodes->a, "s");
	assert_int_equal(postgres_ask("SELECT count(DISTINCT name) FROM holdfast_node"), 3);
}

static void two_want_it_at_once(void **state)
{
	struct nodes *nodes = *state;
	struct rig third;
	struct sought sought[2];
	init(&third, "c:3");
	assert_int_equal(rig_open(&third), 0);
	make_busy(&nodes->a, "s");
	rig_close(&nodes->a);
	begin_seek(&nodes->b, "s", &sought[0]);
	begin_seek(&third, "s", &sought[1]);
	while (!sought[0].is_done || !sought[1].is_done) {
		run(&nodes->b, &third);
	}
	bool is_second = sought[1].place == PLACE_HERE;
	expect_here(sought[is_second]);
	expect_elsewhere(sought[!is_second], is_second ? "c:3" : "b:2");
	expect_busy(is_second ? &third : &nodes->b, "s");
	rig_finish(&third);
}

/** A producer that had no answer sends it again to another node. */
static void a_key_is_known_everywhere(void **state)
{
	struct nodes *nodes = *state;
	bool duplicate;
	put_key(rig_session(&nodes->a, "s"), "k", &duplicate);
	assert_false(duplicate);
	rig_settle(&nodes->a);
	rig_close(&nodes->a);
	expect_here(seek(&nodes->b, "s", NULL));
	assert_int_equal(find_key(&nodes->b, "s", "k"), 1);
	assert_int_equal(find_key(&nodes->b, "s", "other"), 0);
}

static void nobody_is_alone_beside_others(void **state)
{
	struct nodes *nodes = *state;
	struct rig alone;
	init(&alone, NULL);
	assert_int_equal(rig_open(&alone), -EBUSY);
	rig_close(&nodes->a);
	assert_int_equal(rig_open(&alone), -EBUSY);
	rig_close(&nodes->b);
	assert_int_equal(rig_open(&alone), 0);
	assert_int_equal(rig_open(&nodes->a), -EBUSY);
	assert_non_null(strstr(nodes->a.why, "alone"));
	rig_finish(&alone);
}

/** Two make the same session: the second one's comes to nothing. */
static void a_session_is_made_twice(void **state)
{
	struct nodes *nodes = *state;
	bool duplicate;
	put_key(rig_session(&nodes->a, "s"), "a", &duplicate);
	put_key(rig_session(&nodes->b, "s"), "b", &duplicate);
	rig_settle(&nodes->a);
	rig_settle(&nodes->b);
	rig_expect_told(&nodes->b, "moved s");
	assert_null(get(&nodes->b, "s"));
	expect_elsewhere(seek(&nodes->b, "s", &nodes->a), "a:1");
	assert_int_equal(postgres_count_events("s"), 1);
}

/** Its id stays taken, its rows stay as they are, and the other sessions are served. */
static void a_damaged_session_keeps_no_node_from_starting(void **state)
{
	struct nodes *nodes = *state;
	make_busy(&nodes->a, "s");
	make_busy(&nodes->a, "t");
	rig_close(&nodes->a);
	rig_close(&nodes->b);
	postgres_ask("UPDATE holdfast_session SET metadata = '{' || metadata WHERE id = 's'");
	assert_int_equal(rig_open(&nodes->a), 0);
	assert_null(get(&nodes->a, "s"));
	assert_int_equal(session_table_absence(nodes->a.table, "s", 1), STORE_DAMAGED);
	assert_int_equal(session_table_count_damaged(nodes->a.table), 1);
	expect_busy(&nodes->a, "t");
	rig_close(&nodes->a);
	postgres_ask("UPDATE holdfast_session SET metadata = substr(metadata, 2) WHERE id = 's'");
	assert_int_equal(rig_open(&nodes->b), 0);
	assert_int_equal(session_table_count_damaged(nodes->b.table), 0);
	expect_busy(&nodes->b, "s");
}

/** The standby may not have it yet: it is told of when something that was written later is there. */
static void a_deletion_that_was_warned_of_is_confirmed(void **state)
{
	struct nodes *nodes = *state;
	rig_session(&nodes->a, "s");
	rig_settle(&nodes->a);
	postgres_ask("CREATE SEQUENCE writes;"
		     "CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
		     " IF nextval('writes') <= 2 THEN RAISE WARNING 'not replicated'; END IF;"
		     " RETURN NEW; END $$;"
		     "CREATE TRIGGER warn BEFORE INSERT ON holdfast_garbage FOR EACH ROW"
		     " EXECUTE FUNCTION warn()");
	assert_int_equal(session_delete(get(&nodes->a, "s")), 0);
	rig_settle(&nodes->a);
	assert_null(get(&nodes->a, "s"));
	/* The deletion itself, one that was warned of, too, and one that was not. */
	assert_int_equal(postgres_ask("SELECT last_value FROM writes"), 3);
	assert_int_equal(postgres_count_events("s"), -1);
}

/* --- older copies --- */

static void save_copy(void)
{
	postgres_ask("CREATE SCHEMA copy; CREATE TABLE copy.session AS TABLE holdfast_session;"
		     "CREATE TABLE copy.record AS TABLE holdfast_record;"
		     "CREATE TABLE copy.event AS TABLE holdfast_event");
}

/** Under nodes that are at work, and with nothing in it that says so. */
static void restore_copy(void)
{
	postgres_ask(
		"TRUNCATE holdfast_session, holdfast_record, holdfast_event;"
		"INSERT INTO holdfast_session SELECT * FROM copy.session;"
		"INSERT INTO holdfast_record SELECT * FROM copy.record;"
		"INSERT INTO holdfast_event SELECT * FROM copy.event; DROP SCHEMA copy CASCADE");
}

static uint64_t epoch_of(struct rig *rig, const char *id)
{
	return session_log_epoch(get(rig, id)->log);
}

/** Whoever takes it first has it with another epoch. */
static struct rig *wait_for_other_epoch(struct nodes *nodes, const char *id, uint64_t epoch)
{
	for (;;) {
		struct rig *rigs[] = {&nodes->a, &nodes->b};
		for (size_t i = 0; i < 2; i++) {
			if (get(rigs[i], id) && epoch_of(rigs[i], id) != epoch) {
				return rigs[i];
			}
		}
		run(&nodes->a, &nodes->b);
	}
}

/** Opens it as holdfast new-epoch does, beside nodes that are at work, and leaves. */
static void give_epochs(const char *address)
{
	struct rig tool;
	init(&tool, address);
	tool.takes_older = true;
	assert_int_equal(rig_open(&tool), 0);
	rig_finish(&tool);
}

static bool is_refused(void)
{
	return postgres_ask("SELECT count(*) FROM holdfast_place WHERE system = 0") == 1;
}

/** Whoever writes a session of its own notices that the database lacks what it wrote; nobody writes there any more. */
static void an_older_copy_is_noticed_by_what_it_lacks(void **state)
{
	struct nodes *nodes = *state;
	bool duplicate;
	put_key(rig_session(&nodes->a, "s"), "k1", &duplicate);
	put_key(rig_session(&nodes->b, "t"), "k1", &duplicate);
	rig_settle(&nodes->a);
	rig_settle(&nodes->b);
	uint64_t s = epoch_of(&nodes->a, "s");
	uint64_t t = epoch_of(&nodes->b, "t");
	save_copy();
	put_key(get(&nodes->a, "s"), "k2", &duplicate);
	rig_settle(&nodes->a);
	restore_copy();
	assert_int_equal(put_key(get(&nodes->a, "s"), "k3", &duplicate), 3);
	while (!is_refused()) {
		run(&nodes->a, &nodes->b);
	}
	assert_int_equal(postgres_count_events("s"), 1);
	assert_int_equal(epoch_of(&nodes->a, "s"), s);
	give_epochs("c:3");
	wait_for_other_epoch(nodes, "t", t);
	struct rig *rig = wait_for_other_epoch(nodes, "s", s);
	assert_int_equal(find_key(rig, "s", "k1"), 1);
	assert_int_equal(find_key(rig, "s", "k2"), 0);
	assert_int_equal(find_key(rig, "s", "k3"), 0);
	assert_int_equal(put_key(get(rig, "s"), "k4", &duplicate), 2);
	rig_settle(rig);
	assert_int_equal(postgres_count_events("s"), 2);
}

/** It is a copy of a database that is on a new timeline now; what had all commits is no older one. */
static void a_new_timeline_is_another_copy_unless_commits_waited(void **state)
{
	struct nodes *nodes = *state;
	bool duplicate;
	for (int synchronous = 0; synchronous < 2; synchronous++) {
		struct session *session = get(&nodes->a, "s");
		put_key(session ? session : rig_session(&nodes->a, "s"), "k", &duplicate);
		rig_settle(&nodes->a);
		uint64_t epoch = epoch_of(&nodes->a, "s");
		rig_close(&nodes->b);
		rig_close(&nodes->a);
		postgres_ask(
			synchronous
				? "UPDATE holdfast_place SET timeline = timeline - 1, synchronous = 1"
				: "UPDATE holdfast_place SET timeline = timeline - 1");
		if (!synchronous) {
			assert_int_equal(rig_open(&nodes->a), -ESTALE);
			assert_non_null(strstr(nodes->a.why, "older copy"));
			give_epochs("a:1");
		}
		assert_int_equal(rig_open(&nodes->a), 0);
		assert_int_equal(rig_open(&nodes->b), 0);
		assert_int_equal(epoch_of(&nodes->a, "s") == epoch, synchronous);
	}
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(another_node_is_named),
		CASE(many_ask_at_once),
		CASE(a_node_that_stops_hands_over),
		CASE(a_node_hands_over_while_it_stops),
		CASE(a_node_that_drains_takes_nothing_over),
		CASE(what_nobody_asks_for_is_taken_too),
		CASE(a_paused_owner_wakes),
		CASE(a_node_that_is_cut_off_lets_go),
		CASE(a_name_is_used_twice),
		CASE(two_want_it_at_once),
		CASE(a_key_is_known_everywhere),
		CASE(nobody_is_alone_beside_others),
		CASE(a_session_is_made_twice),
		CASE(a_damaged_session_keeps_no_node_from_starting),
		CASE(a_deletion_that_was_warned_of_is_confirmed),
		CASE(an_older_copy_is_noticed_by_what_it_lacks),
		CASE(a_new_timeline_is_another_copy_unless_commits_waited),
	};
	diag_set_level(DIAG_SILENT);
	return cmocka_run_group_tests_name("nodes", tests, postgres_set_up, postgres_tear_down);
}
