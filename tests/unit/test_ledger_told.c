/*
 * The permission ledger: that the agent hears of each answer once, and of none that the disk does
 * not have.
 */
#include "ledger_fixture.h"

#include <signal.h>
#include <sys/resource.h>

static void the_agent_hears_each_answer_once(void **state)
{
	struct stage *st = *state;
	begin_turn(st);
	ask(st, "q1", CALL("c1", "one"));
	ask(st, "q2", CALL("c2", "two"));
	ask(st, "q3", CALL("c3", "three"));
	answer(st, "q2", "once");
	session_table_end_tick(st->rig.table); /* on its way, and the next one is not */
	rig_put(session_of(st), "permission_resolved",
		"{\"request_id\":\"q1\",\"outcome\":\"cancelled\"}");
	rig_expect_told(&st->rig, "");
	while (!st->rig.told.len) {
		uv_run(&st->rig.loop, UV_RUN_ONCE);
	}
	rig_expect_told(&st->rig, "answered q2 once");
	expect_told(st, "answered q1 -");
	rig_say(session_of(st), "- a list that stays open\n");
	answer(st, "q3", "no");
	expect_told(st, "answered q3 no"); /* though the event waits for the list */
	ask(st, "q4", CALL("c4", "four"));
	end_turn(st);
	expect_told(st, "answered q4 -");
	rotate(st);
	expect_told(st, "");
}

/** In front of the next prompt, which may have been waiting. */
static void the_end_of_the_turn_is_heard_before_the_next_one(void **state)
{
	struct stage *st = *state;
	uint64_t seq;
	bool duplicate;
	session_prompt(session_of(st), "one", 3, "p1", AUTHOR("me"), &seq, &duplicate);
	session_prompt(session_of(st), "two", 3, "p2", AUTHOR("me"), &seq, &duplicate);
	ask(st, "q1", CALL("c1", "one"));
	expect_told(st, "prompt s 1 one");
	rig_put(session_of(st), "agent_stopped", "{\"reason\":\"signal\"}");
	expect_told(st, "answered q1 -; prompt s 6 two");
}

static void what_is_answered_is_not_answered_again(void **state)
{
	struct stage *st = *state;
	begin_turn(st);
	ask(st, "q1", CALL("c1", "one"));
	uint64_t answered = answer(st, "q1", "once");
	expect_told(st, "answered q1 once");
	assert_int_equal(answer(st, "q1", "no"), answered);
	expect_told(st, "");
	assert_int_equal(session_channel(session_of(st))->max_seq, answered);
	/* Nor by its own batch, when it was bound. */
	agent_dies(st);
	begin_turn(st);
	rig_settle(&st->rig);
	uint64_t had = session_channel(session_of(st))->max_seq;
	static const char events[] =
		"[{\"type\":\"permission_request\",\"data\":{\"request_id\":\"q2\",\"tool_"
		"call\":" CALL("c1",
			"one") ",\"options\":" OPTIONS "}},"
			       "{\"type\":\"permission_resolved\",\"data\":{\"request_id\":\"q2\","
			       "\"outcome\":\"cancelled\"},\"key\":\"k\"}]";
	struct json_spans spans;
	assert_int_equal(json_spans_read(events, strlen(events), &spans), 0);
	struct append_ack acks[2] = {0};
	struct refusal refusal = {0};
	size_t bad;
	assert_int_equal(intake_append(session_of(st), spans.all + 1, 2, &st->rig.limits, acks,
				 &bad, &refusal),
		0);
	json_spans_finish(&spans);
	assert_int_equal(acks[0].seq, had + 1);
	assert_int_equal(acks[1].seq, had + 2);
	assert_true(acks[1].duplicate);
	expect_told(st, "answered q2 once");
	expect_bound(st, "q2", had + 1, "once", answered);
	assert_int_equal(session_channel(session_of(st))->max_seq, had + 2);
}

static void what_the_disk_does_not_have_is_not_told(void **state)
{
	struct stage *st = *state;
	struct rlimit was;
	begin_turn(st);
	ask(st, "q1", CALL("c1", "one"));
	rig_settle(&st->rig);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &was);
	setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = 1, .rlim_max = was.rlim_max});
	answer(st, "q1", "once");
	expect_told(st, "store failed: File too large");
	setrlimit(RLIMIT_FSIZE, &was);
	rig_wait_for_store(&st->rig);
	expect_told(st, "store revived");
	expect_open(st, "q1");
	answer(st, "q1", "no");
	expect_told(st, "answered q1 no");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, stage_teardown)
	const struct CMUnitTest tests[] = {
		TEST(the_agent_hears_each_answer_once),
		TEST(the_end_of_the_turn_is_heard_before_the_next_one),
		TEST(what_is_answered_is_not_answered_again),
		TEST(what_the_disk_does_not_have_is_not_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
