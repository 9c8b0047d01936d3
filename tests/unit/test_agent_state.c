/*
 * What an agent says of itself is found again by its seq: by those who load only the log's end,
 * after the session has left memory, after a crash and after a restart. And the title that it
 * gives.
 */
#include "rig.h"

#include "fake_socket.h"
#include "holdfast/requests.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

static int setup(void **state)
{
	struct rig *rig = xcalloc(1, sizeof(*rig));
	rig_init(rig);
	rig->limits.evict_ms = 1;
	assert_int_equal(rig_open(rig), 0);
	*state = rig;
	return 0;
}

static int teardown(void **state)
{
	rig_finish(*state);
	free(*state);
	return 0;
}

static void wait_until_away(struct rig *rig)
{
	uv_timer_again(&rig->guard);
	while (session_table_count_live(rig->table)) {
		uv_run(&rig->loop, UV_RUN_ONCE);
		session_table_end_tick(rig->table);
	}
}

/** What GET of the session says, wherever it is. */
static void expect_state(struct rig *rig, const char *want)
{
	struct session_object object;
	struct buffer text = {0};
	assert_true(session_table_get_object(rig->table, "s", 1, &object));
	agent_state_append(&object.agent_state, object.first_seq, &text);
	assert_string_equal(buffer_cstr(&text), want);
	buffer_finish(&text);
}

static void expect_title(struct rig *rig, const char *want)
{
	struct session_object object;
	assert_true(session_table_get_object(rig->table, "s", 1, &object));
	assert_string_equal(object.labels.title, want);
}

/** What `connected` says to an observer who comes now. */
static void expect_connected(struct rig *rig, const char *want)
{
	struct fake_socket socket;
	fake_socket_open(&socket, session_channel(rig_session(rig, "s")), DELTAS_NONE);
	char *got =
		json_dumps(json_object_get(fake_socket_newest(&socket, "connected"), "agent_state"),
			JSON_COMPACT);
	assert_string_equal(got, want);
	free(got);
	fake_socket_finish(&socket);
}

/** All six kinds, and what is none. */
static void put_all(struct session *session)
{
	rig_put(session, "agent_started", "{\"name\":\"a\"}");
	rig_put(session, "x-acp-modes", "{\"current_mode_id\":\"ask\"}");
	rig_put(session, "x-acp-models", "{}");
	rig_put(session, "x-acp-meta", "{}");
	rig_put(session, "x-acp-config_option_update", "{\"config_options\":[]}");
	rig_put(session, "x-acp-available_commands_update", "{\"available_commands\":[]}");
	rig_put(session, "x-acp-session_info_update", "{}");
	rig_put(session, "x-acp-current_mode_update", "{\"current_mode_id\":\"code\"}");
	rig_put(session, "x-acp-current_mode_update", "{\"current_mode_id\":\"ask\"}");
}

static const char all[] = "{\"modes\":2,\"models\":3,\"mode\":9,\"config_options\":5,"
			  "\"commands\":6,\"info\":7}";

static void the_newest_of_each_kind_is_named(void **state)
{
	struct rig *rig = *state;
	rig_session(rig, "s");
	rig_settle(rig);
	expect_state(rig, "{}");
	expect_connected(rig, "{}");
	put_all(rig_session(rig, "s"));
	expect_state(rig, "{}"); /* nothing of it may be shown yet */
	rig_settle(rig);
	expect_state(rig, all);
	expect_connected(rig, all);
}

static void what_is_held_is_not_named(void **state)
{
	struct rig *rig = *state;
	rig_say(rig_session(rig, "s"), "- a list\n");
	rig_put(rig_session(rig, "s"), "x-acp-modes", "{}");
	rig_settle(rig);
	expect_connected(rig, "{}");
	rig_put(rig_session(rig, "s"), "turn_end", "{}");
	rig_settle(rig);
	expect_connected(rig, "{\"modes\":2}");
}

static void another_session_of_the_agent_begins_with_nothing(void **state)
{
	struct rig *rig = *state;
	put_all(rig_session(rig, "s"));
	rig_put(rig_session(rig, "s"), "agent_stopped", "{\"reason\":\"exit\"}");
	rig_put(rig_session(rig, "s"), "agent_started", "{\"resumed\":true}");
	rig_settle(rig);
	expect_state(rig, all);
	rig_put(rig_session(rig, "s"), "agent_started", "{\"resumed\":false}");
	rig_settle(rig);
	expect_state(rig, "{}");
	rig_put(rig_session(rig, "s"), "x-acp-modes", "{}");
	rig_settle(rig);
	expect_state(rig, "{\"modes\":13}");
}

static void it_is_there_when_the_session_is_away(void **state)
{
	struct rig *rig = *state;
	put_all(rig_session(rig, "s"));
	rig_put(rig_session(rig, "s"), "agent_stopped", "{\"reason\":\"exit\"}");
	rig_settle(rig);
	wait_until_away(rig);
	expect_state(rig, all);
	assert_int_equal(session_table_count_live(rig->table), 0);
	expect_connected(rig, all);
	rig_put(rig_session(rig, "s"), "x-acp-models", "{}");
	rig_settle(rig);
	wait_until_away(rig);
	expect_state(rig, "{\"modes\":2,\"models\":11,\"mode\":9,\"config_options\":5,"
			  "\"commands\":6,\"info\":7}");
}

/** Opens a copy of the directory as it is now, with its log emptied if so asked. */
static void expect_after_crash(struct rig *rig, bool without_log, const char *want)
{
	struct rig again;
	char *dir = rig_copy_dir(rig->dir);
	if (without_log) {
		struct buffer path = {0};
		buffer_printf(&path, "%s/sessions/s/events.jsonl", dir);
		assert_int_equal(truncate(buffer_cstr(&path), 0), 0);
		buffer_finish(&path);
	}
	rig_init_on(&again, dir);
	assert_int_equal(rig_open(&again), 0);
	expect_state(&again, want);
	expect_title(&again, "s");
	rig_finish(&again);
	rig_remove_dir(dir);
	free(dir);
}

static void a_crash_leaves_it(void **state)
{
	struct rig *rig = *state;
	rig->limits.evict_ms = RIG_NEVER;
	put_all(rig_session(rig, "s"));
	rig_settle(rig);
	expect_after_crash(rig, false, all); /* from the log's lines */
	expect_after_crash(rig, true, all); /* from the journal */
}

static void a_restart_reads_it_from_the_metadata(void **state)
{
	struct rig *rig = *state;
	put_all(rig_session(rig, "s"));
	rig_put(rig_session(rig, "s"), "turn_end", "{}");
	rig_settle(rig);
	for (int i = 0; i < 2; i++) {
		rig_close(rig);
		assert_int_equal(rig_open(rig), 0);
		expect_state(rig, all);
		expect_connected(rig, all);
	}
}

static void what_is_pruned_is_not_named(void **state)
{
	struct agent_state known = {.seqs = {2, 3, 9, 0, 6, 7}};
	struct buffer text = {0};
	agent_state_append(&known, 7, &text);
	assert_string_equal(buffer_cstr(&text), "{\"mode\":9,\"info\":7}");
	buffer_finish(&text);
	(void)state;
}

/* --- the title --- */

static struct session *make_untitled(struct rig *rig)
{
	struct session *session;
	assert_int_equal(
		session_create(rig->table, "s", &(struct session_wish){.title = ""}, &session), 0);
	return session;
}

static void give_title(struct rig *rig, const char *data)
{
	rig_put(rig_session(rig, "s"), "x-acp-session_info_update", data);
	rig_settle(rig);
}

static void the_agent_gives_a_title(void **state)
{
	struct rig *rig = *state;
	make_untitled(rig);
	give_title(rig, "{\"title\":\"Mend the gate\"}");
	expect_title(rig, "Mend the gate");
	give_title(rig, "{\"updated_at\":\"2026\"}");
	expect_title(rig, "Mend the gate");
	wait_until_away(rig);
	expect_title(rig, "Mend the gate");
	rig_close(rig);
	assert_int_equal(rig_open(rig), 0);
	expect_title(rig, "Mend the gate");
	give_title(rig, "{\"title\":\"Paint it\"}");
	expect_title(rig, "Paint it");
	give_title(rig, "{\"title\":7}");
	expect_title(rig, "Paint it");
	give_title(rig, "{\"title\":null}");
	expect_title(rig, "");
}

static void label(struct rig *rig, const char *title)
{
	struct labels_change change = {
		.has_title = true, .title = title, .archived = -1, .pinned = -1};
	assert_int_equal(session_label(rig_session(rig, "s"), &change), 0);
	rig_settle(rig);
}

static void the_title_of_a_person_counts_before_the_agents(void **state)
{
	struct rig *rig = *state;
	rig_session(rig, "s");
	rig_settle(rig);
	expect_title(rig, "s");
	give_title(rig, "{\"title\":\"Mend the gate\"}");
	expect_title(rig, "Mend the gate");
	label(rig, "Mine");
	give_title(rig, "{\"title\":\"Paint it\"}");
	expect_title(rig, "Mine");
	wait_until_away(rig);
	expect_title(rig, "Mine");
	rig_close(rig);
	assert_int_equal(rig_open(rig), 0);
	expect_title(rig, "Mine");
	label(rig, NULL);
	expect_title(rig, "Paint it");
	give_title(rig, "{\"title\":null}");
	expect_title(rig, "s");
}

static void a_long_title_is_cut_between_two_characters(void **state)
{
	struct rig *rig = *state;
	struct buffer data = {0};
	struct session_object object;
	make_untitled(rig);
	buffer_append_str(&data, "{\"title\":\"x");
	for (int i = 0; i < 500; i++) {
		buffer_append_str(&data, "ä");
	}
	buffer_append_str(&data, "\"}");
	give_title(rig, buffer_cstr(&data));
	buffer_finish(&data);
	assert_true(session_table_get_object(rig->table, "s", 1, &object));
	assert_int_equal(strlen(object.labels.title), 255);
	assert_string_equal(object.labels.title + 253, "ä");
	wait_until_away(rig);
	assert_true(session_table_get_object(rig->table, "s", 1, &object));
	assert_int_equal(strlen(object.labels.title), 255);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_newest_of_each_kind_is_named, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_held_is_not_named, setup, teardown),
		cmocka_unit_test_setup_teardown(
			another_session_of_the_agent_begins_with_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(
			it_is_there_when_the_session_is_away, setup, teardown),
		cmocka_unit_test_setup_teardown(a_crash_leaves_it, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_restart_reads_it_from_the_metadata, setup, teardown),
		cmocka_unit_test(what_is_pruned_is_not_named),
		cmocka_unit_test_setup_teardown(the_agent_gives_a_title, setup, teardown),
		cmocka_unit_test_setup_teardown(
			the_title_of_a_person_counts_before_the_agents, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_long_title_is_cut_between_two_characters, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
