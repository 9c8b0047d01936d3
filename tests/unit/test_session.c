/*
 * A session as its floors see it: turns, prompts, questions, and that nothing is shown before it is
 * on disk.
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

static uint64_t prompt(struct stage *st, const char *id, const char *message, bool *ret_duplicate)
{
	uint64_t seq;
	assert_int_equal(session_prompt(st->session, message, strlen(message), id, AUTHOR("client"),
				 &seq, ret_duplicate),
		0);
	return seq;
}

static const json_t *status(struct stage *st)
{
	return fake_socket_newest(&st->socket, "state");
}

static void assert_status(struct stage *st, const char *word, bool prompting, int queue_length)
{
	const json_t *state = status(st);
	assert_string_equal(json_string_value(json_object_get(state, "status")), word);
	assert_int_equal(json_is_true(json_object_get(state, "is_prompting")), prompting);
	assert_int_equal(json_integer_value(json_object_get(state, "queue_length")), queue_length);
}

/* --- durable first --- */

static void nothing_is_shown_before_it_is_synced(void **state)
{
	struct stage *st = *state;
	assert_int_equal(
		rig_put(st->session, "tool_call", "{\"tool_call_id\":\"t\",\"title\":\"T\"}"), 1);
	fake_socket_expect(&st->socket, "");
	session_table_end_tick(st->rig.table); /* on its way to the disk */
	assert_int_equal(session_channel(st->session)->max_seq, 0);
	fake_socket_expect(&st->socket, "");
	rig_settle(&st->rig);
	assert_int_equal(session_channel(st->session)->max_seq, 1);
	fake_socket_expect(&st->socket, "events 1-1; state running");
}

struct waiter {
	struct durable_wait wait;
	struct session *session;
	int status; /* 1: not told */
	uint64_t max_seq; /* when it was told */
};

static void handle_durable(struct durable_wait *wait, int result)
{
	struct waiter *waiter = (struct waiter *)wait;
	assert_int_equal(waiter->status, 1);
	waiter->status = result;
	waiter->max_seq = session_channel(waiter->session)->max_seq;
}

static void wait_durable(struct stage *st, struct waiter *waiter)
{
	*waiter = (struct waiter){.wait.done = handle_durable, .session = st->session, .status = 1};
	session_wait_durable(st->session, &waiter->wait);
}

static void acknowledged_when_synced(void **state)
{
	struct stage *st = *state;
	struct waiter first;
	struct waiter second;
	rig_put(st->session, "x-a", "{}");
	wait_durable(st, &first);
	session_table_end_tick(st->rig.table);
	rig_put(st->session, "x-b", "{}");
	wait_durable(st, &second);
	assert_int_equal(first.status, 1);
	rig_settle(&st->rig);
	assert_int_equal(first.status, 0);
	assert_int_equal(first.max_seq, 1);
	assert_int_equal(second.status, 0);
	assert_int_equal(second.max_seq, 2);
	/* What adds nothing is durable already, but nobody is called back from within. */
	wait_durable(st, &first);
	assert_int_equal(first.status, 1);
	session_table_end_tick(st->rig.table);
	assert_int_equal(first.status, 0);
	wait_durable(st, &second);
	durable_wait_cancel(&second.wait);
	rig_settle(&st->rig);
	assert_int_equal(second.status, 1);
}

/** A change of the state waits for its own record, also when an older one comes back from the disk.
 */
static void the_state_is_shown_when_its_record_is_synced(void **state)
{
	struct stage *st = *state;
	struct waiter first;
	bool duplicate;
	prompt(st, "p1", "one", &duplicate);
	rig_settle(&st->rig);
	assert_status(st, "running", true, 0);
	rig_put(st->session, "x-a", "{}");
	wait_durable(st, &first);
	session_table_end_tick(st->rig.table); /* on its way */
	prompt(st, "p2", "two", &duplicate);
	rig_put(st->session, "usage", "{\"used\":1}");
	size_t count = fake_socket_count(&st->socket, "state");
	while (first.status == 1) {
		uv_run(&st->rig.loop, UV_RUN_ONCE);
	}
	assert_int_equal(session_channel(st->session)->max_seq, 2);
	assert_int_equal(fake_socket_count(&st->socket, "state"), count);
	rig_settle(&st->rig);
	assert_status(st, "running", true, 1);
	assert_non_null(json_object_get(json_object_get(status(st), "usage"), "used"));
}

/* --- prompts --- */

static void a_prompt_begins_a_turn(void **state)
{
	struct stage *st = *state;
	bool duplicate;
	assert_int_equal(prompt(st, "p1", "hello", &duplicate), 1);
	assert_false(duplicate);
	rig_expect_told(&st->rig, "");
	rig_settle(&st->rig);
	rig_expect_told(&st->rig, "prompt s 1 hello");
	assert_status(st, "running", true, 0);
	assert_true(session_is_turn_of_prompt(st->session));
	assert_int_equal(prompt(st, "p1", "hello", &duplicate), 1);
	assert_true(duplicate);
	rig_put(st->session, "turn_end", "{\"stop_reason\":\"end_turn\"}");
	rig_settle(&st->rig);
	assert_status(st, "idle", false, 0);
	assert_int_equal(prompt(st, "p1", "hello", &duplicate), 1);
	assert_true(duplicate);
	rig_settle(&st->rig);
	rig_expect_told(&st->rig, "");
	fake_socket_expect(&st->socket, "events 1-1; state running; events 2-2; state idle");
}

static void prompts_wait_in_line(void **state)
{
	struct stage *st = *state;
	bool duplicate;
	prompt(st, "p1", "one", &duplicate);
	assert_int_equal(prompt(st, "p2", "two", &duplicate), 0);
	assert_int_equal(prompt(st, "p3", "three", &duplicate), 0);
	assert_int_equal(prompt(st, "p2", "two", &duplicate), 0);
	assert_true(duplicate);
	rig_settle(&st->rig);
	rig_expect_told(&st->rig, "prompt s 1 one");
	assert_status(st, "running", true, 2);
	rig_say(st->session, "Answer");
	rig_put(st->session, "turn_end", "{}");
	rig_settle(&st->rig);
	rig_expect_told(&st->rig, "prompt s 4 two");
	assert_status(st, "running", true, 1);
	assert_int_equal(prompt(st, "p2", "two", &duplicate), 4);
	assert_true(duplicate);
	rig_put(st->session, "agent_stopped", "{\"reason\":\"crashed\"}");
	rig_settle(&st->rig);
	rig_expect_told(&st->rig, "prompt s 7 three");
	assert_status(st, "running", true, 0);
	rig_put(st->session, "turn_end", "{}");
	rig_settle(&st->rig);
	assert_status(st, "idle", false, 0);
	fake_socket_expect(&st->socket,
		"events 1-1; state running; events 2-4; state running; events 5-7; state running; events 8-8; state idle");
}

static void the_line_is_bounded(void **state)
{
	struct stage *st = *state;
	uint64_t seq;
	bool duplicate;
	st->rig.limits.prompt_queue = 2;
	prompt(st, "p1", "a", &duplicate);
	prompt(st, "p2", "b", &duplicate);
	prompt(st, "p3", "c", &duplicate);
	assert_int_equal(
		session_prompt(st->session, "d", 1, "p4", AUTHOR("c"), &seq, &duplicate), -ENOBUFS);
	assert_int_equal(prompt(st, "p3", "c", &duplicate), 0);
	assert_true(duplicate);
	rig_put(st->session, "turn_end", "{}");
	assert_int_equal(prompt(st, "p4", "d", &duplicate), 0);
	assert_false(duplicate);
}

static void prompts_outlive_a_restart(void **state)
{
	struct stage *st = *state;
	bool duplicate;
	prompt(st, "p1", "one", &duplicate);
	prompt(st, "p2", "two", &duplicate);
	rig_put(st->session, "user_prompt",
		"{\"message\":\"from a producer\",\"prompt_id\":\"p0\"}");
	rig_settle(&st->rig);
	assert_int_equal(prompt(st, "p0", "again", &duplicate), 2);
	assert_true(duplicate);
	for (int i = 0; i < 2; i++) {
		stage_restart(st);
		assert_int_equal(prompt(st, "p0", "again", &duplicate), 2);
		assert_true(duplicate);
		assert_int_equal(prompt(st, "p1", "one", &duplicate), 1);
		assert_true(duplicate);
		assert_int_equal(prompt(st, "p2", "two", &duplicate), 0);
		assert_true(duplicate);
		assert_status(st, "running", true, 1);
		const json_t *connected = fake_socket_newest(&st->socket, "connected");
		assert_string_equal(
			json_string_value(json_object_get(connected, "last_user_prompt_id")), "p0");
	}
	buffer_clear(&st->rig.told);
	rig_put(st->session, "turn_end", "{}");
	rig_settle(&st->rig);
	rig_expect_told(&st->rig, "prompt s 4 two");
}

/* --- turns --- */

static void a_turn_ends_once(void **state)
{
	struct stage *st = *state;
	uint64_t seq;
	bool duplicate;
	struct input_event end = {.type = EVENT_TURN_END, .data = "{}", .data_len = 2};
	rig_say(st->session, "Text");
	assert_int_equal(session_input(st->session, &end, &seq, &duplicate), 0);
	assert_int_equal(seq, 2);
	assert_false(duplicate);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(session_input(st->session, &end, &seq, &duplicate), 0);
		assert_int_equal(seq, 2);
		assert_true(duplicate);
	}
	stage_restart(st);
	assert_int_equal(session_input(st->session, &end, &seq, &duplicate), 0);
	assert_int_equal(seq, 2);
	assert_true(duplicate);
	rig_put(st->session, "tool_call", "{\"tool_call_id\":\"t\",\"title\":\"T\"}");
	assert_int_equal(session_input(st->session, &end, &seq, &duplicate), 0);
	assert_int_equal(seq, 4);
	assert_false(duplicate);
	rig_settle(&st->rig);
	const json_t *frame = fake_socket_newest(&st->socket, "events");
	const json_t *event = json_array_get(json_object_get(frame, "events"), 1);
	assert_int_equal(json_integer_value(json_object_get(event, "turn")), 2);
}

static void the_stop_of_the_agent_ends_the_turn(void **state)
{
	struct stage *st = *state;
	rig_put(st->session, "agent_started", "{\"name\":\"a\"}");
	rig_say(st->session, "- a\n");
	rig_put(st->session, "tool_call", "{\"tool_call_id\":\"t\",\"title\":\"T\"}");
	rig_settle(&st->rig);
	assert_true(json_is_true(json_object_get(status(st), "is_running")));
	rig_put(st->session, "agent_stopped", "{\"reason\":\"crashed\"}");
	rig_settle(&st->rig);
	assert_status(st, "idle", false, 0);
	assert_false(json_is_true(json_object_get(status(st), "is_running")));
	fake_socket_expect(&st->socket,
		"activity 3 tool_call; events 1-1; state running; delta 2 - a\n"
		"; events 2-5; state idle");
	rig_put(st->session, "agent_stopped", "{\"reason\":\"again\"}");
	rig_settle(&st->rig);
	fake_socket_expect(&st->socket, "events 6-6");
}

/* --- text --- */

static void deltas_join_to_the_text_of_the_event(void **state)
{
	struct stage *st = *state;
	static const char text[] = "- Grüße\n- **日本**\n\nEnd of it. 😀\n";
	char piece[2] = {0};
	struct buffer joined = {0};
	for (const char *at = text; *at; at++) {
		struct buffer chunk = {0};
		piece[0] = *at;
		buffer_append_str(&chunk, piece);
		while (((unsigned char)at[1] & 0xc0) == 0x80) {
			buffer_append(&chunk, ++at, 1);
		}
		rig_say(st->session, buffer_cstr(&chunk));
		rig_settle(&st->rig); /* text is shown once it is on disk */
		buffer_finish(&chunk);
	}
	size_t i;
	json_t *frame;
	json_array_foreach(st->socket.frames, i, frame) {
		const json_t *data = json_object_get(frame, "data");
		if (strcmp(json_string_value(json_object_get(frame, "type")), "delta") == 0) {
			buffer_append_str(
				&joined, json_string_value(json_object_get(data, "text")));
		}
	}
	assert_string_equal(buffer_cstr(&joined), text);
	buffer_finish(&joined);
	rig_put(st->session, "turn_end", "{}");
	rig_settle(&st->rig);
	assert_int_equal(st->socket.last, 3);
}

static void the_clock_lets_text_out(void **state)
{
	struct stage *st = *state;
	rig_set_timeouts(&st->rig, 1);
	rig_say(st->session, "Text\n");
	rig_wait_for_seq(&st->rig, st->session, 1);
	rig_think(st->session, "hm");
	rig_wait_for_seq(&st->rig, st->session, 2);
	rig_say(st->session, "- a\n");
	rig_put(st->session, "x-a", "{}");
	rig_wait_for_seq(&st->rig, st->session, 4);
	assert_int_equal(st->socket.last, 4);
}

/** After a restart, nobody has to write for what is open to go out, and who comes sees it. */
static void open_text_outlives_a_restart(void **state)
{
	struct stage *st = *state;
	rig_say(st->session, "- a\n");
	rig_put(st->session, "x-held", "{}");
	rig_settle(&st->rig);
	rig_set_timeouts(&st->rig, 1);
	fake_socket_finish(&st->socket);
	rig_close(&st->rig);
	rig_set_timeouts(&st->rig, 50);
	assert_int_equal(rig_open(&st->rig), 0);
	st->session = rig_session(&st->rig, "s");
	session_table_end_tick(st->rig.table);
	fake_socket_open(&st->socket, session_channel(st->session), DELTAS_TEXT);
	fake_socket_load(&st->socket, &(struct load_request){.from = LOAD_AFTER, .limit = 50});
	const json_t *open =
		json_object_get(fake_socket_newest(&st->socket, "events_loaded"), "open");
	assert_int_equal(json_integer_value(json_object_get(open, "seq")), 1);
	assert_string_equal(json_string_value(json_object_get(open, "text")), "- a\n");
	rig_wait_for_seq(&st->rig, st->session, 2);
	assert_int_equal(st->socket.last, 2);
}

/* --- life and death --- */

static void a_deleted_session_takes_nothing(void **state)
{
	struct stage *st = *state;
	uint64_t seq;
	bool duplicate;
	struct session *again;
	struct input_event note = {.type = EVENT_PLAN, .data = "{}", .data_len = 2};
	uint64_t epoch = session_log_epoch(session_channel(st->session)->log);
	rig_say(st->session, "Text");
	assert_int_equal(session_delete(st->session), 0);
	assert_int_equal(session_delete(st->session), -EALREADY);
	assert_int_equal(session_input(st->session, &note, &seq, &duplicate), -ENOENT);
	assert_int_equal(
		session_prompt(st->session, "a", 1, "p", AUTHOR("c"), &seq, &duplicate), -ENOENT);
	assert_int_equal(
		session_create(st->rig.table, "s", &(struct session_wish){.title = ""}, &again),
		-EEXIST);
	rig_settle(&st->rig);
	rig_expect_told(&st->rig, "deleted s");
	assert_int_equal(st->socket.closed, 4404);
	assert_int_equal(
		session_create(st->rig.table, "s", &(struct session_wish){.title = ""}, &again), 0);
	assert_true(session_log_epoch(session_channel(again)->log) != epoch);
	rig_settle(&st->rig);
	st->session = again;
	stage_restart(st);
	assert_int_equal(session_channel(st->session)->max_seq, 0);
}

static void run_until_revived(struct stage *st)
{
	while (!strstr(buffer_cstr(&st->rig.told), "store revived")) {
		uv_run(&st->rig.loop, UV_RUN_ONCE);
	}
}

/**
 * The disk is full: the writer hears of it, nobody sees what is not stored, and what is there can
 * be read.
 */
static void a_failed_write_is_never_shown(void **state)
{
	struct stage *st = *state;
	struct waiter waiter;
	struct rlimit was;
	uint64_t seq;
	bool duplicate;
	struct input_event note = {.type = EVENT_PLAN, .data = "{}", .data_len = 2};
	rig_put(st->session, "x-good", "{}");
	rig_settle(&st->rig);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &was);
	setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = 300, .rlim_max = was.rlim_max});
	buffer_clear(&st->socket.log);
	rig_set_timeouts(&st->rig, 1);
	rig_put(st->session, "x-bad",
		"{\"text\":\"longer than what is left of the journal's segment\"}");
	prompt(st, "p1", "hello", &duplicate);
	rig_say(st->session, "- a\n");
	wait_durable(st, &waiter);
	rig_settle(&st->rig);
	assert_true(waiter.status < 0 && waiter.status != -ECANCELED);
	assert_string_equal(buffer_cstr(&st->rig.told), "store failed: File too large");
	assert_int_equal(session_input(st->session, &note, &seq, &duplicate), -EIO);
	assert_null(memmem(st->socket.log.data, st->socket.log.len, "events", 6));
	assert_int_equal(session_channel(st->session)->max_seq, 1);
	assert_int_equal(
		session_prompt(st->session, "hello", 5, "p1", AUTHOR("me"), &seq, &duplicate),
		-EIO);
	setrlimit(RLIMIT_FSIZE, &was);
	rig_set_timeouts(&st->rig, RIG_NEVER);
	/* It goes on by itself, and what was refused was never there. */
	run_until_revived(st);
	assert_int_equal(prompt(st, "p1", "hello", &duplicate), 2);
	assert_false(duplicate);
	rig_say(st->session, "- b\n");
	rig_settle(&st->rig);
	fake_socket_expect(&st->socket, "events 2-2; state running; delta 3 - b\n");
	stage_restart(st);
	assert_int_equal(st->socket.last, 2);
	rig_say(st->session, "- c\n\nx");
	rig_settle(&st->rig);
	assert_int_equal(st->socket.last, 3);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, stage_teardown)
	const struct CMUnitTest tests[] = {
		TEST(nothing_is_shown_before_it_is_synced),
		TEST(acknowledged_when_synced),
		TEST(the_state_is_shown_when_its_record_is_synced),
		TEST(a_prompt_begins_a_turn),
		TEST(prompts_wait_in_line),
		TEST(the_line_is_bounded),
		TEST(prompts_outlive_a_restart),
		TEST(a_turn_ends_once),
		TEST(the_stop_of_the_agent_ends_the_turn),
		TEST(deltas_join_to_the_text_of_the_event),
		TEST(the_clock_lets_text_out),
		TEST(open_text_outlives_a_restart),
		TEST(a_deleted_session_takes_nothing),
		cmocka_unit_test_setup_teardown(
			a_failed_write_is_never_shown, setup_on_disk, stage_teardown),
	};
	return cmocka_run_group_tests_name("session", tests, NULL, NULL);
}
