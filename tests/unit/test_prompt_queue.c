/*
 * Prompts that wait: they are listed, edited and removed, in order, for everyone who watches, and
 * what was said of them holds after a restart, an eviction, a pruning and a failed write.
 */
#include "stage.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

static int setup(void **state)
{
	stage_setup(state);
	stage_watch(*state);
	return 0;
}

static int setup_on_disk(void **state)
{
	stage_setup_on_disk(state);
	stage_watch(*state);
	return 0;
}

static uint64_t prompt(struct session *session, const char *id, const char *message)
{
	uint64_t seq;
	bool duplicate;
	assert_int_equal(session_prompt(session, message, strlen(message), id, AUTHOR("client"),
				 &seq, &duplicate),
		0);
	assert_false(duplicate);
	return seq;
}

static void expect_duplicate(struct session *session, const char *id, enum prompt_place place)
{
	uint64_t seq;
	bool duplicate;
	struct prompt_view had;
	assert_int_equal(
		session_prompt(session, "again", 5, id, AUTHOR("other"), &seq, &duplicate), 0);
	assert_true(duplicate);
	assert_int_equal(session_find_prompt(session, id, &had), 0);
	assert_int_equal(had.place, place);
	assert_int_equal(had.seq, seq);
}

static int edit(struct session *session, const char *id, const char *message)
{
	struct prompt_view had;
	return session_edit_prompt(session, id, message, strlen(message), &had);
}

static int take_out(struct session *session, const char *id)
{
	struct prompt_view had;
	return session_remove_prompt(session, id, &had);
}

/** One turn runs, and p2 to p4 wait. */
static void fill(struct session *session)
{
	assert_int_equal(prompt(session, "p1", "one"), 1);
	assert_int_equal(prompt(session, "p2", "two"), 0);
	assert_int_equal(prompt(session, "p3", "three"), 0);
	assert_int_equal(prompt(session, "p4", "four"), 0);
}

/** What `state` told last: `p2 two; p3 three (edited)`. */
static void expect_shown(struct stage *st, const char *want)
{
	struct buffer got = {0};
	const json_t *state = fake_socket_newest(&st->socket, "state");
	const json_t *queue = json_object_get(state, "queue");
	size_t i;
	json_t *entry;
	assert_true(json_is_array(queue));
	json_array_foreach(queue, i, entry) {
		assert_string_equal(
			json_string_value(json_object_get(entry, "client_id")), "client");
		buffer_printf(&got, "%s%s %s%s", i ? "; " : "",
			json_string_value(json_object_get(entry, "prompt_id")),
			json_string_value(json_object_get(entry, "message")),
			json_object_get(entry, "edited") ? " (edited)" : "");
	}
	assert_string_equal(buffer_cstr(&got), want);
	assert_int_equal(
		json_integer_value(json_object_get(state, "queue_length")), json_array_size(queue));
	buffer_finish(&got);
}

static void end_turn(struct stage *st)
{
	rig_put(st->session, "turn_end", "{}");
	rig_settle(&st->rig);
}

/* --- listing, editing, removing --- */

static void everyone_sees_the_queue_once_it_is_on_disk(void **state)
{
	struct stage *st = *state;
	fill(st->session);
	assert_int_equal(fake_socket_count(&st->socket, "state"), 1); /* when it became live */
	rig_settle(&st->rig);
	expect_shown(st, "p2 two; p3 three; p4 four");
	size_t told = fake_socket_count(&st->socket, "state");
	/* The length stays, and the state is told all the same. */
	assert_int_equal(edit(st->session, "p3", "drei"), 0);
	expect_shown(st, "p2 two; p3 three; p4 four");
	rig_settle(&st->rig);
	assert_int_equal(fake_socket_count(&st->socket, "state"), told + 1);
	expect_shown(st, "p2 two; p3 drei (edited); p4 four");
	assert_int_equal(take_out(st->session, "p2"), 0);
	rig_settle(&st->rig);
	expect_shown(st, "p3 drei (edited); p4 four");
	assert_int_equal(take_out(st->session, "p3"), 0);
	assert_int_equal(take_out(st->session, "p4"), 0);
	rig_settle(&st->rig);
	expect_shown(st, "");
}

static void what_is_edited_runs_as_edited(void **state)
{
	struct stage *st = *state;
	fill(st->session);
	assert_int_equal(edit(st->session, "p3", "3"), 0);
	assert_int_equal(edit(st->session, "p3", "drei \"\n"), 0);
	assert_int_equal(take_out(st->session, "p2"), 0);
	rig_settle(&st->rig);
	rig_expect_told(&st->rig, "prompt s 1 one");
	end_turn(st);
	rig_expect_told(&st->rig, "prompt s 3 drei \"\n");
	const json_t *frame = fake_socket_newest(&st->socket, "events");
	const json_t *events = json_object_get(frame, "events");
	const json_t *data = json_object_get(json_array_get(events, 1), "data");
	assert_string_equal(json_string_value(json_object_get(data, "message")), "drei \"\n");
	assert_string_equal(json_string_value(json_object_get(data, "client_id")), "client");
	assert_true(json_is_true(json_object_get(data, "edited")));
	end_turn(st);
	rig_expect_told(&st->rig, "prompt s 5 four");
	end_turn(st);
	rig_expect_told(&st->rig, "");
	assert_int_equal(st->channel->max_seq, 6);
}

static void what_does_not_wait_cannot_be_changed(void **state)
{
	struct stage *st = *state;
	struct prompt_view had;
	fill(st->session);
	assert_int_equal(session_edit_prompt(st->session, "p1", "x", 1, &had), -ESRCH);
	assert_int_equal(had.place, PROMPT_BEGUN);
	assert_int_equal(had.seq, 1);
	assert_int_equal(session_remove_prompt(st->session, "p1", &had), -ESRCH);
	assert_int_equal(had.seq, 1);
	assert_int_equal(session_remove_prompt(st->session, "p9", &had), -ESRCH);
	assert_int_equal(had.place, PROMPT_UNKNOWN);
	assert_int_equal(session_remove_prompt(st->session, "p2", &had), 0);
	assert_int_equal(had.place, PROMPT_QUEUED);
	/* A second time says so, and adds nothing. */
	rig_settle(&st->rig);
	int64_t was = st->channel->max_seq;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(session_remove_prompt(st->session, "p2", &had), 0);
		assert_int_equal(had.place, PROMPT_REMOVED);
		assert_int_equal(session_edit_prompt(st->session, "p2", "x", 1, &had), -ESRCH);
		assert_int_equal(had.place, PROMPT_REMOVED);
		expect_duplicate(st->session, "p2", PROMPT_REMOVED);
		rig_settle(&st->rig);
	}
	assert_int_equal(st->channel->max_seq, was);
	expect_shown(st, "p3 three; p4 four");
	assert_int_equal(session_delete(st->session), 0);
	assert_int_equal(edit(st->session, "p3", "x"), -ENOENT);
	assert_int_equal(take_out(st->session, "p3"), -ENOENT);
}

/** The turn ends while its prompt is being written: the agent gets the next one only. */
static void a_prompt_whose_turn_has_ended_is_not_due(void **state)
{
	struct stage *st = *state;
	prompt(st->session, "p1", "one");
	session_table_end_tick(st->rig.table); /* it is on its way to the disk */
	prompt(st->session, "p2", "two");
	end_turn(st);
	rig_expect_told(&st->rig, "prompt s 3 two");
}

/** The end of a turn and a change of the next prompt: whoever is first in the journal is first. */
static void the_journal_decides_a_race(void **state)
{
	struct stage *st = *state;
	struct prompt_view had;
	fill(st->session);
	rig_settle(&st->rig);
	/* All of this is one batch. */
	assert_int_equal(edit(st->session, "p2", "zwei"), 0);
	rig_put(st->session, "turn_end", "{}");
	assert_int_equal(session_edit_prompt(st->session, "p2", "due", 3, &had), -ESRCH);
	assert_int_equal(had.seq, 3);
	assert_int_equal(take_out(st->session, "p3"), 0);
	rig_put(st->session, "turn_end", "{}");
	rig_settle(&st->rig);
	rig_expect_told(&st->rig, "prompt s 1 one; prompt s 5 four");
	stage_restart(st);
	const json_t *loaded = fake_socket_newest(&st->socket, "events_loaded");
	const json_t *second = json_array_get(json_object_get(loaded, "events"), 2);
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(second, "data"), "message")),
		"zwei");
	expect_shown(st, "");
}

static void a_long_message_is_cut_at_a_character(void **state)
{
	struct stage *st = *state;
	char *text = xcalloc(1, PROMPT_BRIEF_MAX + 10);
	memset(text, 'x', PROMPT_BRIEF_MAX - 1);
	prompt(st->session, "p1", "one");
	strcpy(text + PROMPT_BRIEF_MAX - 1, "\xc3\xa4"); /* half of it would fit */
	prompt(st->session, "p2", text);
	strcpy(text + PROMPT_BRIEF_MAX - 1, "y");
	prompt(st->session, "p3", text);
	rig_settle(&st->rig);
	const json_t *queue = json_object_get(fake_socket_newest(&st->socket, "state"), "queue");
	const json_t *cut = json_array_get(queue, 0);
	const json_t *fits = json_array_get(queue, 1);
	assert_int_equal(json_string_length(json_object_get(cut, "message")), PROMPT_BRIEF_MAX - 1);
	assert_true(json_is_true(json_object_get(cut, "truncated")));
	assert_int_equal(json_string_length(json_object_get(fits, "message")), PROMPT_BRIEF_MAX);
	assert_null(json_object_get(fits, "truncated"));
	free(text);
}

/** Whole texts as long as there is room, and after that what `state` shows of them. */
static void a_list_is_bounded(void **state)
{
	struct stage *st = *state;
	char *text = xcalloc(1, 2001);
	memset(text, 'x', 2000);
	prompt(st->session, "p1", "one");
	prompt(st->session, "p2", text);
	prompt(st->session, "p3", text);
	prompt(st->session, "p4", "four");
	rig_settle(&st->rig);
	struct buffer list = {0};
	prompt_queue_append_list(&list, st->channel->status.queue, 3000);
	json_t *json = json_loadb(list.data, list.len, 0, NULL);
	const json_t *prompts = json_object_get(json, "prompts");
	assert_int_equal(json_array_size(prompts), 3);
	const json_t *first = json_array_get(prompts, 0);
	const json_t *second = json_array_get(prompts, 1);
	assert_string_equal(json_string_value(json_object_get(first, "message")), text);
	assert_null(json_object_get(first, "truncated"));
	assert_int_equal(json_string_length(json_object_get(second, "message")), PROMPT_BRIEF_MAX);
	assert_true(json_is_true(json_object_get(second, "truncated")));
	assert_string_equal(
		json_string_value(json_object_get(json_array_get(prompts, 2), "message")), "four");
	json_decref(json);
	buffer_finish(&list);
	free(text);
}

static void state_names_the_first_hundred(void **state)
{
	struct stage *st = *state;
	st->rig.limits.prompt_queue = 150;
	for (int i = 0; i < 121; i++) {
		char id[16];
		snprintf(id, sizeof(id), "p%d", i);
		prompt(st->session, id, id);
	}
	rig_settle(&st->rig);
	const json_t *told = fake_socket_newest(&st->socket, "state");
	const json_t *queue = json_object_get(told, "queue");
	assert_int_equal(json_array_size(queue), PROMPT_QUEUE_SHOWN);
	assert_int_equal(json_integer_value(json_object_get(told, "queue_length")), 120);
	assert_string_equal(
		json_string_value(json_object_get(json_array_get(queue, 99), "prompt_id")), "p100");
}

/* --- what outlives what --- */

static void changes_outlive_restarts(void **state)
{
	struct stage *st = *state;
	fill(st->session);
	assert_int_equal(edit(st->session, "p3", "drei"), 0);
	assert_int_equal(take_out(st->session, "p2"), 0);
	rig_settle(&st->rig);
	/* The first restart replays records, the second reads the snapshot that the first made. */
	for (int i = 0; i < 2; i++) {
		stage_restart(st);
		expect_shown(st, "p3 drei (edited); p4 four");
		expect_duplicate(st->session, "p2", PROMPT_REMOVED);
		expect_duplicate(st->session, "p3", PROMPT_QUEUED);
	}
	assert_int_equal(take_out(st->session, "p4"), 0);
	rig_settle(&st->rig);
	buffer_clear(&st->rig.told);
	end_turn(st);
	rig_expect_told(&st->rig, "prompt s 3 drei");
	end_turn(st);
	stage_restart(st);
	expect_duplicate(st->session, "p2", PROMPT_REMOVED);
	expect_duplicate(st->session, "p4", PROMPT_REMOVED);
	expect_duplicate(st->session, "p3", PROMPT_BEGUN);
	rig_settle(&st->rig);
	assert_int_equal(st->channel->max_seq, 4);
}

static void a_removed_prompt_is_known_when_its_session_comes_back(void **state)
{
	struct stage *st = *state;
	st->rig.limits.evict_ms = 1;
	fake_socket_finish(&st->socket);
	fill(st->session);
	assert_int_equal(take_out(st->session, "p2"), 0);
	assert_int_equal(take_out(st->session, "p3"), 0);
	assert_int_equal(take_out(st->session, "p4"), 0);
	rig_put(st->session, "turn_end", "{}");
	rig_settle(&st->rig);
	uv_timer_again(&st->rig.guard);
	while (session_table_count_live(st->rig.table)) {
		uv_run(&st->rig.loop, UV_RUN_NOWAIT);
		session_table_end_tick(st->rig.table);
	}
	st->rig.limits.evict_ms = RIG_NEVER;
	st->session = rig_session(&st->rig, "s");
	st->channel = session_channel(st->session);
	expect_duplicate(st->session, "p2", PROMPT_REMOVED);
	expect_duplicate(st->session, "p1", PROMPT_BEGUN);
	rig_settle(&st->rig);
	assert_int_equal(st->channel->max_seq, 2);
	stage_open_socket(st, DELTAS_NONE);
}

/** What could not be written is taken back: the queue is as it was, and nobody saw another one. */
static void a_failed_write_leaves_the_queue(void **state)
{
	struct stage *st = *state;
	struct rlimit was;
	fill(st->session);
	rig_settle(&st->rig);
	expect_shown(st, "p2 two; p3 three; p4 four");
	size_t told = fake_socket_count(&st->socket, "state");
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &was);
	setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = 300, .rlim_max = was.rlim_max});
	assert_int_equal(take_out(st->session, "p2"), 0);
	assert_int_equal(edit(st->session, "p3", "drei"), 0);
	assert_int_equal(take_out(st->session, "p4"), 0);
	rig_settle(&st->rig);
	assert_non_null(strstr(buffer_cstr(&st->rig.told), "store failed"));
	assert_int_equal(fake_socket_count(&st->socket, "state"), told);
	assert_int_equal(take_out(st->session, "p3"), -EIO);
	setrlimit(RLIMIT_FSIZE, &was);
	rig_wait_for_store(&st->rig);
	struct prompt_view had;
	assert_int_equal(session_find_prompt(st->session, "p2", &had), 0);
	assert_int_equal(had.place, PROMPT_QUEUED);
	assert_int_equal(take_out(st->session, "p4"), 0);
	rig_settle(&st->rig);
	expect_shown(st, "p2 two; p3 three");
	stage_restart(st);
	expect_shown(st, "p2 two; p3 three");
	expect_duplicate(st->session, "p4", PROMPT_REMOVED);
}

/** The turn that an agent had not heard of when it stopped is not over. */
static void an_agent_stops_between_two_turns(void **state)
{
	struct stage *st = *state;
	struct session *session = st->session;
	assert_int_equal(prompt(session, "p1", "one"), 1);
	assert_int_equal(prompt(session, "p2", "two"), 0);
	rig_settle(&st->rig);
	rig_put(session, "turn_end", "{}");
	rig_put(session, "agent_stopped", "{\"reason\":\"exit\",\"between_turns\":true}");
	assert_true(session_is_turn_of_prompt(session));
	assert_int_equal(session_turn(session), 2);
	assert_false(session_agent_is_running(session));
	rig_settle(&st->rig);
	rig_expect_told(&st->rig, "prompt s 1 one; prompt s 3 two");
	rig_put(session, "agent_stopped", "{\"reason\":\"exit\"}");
	assert_false(session_is_prompting(session));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, stage_teardown)
	const struct CMUnitTest tests[] = {
		TEST(everyone_sees_the_queue_once_it_is_on_disk),
		TEST(what_is_edited_runs_as_edited),
		TEST(what_does_not_wait_cannot_be_changed),
		TEST(the_journal_decides_a_race),
		TEST(an_agent_stops_between_two_turns),
		TEST(a_long_message_is_cut_at_a_character),
		TEST(a_list_is_bounded),
		TEST(state_names_the_first_hundred),
		TEST(changes_outlive_restarts),
		cmocka_unit_test_setup_teardown(
			a_prompt_whose_turn_has_ended_is_not_due, setup_on_disk, stage_teardown),
		TEST(a_removed_prompt_is_known_when_its_session_comes_back),
		cmocka_unit_test_setup_teardown(
			a_failed_write_leaves_the_queue, setup_on_disk, stage_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
