/*
 * Which input gets which seq, and what is held until when: docs/blocks.md, line by line.
 */
#include "stream_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

/* --- seqs --- */

static void list_tool_paragraph_are_5_6_7(void **state)
{
	struct stream_bench *b = *state;
	for (uint64_t seq = 1; seq <= 4; seq++) {
		assert_int_equal(stream_bench_put(b, EVENT_PLAN), seq);
	}
	stream_bench_expect(b, "1 plan; 2 plan; 3 plan; 4 plan");
	assert_int_equal(stream_bench_say(b, "- a\n"), 5);
	assert_int_equal(stream_bench_put(b, EVENT_TOOL_CALL), 6);
	assert_int_equal(stream_bench_say(b, "- b\n"), 5);
	stream_bench_expect(b, "(6 tool_call)");
	assert_int_equal(stream_bench_say(b, "\n"), 5);
	assert_int_equal(stream_buffer_next_seq(b->sb), 7);
	stream_bench_say(b, "After");
	stream_bench_expect(b, "5 message [- a¶- b¶¶]; 6 tool_call");
	assert_int_equal(stream_bench_say(b, " it."), 7);
	assert_int_equal(stream_bench_end_turn(b), 8);
	stream_bench_expect(b, "7 message [After it.]; 8 turn_end");
}

static void the_rest_of_a_chunk_gets_the_next_seq(void **state)
{
	struct stream_bench *b = *state;
	assert_int_equal(stream_bench_say(b, "One.\n\nTwo.\n\n# Three\nFour"), 1);
	stream_bench_expect(b, "1 message [One.¶¶]; 2 message [Two.¶¶]; 3 message [# Three¶]");
	assert_int_equal(stream_bench_say(b, "."), 4);
	assert_int_equal(stream_buffer_next_seq(b->sb), 5);
}

/** The seq that a chunk is told is that of the event its first byte is in, however many follow. */
static void a_chunk_is_told_its_first_seq(void **state)
{
	struct stream_bench *b = *state;
	struct buffer line = {0};
	while (line.len < b->limits.paragraph_flush_size - 10) {
		buffer_append_str(&line, "word ");
	}
	assert_int_equal(stream_bench_say(b, buffer_cstr(&line)), 1);
	/* The paragraph is cut in the middle of this chunk. */
	assert_int_equal(stream_bench_say(b, "and a long line\nTwo.\n\nThree.\n\nFour"), 1);
	assert_int_equal(b->last_seq, 3);
	assert_int_equal(stream_bench_say(b, "\n\n"), 4);
	assert_int_equal(stream_bench_say(b, "Five"), 5);
	buffer_finish(&line);
}

static void blank_lines_open_nothing(void **state)
{
	struct stream_bench *b = *state;
	assert_int_equal(stream_bench_say(b, "\n"), 0);
	assert_int_equal(stream_bench_say(b, " \t\n  "), 0);
	assert_int_equal(stream_buffer_next_seq(b->sb), 1);
	assert_int_equal(stream_bench_put(b, EVENT_TOOL_CALL), 1);
	assert_int_equal(stream_bench_say(b, "Text"), 2);
	stream_bench_end_turn(b);
	stream_bench_expect(b, "1 tool_call; 2 message [¶ \t¶  Text]; 3 turn_end");
}

static void a_turn_of_blank_lines_has_no_message(void **state)
{
	struct stream_bench *b = *state;
	stream_bench_say(b, "\n\n \n");
	assert_int_equal(stream_bench_end_turn(b), 1);
	stream_bench_expect(b, "1 turn_end");
}

static void thoughts_coalesce_while_open(void **state)
{
	struct stream_bench *b = *state;
	assert_int_equal(stream_bench_think(b, "I "), 1);
	assert_int_equal(stream_bench_think(b, "think"), 1);
	stream_bench_expect(b, "");
	assert_int_equal(stream_bench_put(b, EVENT_TOOL_CALL), 2);
	stream_bench_expect(b, "1 thought [I think]; 2 tool_call");
	assert_int_equal(stream_bench_think(b, "more"), 3);
	assert_int_equal(stream_bench_say(b, "Text"), 4);
	stream_bench_expect(b, "3 thought [more]");
	assert_int_equal(stream_bench_think(b, "again"), 5);
	stream_bench_expect(b, "4 message [Text]");
	stream_bench_end_turn(b);
	stream_bench_expect(b, "5 thought [again]; 6 turn_end");
}

static void thoughts_coalesce_while_held(void **state)
{
	struct stream_bench *b = *state;
	stream_bench_say(b, "- a\n");
	assert_int_equal(stream_bench_think(b, "one "), 2);
	assert_int_equal(stream_bench_think(b, "two"), 2);
	assert_int_equal(stream_bench_put(b, EVENT_TOOL_CALL), 3);
	assert_int_equal(stream_bench_think(b, "three"), 4);
	assert_int_equal(stream_bench_say(b, "- b\n"), 1);
	assert_int_equal(stream_bench_think(b, "four"), 5);
	stream_bench_expect(b, "(2 thought); (3 tool_call); (4 thought); (5 thought)");
	stream_bench_end_turn(b);
	stream_bench_expect(b,
		"1 message [- a¶- b¶]; 2 thought [one two]; 3 tool_call; 4 thought [three]; 5 thought [four]; 6 turn_end");
}

static void another_message_id_begins_a_block(void **state)
{
	struct stream_bench *b = *state;
	assert_int_equal(stream_bench_say_as(b, "m1", "- a\n"), 1);
	assert_int_equal(stream_bench_say_as(b, "m1", "- b\n"), 1);
	assert_int_equal(stream_bench_put(b, EVENT_TOOL_CALL), 2);
	assert_int_equal(stream_bench_say_as(b, "m2", "- c\n"), 3);
	stream_bench_expect(b, "(2 tool_call); 1 message [- a¶- b¶] of m1; 2 tool_call");
	assert_int_equal(stream_bench_say(b, "- d\n"), 3);
	stream_bench_end_turn(b);
	stream_bench_expect(b, "3 message [- c¶- d¶] of m2; 4 turn_end");
}

static void text_without_an_id_is_of_the_message_before_it(void **state)
{
	struct stream_bench *b = *state;
	stream_bench_say(b, "- a\n");
	stream_bench_say_as(b, "m1", "- b\n");
	stream_bench_say_as(b, "m2", "- c\n");
	stream_bench_put(b, EVENT_PERMISSION_REQUEST);
	stream_bench_say(b, "- d\n");
	stream_bench_say_as(b, "m3", "- e\n");
	stream_bench_end_turn(b);
	stream_bench_expect(b,
		"1 message [- a¶]; 2 message [- b¶] of m1; 3 message [- c¶] of m2; 4 permission_request; 5 message [- d¶] continues 3 of m2; 6 message [- e¶] of m3; 7 turn_end");
}

static void indentation_below_a_complete_block_is_of_the_next_one(void **state)
{
	struct stream_bench *b = *state;
	stream_bench_say(b, "a\n\n    ");
	stream_bench_put(b, EVENT_TOOL_CALL);
	stream_bench_say(b, "code\n");
	stream_bench_put(b, EVENT_TOOL_CALL);
	stream_bench_say(b, "# b\n  ");
	stream_bench_put(b, EVENT_TOOL_CALL);
	stream_bench_say(b, "```\n  c\n  ```\n");
	stream_bench_end_turn(b);
	stream_bench_expect(b,
		"1 message [a¶¶]; 2 tool_call; 3 message [    code¶]; 4 tool_call; 5 message [# b¶]; 6 tool_call; 7 message [  ```¶  c¶  ```¶]; 8 turn_end");
}

/* In a list, what it indents goes on with the list. */
static void indentation_in_a_list_is_of_what_follows(void **state)
{
	struct stream_bench *b = *state;
	stream_bench_say(b, "- a\n\n    ");
	stream_bench_put(b, EVENT_TOOL_CALL);
	stream_bench_say(b, "text\n");
	stream_bench_end_turn(b);
	stream_bench_expect(b,
		"1 message [- a¶¶]; 2 tool_call; 3 message [    text¶] continues 1 context [- &#32;¶¶]; 4 turn_end");
}

/* --- what is held --- */

static const struct {
	const char *text;
	bool closable; /* once a blank line has come */
} holding[] = {
	{"- a\n", true},
	{"1. a\n   - b\n", true},
	{"- a\n  para", true},
	{"| a | b |\n|---|---|\n| 1 | 2 |\n", true},
	{"> a\n", true},
	{"> - a\n> - b\n", true},
	{"```js\ncode\n", false},
	{"~~~~\n```\n", false},
	{"   ```\n", false},
	{"- a\n  ```\n  code\n", false},
};

/**
 * In each of these blocks everything but text waits; what comes behind it goes out in seq order.
 */
static void blocks_hold(void **state)
{
	static const enum event_type waits[] = {EVENT_TOOL_CALL, EVENT_TOOL_CALL_UPDATE, EVENT_PLAN,
		EVENT_USAGE, EVENT_FILE_READ, EVENT_FILE_WRITE, EVENT_CUSTOM};
	for (size_t i = 0; i < sizeof(holding) / sizeof(holding[0]); i++) {
		for (size_t k = 0; k < sizeof(waits) / sizeof(waits[0]); k++) {
			struct stream_bench b;
			stream_bench_init(&b);
			assert_int_equal(stream_bench_say(&b, holding[i].text), 1);
			assert_int_equal(stream_bench_put(&b, waits[k]), 2);
			assert_int_equal(stream_buffer_emitted_seq(b.sb), 0);
			assert_int_equal(stream_bench_think(&b, "hm"), 3);
			assert_int_equal(stream_buffer_emitted_seq(b.sb), 0);
			assert_int_equal(stream_bench_end_turn(&b), 4);
			assert_int_equal(b.last_seq, 4);
			assert_string_equal(buffer_cstr(&b.text), holding[i].text);
			stream_bench_finish(&b);
		}
	}
	(void)state;
}

/** A list, table or quote that has seen a blank line lets everything else out at once. */
static void closable_blocks_do_not_hold(void **state)
{
	for (size_t i = 0; i < sizeof(holding) / sizeof(holding[0]); i++) {
		struct stream_bench b;
		stream_bench_init(&b);
		stream_bench_say(&b, holding[i].text);
		stream_bench_say(&b, "\n\n");
		assert_int_equal(stream_bench_put(&b, EVENT_TOOL_CALL), 2);
		assert_int_equal(stream_buffer_emitted_seq(b.sb), holding[i].closable ? 2 : 0);
		stream_bench_finish(&b);
	}
	(void)state;
}

/** The first marks of a list, table or fence hold, though they may turn out to be none. */
static void what_may_become_such_a_block_holds(void **state)
{
	static const char *const undecided[] = {"-", "- ", "1", "12.", "1. ", "* ", "`", "``", "~~",
		"text\n-", "text\n``", "text\n```c", "|", "| a | b", "a |", "a | b\n", "a | b\n ",
		"| a |\n|", "a | b\n:-", "text\n| a |\n|-", "| a |\n|-|"};
	static const char *const plain[] = {"text", "-a", "12a", "**", "text\n", "text\nmore",
		"a\n", "a | b\nc", "a | b\n\n", "`a", "#", "# a | b"};
	for (size_t i = 0; i < sizeof(undecided) / sizeof(undecided[0]); i++) {
		struct stream_bench b;
		stream_bench_init(&b);
		stream_bench_say(&b, undecided[i]);
		assert_int_equal(stream_bench_put(&b, EVENT_TOOL_CALL), 2);
		assert_int_equal(stream_buffer_emitted_seq(b.sb), 0);
		assert_int_equal(stream_bench_put(&b, EVENT_PERMISSION_REQUEST), 3);
		assert_int_equal(stream_buffer_emitted_seq(b.sb), 3);
		stream_bench_finish(&b);
	}
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
		struct stream_bench b;
		stream_bench_init(&b);
		stream_bench_say(&b, plain[i]);
		assert_int_equal(stream_bench_put(&b, EVENT_TOOL_CALL), 2);
		assert_int_equal(stream_buffer_emitted_seq(b.sb), 2);
		stream_bench_finish(&b);
	}
	(void)state;
}

static void a_tool_call_does_not_cost_the_table(void **state)
{
	struct stream_bench *b = *state;
	stream_bench_say(b, "| a | b |\n|-");
	stream_bench_put(b, EVENT_TOOL_CALL);
	stream_bench_say(b, "|-|\n| 1 | 2 |\n\nText");
	stream_bench_expect(
		b, "(2 tool_call); 1 message [| a | b |¶|-|-|¶| 1 | 2 |¶¶]; 2 tool_call");
}

static void a_closed_fence_holds_nothing(void **state)
{
	struct stream_bench *b = *state;
	stream_bench_say(b, "````\n```\n");
	stream_bench_put(b, EVENT_TOOL_CALL);
	stream_bench_say(b, "`````\n");
	stream_bench_expect(b, "(2 tool_call); 1 message [````¶```¶`````¶]; 2 tool_call");
	stream_bench_put(b, EVENT_TOOL_CALL);
	stream_bench_expect(b, "3 tool_call");
}

static void a_closed_block_lets_the_held_out_at_the_next_text(void **state)
{
	struct stream_bench *b = *state;
	stream_bench_say(b, "- a\n");
	stream_bench_put(b, EVENT_TOOL_CALL);
	stream_bench_put(b, EVENT_TOOL_CALL_UPDATE);
	stream_bench_say(b, "\n");
	stream_bench_expect(b, "(2 tool_call); (3 tool_call_update)");
	stream_bench_say(b, "N");
	stream_bench_expect(b, "1 message [- a¶¶]; 2 tool_call; 3 tool_call_update");
	stream_bench_end_turn(b);
	stream_bench_expect(b, "4 message [N]; 5 turn_end");
}

static void everything_else_flushes_a_paragraph(void **state)
{
	struct stream_bench *b = *state;
	stream_bench_say(b, "Let me **look");
	assert_int_equal(stream_bench_put(b, EVENT_TOOL_CALL), 2);
	stream_bench_expect(b, "1 message [Let me **look]; 2 tool_call");
	assert_int_equal(stream_bench_say(b, "** there.\n"), 3);
	stream_bench_think(b, "hm");
	stream_bench_expect(b, "3 message [** there.¶]");
	stream_bench_say(b, "# Head");
	stream_bench_put(b, EVENT_FILE_READ);
	stream_bench_expect(b, "4 thought [hm]; 5 message [# Head]; 6 file_read");
	stream_bench_say(b, "    code\n");
	stream_bench_put(b, EVENT_USAGE);
	stream_bench_expect(b, "7 message [    code¶]; 8 usage");
}

static void a_permission_request_forces_everything_out(void **state)
{
	struct stream_bench *b = *state;
	stream_bench_say(b, "```c\nint a;\n");
	stream_bench_put(b, EVENT_TOOL_CALL);
	stream_bench_think(b, "may I");
	assert_int_equal(stream_bench_put(b, EVENT_PERMISSION_REQUEST), 4);
	stream_bench_expect(b,
		"(2 tool_call); (3 thought); 1 message [```c¶int a;¶]; 2 tool_call; 3 thought [may I]; 4 permission_request");
	assert_int_equal(stream_bench_put(b, EVENT_PERMISSION_RESOLVED), 5);
	assert_int_equal(stream_bench_say(b, "int b;\n```\n"), 6);
	assert_int_equal(stream_bench_say(b, "Done"), 7);
	stream_bench_expect(
		b, "5 permission_resolved; 6 message [int b;¶```¶] continues 1 context [```c¶]");
	stream_bench_put(b, EVENT_PERMISSION_REQUEST);
	stream_bench_expect(b, "7 message [Done]; 8 permission_request");
}

static void the_end_of_a_turn_lets_everything_out(void **state)
{
	static const char *const texts[] = {
		"- a", "| a |\n|-|\n| b", "```\nx", "> q", "para **b", "# h"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct stream_bench b;
		stream_bench_init(&b);
		stream_bench_say(&b, texts[i]);
		stream_bench_put(&b, EVENT_TOOL_CALL);
		stream_bench_end_turn(&b);
		assert_int_equal(b.last_seq, 3);
		assert_string_equal(buffer_cstr(&b.text), texts[i]);
		/* What comes next is a new text: a fence is not open any more. */
		stream_bench_say(&b, "Next\n");
		stream_bench_put(&b, EVENT_TOOL_CALL);
		assert_int_equal(b.last_seq, 5);
		stream_bench_finish(&b);
	}
	(void)state;
}

/**
 * Blanks that came before a tool call stand in front of the next event, and count when it is read.
 */
static void indentation_before_a_tool_call_counts(void **state)
{
	struct stream_bench *b = *state;
	stream_bench_say(b, "    ");
	assert_int_equal(stream_bench_put(b, EVENT_TOOL_CALL), 1);
	assert_int_equal(stream_bench_say(b, "- no list but code\n"), 2);
	assert_int_equal(stream_bench_put(b, EVENT_TOOL_CALL), 3);
	stream_bench_expect(b, "1 tool_call; 2 message [    - no list but code¶]; 3 tool_call");
}

/* --- what is shown of the open event --- */

static void assert_open(struct stream_bench *b, uint64_t seq, const char *text)
{
	struct stream_open open;
	stream_buffer_get_open(b->sb, &open);
	assert_int_equal(open.seq, seq);
	assert_int_equal(open.len, strlen(text));
	assert_memory_equal(open.text ? open.text : "", text, open.len);
}

static void the_open_event_shows_what_is_certain(void **state)
{
	struct stream_bench *b = *state;
	assert_open(b, 0, "");
	stream_bench_say(b, "\n");
	assert_open(b, 0, "");
	stream_bench_say(b, "- é\n");
	assert_open(b, 1, "\n- é\n");
	stream_bench_say(b, "\n-");
	assert_open(b, 1, "\n- é\n\n");
	stream_bench_say(b, "x");
	assert_open(b, 2, "-x");
	stream_bench_think(b, "h");
	stream_bench_think(b, "m");
	assert_open(b, 3, "hm");
	stream_bench_end_turn(b);
	assert_open(b, 0, "");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, stream_bench_setup, stream_bench_teardown)
	const struct CMUnitTest tests[] = {
		TEST(list_tool_paragraph_are_5_6_7),
		TEST(the_rest_of_a_chunk_gets_the_next_seq),
		TEST(a_chunk_is_told_its_first_seq),
		TEST(blank_lines_open_nothing),
		TEST(a_turn_of_blank_lines_has_no_message),
		TEST(thoughts_coalesce_while_open),
		TEST(thoughts_coalesce_while_held),
		TEST(another_message_id_begins_a_block),
		TEST(text_without_an_id_is_of_the_message_before_it),
		TEST(indentation_below_a_complete_block_is_of_the_next_one),
		TEST(indentation_in_a_list_is_of_what_follows),
		TEST(blocks_hold),
		TEST(closable_blocks_do_not_hold),
		TEST(what_may_become_such_a_block_holds),
		TEST(a_tool_call_does_not_cost_the_table),
		TEST(a_closed_fence_holds_nothing),
		TEST(a_closed_block_lets_the_held_out_at_the_next_text),
		TEST(everything_else_flushes_a_paragraph),
		TEST(a_permission_request_forces_everything_out),
		TEST(the_end_of_a_turn_lets_everything_out),
		TEST(indentation_before_a_tool_call_counts),
		TEST(the_open_event_shows_what_is_certain),
	};
	return cmocka_run_group_tests_name("stream_buffer", tests, NULL, NULL);
}
