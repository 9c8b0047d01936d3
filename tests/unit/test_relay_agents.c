/* What a server does without agents on a store that had some (relay_agents.h). */
#include "server/relay/relay_agents.h"

#include "stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

static void prompt(struct stage *st, const char *prompt_id)
{
	struct request request = {.type = REQUEST_PROMPT};
	struct refusal refusal = {0};
	uint64_t seq;
	bool is_duplicate;
	request.prompt.prompt_id = prompt_id;
	request.prompt.message = "hello";
	request.prompt.message_len = 5;
	assert_int_equal(
		intake_prompt(st->session, &request, AUTHOR("c1"), &seq, &is_duplicate, &refusal),
		0);
	rig_settle(&st->rig);
}

static void a_turn_whose_agent_is_gone_is_ended_once(void **state)
{
	struct stage *st = *state;
	prompt(st, "p-1");
	rig_put(st->session, "agent_started", "{\"name\":\"a\"}");
	rig_settle(&st->rig);
	assert_true(session_is_turn_of_prompt(st->session));
	assert_true(session_agent_is_running(st->session));
	relay_recover_turn(NULL, st->session);
	rig_settle(&st->rig);
	assert_false(session_is_prompting(st->session));
	assert_false(session_agent_is_running(st->session));
	uint64_t seq = st->channel->max_seq;
	relay_recover_turn(NULL, st->session);
	rig_settle(&st->rig);
	assert_int_equal(st->channel->max_seq, seq);
}

static void a_turn_of_a_producer_goes_on(void **state)
{
	struct stage *st = *state;
	rig_say(st->session, "Once upon a time");
	rig_settle(&st->rig);
	assert_true(session_is_prompting(st->session));
	relay_recover_turn(NULL, st->session);
	rig_settle(&st->rig);
	assert_true(session_is_prompting(st->session));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, stage_setup, stage_teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_turn_whose_agent_is_gone_is_ended_once),
		TEST(a_turn_of_a_producer_goes_on),
	};
	return cmocka_run_group_tests_name("relay_agents", tests, NULL, NULL);
}
