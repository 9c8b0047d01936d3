/*
 * The permission ledger: that an answer which the agent died with is bound to the same question
 * when it asks again, whatever the server went through meanwhile.
 */
#include "ledger_fixture.h"

static void an_answer_is_bound_to_the_same_question(void **state)
{
	struct stage *st = *state;
	static const char *const options[] = {"once", "no"};
	for (size_t i = 0; i < 2 * MEANWHILES; i++) {
		const char *option = options[i / MEANWHILES];
		uint64_t answered = die_with(st, CALL("c1", "make"), option);
		meanwhiles[i % MEANWHILES](st);
		buffer_clear(&st->rig.told);
		begin_turn(st);
		/* Another id and another status, and another order, are no other question. */
		uint64_t seq = ask(st, "q2",
			"{" INPUT("make") ",\"kind\":\"execute\",\"title\":\"Run it\","
					  "\"status\":\"pending\",\"tool_call_id\":\"c2\"}");
		expect_told(st, i / MEANWHILES ? "answered q2 no" : "answered q2 once");
		expect_bound(st, "q2", seq, option, answered);
		/* Once is not always. */
		ask(st, "q3", CALL("c3", "make"));
		expect_open(st, "q3");
		end_turn(st);
	}
}

/** While its agent lives it may ask the same as often as it likes. */
static void in_its_own_turn_nothing_is_bound(void **state)
{
	struct stage *st = *state;
	begin_turn(st);
	ask(st, "q1", CALL("c1", "make"));
	answer(st, "q1", "once");
	ask(st, "q2", CALL("c2", "make"));
	expect_open(st, "q2");
}

static void what_is_done_needs_no_answer(void **state)
{
	struct stage *st = *state;
	static const struct {
		const char *type;
		const char *call;
		bool is_done;
	} cases[] = {
		{"tool_call_update", "{\"tool_call_id\":\"c1\",\"status\":\"completed\"}", true},
		{"tool_call_update", "{\"tool_call_id\":\"c1\",\"status\":\"failed\"}", true},
		{"tool_call", "{\"tool_call_id\":\"c1\",\"title\":\"T\",\"status\":\"completed\"}",
			true},
		{"tool_call_update", "{\"tool_call_id\":\"c1\",\"status\":\"in_progress\"}", false},
		{"tool_call_update", "{\"tool_call_id\":\"c2\",\"status\":\"completed\"}", false},
		{"tool_call_update", "{\"tool_call_id\":\"c1\"}", false},
	};
	for (size_t i = 0; i < MEANWHILES * sizeof(cases) / sizeof(cases[0]); i++) {
		size_t n = i / MEANWHILES;
		begin_turn(st);
		ask(st, "q1", CALL("c1", "make"));
		uint64_t answered = answer(st, "q1", "once");
		rig_put(session_of(st), cases[n].type, cases[n].call);
		agent_dies(st);
		meanwhiles[i % MEANWHILES](st);
		begin_turn(st);
		uint64_t seq = ask(st, "q2", CALL("c3", "make"));
		if (cases[n].is_done) {
			expect_open(st, "q2");
		} else {
			expect_bound(st, "q2", seq, "once", answered);
		}
		end_turn(st);
	}
}

/** An agent that goes on with its session tells what it had done before it died. */
static void what_was_done_is_heard_of_later(void **state)
{
	struct stage *st = *state;
	static const char done[] = "{\"tool_call_id\":\"c1\",\"status\":\"completed\"}";
	uint64_t seq;
	bool duplicate;
	die_with(st, CALL("c1", "make"), "once");
	begin_turn(st);
	assert_int_equal(session_input(session_of(st),
				 &(struct input_event){.type = EVENT_TOOL_CALL_UPDATE,
					 .data = done,
					 .data_len = sizeof(done) - 1,
					 .recovered = true},
				 &seq, &duplicate),
		0);
	ask(st, "q2", CALL("c2", "make"));
	expect_open(st, "q2");
}

static void another_question_is_another(void **state)
{
	struct stage *st = *state;
	static const struct {
		const char *call;
		const char *options;
	} others[] = {
		{CALL("c1", "make install"), OPTIONS},
		{"{\"tool_call_id\":\"c1\",\"title\":\"Run\",\"kind\":\"execute\"," INPUT(
			 "make") "}",
			OPTIONS},
		{"{\"tool_call_id\":\"c1\",\"title\":\"Run it\",\"kind\":\"edit\"," INPUT(
			 "make") "}",
			OPTIONS},
		{"{\"tool_call_id\":\"c1\",\"title\":\"Run it\",\"kind\":\"execute\","
		 "\"locations\":[{\"path\":\"/x\"}]," INPUT("make") "}",
			OPTIONS},
		{"{\"tool_call_id\":\"c1\",\"title\":\"Run it\",\"kind\":\"execute\","
		 "\"content\":[{\"type\":\"diff\",\"path\":\"/x\"}]," INPUT("make") "}",
			OPTIONS},
		{CALL("c1", "make"),
			"[" OPTION("once", "allow_always") "," OPTION("no", "reject_once") "]"},
		{CALL("c1", "make"), "[" OPTION("once", "allow_once") "]"},
		{CALL("c1", "make"), "[" OPTION("no", "reject_once") "]"},
	};
	uint64_t answered = die_with(st, CALL("c1", "make"), "once");
	begin_turn(st);
	char q[16];
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		snprintf(q, sizeof(q), "o%zu", i);
		ask_with(st, q, others[i].call, others[i].options);
		expect_open(st, q);
	}
	expect_bound(st, "q2", ask(st, "q2", CALL("c1", "make")), "once", answered);
}

/** A title alone may be that of anything, and so may a call without an id. */
static void a_question_must_say_what_is_to_be_done(void **state)
{
	struct stage *st = *state;
	static const char *const calls[] = {
		"{\"tool_call_id\":\"c1\",\"title\":\"Run a command\",\"kind\":\"execute\"}",
		"{\"tool_call_id\":\"c1\",\"title\":\"Run\",\"raw_input\":{},\"content\":[]}",
		"{\"title\":\"Run it\",\"kind\":\"execute\"," INPUT("make") "}",
		"{\"tool_call_id\":\"c1\"}", "{}"};
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		die_with(st, calls[i], "once");
		begin_turn(st);
		ask(st, "q2", calls[i]);
		expect_open(st, "q2");
		end_turn(st);
	}
	/* A diff says it as well as an input does. */
	const char *diff = "{\"tool_call_id\":\"c1\",\"content\":[{\"type\":\"diff\",\"path\":"
			   "\"f\",\"new_text\":\"x\"}]}";
	uint64_t answered = die_with(st, diff, "once");
	begin_turn(st);
	expect_bound(st, "q2", ask(st, "q2", diff), "once", answered);
}

#define CODEX(id, call_id, turn, command)                                    \
	"{\"tool_call_id\":\"" id "\",\"raw_input\":{\"call_id\":\"" call_id \
	"\",\"turn_id\":\"" turn "\",\"started_at_ms\":" turn ",\"command\":\"" command "\"}}"

/** What names one call of a tool is not what the tool is called with. */
static void the_names_of_the_call_itself_do_not_count(void **state)
{
	struct stage *st = *state;
	uint64_t answered = die_with(st, CODEX("c1", "c1", "1", "make"), "once");
	begin_turn(st);
	ask(st, "q2", CODEX("c2", "c2", "2", "make install"));
	expect_open(st, "q2");
	ask(st, "q3", CODEX("c2", "c1", "1", "make"));
	expect_open(st, "q3");
	uint64_t seq = ask(st, "q4", CODEX("c2", "c2", "2", "make"));
	expect_bound(st, "q4", seq, "once", answered);
	end_turn(st);
	die_with(st, CODEX("c1", "7", "1", "hang_up"), "once");
	begin_turn(st);
	ask(st, "q5", CODEX("c1", "8", "1", "hang_up"));
	expect_open(st, "q5");
}

static void only_the_agents_end_carries_over(void **state)
{
	struct stage *st = *state;
	for (size_t i = 0; i < MEANWHILES; i++) {
		/* An end of its own, and the agent stops after it. */
		begin_turn(st);
		ask(st, "q1", CALL("c1", "make"));
		answer(st, "q1", "once");
		end_turn(st);
		agent_dies(st);
		meanwhiles[i](st);
		begin_turn(st);
		ask(st, "q2", CALL("c1", "make"));
		expect_open(st, "q2");
		end_turn(st);
		/* What was carried, and not asked for in the turn after it. */
		die_with(st, CALL("c1", "make"), "once");
		begin_turn(st);
		end_turn(st);
		meanwhiles[i](st);
		begin_turn(st);
		ask(st, "q3", CALL("c1", "make"));
		expect_open(st, "q3");
		end_turn(st);
	}
}

/** Whoever cancels a turn does not mean what was allowed in it for the next one. */
static void a_cancelled_turn_carries_nothing(void **state)
{
	struct stage *st = *state;
	uint64_t seq;
	bool duplicate;
	for (size_t i = 0; i < MEANWHILES; i++) {
		begin_turn(st);
		ask(st, "q1", CALL("c1", "make"));
		answer(st, "q1", "once");
		uint64_t at = rig_put(session_of(st), "agent_stopped",
			"{\"reason\":\"signal\",\"cancelled\":true}");
		assert_string_equal(json_string_value(json_object_get(
					    look(st, at + 1, "turn_end"), "stop_reason")),
			"cancelled");
		fake_socket_finish(&st->socket);
		st->socket = (struct fake_socket){0};
		meanwhiles[i](st);
		begin_turn(st);
		ask(st, "q2", CALL("c1", "make"));
		expect_open(st, "q2");
		end_turn(st);
	}
	/* It ends this turn, and not the one that waits. */
	session_prompt(session_of(st), "one", 3, "p1", AUTHOR("me"), &seq, &duplicate);
	session_prompt(session_of(st), "two", 3, "p2", AUTHOR("me"), &seq, &duplicate);
	rig_put(session_of(st), "agent_stopped", "{\"reason\":\"stopped\",\"cancelled\":true}");
	assert_true(session_is_turn_of_prompt(session_of(st)));
}

static void an_agent_may_die_twice(void **state)
{
	struct stage *st = *state;
	for (size_t i = 0; i < MEANWHILES; i++) {
		uint64_t answered = die_with(st, CALL("c1", "make"), "once");
		begin_turn(st);
		agent_dies(st);
		meanwhiles[i](st);
		begin_turn(st);
		uint64_t seq = ask(st, "q2", CALL("c2", "make"));
		expect_bound(st, "q2", seq, "once", answered);
		/* It was said once, and heard once. */
		agent_dies(st);
		meanwhiles[i](st);
		begin_turn(st);
		ask(st, "q3", CALL("c3", "make"));
		expect_open(st, "q3");
		end_turn(st);
	}
}

static void the_first_of_two_answers_comes_first(void **state)
{
	struct stage *st = *state;
	begin_turn(st);
	ask(st, "q1", CALL("c1", "make"));
	ask(st, "q2", CALL("c2", "make"));
	uint64_t no = answer(st, "q2", "no");
	uint64_t yes = answer(st, "q1", "once");
	agent_dies(st);
	rotate(st);
	begin_turn(st);
	expect_bound(st, "q3", ask(st, "q3", CALL("c3", "make")), "no", no);
	expect_bound(st, "q4", ask(st, "q4", CALL("c4", "make")), "once", yes);
}

static void what_no_person_said_is_not_carried(void **state)
{
	struct stage *st = *state;
	static const char *const answers[] = {
		"{\"request_id\":\"q1\",\"outcome\":\"selected\",\"option_id\":\"once\"}",
		"{\"request_id\":\"q1\",\"outcome\":\"cancelled\",\"by\":\"anna\"}",
		/* No option of the question's: nothing was checked that a producer said. */
		"{\"request_id\":\"q1\",\"outcome\":\"selected\",\"option_id\":\"x\",\"by\":\"a\"}",
	};
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		begin_turn(st);
		ask(st, "q1", CALL("c1", "make"));
		rig_put(session_of(st), "permission_resolved", answers[i]);
		agent_dies(st);
		begin_turn(st);
		ask(st, "q2", CALL("c2", "make"));
		expect_open(st, "q2");
		end_turn(st);
	}
	/* The turn's end closed it. */
	begin_turn(st);
	ask(st, "q1", CALL("c1", "make"));
	agent_dies(st);
	begin_turn(st);
	ask(st, "q2", CALL("c2", "make"));
	expect_open(st, "q2");
}

static void number(char *q, char *call, int i)
{
	snprintf(q, 16, "n%d", i);
	snprintf(call, 200, "{\"tool_call_id\":\"c\",\"title\":\"T\",\"raw_input\":{\"n\":%d}}", i);
}

static void so_many_are_carried(void **state)
{
	struct stage *st = *state;
	char q[16];
	char call[200];
	uint64_t seqs[65];
	begin_turn(st);
	for (int i = 0; i < 65; i++) {
		number(q, call, i);
		ask(st, q, call);
		seqs[i] = answer(st, q, "once");
	}
	agent_dies(st);
	rotate(st);
	begin_turn(st);
	number(q, call, 0);
	ask(st, "m0", call);
	expect_open(st, "m0");
	number(q, call, 1);
	expect_bound(st, "m1", ask(st, "m1", call), "once", seqs[1]);
	number(q, call, 64);
	expect_bound(st, "m64", ask(st, "m64", call), "once", seqs[64]);
}

static void long_names_are_not_carried(void **state)
{
	struct stage *st = *state;
	struct buffer call = {0};
	buffer_printf(&call, "{\"tool_call_id\":\"%03000d\"," INPUT("make") "}", 7);
	die_with(st, buffer_cstr(&call), "once");
	begin_turn(st);
	ask(st, "q2", buffer_cstr(&call));
	expect_open(st, "q2");
	buffer_finish(&call);
}

/* --- memory --- */

/** So long that whoever may go has gone: one that may, and came last, has. */
static void wait_for_another(struct stage *st, size_t stay)
{
	rig_put(rig_session(&st->rig, "other"), "x-other", "{}");
	rig_settle(&st->rig);
	uv_timer_again(&st->rig.guard);
	while (session_table_count_live(st->rig.table) != stay) {
		uv_run(&st->rig.loop, UV_RUN_ONCE);
		session_table_end_tick(st->rig.table);
	}
}

static void a_session_that_carries_stays_in_memory(void **state)
{
	struct stage *st = *state;
	uint64_t answered = die_with(st, CALL("c1", "make"), "once");
	wait_for_another(st, 1);
	kill_server(st);
	wait_for_another(st, 1);
	begin_turn(st);
	expect_bound(st, "q2", ask(st, "q2", CALL("c2", "make")), "once", answered);
	end_turn(st);
	wait_for_another(st, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, stage_teardown)
	const struct CMUnitTest tests[] = {
		TEST(an_answer_is_bound_to_the_same_question),
		TEST(in_its_own_turn_nothing_is_bound),
		TEST(what_is_done_needs_no_answer),
		TEST(what_was_done_is_heard_of_later),
		TEST(another_question_is_another),
		TEST(a_question_must_say_what_is_to_be_done),
		TEST(the_names_of_the_call_itself_do_not_count),
		TEST(only_the_agents_end_carries_over),
		TEST(a_cancelled_turn_carries_nothing),
		TEST(an_agent_may_die_twice),
		TEST(the_first_of_two_answers_comes_first),
		TEST(what_no_person_said_is_not_carried),
		TEST(so_many_are_carried),
		TEST(long_names_are_not_carried),
		TEST(a_session_that_carries_stays_in_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
