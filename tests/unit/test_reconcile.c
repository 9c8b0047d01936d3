/* What a replay of an agent's history adds to the log, by hand: nothing, but what the log lacks. */
#include "reconcile_fixture.h"
#include "random.h"

/** The same words in each turn: those of the turn that the log lacks are new all the same. */
static void test_the_same_words_in_each_turn(void **state)
{
	struct story *story = story_new();
	for (int i = 0; i < 4; i++) {
		log_prompt(story->log, "go on");
		tell_user(story->told, "go on");
		if (i != 2) {
			said(story->log, "Done.\n");
		}
		tell_agent(story->told, "Done.");
	}
	story_end(story, 0, "[" MESSAGE("Done.") "]");
}

/** What a crash has left unanswered is asked again; the agent knows of the second time only. */
static void test_the_same_prompt_again(void **state)
{
	for (int known = 0; known < 3; known++) {
		struct story *story = story_new();
		log_prompt(story->log, "fix the build");
		said(story->log, "Looking at");
		log_prompt(story->log, "fix the build");
		if (known != 1) {
			said(story->log, "Looking at the log.\n");
		}
		if (known != 2) {
			said(story->log, "It is fixed.\n");
		}
		tell_user(story->told, "fix the build");
		tell(story->told, "agent_message_chunk", "Looking at the log.", "m1");
		tell(story->told, "agent_message_chunk", "It is fixed.", "m2");
		story_end(story, 0,
			known == 0 ? "[]"
			: known == 1
				? "[{\"data\":{\"text\":\" the log.\"},\"message_id\":\"m1\","
				  "\"type\":\"agent_message_chunk\"}]"
				: "[{\"data\":{\"text\":\"It is fixed.\"},\"message_id\":\"m2\","
				  "\"type\":\"agent_message_chunk\"}]");
	}
}

/** One prompt is told that is taken for another: what follows is known all the same. */
static void test_turns_that_are_not_told(void **state)
{
	struct story *story = story_new();
	for (int i = 0; i < 8; i++) {
		char text[64];
		snprintf(text, sizeof(text), "This is the long answer number %d.", i);
		log_prompt(story->log, i % 2 ? "go on" : "and now");
		said(story->log, text);
		if (i != 1 && i != 4) {
			tell_user(story->told, i == 5  ? "something else altogether"
					       : i % 2 ? "go on"
						       : "and now");
			tell_agent(story->told, text);
		}
	}
	story_end(story, 0,
		"[{\"data\":{\"message\":\"something else altogether\"},\"type\":\"user_prompt\"}]");
}

/**
 * Prompts that repeat, messages without names, and an agent that has lost turns, or the ends of
 * turns: whatever it tells of the rest is known.
 */
static void test_random_losses(void **state)
{
	static const char *const prompts[] = {"go on", "and now", "fix it", "go on"};
	struct random random = {.state = 1};
	for (int run = 0; run < 1000; run++) {
		struct story *story = story_new();
		int count = 0;
		for (int turn = 1 + (int)random_below(&random, 10); turn > 0; turn--) {
			const char *prompt = prompts[random_below(&random, 4)];
			bool is_told = random_below(&random, 4) > 0;
			log_prompt(story->log, prompt);
			if (is_told) {
				tell_user(story->told, prompt);
			}
			for (uint32_t left = random_below(&random, 4); left > 0; left--) {
				char text[64];
				snprintf(text, sizeof(text), "Here is the answer, number %d.\n\n",
					run * 100 + count++);
				said(story->log, text);
				is_told = is_told && random_below(&random, 5) > 0;
				if (is_told) {
					tell_agent(story->told, text);
				}
			}
		}
		story_end(story, 0, "[]");
	}
}

/** A text that was cut off in one of several turns with the same prompt, and completed later. */
static void test_cut_off_in_an_equal_turn(void **state)
{
	struct story *story = story_new();
	log_prompt(story->log, "go on");
	log_prompt(story->log, "go on");
	said(story->log, "This is a long answer that was cut o");
	log_prompt(story->log, "go on");
	recovered(story->log, "agent_message", "markdown", "ff, but it was found again.\n");
	tell_user(story->told, "go on");
	tell_agent(story->told, "This is a long answer that was cut off, but it was found again.");
	tell_user(story->told, "go on");
	story_end(story, 0, "[]");
}

/** A call that was recovered stands behind a later prompt: that is not where the agent is. */
static void test_a_recovered_call_is_no_place(void **state)
{
	struct story *story = story_new();
	log_prompt(story->log, "first");
	said(story->log, "One.\n");
	said(story->log, "Two.\n");
	log_prompt(story->log, "second");
	log_append(story->log, "tool_call",
		json_pack("{s:s, s:b}", "tool_call_id", "c1", "recovered", 1), NULL);
	said(story->log, "Three.\n");
	tell_user(story->told, "first");
	tell_agent(story->told, "One.");
	json_array_append_new(story->told, json_pack("{s:s, s:s, s:s}", "sessionUpdate",
						   "tool_call", "toolCallId", "c1", "title", "T"));
	tell_agent(story->told, "Two.");
	tell_user(story->told, "second");
	tell_agent(story->told, "Three.");
	story_end(story, 0, "[]");
}

/** A prompt that is told in other words, with those of a later one in it. */
static void test_a_prompt_taken_for_another(void **state)
{
	struct story *story = story_new();
	log_prompt(story->log, "the question of the first turn");
	said(story->log, "The answer of the first turn.\n");
	log_prompt(story->log, "the question of the second turn");
	said(story->log, "The answer of the second turn.\n");
	tell_user(story->told, "asked before: the question of the second turn");
	tell_agent(story->told, "The answer of the first turn.");
	tell_user(story->told, "the question of the second turn");
	tell_agent(story->told, "The answer of the second turn.");
	story_end(story, 0,
		"[{\"data\":{\"message\":\"asked before: the question of the second turn\"},"
		"\"type\":\"user_prompt\"}]");
}

/** What stands in a later turn by chance is not what the earlier one lacks. */
static void test_words_of_a_later_turn(void **state)
{
	struct story *story = story_new();
	log_prompt(story->log, "first");
	log_prompt(story->log, "second");
	said(story->log, "I look it up.\n");
	tell_user(story->told, "first");
	tell_agent(story->told, "look");
	tell_user(story->told, "second");
	tell_agent(story->told, "I look it up.");
	story_end(story, 0, "[" MESSAGE("look") "]");
}

/** The server was killed in the middle of a text that the agent went on with. */
static void test_rest_of_a_text(void **state)
{
	for (size_t piece = 0; piece < 40; piece++) {
		struct story *story = story_new();
		log_prompt(story->log, "tell me");
		said(story->log, "First I look at the");
		tell_user(story->told, "tell me");
		tell_agent(story->told, "First I look at the\n\n logs, then at the code.");
		story_end(story, piece, "[" MESSAGE("\\n\\n logs, then at the code.") "]");
	}
}

static void test_rest_that_was_recovered_before(void **state)
{
	struct story *story = story_new();
	log_prompt(story->log, "tell me");
	said(story->log, "First I look at the");
	log_prompt(story->log, "go on");
	recovered(story->log, "agent_message", "markdown", "logs, then at the code.\n");
	recovered(story->log, "user_prompt", "message", "asked elsewhere");
	recovered(story->log, "agent_message", "markdown", "No.\n");
	tell_user(story->told, "tell me");
	tell_agent(story->told, "First I look at the logs, then at the code.");
	tell_user(story->told, "asked elsewhere");
	tell_agent(story->told, "No.");
	tell_user(story->told, "go on");
	story_end(story, 0, "[]");
}

/** Somebody went on with the agent's session in another program. */
static void test_turn_of_somebody_else(void **state)
{
	struct story *story = story_new();
	log_prompt(story->log, "first question");
	said(story->log, "First answer, which is long enough.\n");
	log_prompt(story->log, "third question");
	said(story->log, "Third answer.\n");
	tell_user(story->told, "first question");
	tell_agent(story->told, "First answer, which is long enough.");
	tell_user(story->told, "second question");
	tell_agent(story->told, "Third");
	tell_user(story->told, "third question");
	tell_agent(story->told, "Third answer.");
	story_end(story, 0,
		"[{\"data\":{\"message\":\"second question\"},\"type\":\"user_prompt\"}," MESSAGE(
			"Third") "]");
}

/** Prompts that were cancelled stand side by side in the history. */
static void test_prompts_side_by_side(void **state)
{
	struct story *story = story_new();
	log_prompt(story->log, "first question");
	said(story->log, "I was cut off in the mid");
	log_prompt(story->log, "another one");
	said(story->log, "The answer.\n");
	tell_user(story->told, "first question");
	tell_user(story->told, "[Request interrupted by user]");
	tell_user(story->told, "another one");
	tell_agent(story->told, "The answer.");
	story_end(story, 0, "[]");
}

static void test_names_tell(void **state)
{
	struct story *story = story_new();
	log_prompt(story->log, "go");
	log_append(story->log, "agent_message", json_pack("{s:s}", "markdown", "In these words."),
		"m1");
	tell_user(story->told, "go");
	tell(story->told, "agent_message_chunk", "In other words.", "m1");
	tell(story->told, "agent_message_chunk", "And more.", "m2");
	story_end(story, 0,
		"[{\"data\":{\"text\":\"In other words.\"},\"message_id\":\"m1\",\"type\":"
		"\"agent_message_chunk\"},{\"data\":{\"text\":\"And more.\"},\"message_id\":"
		"\"m2\",\"type\":\"agent_message_chunk\"}]");
}

/** Two messages without names come one after the other, and the log lacks one of them. */
static void test_neighbours_without_names(void **state)
{
	static const char one[] = "This is the first message, of some length.";
	static const char two[] = "And here is the second, which is long as well.";
	struct story *story = story_new();
	log_prompt(story->log, "go");
	said(story->log, two);
	tell_user(story->told, "go");
	tell_agent(story->told, one);
	tell_agent(story->told, two);
	story_end(story, 0, "[" MESSAGE("This is the first message, of some length.") "]");
}

/** Of a log that was pruned, what comes before the first thing it has is not new. */
static void test_pruned(void **state)
{
	struct story *story = story_new();
	struct reconcile *fw = reconcile_create(SIZE_LIMIT);
	log_prompt(story->log, "the second question");
	reconcile_log(
		fw, "user_prompt", json_object_get(json_array_get(story->log, 0), "data"), NULL);
	reconcile_log_is_cut(fw);
	tell_user(story->told, "the first question");
	tell_agent(story->told, "An old answer.");
	tell_user(story->told, "the second question");
	tell_agent(story->told, "A new answer.");
	for (size_t i = 0; i < json_array_size(story->told); i++) {
		take(fw, json_array_get(story->told, i));
	}
	json_t *fresh = reconcile_finish(fw);
	assert_int_equal(json_array_size(fresh), 1);
	assert_false(reconcile_is_foreign(fw));
	json_decref(fresh);
	reconcile_destroy(fw);
	story_end(story, 0,
		"[{\"data\":{\"message\":\"the first question\"},\"type\":\"user_prompt\"}," MESSAGE(
			"An old answer.") "," MESSAGE("A new answer.") "]");
}

/** What is kept of the log, and what is new, is bounded. */
static void test_bounded(void **state)
{
	struct reconcile *fw = reconcile_create(10000);
	json_t *updates = json_array();
	char text[101] = {0};
	memset(text, 'x', 100);
	for (int i = 0; i < 1000; i++) {
		json_t *data = json_pack("{s:s}", "markdown", text);
		reconcile_log(fw, "agent_message", data, NULL);
		json_decref(data);
	}
	assert_true(reconcile_logged(fw)->is_cut);
	assert_true(reconcile_logged(fw)->size <= 10100);
	reconcile_destroy(fw);
	fw = reconcile_create(100000);
	for (int i = 0; i < 1000; i++) {
		char id[16];
		snprintf(id, sizeof(id), "m%d", i);
		tell(updates, "agent_message_chunk", "y", id);
	}
	for (size_t i = 0; i < json_array_size(updates); i++) {
		take(fw, json_array_get(updates, i));
	}
	json_t *fresh = reconcile_finish(fw);
	assert_in_range(json_array_size(fresh), 100, 200);
	assert_true(reconcile_is_cut(fw));
	json_decref(fresh);
	reconcile_destroy(fw);
	json_decref(updates);
}

/** What an update has besides its text is counted, too: a tool's input is as large as it likes. */
static void test_large_updates(void **state)
{
	struct reconcile *fw = reconcile_create(10000);
	char text[1001] = {0};
	memset(text, 'x', 1000);
	for (int i = 0; i < 100; i++) {
		json_t *update = json_pack("{s:s, s:s, s:{s:s}}", "sessionUpdate", "tool_call",
			"toolCallId", "c1", "rawInput", "text", text);
		take(fw, update);
		assert_true(update->refcount == 1 || i < 10);
		json_decref(update);
	}
	json_decref(reconcile_finish(fw));
	assert_true(reconcile_is_cut(fw));
	reconcile_destroy(fw);
}

/** A replay that costs hours, or gigabytes, ends while the test's time limit lasts. */
static void expect_affordable(json_t *events, const char *kind, const char *form)
{
	struct reconcile *fw = reconcile_of(events);
	for (int i = 0; i < 20000; i++) {
		char text[100];
		json_t *updates = json_array();
		snprintf(text, sizeof(text), form, i);
		tell(updates, kind, text, i % 2 ? "m1" : "m2");
		take(fw, json_array_get(updates, 0));
		json_decref(updates);
	}
	json_decref(reconcile_finish(fw));
	reconcile_destroy(fw);
	json_decref(events);
}

static void test_cost(void **state)
{
	char *text = malloc(4000001);
	memset(text, 'a', 4000000);
	text[4000000] = '\0';
	json_t *events = json_array();
	log_prompt(events, text);
	expect_affordable(json_deep_copy(events), "user_message_chunk", "aaa%d");
	expect_affordable(json_deep_copy(events), "user_message_chunk", "aaa%.0d");
	said(events, text);
	expect_affordable(events, "agent_message_chunk", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa%d");
	events = json_array();
	for (int i = 0; i < 20000; i++) {
		log_prompt(events, "ab ab ab ab ab ab ab ab ab");
	}
	expect_affordable(json_deep_copy(events), "user_message_chunk", "ab%.0d");
	expect_affordable(events, "user_message_chunk", "quite another prompt, number %d");
	free(text);
}

/** Histories that are made to be expensive in one way each. */
static void test_cost_of_much(void **state)
{
	json_t *events = json_array();
	for (int i = 0; i < 5000; i++) {
		log_prompt(events, "a");
		said(events, i % 2 ? "Done." : "Here I look at the files first.");
		recovered(events, "agent_message", "markdown", "Ok.");
	}
	expect_affordable(json_deep_copy(events), "user_message_chunk", "a%.0d");
	expect_affordable(json_deep_copy(events), "agent_message_chunk", "Done.%.0d");
	expect_affordable(
		events, "agent_message_chunk", "Here I look at the files first. Not %d\n\n");
	events = json_array();
	log_prompt(events, "go");
	for (int i = 0; i < 5000; i++) {
		said(events, i % 2 ? "x" : "aaaaaaaaaaaaaaaa");
	}
	expect_affordable(json_deep_copy(events), "agent_message_chunk", "aaaaaaaaaaaaaaaab%d");
	expect_affordable(json_deep_copy(events), "agent_message_chunk", "aaaaaaaa %.0d");
	expect_affordable(events, "agent_message_chunk", "y%d");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_same_words_in_each_turn),
		cmocka_unit_test(test_the_same_prompt_again),
		cmocka_unit_test(test_turns_that_are_not_told),
		cmocka_unit_test(test_random_losses),
		cmocka_unit_test(test_cut_off_in_an_equal_turn),
		cmocka_unit_test(test_a_recovered_call_is_no_place),
		cmocka_unit_test(test_a_prompt_taken_for_another),
		cmocka_unit_test(test_words_of_a_later_turn),
		cmocka_unit_test(test_rest_of_a_text),
		cmocka_unit_test(test_rest_that_was_recovered_before),
		cmocka_unit_test(test_turn_of_somebody_else),
		cmocka_unit_test(test_prompts_side_by_side),
		cmocka_unit_test(test_names_tell),
		cmocka_unit_test(test_neighbours_without_names),
		cmocka_unit_test(test_pruned),
		cmocka_unit_test(test_bounded),
		cmocka_unit_test(test_large_updates),
		cmocka_unit_test(test_cost),
		cmocka_unit_test(test_cost_of_much),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
