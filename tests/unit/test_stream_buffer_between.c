/*
 * What arrives in the middle of a block and does not wait for it: the block is cut, and goes on
 * behind it in its context. docs/blocks.md#where-a-block-ends.
 */
#include "stream_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

struct between_case {
	const char *before;
	const char *after;
	const char *log; /* of what comes behind the input, which has seq 2 */
};

static const struct between_case cases[] = {
	/* a list goes on: a nested list, a fence, a quote, code, a paragraph in an item */
	{"* Files:\n\n", "    * a.c\n    * b.c\n\nend\n",
		"3 message [    * a.c¶    * b.c¶¶] continues 1 context [* &#32;¶¶]; 4 message [end¶]"},
	{"1. Run:\n\n", "   ```sh\n   ls\n   ```\n",
		"3 message [   ```sh¶   ls¶   ```¶] continues 1 context [1. &#32;¶¶]"},
	{"- a\n\n", "  > q\n", "3 message [  > q¶] continues 1 context [- &#32;¶¶]"},
	{"- a\n\n", "      code\n", "3 message [      code¶] continues 1 context [- &#32;¶¶]"},
	{"- a\n\n      code\n\n", "      more\n",
		"3 message [      more¶] continues 1 context [- &#32;¶¶]"},
	{"- a\n\n", "  b\n\n- c\n", "3 message [  b¶¶- c¶] continues 1 context [- &#32;¶¶]"},
	{"- [ ] a\n\n", "- [x] b\n", "3 message [- [x] b¶] continues 1"},
	{"- a\n\n", "- b\n", "3 message [- b¶] continues 1"},
	{"- a\n  - b\n    1. c\n\n", "       d\n    1. e\n",
		"3 message [       d¶    1. e¶] continues 1 context [- - 1. &#32;¶¶]"},
	{"-\n\n", "- a\n", "3 message [- a¶] continues 1"},
	/* in the blanks that a line begins with, which are of what follows */
	{"- a\n\n ", " b\n", "3 message [  b¶] continues 1 context [- &#32;¶¶]"},
	{"- a\n\n  ", "text\n", "3 message [  text¶] continues 1 context [- &#32;¶¶]"},
	{"- a\n\n ", "text\n", "3 message [ text¶]"},
	/* numbers */
	{"1. a\n\n", "2. b\n", "3 message [2. b¶] continues 1"},
	{"1. a\n\n", "1. b\n1. c\n", "3 message [1. b¶1. c¶] continues 1 start 2"},
	{"9) a\n\n", "1) b\n", "3 message [1) b¶] continues 1 start 10"},
	{"3. a\n3. b\n\n", "\n3. c\n", "3 message [¶3. c¶] continues 1 start 5"},
	{"0. a\n\n", "0. b\n", "3 message [0. b¶] continues 1 start 1"},
	{"1. a\n   1. x\n\n", "   1. y\n1. b\n",
		"3 message [   1. y¶1. b¶] continues 1 context [1. &#32;¶¶] start 2"},
	{"1. a\n   1. x\n\n", "1. 1. b\n", "3 message [1. 1. b¶] continues 1 start 2"},
	{"- a\n\n", "- 3. b\n", "3 message [- 3. b¶] continues 1"},
	{"1. a\n\n", "   7. x\n", "3 message [   7. x¶] continues 1 context [1. &#32;¶¶]"},
	/* the list does not go on */
	{"- a\n\n", "text\n", "3 message [text¶]"},
	{"- a\n\n", "* b\n", "3 message [* b¶]"},
	{"1. a\n\n", "1) b\n", "3 message [1) b¶]"},
	{"1. a\n\n", "  7. b\n\n  8. c\n", "3 message [  7. b¶¶  8. c¶] continues 1 start 2"},
	{"- a\n\n", "# b\n", "3 message [# b¶]"},
	{"- a\n\n", "```\nb\n```\n", "3 message [```¶b¶```¶]"},
	{"- a\n\n", "\n\ntext\n", "3 message [¶¶text¶]"},
	{"-\n\n", "  a\n", "3 message [  a¶]"},
	{"- a\r\n\r", "\n- b\r\n", "3 message [\n- b\r\n] continues 1"},
	/* HTML and indented code */
	{"<div>\n*a*\n", "*b*\n", "3 message [*b*¶] continues 1 context [<p>¶]"},
	{"<!-- a\n\n", "*b*\n-->\nc\n",
		"3 message [*b*¶-->¶] continues 1 context [<!--¶]; 4 message [c¶]"},
	{"    a\n", "    b\n", "3 message [    b¶] continues 1"},
	{"    a\n  ", "  b\n", "3 message [    b¶] continues 1"},
	{"    a\n\n", "b\n", "3 message [b¶]"},
	/* what ends */
	{"# a\n", "b\n", "3 message [b¶]"},
	{"> a\n\n", "> b\n", "3 message [> b¶]"},
	{"a", " - b\n", "3 message [ - b¶]"},
};

#define CASES (sizeof(cases) / sizeof(cases[0]))

/** Says `text` in chunks of `step` bytes. */
static void say(struct stream_bench *b, const char *text, size_t step)
{
	size_t len = strlen(text);
	for (size_t at = 0; at < len; at += step) {
		stream_bench_say_n(b, text + at, len - at < step ? len - at : step);
	}
}

static void append_without_ends(struct buffer *out, const char *log)
{
	for (; *log; log++) {
		if (*log == '\n') {
			buffer_append_str(out, "¶");
		} else {
			buffer_append_char(out, *log);
		}
	}
}

static void expect(
	struct stream_bench *b, const struct between_case *c, const char *input, const char *last)
{
	struct buffer want = {0};
	buffer_append_str(&want, "1 message [");
	append_without_ends(&want, c->before);
	size_t blanks = 0; /* they stay for what follows */
	while (want.data[want.len - blanks - 1] == ' ') {
		blanks++;
	}
	want.len -= blanks;
	buffer_printf(&want, "]; 2 %s; ", input);
	append_without_ends(&want, c->log);
	buffer_append_str(&want, last);
	stream_bench_expect(b, buffer_cstr(&want));
	buffer_finish(&want);
}

static void what_follows_an_input_goes_on(void **state)
{
	for (size_t i = 0; i < CASES; i++) {
		const struct between_case *c = &cases[i];
		for (size_t step = 1; step <= 64; step *= 8) {
			struct stream_bench b;
			stream_bench_init(&b);
			say(&b, c->before, step);
			assert_int_equal(stream_bench_put(&b, EVENT_TOOL_CALL), 2);
			assert_int_equal(b.last_seq, 2); /* it does not wait */
			say(&b, c->after, step);
			stream_buffer_finish_turn(b.sb);
			expect(&b, c, "tool_call", "");
			stream_bench_finish(&b);
		}
	}
	(void)state;
}

static void a_thought_cuts_as_everything_else(void **state)
{
	for (size_t i = 0; i < CASES; i++) {
		const struct between_case *c = &cases[i];
		struct stream_bench b;
		stream_bench_init(&b);
		say(&b, c->before, 64);
		assert_int_equal(stream_bench_think(&b, "h"), 2);
		assert_int_equal(stream_bench_think(&b, "m"), 2);
		stream_bench_reload(&b);
		say(&b, c->after, 64);
		stream_buffer_finish_turn(b.sb);
		expect(&b, c, "thought [hm]", "");
		stream_bench_finish(&b);
	}
	(void)state;
}

/** The context is the same behind other inputs, pauses and restarts. */
static void what_was_cut_stays_cut(void **state)
{
	for (size_t i = 0; i < CASES; i++) {
		const struct between_case *c = &cases[i];
		struct stream_bench b;
		struct buffer log = {0};
		stream_bench_init(&b);
		say(&b, c->before, 64);
		stream_bench_put(&b, EVENT_TOOL_CALL);
		stream_bench_reload(&b);
		say(&b, c->after, 64);
		stream_buffer_finish_turn(b.sb);
		buffer_append(&log, b.text.data, b.text.len);
		expect(&b, c, "tool_call", "");
		stream_bench_finish(&b);
		stream_bench_init(&b);
		say(&b, c->before, 64);
		stream_bench_put(&b, EVENT_TOOL_CALL);
		stream_bench_wait(&b, 100000, STREAM_FLUSH_NONE);
		stream_bench_think(&b, "hm");
		stream_bench_wait(&b, 200000, STREAM_FLUSH_THOUGHT);
		stream_bench_put(&b, EVENT_PLAN);
		stream_bench_reload(&b);
		assert_int_equal(b.last_seq, 4);
		say(&b, c->after, 1);
		stream_buffer_finish_turn(b.sb);
		assert_int_equal(b.text.len, log.len);
		assert_memory_equal(b.text.data, log.data, log.len);
		assert_int_equal(strstr(buffer_cstr(&b.log), "continues 1") != NULL,
			strstr(c->log, "continues 1") != NULL);
		buffer_finish(&log);
		stream_bench_finish(&b);
	}
	(void)state;
}

static void an_input_behind_a_pause_ends_nothing(void **state)
{
	struct stream_bench *b = *state;
	stream_bench_say(b, "1. a\n\n");
	stream_bench_wait(b, 1200, STREAM_FLUSH_BLOCK);
	assert_int_equal(stream_bench_put(b, EVENT_TOOL_CALL), 2);
	stream_bench_say(b, "1. b\n\n");
	assert_int_equal(stream_bench_put(b, EVENT_TOOL_CALL_UPDATE), 4);
	stream_bench_say(b, "1. c\n");
	stream_buffer_finish_turn(b->sb);
	stream_bench_expect(b,
		"1 message [1. a¶¶]; 2 tool_call; 3 message [1. b¶¶] continues 1 start 2; 4 tool_call_update; 5 message [1. c¶] continues 3 start 3");
}

static void a_question_goes_between(void **state)
{
	struct stream_bench *b = *state;
	stream_bench_say(b, "1. a\n   1. b\n");
	assert_int_equal(stream_bench_put(b, EVENT_PERMISSION_REQUEST), 2);
	stream_bench_say(b, "   1. c\n\n");
	assert_int_equal(stream_bench_put(b, EVENT_PERMISSION_REQUEST), 4);
	stream_bench_say(b, "1. d\n");
	stream_buffer_finish_turn(b->sb);
	stream_bench_expect(b,
		"1 message [1. a¶   1. b¶]; 2 permission_request; 3 message [   1. c¶¶] continues 1 context [1. &#32;¶] start 2; 4 permission_request; 5 message [1. d¶] continues 3 start 2");
}

/** What else ends a block still ends it. */
static void another_message_and_the_turns_end_end_a_cut_list(void **state)
{
	struct stream_bench *b = *state;
	stream_bench_say_as(b, "m1", "- a\n\n");
	stream_bench_put(b, EVENT_TOOL_CALL);
	stream_bench_say_as(b, "m2", "    b\n\n- c\n\n");
	stream_bench_put(b, EVENT_TOOL_CALL);
	stream_bench_end_turn(b);
	stream_bench_say_as(b, "m2", "- d\n");
	stream_bench_end_turn(b);
	stream_bench_expect(b,
		"1 message [- a¶¶] of m1; 2 tool_call; 3 message [    b¶¶] of m2; 4 message [- c¶¶] of m2; 5 tool_call; 6 turn_end; 7 message [- d¶] of m2; 8 turn_end");
}

static void the_open_event_has_the_context(void **state)
{
	struct stream_bench *b = *state;
	struct stream_open open;
	stream_bench_say(b, "1. a\n   - x\n\n  ");
	stream_buffer_get_open(b->sb, &open);
	assert_int_equal(open.len, strlen("1. a\n   - x\n\n"));
	stream_bench_put(b, EVENT_TOOL_CALL);
	stream_buffer_get_open(b->sb, &open);
	assert_int_equal(open.seq, 0);
	stream_bench_say(b, " - y\n");
	stream_buffer_get_open(b->sb, &open);
	assert_int_equal(open.seq, 3);
	assert_int_equal(open.len, strlen("   - y\n"));
	assert_int_equal(open.context_len, strlen("1. &#32;\n\n"));
	assert_int_equal(open.start, 0);
	stream_bench_say(b, "\n");
	stream_bench_put(b, EVENT_TOOL_CALL);
	stream_bench_say(b, "1. b");
	stream_buffer_get_open(b->sb, &open);
	assert_int_equal(open.start, 2);
}

/** What a journal of an earlier version says of the rest must come out as it did then. */
static void inputs_end_a_list_in_older_journals(void **state)
{
	struct stream_bench *b = *state;
	struct buffer saved = {0};
	stream_buffer_save(b->sb, &saved);
	/* Behind the three sizes and what is there since the version before. */
	memmove(saved.data + 33, saved.data + 34, saved.len - 34);
	struct unpack in = {.bytes = saved.data, .len = saved.len - 1};
	assert_int_equal(stream_buffer_load(b->sb, &in, STREAM_FORMAT_ENDS), 0);
	stream_bench_say_on(b, "1. a\n\n");
	stream_bench_put_on(b, EVENT_TOOL_CALL);
	stream_bench_say_on(b, "1. b\n\n");
	stream_bench_reload(b);
	stream_bench_wait(b, 1200, STREAM_FLUSH_BLOCK);
	stream_bench_say_on(b, "1. c\n\n  ");
	stream_bench_put_on(b, EVENT_TOOL_CALL);
	stream_bench_say_on(b, "    d\n");
	stream_bench_put_on(b, EVENT_TOOL_CALL);
	stream_bench_expect(b,
		"1 message [1. a¶¶]; 2 tool_call; 3 message [1. b¶¶]; 4 message [1. c¶¶  ] continues 3; 5 tool_call; 6 message [    d¶]; 7 tool_call");
	/* From the next snapshot on it is as it is now. */
	stream_bench_say(b, "1. e\n\n");
	stream_bench_put(b, EVENT_TOOL_CALL);
	stream_bench_say(b, "1. f\n\n");
	stream_bench_put(b, EVENT_TOOL_CALL);
	stream_bench_expect(b,
		"8 message [1. e¶¶]; 9 tool_call; 10 message [1. f¶¶] continues 8 start 2; 11 tool_call");
	buffer_finish(&saved);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, stream_bench_setup, stream_bench_teardown)
	const struct CMUnitTest tests[] = {
		TEST(what_follows_an_input_goes_on),
		TEST(a_thought_cuts_as_everything_else),
		TEST(what_was_cut_stays_cut),
		TEST(an_input_behind_a_pause_ends_nothing),
		TEST(a_question_goes_between),
		TEST(another_message_and_the_turns_end_end_a_cut_list),
		TEST(the_open_event_has_the_context),
		TEST(inputs_end_a_list_in_older_journals),
	};
	return cmocka_run_group_tests_name("stream_buffer_between", tests, NULL, NULL);
}
