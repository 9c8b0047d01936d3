/*
 * Idle sessions leave memory and come back as they were; those that somebody needs stay.
 */
#include "rig.h"

#include "fake_socket.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

/** Turns of the loop until a timer has seen every session that is idle. */
static void wait_live(struct rig *rig, size_t count)
{
	uv_timer_again(&rig->guard);
	while (session_table_count_live(rig->table) != count) {
		uv_run(&rig->loop, UV_RUN_ONCE);
		session_table_end_tick(rig->table);
	}
}

/** So long that whoever may go has gone: one that may, and came last, has. */
static void wait_for_another(struct rig *rig, size_t stay)
{
	rig_put(rig_session(rig, "other"), "x-other", "{}");
	rig_settle(rig);
	wait_live(rig, stay);
}

static void expect_object(struct rig *rig, const char *id, uint64_t max_seq)
{
	struct session_object object;
	assert_true(session_table_get_object(rig->table, id, strlen(id), &object));
	assert_string_equal(object.id, id);
	assert_int_equal(object.max_seq, max_seq);
	assert_string_equal(object.status, "idle");
	assert_false(object.is_prompting);
}

static void an_idle_session_goes_and_comes_back(void **state)
{
	struct rig *rig = *state;
	uint64_t seq;
	bool duplicate;
	struct session *session = rig_session(rig, "s");
	session_prompt(session, "hello", 5, "p1", AUTHOR("me"), &seq, &duplicate);
	rig_say(session, "Hello.\n\nWorld");
	rig_put(session, "usage", "{\"mode\":\"cumulative\",\"used\":7}");
	rig_put(session, "permission_request", "{\"request_id\":\"q1\",\"options\":[]}");
	rig_put(session, "permission_resolved",
		"{\"request_id\":\"q1\",\"outcome\":\"selected\",\"by\":\"me\"}");
	uint64_t end = rig_put(session, "turn_end", "{}");
	rig_settle(rig);
	wait_live(rig, 0);
	expect_object(rig, "s", end);
	assert_int_equal(session_table_count_live(rig->table), 0);
	session = rig_session(rig, "s");
	const struct channel *channel = session_channel(session);
	assert_int_equal(channel->max_seq, end);
	assert_string_equal(channel->last_prompt_id, "p1");
	assert_string_equal(channel->status.usage, "{\"used\":7}");
	/* What was settled for good still is. */
	assert_int_equal(session_prompt(session, "x", 1, "p1", AUTHOR("you"), &seq, &duplicate), 0);
	assert_true(duplicate);
	assert_int_equal(seq, 1);
	assert_string_equal(session_permission(session, "q1").by, "me");
	assert_int_equal(
		session_input(session,
			&(struct input_event){.type = EVENT_TURN_END, .data = "{}", .data_len = 2},
			&seq, &duplicate),
		0);
	assert_true(duplicate);
	assert_int_equal(seq, end);
	/* And it goes on where it was. */
	assert_int_equal(rig_put(session, "x-note", "{}"), end + 1);
	rig_settle(rig);
	wait_live(rig, 0);
	rig_close(rig);
	assert_int_equal(rig_open(rig), 0);
	expect_object(rig, "s", end + 1);
}

/** What the log does not tell yet must not be lost. */
static void who_is_in_the_middle_of_something_stays(void **state)
{
	struct rig *rig = *state;
	rig_put(rig_session(rig, "turn"), "tool_call", "{\"tool_call_id\":\"t\"}");
	rig_say(rig_session(rig, "open"), "- a list");
	rig_put(rig_session(rig, "blank"), "x-note", "{}");
	rig_put(rig_session(rig, "blank"), "turn_end", "{}");
	rig_settle(rig);
	wait_for_another(rig, 2);
	assert_int_equal(session_table_count(rig->table), 4);
	rig_put(rig_session(rig, "turn"), "turn_end", "{}");
	rig_put(rig_session(rig, "open"), "turn_end", "{}");
	rig_settle(rig);
	wait_live(rig, 0);
	expect_object(rig, "open", 2);
}

static void who_is_held_stays(void **state)
{
	struct rig *rig = *state;
	struct session *session = rig_session(rig, "s");
	session_hold(session);
	rig_settle(rig);
	wait_for_another(rig, 1);
	assert_ptr_equal(rig_session(rig, "s"), session);
	session_drop(session);
	wait_live(rig, 0);
	session = rig_session(rig, "s");
	session_set_host(session, session);
	wait_for_another(rig, 1);
	assert_ptr_equal(rig_session(rig, "s"), session);
	session_set_host(session, NULL);
	wait_live(rig, 0);
}

static void who_is_watched_stays(void **state)
{
	struct rig *rig = *state;
	struct fake_socket socket;
	rig_session(rig, "s");
	rig_settle(rig);
	struct session *session = rig_session(rig, "s"); /* it may have gone and come back */
	fake_socket_open(&socket, session_channel(session), DELTAS_NONE);
	wait_for_another(rig, 1);
	assert_ptr_equal(rig_session(rig, "s"), session);
	fake_socket_finish(&socket);
	wait_live(rig, 0);
}

/** A log that only memory has in part does not go. */
static void what_the_file_did_not_take_stays(void **state)
{
	struct rig *rig = *state;
	struct buffer path = {0};
	struct session *session = rig_session(rig, "s");
	rig_put(session, "x-note", "{}");
	rig_settle(rig);
	wait_live(rig, 0);
	/* A folder stands where the log should. */
	buffer_printf(&path, "%s/sessions/s/events.jsonl", rig->dir);
	char *file = xstrdup(buffer_cstr(&path));
	buffer_append_str(&path, ".away");
	assert_int_equal(rename(file, buffer_cstr(&path)), 0);
	assert_int_equal(mkdir(file, 0700), 0);
	rig_put(rig_session(rig, "s"), "x-note", "{\"n\":2}");
	rig_settle(rig);
	wait_for_another(rig, 1);
	assert_int_equal(rmdir(file), 0);
	assert_int_equal(rename(buffer_cstr(&path), file), 0);
	wait_live(rig, 0);
	expect_object(rig, "s", 2);
	free(file);
	buffer_finish(&path);
}

/** Strings that stay, short and long, are the same whether the session is in memory or not. */
static void names_stay_whole(void **state)
{
	struct rig *rig = *state;
	char id[2][129];
	char data[600];
	for (int i = 0; i < 2; i++) {
		memset(id[i], 'a' + i, sizeof(id[i]));
		id[i][i ? 128 : 3] = '\0';
		struct session *session = rig_session(rig, id[i]);
		snprintf(data, sizeof(data), "{\"message\":\"m\",\"prompt_id\":\"%s%s\"}", id[i],
			id[i]);
		for (int k = 0; k < 3; k++) {
			rig_put(session, "user_prompt", data);
			char usage[400];
			char shown[400];
			snprintf(usage, sizeof(usage),
				"{\"mode\":\"delta\",\"model\":\"%s\",\"t\":1}", id[i]);
			snprintf(shown, sizeof(shown), "{\"t\":%d,\"models\":{\"%s\":{\"t\":%d}}}",
				k + 1, id[i], k + 1);
			rig_put(session, "usage", usage);
			rig_put(session, "turn_end", "{}");
			rig_settle(rig);
			wait_live(rig, 0);
			session = rig_session(rig, id[i]);
			const struct channel *channel = session_channel(session);
			assert_int_equal(strlen(channel->last_prompt_id), 2 * strlen(id[i]));
			assert_memory_equal(channel->last_prompt_id, id[i], strlen(id[i]));
			assert_string_equal(channel->status.usage, shown);
		}
	}
	wait_live(rig, 0);
	expect_object(rig, id[0], 9);
	expect_object(rig, id[1], 9);
}

/** A deletion finds a session that is not in memory. */
static void what_has_gone_can_be_deleted(void **state)
{
	struct rig *rig = *state;
	rig_session(rig, "s");
	rig_settle(rig);
	wait_live(rig, 0);
	assert_int_equal(session_delete(rig_session(rig, "s")), 0);
	rig_settle(rig);
	rig_expect_told(rig, "deleted s");
	assert_int_equal(session_table_count(rig->table), 0);
	assert_null(session_table_get(rig->table, "s", 1));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_idle_session_goes_and_comes_back),
		TEST(who_is_in_the_middle_of_something_stays),
		TEST(who_is_held_stays),
		TEST(who_is_watched_stays),
		TEST(what_the_file_did_not_take_stays),
		TEST(names_stay_whole),
		TEST(what_has_gone_can_be_deleted),
	};
	return cmocka_run_group_tests_name("eviction", tests, NULL, NULL);
}
