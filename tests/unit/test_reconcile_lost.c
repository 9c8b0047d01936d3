/*
 * What a replay tells that the log lacks, although the log has the same words elsewhere: the place
 * decides, and where no rule can know, it is shown. And none of it comes twice.
 */
#include "reconcile_fixture.h"

#define PROMPT(text) "{\"data\":{\"message\":\"" text "\"},\"type\":\"user_prompt\"}"
#define NAMED(id, text)                                          \
	"{\"data\":{\"text\":\"" text "\"},\"message_id\":\"" id \
	"\",\"type\":\"agent_message_chunk\"}"
#define SENTENCE "I have changed the file as you asked."

static void said_as(json_t *events, const char *message_id, const char *text)
{
	log_append(events, "agent_message", json_pack("{s:s}", "markdown", text), message_id);
}

static void tell_as(json_t *updates, const char *message_id, const char *text)
{
	tell(updates, "agent_message_chunk", text, message_id);
}

static void called(json_t *events, const char *id, const char *title)
{
	json_t *data = json_pack(
		"{s:s, s:s, s:s}", "tool_call_id", id, "title", title, "status", "completed");
	log_append(events, "tool_call", data, NULL);
}

static void tell_call(json_t *updates, const char *id, const char *title)
{
	json_array_append_new(
		updates, json_pack("{s:s, s:s, s:s, s:s}", "sessionUpdate", "tool_call",
				 "toolCallId", id, "title", title, "status", "completed"));
}

static void expect_added(struct story *story, const char *expected)
{
	expect_fresh(story->log, story->told, 0, expected);
	expect_nothing_more(story);
	story_end(story, 0, "[]");
}

/** A short text that is also a part of a longer one of the same turn. */
static void test_short_text_in_a_longer_one(void **state)
{
	struct story *story = story_new();
	log_prompt(story->log, "go");
	said(story->log, "When it is Done. I will tell you.\n");
	tell_user(story->told, "go");
	tell_agent(story->told, "When it is Done. I will tell you.");
	tell_call(story->told, "c1", "Wait");
	called(story->log, "c1", "Wait");
	tell_agent(story->told, "Done.");
	expect_added(story, "[" MESSAGE("Done.") "]");
}

/** The same, where the longer one is not told. */
static void test_short_text_in_another_one(void **state)
{
	struct story *story = story_new();
	log_prompt(story->log, "go");
	said(story->log, "Not Done. yet.\n");
	tell_user(story->told, "go");
	tell_agent(story->told, "Done.");
	expect_added(story, "[" MESSAGE("Done.") "]");
}

/** The same short text twice in a turn, of which the log has one. */
static void test_short_text_twice(void **state)
{
	for (int missing = 0; missing < 2; missing++) {
		struct story *story = story_new();
		log_prompt(story->log, "go");
		tell_user(story->told, "go");
		for (int i = 0; i < 2; i++) {
			const char *id = i ? "c2" : "c1";
			if (i != missing) {
				said(story->log, "Done.\n");
			}
			called(story->log, id, id);
			tell_agent(story->told, "Done.");
			tell_call(story->told, id, id);
		}
		expect_added(story, "[" MESSAGE("Done.") "]");
	}
}

/** A whole sentence that stands in an earlier turn, and now is said again. */
static void test_sentence_of_an_earlier_turn(void **state)
{
	struct story *story = story_new();
	log_prompt(story->log, "first");
	said(story->log, SENTENCE "\n");
	log_prompt(story->log, "second");
	said(story->log, "Here is another answer altogether.\n");
	tell_user(story->told, "first");
	tell_agent(story->told, SENTENCE);
	tell_user(story->told, "second");
	tell_agent(story->told, "Here is another answer altogether.");
	tell_call(story->told, "c1", "Change");
	called(story->log, "c1", "Change");
	tell_agent(story->told, SENTENCE);
	expect_added(story, "[" MESSAGE(SENTENCE) "]");
}

/** The same, of a later turn; and in a turn that was taken elsewhere. */
static void test_sentence_of_a_later_turn(void **state)
{
	struct story *story = story_new();
	log_prompt(story->log, "first");
	said(story->log, "Here is another answer altogether.\n");
	called(story->log, "c1", "Change");
	log_prompt(story->log, "second");
	said(story->log, SENTENCE "\n");
	tell_user(story->told, "first");
	tell_agent(story->told, "Here is another answer altogether.");
	tell_call(story->told, "c1", "Change");
	tell_agent(story->told, SENTENCE);
	tell_user(story->told, "elsewhere");
	tell_agent(story->told, SENTENCE);
	tell_user(story->told, "second");
	tell_agent(story->told, SENTENCE);
	expect_added(
		story, "[" MESSAGE(SENTENCE) "," PROMPT("elsewhere") "," MESSAGE(SENTENCE) "]");
}

/** A prompt that was given elsewhere in the words of an earlier one. */
static void test_prompt_equal_to_an_earlier_one(void **state)
{
	for (int is_last = 0; is_last < 2; is_last++) {
		struct story *story = story_new();
		log_prompt(story->log, "fix the build of the server");
		said(story->log, "It is fixed.\n");
		tell_user(story->told, "fix the build of the server");
		tell_agent(story->told, "It is fixed.");
		tell_user(story->told, "fix the build of the server");
		tell_agent(story->told, "It was fixed already.");
		if (!is_last) {
			log_prompt(story->log, "thank you");
			said(story->log, "You are welcome.\n");
			tell_user(story->told, "thank you");
			tell_agent(story->told, "You are welcome.");
		}
		expect_added(story, "[" PROMPT("fix the build of the server") "," MESSAGE(
					    "It was fixed already.") "]");
	}
}

/** The same, before the one that the log has. */
static void test_prompt_equal_to_a_later_one(void **state)
{
	struct story *story = story_new();
	log_prompt(story->log, "go on");
	said(story->log, "Done.\n");
	tell_user(story->told, "go on");
	tell_agent(story->told, "Fine.");
	tell_user(story->told, "go on");
	tell_agent(story->told, "Done.");
	expect_added(story, "[" PROMPT("go on") "," MESSAGE("Fine.") "]");
}

/** One that has the words of an earlier one in it, or is a part of it. */
static void test_prompt_with_an_earlier_one_in_it(void **state)
{
	static const char *const texts[] = {
		"fix the build of the server, then run its tests", "the build of the server"};
	for (int i = 0; i < 2; i++) {
		struct story *story = story_new();
		char expected[300];
		log_prompt(story->log, "fix the build of the server");
		said(story->log, "It is fixed.\n");
		log_prompt(story->log, "thank you");
		tell_user(story->told, "fix the build of the server");
		tell_agent(story->told, "It is fixed.");
		tell_user(story->told, texts[i]);
		tell_agent(story->told, "They pass.");
		tell_user(story->told, "thank you");
		snprintf(expected, sizeof(expected), "[" PROMPT("%s") "," MESSAGE("They pass.") "]",
			texts[i]);
		expect_added(story, expected);
	}
}

/** A prompt that the agent never answered stands right behind one of ours. */
static void test_prompt_behind_a_cancelled_one(void **state)
{
	struct story *story = story_new();
	log_prompt(story->log, "first question");
	log_prompt(story->log, "third question");
	said(story->log, "The answer.\n");
	tell_user(story->told, "first question");
	tell_user(story->told, "[Request interrupted by user]");
	tell_user(story->told, "second question");
	tell_user(story->told, "third question");
	tell_agent(story->told, "The answer.");
	expect_added(story, "[" PROMPT("second question") "]");
}

/** What is put around a prompt does not make it another one, if its answer is ours. */
static void test_prompt_in_a_frame(void **state)
{
	struct story *story = story_new();
	log_prompt(story->log, "fix the build of the server");
	said(story->log, "It is fixed now, and all the tests pass.\n");
	tell_user(story->told, "Today is Sunday.\nfix the build of the server\n(by the user)");
	tell_agent(story->told, "It is fixed now, and all the tests pass.");
	expect_added(story, "[]");
}

/** An agent that counts its calls from 1 again. */
static void test_call_whose_id_was_used(void **state)
{
	struct story *story = story_new();
	log_prompt(story->log, "look");
	called(story->log, "call_1", "List the files");
	said(story->log, "Here they are.\n");
	tell_user(story->told, "look");
	tell_call(story->told, "call_1", "List the files");
	tell_agent(story->told, "Here they are.");
	tell_user(story->told, "clean up");
	tell_call(story->told, "call_1", "Delete the database");
	expect_added(story, "[" PROMPT("clean up") ",{\"data\":{\"status\":\"completed\",\"title\":"
						   "\"Delete the database\",\"tool_call_id\":"
						   "\"call_1\"},\"type\":\"tool_call\"}]");
}

/** The same in one turn, and with the first of the two not told. */
static void test_call_whose_id_was_used_in_the_turn(void **state)
{
	for (int both = 0; both < 2; both++) {
		struct story *story = story_new();
		log_prompt(story->log, "look");
		called(story->log, "call_1", "List the files");
		tell_user(story->told, "look");
		if (both) {
			tell_call(story->told, "call_1", "List the files");
		}
		tell_call(story->told, "call_1", "Delete the database");
		expect_added(story,
			"[{\"data\":{\"status\":\"completed\",\"title\":\"Delete the database\","
			"\"tool_call_id\":\"call_1\"},\"type\":\"tool_call\"}]");
	}
}

/** A result that nobody has heard of comes in one piece with its call. */
static void test_result_of_a_call(void **state)
{
	struct story *story = story_new();
	log_prompt(story->log, "look");
	log_append(story->log, "tool_call",
		json_pack("{s:s, s:s, s:s}", "tool_call_id", "c1", "title", "List", "status",
			"pending"),
		NULL);
	tell_user(story->told, "look");
	tell_call(story->told, "c1", "List");
	expect_added(story, "[{\"data\":{\"status\":\"completed\",\"title\":\"List\","
			    "\"tool_call_id\":\"c1\"},\"type\":\"tool_call_update\"}]");
}

/** A message that the log has in other words, or whose rest does not go on exactly. */
static void test_rest_of_a_message_with_a_name(void **state)
{
	struct story *story = story_new();
	log_prompt(story->log, "go");
	said_as(story->log, "m1", "First I look at the lgos");
	tell_user(story->told, "go");
	tell_as(story->told, "m1", "First I look at the logs, then I delete them.");
	expect_added(story, "[" NAMED("m1", "First I look at the logs, then I delete them.") "]");
}

/** A message has several parts with tools in between, and the log lacks one of them. */
static void test_part_of_a_message_with_a_name(void **state)
{
	for (int missing = 0; missing < 2; missing++) {
		struct story *story = story_new();
		log_prompt(story->log, "go");
		tell_user(story->told, "go");
		for (int i = 0; i < 2; i++) {
			const char *text = i ? "And then I do that." : "At first I do this.";
			if (i != missing) {
				said_as(story->log, "m1", text);
			}
			tell_as(story->told, "m1", text);
			called(story->log, "c1", "Do");
			tell_call(story->told, "c1", "Do");
		}
		expect_added(story, missing ? "[" NAMED("m1", "And then I do that.") "]"
					    : "[" NAMED("m1", "At first I do this.") "]");
	}
}

/** Two messages with the same words have names of their own. */
static void test_names_come_first(void **state)
{
	for (int missing = 0; missing < 3; missing++) {
		struct story *story = story_new();
		char expected[200];
		const char *const ids[] = {"m0", "m1", "m2"};
		log_prompt(story->log, "go");
		tell_user(story->told, "go");
		for (int i = 0; i < 3; i++) {
			if (i != missing) {
				said_as(story->log, ids[i], "Done.\n");
			}
			tell_as(story->told, ids[i], "Done.");
		}
		snprintf(expected, sizeof(expected), "[" NAMED("%s", "Done.") "]", ids[missing]);
		expect_added(story, expected);
	}
}

/** Messages of two helpers of the agent that spoke at once, told one after the other. */
static void test_messages_that_were_interleaved(void **state)
{
	struct story *story = story_new();
	log_prompt(story->log, "go");
	said_as(story->log, "m1", "One begins here.\n\n");
	said_as(story->log, "m2", "Two begins here.\n\n");
	said_as(story->log, "m1", "One ends.\n\n");
	said_as(story->log, "m2", "Two ends.\n\n");
	tell_user(story->told, "go");
	tell_as(story->told, "m1", "One begins here.\n\nOne ends.");
	tell_as(story->told, "m2", "Two begins here.\n\nTwo ends.");
	expect_added(story, "[]");
}

/** Thoughts with names of their own are one event of the log. */
static void test_thoughts_that_were_joined(void **state)
{
	struct story *story = story_new();
	log_prompt(story->log, "go");
	log_append(story->log, "agent_thought",
		json_pack("{s:s}", "text", "I look at it.\n\nNow what?\n\nAnd how do I get there?"),
		"m1");
	said_as(story->log, "m4", "Here is what I found.");
	tell_user(story->told, "go");
	tell(story->told, "agent_thought_chunk", "I look at it.", "m1");
	tell(story->told, "agent_thought_chunk", "Now what?", "m2");
	tell(story->told, "agent_thought_chunk", "And how do I get there?", "m3");
	tell_as(story->told, "m4", "Here is what I found.");
	expect_added(story, "[]");
}

/** A text that was cut by a tool in the middle of a list. */
static void test_text_around_a_call(void **state)
{
	struct story *story = story_new();
	log_prompt(story->log, "go");
	said(story->log, "- one\n- two\n- three\n");
	called(story->log, "c1", "Do");
	called(story->log, "c2", "Do");
	tell_user(story->told, "go");
	tell_agent(story->told, "- one\n");
	tell_call(story->told, "c1", "Do");
	tell_agent(story->told, "- two\n");
	tell_call(story->told, "c2", "Do");
	tell_agent(story->told, "- three\n");
	expect_added(story, "[]");
}

/* What an agent told of its first turn only when the second had its prompt, and so is in that one. */
struct late_case {
	const char *name; /* of the messages; NULL: none */
	const char *thought_name;
	const char *text;
	const char *call;
};

static const struct late_case late_cases[] = {
	{"m2", "m3", SENTENCE, "c1"},
	{"m2", "m3", "Yes.", "c1"},
	{NULL, NULL, SENTENCE, "c1"},
	{NULL, NULL, SENTENCE, "a-name-that-is-long-enough"},
};

/** The log is told, and the rest of a message of which the log has only a part. */
static void test_told_too_late(void **state)
{
	for (size_t i = 0; i < sizeof(late_cases) / sizeof(late_cases[0]); i++) {
		const struct late_case *c = &late_cases[i];
		struct story *story = story_new();
		log_prompt(story->log, "go on");
		said_as(story->log, c->name ? "m1" : NULL, "Now I look at the files.");
		log_prompt(story->log, "go on");
		said_as(story->log, c->name ? "m4" : NULL, "I go on with the next of them.");
		log_append(story->log, "agent_thought",
			json_pack("{s:s}", "text", "What else is there?\n\nNothing."),
			c->thought_name);
		said_as(story->log, c->name, c->text);
		called(story->log, c->call, "Read");
		said_as(story->log, c->name ? "m5" : NULL, "That is all of it.");
		tell_user(story->told, "go on");
		tell_as(story->told, c->name ? "m1" : NULL, "Now I look at the files.");
		tell(story->told, "agent_thought_chunk", "What else is there?", c->thought_name);
		tell(story->told, "agent_thought_chunk", "Nothing.", c->name ? "m6" : NULL);
		tell_as(story->told, c->name, c->text);
		tell_call(story->told, c->call, "Read");
		tell_user(story->told, "go on");
		tell_as(story->told, c->name ? "m4" : NULL, "I go on with the next of them.");
		tell_as(story->told, c->name ? "m5" : NULL, "That is all of it.");
		struct reconcile *fw = reconcile_of(story->log);
		for (size_t j = 0; j < json_array_size(story->told); j++) {
			take(fw, json_array_get(story->told, j));
		}
		assert_true(reconcile_is_complete(fw));
		reconcile_destroy(fw);
		expect_added(story, "[]");
	}
}

/** Each text of the log is told once: what is told twice is new, the second time. */
static void test_told_too_late_and_again(void **state)
{
	struct story *story = story_new();
	log_prompt(story->log, "first");
	said(story->log, "Now I look at the files.\n");
	log_prompt(story->log, "second");
	said(story->log, SENTENCE "\n");
	tell_user(story->told, "first");
	tell_agent(story->told, "Now I look at the files.");
	tell_agent(story->told, SENTENCE);
	tell_user(story->told, "second");
	tell_agent(story->told, SENTENCE);
	tell_user(story->told, "third");
	tell_agent(story->told, SENTENCE);
	expect_added(story, "[" MESSAGE(SENTENCE) "," PROMPT("third") "," MESSAGE(SENTENCE) "]");
}

/** A turn that the agent has forgotten is no place for what it says now. */
static void test_words_of_a_forgotten_turn(void **state)
{
	struct story *story = story_new();
	log_prompt(story->log, "first");
	said(story->log, SENTENCE "\n");
	called(story->log, "c1", "Read");
	log_prompt(story->log, "second");
	said(story->log, "Here is another answer altogether, and a long one.\n");
	called(story->log, "c2", "Write");
	said(story->log, "With more of it, so that nobody doubts which turn it is.\n");
	tell_user(story->told, "second");
	tell_agent(story->told, "Here is another answer altogether, and a long one.");
	tell_call(story->told, "c2", "Write");
	tell_agent(story->told, "With more of it, so that nobody doubts which turn it is.");
	tell_call(story->told, "c1", "Read");
	tell_agent(story->told, SENTENCE);
	expect_added(story,
		"[{\"data\":{\"status\":\"completed\",\"title\":\"Read\",\"tool_call_id\":\"c1\"},"
		"\"type\":\"tool_call\"}," MESSAGE(SENTENCE) "]");
}

static size_t count_type(const json_t *fresh, const char *type)
{
	size_t count = 0;
	for (size_t i = 0; i < json_array_size(fresh); i++) {
		count += strcmp(member(json_array_get(fresh, i), "type"), type) == 0;
	}
	return count;
}

/** The same turn again and again: the agent tells one more, and the log has lost an answer. */
static void test_many_equal_turns(void **state)
{
	for (int lost = 0; lost < 100; lost++) {
		struct story *story = story_new();
		for (int i = 0; i < 100; i++) {
			log_prompt(story->log, "go on");
			tell_user(story->told, "go on");
			if (i != lost) {
				said(story->log, SENTENCE "\n");
			}
			tell_agent(story->told, SENTENCE);
		}
		tell_user(story->told, "go on");
		tell_agent(story->told, SENTENCE);
		json_t *fresh = replay(story->log, story->told, 0, NULL);
		assert_int_equal(count_type(fresh, "user_prompt"), 1);
		assert_int_equal(count_type(fresh, "agent_message_chunk"), 2);
		json_decref(fresh);
		expect_nothing_more(story);
		story_end(story, 0, "[]");
	}
}

static void expect_complete_at_end(const struct story *story)
{
	struct reconcile *fw = reconcile_of(story->log);
	for (size_t i = 0; i < json_array_size(story->told); i++) {
		assert_false(reconcile_is_complete(fw));
		take(fw, json_array_get(story->told, i));
	}
	assert_true(reconcile_is_complete(fw));
	reconcile_destroy(fw);
}

/** A history that is told up to somewhere is not taken for its end, although that says the same. */
static void test_complete(void **state)
{
	struct story *story = story_new();
	for (int i = 0; i < 3; i++) {
		log_prompt(story->log, "go on");
		tell_user(story->told, "go on");
		said(story->log, i == 1 ? SENTENCE "\n" : "Done.\n");
		tell_agent(story->told, i == 1 ? SENTENCE : "Done.");
	}
	log_prompt(story->log, "go on");
	tell_user(story->told, "go on");
	expect_complete_at_end(story);
	story_end(story, 0, "[]");
}

/** Nor where its last thought is not told, or what it says before something that came too late. */
static void test_complete_with_all_of_the_turn(void **state)
{
	struct story *story = story_new();
	log_prompt(story->log, "first");
	log_prompt(story->log, "second");
	said_as(story->log, "m2", "This is what was asked for.");
	said_as(story->log, "m1", SENTENCE); /* told too late, of the first turn */
	log_append(story->log, "agent_thought",
		json_pack("{s:s}", "text", "What is next?\n\nThere is something."), "m3");
	tell_user(story->told, "first");
	tell_as(story->told, "m1", SENTENCE);
	tell_user(story->told, "second");
	tell_as(story->told, "m2", "This is what");
	tell_as(story->told, "m2", " was asked for.");
	tell(story->told, "agent_thought_chunk", "What is next?", "m3");
	tell(story->told, "agent_thought_chunk", "There is something.", "m4");
	expect_complete_at_end(story);
	expect_added(story, "[]");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_short_text_in_a_longer_one),
		cmocka_unit_test(test_short_text_in_another_one),
		cmocka_unit_test(test_short_text_twice),
		cmocka_unit_test(test_sentence_of_an_earlier_turn),
		cmocka_unit_test(test_sentence_of_a_later_turn),
		cmocka_unit_test(test_prompt_equal_to_an_earlier_one),
		cmocka_unit_test(test_prompt_equal_to_a_later_one),
		cmocka_unit_test(test_prompt_with_an_earlier_one_in_it),
		cmocka_unit_test(test_prompt_behind_a_cancelled_one),
		cmocka_unit_test(test_prompt_in_a_frame),
		cmocka_unit_test(test_call_whose_id_was_used),
		cmocka_unit_test(test_call_whose_id_was_used_in_the_turn),
		cmocka_unit_test(test_result_of_a_call),
		cmocka_unit_test(test_rest_of_a_message_with_a_name),
		cmocka_unit_test(test_part_of_a_message_with_a_name),
		cmocka_unit_test(test_names_come_first),
		cmocka_unit_test(test_messages_that_were_interleaved),
		cmocka_unit_test(test_thoughts_that_were_joined),
		cmocka_unit_test(test_text_around_a_call),
		cmocka_unit_test(test_told_too_late),
		cmocka_unit_test(test_told_too_late_and_again),
		cmocka_unit_test(test_words_of_a_forgotten_turn),
		cmocka_unit_test(test_many_equal_turns),
		cmocka_unit_test(test_complete),
		cmocka_unit_test(test_complete_with_all_of_the_turn),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
