/* Turns of the AI SDK at the same place: what one has made is what another one would have made. */
#include "doors/ai/ai_turn.h"

#include "output.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define EVENTS(to, list) "{\"type\":\"events\",\"data\":{\"max_seq\":" to ",\"events\":[" list "]}}"
#define EVENT(seq, type, data) \
	"{\"seq\":" seq ",\"type\":\"" type "\",\"ts\":1,\"turn\":1,\"data\":" data "}"
#define CALL \
	"{\"tool_call_id\":\"t1\",\"title\":\"Reads\",\"kind\":\"read\",\"raw_input\":{\"a\":1}}"

/** A turn with thoughts, text that grows, tools and a question, as an observer is sent it. */
static const char *const story[] = {
	"{\"type\":\"connected\",\"data\":{\"epoch\":\"0123456789abcdef\"}}",
	EVENTS("1", EVENT("1", "user_prompt", "{\"message\":\"x\",\"prompt_id\":\"p\"}")),
	EVENTS("2", EVENT("2", "agent_thought", "{\"text\":\"hm\"}")),
	"{\"type\":\"delta\",\"data\":{\"seq\":3,\"type\":\"agent_message\",\"offset\":0,\"text\":\"He\"}}",
	"{\"type\":\"delta\",\"data\":{\"seq\":3,\"type\":\"agent_message\",\"offset\":2,\"text\":\"llo\"}}",
	EVENTS("3", EVENT("3", "agent_message", "{\"markdown\":\"Hello, world\"}")),
	EVENTS("4", EVENT("4", "tool_call", CALL)),
	EVENTS("5",
		EVENT("5", "tool_call_update",
			"{\"tool_call_id\":\"t1\",\"content\":[{\"type\":\"content\",\"content\":{\"type\":\"text\",\"text\":\"part\"}}]}")),
	EVENTS("7", EVENT("6", "tool_call_update",
			    "{\"tool_call_id\":\"t1\",\"status\":\"completed\"}") "," EVENT("7",
			    "tool_call", "{\"tool_call_id\":\"t2\",\"title\":\"Writes\"}")),
	"{\"type\":\"state\",\"data\":{\"is_prompting\":true}}",
	EVENTS("9",
		EVENT("8", "permission_request", "{\"request_id\":\"q\",\"tool_call\":{\"tool_call_id\":\"t2\"},\"options\":[{\"option_id\":\"y\",\"kind\":\"allow_once\"}]}") "," EVENT(
			"9", "permission_resolved", "{\"request_id\":\"q\",\"option_id\":\"y\"}")),
	EVENTS("10",
		EVENT("10", "tool_call_update",
			"{\"tool_call_id\":\"t2\",\"status\":\"failed\",\"raw_output\":\"no\"}")),
	EVENTS("11", EVENT("11", "agent_message", "{\"markdown\":\"Bye\"}")),
	EVENTS("12", EVENT("12", "turn_end", "{\"stop_reason\":\"end_turn\"}")),
};
#define STORY_LEN (sizeof(story) / sizeof(story[0]))

static struct ai_turn *begin(void)
{
	return ai_turn_create(&(struct ai_turn_config){.turn = 1, .session_id = "s"});
}

/** Whether the turn is over then. */
static bool take(struct ai_turn *turn, const char *text, struct buffer *out)
{
	struct frame *frame = output_encode(&ai_socket_encoder, turn, text, strlen(text));
	if (frame) {
		buffer_append(out, frame_text(frame), frame_len(frame));
		frame_unref(frame);
	}
	return ai_turn_is_over(turn);
}

static bool same_place(const struct ai_turn *a, const struct ai_turn *b)
{
	struct ai_place at;
	struct ai_place other;
	assert_true(ai_turn_place(a, &at));
	assert_true(ai_turn_place(b, &other));
	return memcmp(&at, &other, sizeof(at)) == 0;
}

static void same_text(const struct buffer *a, const struct buffer *b)
{
	assert_int_equal(a->len, b->len);
	assert_memory_equal(a->data, b->data, a->len);
}

/** `follows` has a bit for each frame in which the second one only follows. */
static void tell_both(unsigned follows)
{
	struct ai_turn *leader = begin();
	struct ai_turn *other = begin();
	struct buffer told = {0};
	struct buffer heard = {0};
	for (size_t i = 0; i < STORY_LEN; i++) {
		size_t before = told.len;
		assert_true(same_place(leader, other));
		bool is_over = take(leader, story[i], &told);
		if (follows >> i & 1) {
			struct ai_turn *after = ai_turn_copy(leader);
			buffer_append(&heard, told.data + before, told.len - before);
			ai_turn_follow(other, after);
			assert_int_equal(ai_turn_is_over(other), is_over);
			ai_turn_destroy(after);
		} else {
			assert_int_equal(take(other, story[i], &heard), is_over);
		}
		assert_int_equal(is_over, i == STORY_LEN - 1);
	}
	same_text(&told, &heard);
	assert_non_null(memmem(told.data, told.len, "tool-output-error", 17));
	assert_non_null(memmem(told.data, told.len, "tool-approval-response", 22));
	buffer_finish(&told);
	buffer_finish(&heard);
	ai_turn_destroy(leader);
	ai_turn_destroy(other);
}

static void one_that_follows_makes_the_same_chunks(void **state)
{
	for (unsigned follows = 0; follows < 1U << STORY_LEN; follows += 7) {
		tell_both(follows);
	}
}

/** Two that have the same state because they were told the same, in other frames. */
static void frames_may_be_cut_otherwise(void **state)
{
	struct ai_turn *one = begin();
	struct ai_turn *two = begin();
	struct buffer out = {0};
	take(one, story[0], &out);
	take(two, story[0], &out);
	take(one,
		EVENTS("7", EVENT("4", "tool_call", CALL) "," EVENT("7", "tool_call",
				    "{\"tool_call_id\":\"t2\",\"title\":\"Writes\"}")),
		&out);
	take(two, story[6], &out);
	assert_false(same_place(one, two));
	take(two,
		EVENTS("7",
			EVENT("7", "tool_call", "{\"tool_call_id\":\"t2\",\"title\":\"Writes\"}")),
		&out);
	assert_true(same_place(one, two));
	buffer_finish(&out);
	ai_turn_destroy(one);
	ai_turn_destroy(two);
}

static void why_a_turn_cannot_go_on_is_known(void **state)
{
	static const struct {
		const char *output;
		const char *why;
	} cases[] = {
		{"{\"type\":\"session_gone\",\"data\":{}}", "the session has been deleted"},
		{"{\"type\":\"error\",\"data\":{\"code\":\"x\",\"message\":\"no\"}}", "no"},
		{"{\"type\":\"events_loaded\",\"data\":{\"reset\":{\"reason\":\"pruned\"}}}",
			"the beginning of the turn is no longer available"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ai_turn *turn = begin();
		struct buffer out = {0};
		assert_true(take(turn, cases[i].output, &out));
		assert_string_equal(ai_turn_why(turn), cases[i].why);
		assert_null(ai_socket_encoder.places->keep(turn));
		take(turn, story[1], &out);
		assert_int_equal(out.len, 0);
		ai_turn_destroy(turn);
	}
}

static void on_a_stream_each_chunk_is_an_event(void **state)
{
	struct ai_turn *turn = begin();
	struct frame *frame = output_encode(&ai_stream_encoder, turn, story[1], strlen(story[1]));
	static const char wanted[] = "data: {\"type\":\"start\",\"messageId\":\"turn-1\"}\n\n";
	assert_int_equal(frame_len(frame), sizeof(wanted) - 1);
	assert_memory_equal(frame_text(frame), wanted, sizeof(wanted) - 1);
	frame_unref(frame);
	ai_turn_destroy(turn);
}

static void other_tools_are_another_place(void **state)
{
	static const char other[] = EVENTS("4",
		EVENT("4", "tool_call",
			"{\"tool_call_id\":\"t1\",\"title\":\"Reads\",\"kind\":\"read\",\"raw_input\":{\"a\":2}}"));
	struct ai_turn *one = begin();
	struct ai_turn *two = begin();
	struct ai_turn *answered = begin();
	struct buffer out = {0};
	ai_turn_answered(answered, "q");
	assert_false(same_place(one, answered));
	take(one, story[6], &out);
	take(two, other, &out);
	assert_false(same_place(one, two));
	buffer_finish(&out);
	ai_turn_destroy(one);
	ai_turn_destroy(two);
	ai_turn_destroy(answered);
}

static void what_a_copy_shares_stays_as_it_is(void **state)
{
	struct ai_turn *leader = begin();
	struct ai_turn *first = begin();
	struct ai_turn *second = begin();
	struct buffer out = {0};
	take(leader, story[6], &out);
	struct ai_turn *copy = ai_turn_copy(leader);
	for (size_t i = 7; i < STORY_LEN - 1; i++) {
		take(leader, story[i], &out);
	}
	ai_turn_follow(first, copy);
	take(second, story[6], &out);
	assert_true(same_place(first, second));
	struct buffer one = {0};
	struct buffer two = {0};
	for (size_t i = 7; i < STORY_LEN; i++) {
		take(first, story[i], &one);
		take(second, story[i], &two);
	}
	same_text(&one, &two);
	buffer_finish(&one);
	buffer_finish(&two);
	buffer_finish(&out);
	ai_turn_destroy(copy);
	ai_turn_destroy(leader);
	ai_turn_destroy(first);
	ai_turn_destroy(second);
}

static void a_turn_that_waits_for_its_prompt_is_alone(void **state)
{
	struct ai_place at;
	struct buffer out = {0};
	struct ai_turn *turn =
		ai_turn_create(&(struct ai_turn_config){.prompt_id = "p", .session_id = "s"});
	assert_false(ai_turn_place(turn, &at));
	take(turn, story[1], &out);
	assert_true(ai_turn_place(turn, &at));
	take(turn, story[STORY_LEN - 1], &out);
	assert_false(ai_turn_place(turn, &at));
	buffer_finish(&out);
	ai_turn_destroy(turn);
}

static void a_place_may_lie_anywhere(void **state)
{
	unsigned char bytes[ENCODER_PLACE_MAX + 8];
	struct ai_turn *turn = begin();
	struct ai_place place;
	assert_true(ai_turn_place(turn, &place));
	for (size_t i = 0; i < 8; i++) {
		assert_true(ai_socket_encoder.places->get(turn, bytes + i));
		assert_memory_equal(bytes + i, &place, sizeof(place));
	}
	ai_turn_destroy(turn);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_follows_makes_the_same_chunks),
		cmocka_unit_test(frames_may_be_cut_otherwise),
		cmocka_unit_test(why_a_turn_cannot_go_on_is_known),
		cmocka_unit_test(on_a_stream_each_chunk_is_an_event),
		cmocka_unit_test(other_tools_are_another_place),
		cmocka_unit_test(what_a_copy_shares_stays_as_it_is),
		cmocka_unit_test(a_turn_that_waits_for_its_prompt_is_alone),
		cmocka_unit_test(a_place_may_lie_anywhere),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
