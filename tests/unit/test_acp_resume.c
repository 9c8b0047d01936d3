/* An agent that is started again: how it goes on with its session, and what comes of it if not. */
#include "acp_agent_fixture.h"

#define STARTED "started sh 1 1 s1"

/** What the log has of the session: a question, a tool, an answer. */
static json_t *whole_log(void)
{
	return json_pack(
		"[{s:s, s:{s:s}}, {s:s, s:{s:s}}, {s:s, s:{s:s}}, {s:s, s:{s:s, s:s}}, {s:s, s:{s:s}}]",
		"type", "user_prompt", "data", "message", "Is it green?", "type", "agent_message",
		"data", "markdown", "The tests will tell.\n\n", "type", "tool_call", "data",
		"tool_call_id", "c1", "type", "tool_call_update", "data", "tool_call_id", "c1",
		"status", "completed", "type", "agent_message", "data", "markdown",
		"It is green.\n");
}

static void go_on(struct fixture *f, const char *name, const json_t *events)
{
	f->earlier = "s1";
	f->events = events;
	start(f, name);
}

static void test_first_start(void **state)
{
	struct fixture *f = *state;
	start(f, "turn");
	run_until(f, "turn_end");
	assert_true(log_has_line(f, STARTED "\n"));
	assert_false(log_has_line(f, "history"));
}

static void test_resume(void **state)
{
	struct fixture *f = *state;
	go_on(f, "resume", NULL);
	run_until(f, "turn_end");
	char expected[PATH_MAX + 1024];
	snprintf(expected, sizeof(expected),
		"state\n" STARTED " resumed\n"
		"x-acp-modes {\"available_modes\":[],\"current_mode_id\":\"a\"}\n"
		"x-acp-available_commands_update {\"available_commands\":[]}\n"
		"text {'jsonrpc':'2.0','id':2,'method':'session/resume','params':{'sessionId':'s1',"
		"'cwd':'%s','mcpServers':[]}}\n"
		"text {'jsonrpc':'2.0','id':3,'method':'session/prompt','params':{'sessionId':'s1',"
		"'prompt':[{'type':'text','text':'go'}]}}\n"
		"turn_end end_turn -\n",
		f->cwd);
	expect_log(f, expected);
}

/** What the log has of its state is not told again. */
static void test_resume_with_the_same_state(void **state)
{
	struct fixture *f = *state;
	json_t *events = json_pack("[{s:s, s:{s:[], s:s}}, {s:s, s:{s:[]}}]", "type", "x-acp-modes",
		"data", "available_modes", "current_mode_id", "a", "type",
		"x-acp-available_commands_update", "data", "available_commands");
	go_on(f, "resume", events);
	run_until(f, "turn_end");
	assert_true(log_has_line(f, "state\n" STARTED " resumed\ntext "));
	json_decref(events);
}

static void test_load_adds_nothing(void **state)
{
	struct fixture *f = *state;
	json_t *events = whole_log();
	go_on(f, "load", events);
	run_until(f, "turn_end");
	char expected[PATH_MAX + 512];
	snprintf(expected, sizeof(expected),
		"history\n" STARTED " resumed\n"
		"text {'jsonrpc':'2.0','id':2,'method':'session/load','params':{'sessionId':'s1',"
		"'cwd':'%s','mcpServers':[]}}\n"
		"turn_end end_turn -\n",
		f->cwd);
	expect_log(f, expected);
	json_decref(events);
}

/** Each event of the log in turn is not there: just that is recovered. */
static void test_load_adds_what_is_missing(void **state)
{
	static const char *const expected[] = {
		"recovered user_prompt {\"message\":\"Is it green?\"} -\n",
		"recovered agent_message_chunk {\"text\":\"The tests will tell.\"} -\n",
		NULL, /* of a call the id is known as long as one mention of it is */
		"recovered tool_call_update {\"status\":\"completed\",\"tool_call_id\":\"c1\"} -\n",
		"recovered agent_message_chunk {\"text\":\"It is green.\"} -\n",
	};
	struct fixture *f = *state;
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		json_t *events = whole_log();
		json_array_remove(events, i);
		go_on(f, "load", events);
		run_until(f, "turn_end");
		struct buffer told = {0};
		buffer_printf(&told, "history\n" STARTED " resumed\n%stext ",
			expected[i] ? expected[i] : "");
		assert_memory_equal(f->log.data, told.data, told.len);
		assert_null(strstr(f->log.data + told.len, "recovered"));
		buffer_finish(&told);
		buffer_clear(&f->log);
		destroy_agent(f);
		f->freed = false;
		json_decref(events);
	}
}

static void test_load_goes_on_behind_its_answer(void **state)
{
	struct fixture *f = *state;
	json_t *events = whole_log();
	go_on(f, "load-late", events);
	run_until(f, "turn_end");
	assert_true(log_has_line(f,
		"history\n" STARTED " resumed\n"
		"recovered agent_message_chunk {\"text\":\"This was never heard.\"} -\n"
		"x-acp-available_commands_update {\"available_commands\":[]}\n"
		"text {'jsonrpc':'2.0','id':3,'method':'session/prompt'"));
	json_decref(events);
}

/** The log's newest turn was cut off: an agent that is late may have more of it, after a pause. */
static void test_load_goes_on_where_a_turn_was_cut_off(void **state)
{
	struct fixture *f = *state;
	json_t *events = whole_log();
	json_array_append_new(events, json_pack("{s:s, s:{s:s}}", "type", "turn_end", "data",
					      "stop_reason", "agent_stopped"));
	go_on(f, "load-late-more", events);
	run_until(f, "turn_end");
	assert_true(log_has_line(f,
		"history\n" STARTED " resumed\n"
		"recovered agent_message_chunk {\"text\":\"This was never heard.\"} -\n"
		"text {'jsonrpc':'2.0','id':3,'method':'session/prompt'"));
	json_decref(events);
}

/** Some tell it long after the answer: until the log's newest turn was told, it is waited for. */
static void test_load_that_trickles(void **state)
{
	struct fixture *f = *state;
	json_t *events = whole_log();
	go_on(f, "load-trickle", events);
	run_until(f, "turn_end");
	assert_true(log_has_line(f, "history\n" STARTED " resumed\n"
				    "x-acp-available_commands_update {\"available_commands\":[]}\n"
				    "text {'jsonrpc':'2.0','id':3,'method':'session/prompt'"));
	json_decref(events);
}

static void test_load_refused(void **state)
{
	struct fixture *f = *state;
	json_t *events = whole_log();
	go_on(f, "load-refused", events);
	run_until(f, "turn_end");
	assert_true(log_has_line(f,
		"history\n" STARTED
		" not resumed, because it did not resume the earlier one: Session not found\n"
		"text {'jsonrpc':'2.0','id':4,'method':"
		"'session/prompt'"));
	assert_null(strstr(f->log.data, "never to be seen"));
	json_decref(events);
}

/** A name may be given twice, by an agent whose memory was emptied: that is not our session. */
static void test_load_of_another_history(void **state)
{
	struct fixture *f = *state;
	json_t *events = whole_log();
	go_on(f, "load-foreign", events);
	run_until(f, "turn_end");
	assert_true(log_has_line(f,
		"history\n" STARTED
		" not resumed, because it replayed a different history for the earlier one\n"
		"text "));
	assert_null(strstr(f->log.data, "sea"));
	json_decref(events);
}

static void test_load_of_other_sessions_updates(void **state)
{
	struct fixture *f = *state;
	json_t *events = whole_log();
	go_on(f, "load-other-session", events);
	run_until(f, "turn_end");
	assert_null(strstr(f->log.data, "recovered"));
	assert_null(strstr(f->log.data, "not ours"));
	json_decref(events);
}

static void test_unreadable_log(void **state)
{
	struct fixture *f = *state;
	go_on(f, "load-dies", NULL);
	run_until(f, "turn_end");
	assert_true(log_has_line(f,
		"history\n" STARTED
		" not resumed, because the log of the earlier one cannot be read\n"));
}

/** Twice it stops when it is to go on; the third time it need not. */
static void expect_given_up(struct fixture *f, const char *name)
{
	json_t *events = whole_log();
	go_on(f, name, events);
	for (int i = 0; i < 2; i++) {
		run_until(f, "stopped exit exit status 3");
		assert_null(strstr(f->log.data, "started"));
		buffer_clear(&f->log);
		prompt(f, "again");
	}
	run_until(f, "turn_end");
	assert_true(log_has_line(f, STARTED
		" not resumed, because it stopped each time that it was asked to resume the earlier one\n"));
	json_decref(events);
}

static void test_load_that_ends_the_agent(void **state)
{
	expect_given_up(*state, "load-dies");
}

static void test_load_that_ends_the_agent_late(void **state)
{
	expect_given_up(*state, "load-dies-late");
}

static void test_agents_that_lose_history_are_not_asked(void **state)
{
	struct fixture *f = *state;
	json_t *events = whole_log();
	go_on(f, "load-loses", events);
	run_until(f, "turn_end");
	assert_true(log_has_line(f,
		"started gemini-cli 0.61.0 1 s1 not resumed, because it cannot resume an earlier one\n"
		"text {'jsonrpc':'2.0','id':2,'method':'session/new'"));
	json_decref(events);
}

static void test_cancel_while_it_loads(void **state)
{
	struct fixture *f = *state;
	json_t *events = whole_log();
	go_on(f, "load", events);
	run_until(f, "history");
	acp_agent_cancel(f->agent);
	run_until(f, "turn_end cancelled");
	run_until(f, STARTED " resumed");
	assert_null(strstr(f->log.data, "recovered"));
	prompt(f, "and now");
	run_until(f, "turn_end end_turn");
	json_decref(events);
}

/** What is not read yet may be history, however long it takes. */
static void test_pause_while_it_loads(void **state)
{
	struct fixture *f = *state;
	json_t *events = whole_log();
	go_on(f, "load-late", events);
	run_until(f, "history");
	acp_agent_pause(f->agent, true);
	acp_agent_pause(f->agent, false);
	run_until(f, "turn_end");
	assert_true(log_has_line(f, "recovered agent_message_chunk {\"text\":\"This was never"));
	json_decref(events);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	diag_set_level(DIAG_SILENT);
	const struct CMUnitTest tests[] = {
		AGENT_TEST(test_first_start),
		AGENT_TEST(test_resume),
		AGENT_TEST(test_resume_with_the_same_state),
		AGENT_TEST(test_load_adds_nothing),
		AGENT_TEST(test_load_adds_what_is_missing),
		AGENT_TEST(test_load_goes_on_behind_its_answer),
		AGENT_TEST(test_load_goes_on_where_a_turn_was_cut_off),
		AGENT_TEST(test_load_that_trickles),
		AGENT_TEST(test_load_refused),
		AGENT_TEST(test_load_of_another_history),
		AGENT_TEST(test_load_of_other_sessions_updates),
		AGENT_TEST(test_unreadable_log),
		AGENT_TEST(test_load_that_ends_the_agent),
		AGENT_TEST(test_load_that_ends_the_agent_late),
		AGENT_TEST(test_agents_that_lose_history_are_not_asked),
		AGENT_TEST(test_cancel_while_it_loads),
		AGENT_TEST(test_pause_while_it_loads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
