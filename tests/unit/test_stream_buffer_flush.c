/* What the clock and the size decide: docs/blocks.md#what-the-clock-and-the-size-decide. */
#include "stream_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

/** Nothing is due a millisecond before `at`, and `flush` is due then. */
static void wait_until(struct stream_bench *b, int64_t at, enum stream_flush flush)
{
	assert_int_equal(stream_buffer_deadline(b->sb), at);
	stream_bench_wait(b, at - 1, STREAM_FLUSH_NONE);
	stream_bench_wait(b, at, flush);
}

/* --- time --- */

static void nothing_open_is_never_due(void **state)
{
	struct stream_bench *b = *state;
	assert_true(stream_buffer_deadline(b->sb) == INT64_MAX);
	stream_bench_say(b, "\n\n");
	assert_true(stream_buffer_deadline(b->sb) == INT64_MAX);
	stream_bench_put(b, EVENT_TOOL_CALL);
	assert_true(stream_buffer_deadline(b->sb) == INT64_MAX);
	stream_bench_wait(b, 1000000, STREAM_FLUSH_NONE);
}

static void a_paragraph_goes_out_at_the_end_of_a_line(void **state)
{
	struct stream_bench *b = *state;
	stream_bench_say(b, "One\n");
	b->now = 1100;
	stream_bench_say(b, "two\n");
	wait_until(b, 1300, STREAM_FLUSH_BLOCK);
	stream_bench_expect(b, "1 message [One¶two¶]");
	assert_true(stream_buffer_deadline(b->sb) == INT64_MAX);
	b->now = 2000;
	assert_int_equal(stream_bench_say(b, "three"), 2);
	wait_until(b, 12000, STREAM_FLUSH_BLOCK); /* in the middle of a line: inactivity */
	stream_bench_expect(b, "2 message [three] continues 1 context [&#32;]");
	stream_bench_say(b, " four\n\nFive");
	stream_bench_end_turn(b);
	stream_bench_expect(
		b, "3 message [ four¶¶] continues 2 context [&#32;]; 4 message [Five]; 5 turn_end");
}

static void an_unmatched_marker_makes_a_timeout_wait(void **state)
{
	static const char *const open[] = {"a **b\n", "a `b\n", "# a **b", "- a `b\n", "> a **b\n"};
	for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++) {
		struct stream_bench b;
		stream_bench_init(&b);
		stream_bench_say(&b, open[i]);
		stream_bench_wait(&b, 1000000000, STREAM_FLUSH_NONE);
		/* Something held does not wait for it. */
		if (stream_bench_put(&b, EVENT_TOOL_CALL) && b.last_seq == 0) {
			stream_bench_wait(&b, b.now + b.limits.hold_ms, STREAM_FLUSH_BLOCK);
		}
		assert_int_equal(b.last_seq, 2);
		stream_bench_finish(&b);
	}
	(void)state;
}

static void a_matched_marker_does_not_wait(void **state)
{
	struct stream_bench *b = *state;
	stream_bench_say(b, "a **b\n");
	stream_bench_wait(b, 5000, STREAM_FLUSH_NONE);
	stream_bench_say(b, "c**\n");
	wait_until(b, 5200, STREAM_FLUSH_BLOCK);
	stream_bench_expect(b, "1 message [a **b¶c**¶]");
}

static void code_has_no_markers(void **state)
{
	struct stream_bench *b = *state;
	stream_bench_say(b, "```\na ** `b\n");
	wait_until(b, 31000, STREAM_FLUSH_BLOCK);
	stream_bench_say(b, "c ** `d\n");
	wait_until(b, 61000, STREAM_FLUSH_BLOCK);
	stream_bench_expect(
		b, "1 message [```¶a ** `b¶]; 2 message [c ** `d¶] continues 1 context [```¶]");
}

static void open_blocks_wait_longer(void **state)
{
	static const char *const texts[] = {"- a\n", "| a |\n|---|\n| b |\n", "```\na\n", "> a\n"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct stream_bench b;
		stream_bench_init(&b);
		stream_bench_say(&b, texts[i]);
		wait_until(&b, 31000, STREAM_FLUSH_BLOCK);
		assert_int_equal(b.last_seq, 1);
		stream_bench_finish(&b);
	}
	(void)state;
}

static void closable_blocks_have_the_soft_timeout(void **state)
{
	static const char *const texts[] = {"- a\n\n", "- a\n\n\n", "1. ```\n   a\n   ```\n\n",
		"    a\n\n", "a\r\r", "```\r\na\r\n```\r", "a\n \r"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct stream_bench b;
		stream_bench_init(&b);
		stream_bench_say(&b, texts[i]);
		wait_until(&b, 1200, STREAM_FLUSH_BLOCK);
		assert_int_equal(b.last_seq, 1);
		stream_bench_finish(&b);
	}
	(void)state;
}

static const char *const complete[] = {"```\na\n```\n", "~~~~\n\n~~~\n\n~~~~  \n", "# a\n", "***\n",
	"a\n\n", "a\nb\n \t\n", "a\n===\n", "a\r\n\r\n", "| a |\n|---|\n\n", "> a\n\n",
	"<div>\na\n\n", "<!-- a\n\nb -->\n", "\n\n# a\n"};

/** With the byte that completes it, and not before. */
static void complete_blocks_do_not_wait(void **state)
{
	for (size_t i = 0; i < sizeof(complete) / sizeof(complete[0]); i++) {
		struct stream_bench b;
		stream_bench_init(&b);
		size_t len = strlen(complete[i]);
		for (size_t at = 0; at < len; at++) {
			assert_int_equal(b.last_seq, 0);
			stream_bench_say_n(&b, complete[i] + at, 1);
		}
		assert_int_equal(b.last_seq, 1);
		assert_true(stream_buffer_deadline(b.sb) == INT64_MAX);
		assert_int_equal(b.text.len, len);
		stream_bench_finish(&b);
	}
	(void)state;
}

/** Blank lines behind a complete block are of what comes next, or of nothing. */
static void later_blank_lines_are_of_what_follows(void **state)
{
	static const char text[] = "a\n\n\n\nb\n\n   c\n\n\n";
	for (size_t step = 1; step < sizeof(text); step++) {
		struct stream_bench b;
		stream_bench_init(&b);
		for (size_t at = 0; at < sizeof(text) - 1; at += step) {
			size_t left = sizeof(text) - 1 - at;
			stream_bench_say_n(&b, text + at, left < step ? left : step);
		}
		stream_bench_end_turn(&b);
		stream_bench_expect(
			&b, "1 message [a¶¶]; 2 message [¶¶b¶¶]; 3 message [   c¶¶]; 4 turn_end");
		stream_bench_finish(&b);
	}
	(void)state;
}

/** Every chunk that is taken has a number, if there is one: that of the block in front of it. */
static void blank_lines_behind_a_block_have_its_seq(void **state)
{
	struct stream_bench b;
	struct buffer saved = {0};
	stream_bench_init(&b);
	assert_int_equal(stream_bench_say(&b, "a\n\n"), 1);
	assert_int_equal(stream_bench_say(&b, "\n"), 1);
	stream_buffer_save(b.sb, &saved);
	struct unpack in = {.bytes = saved.data, .len = saved.len};
	assert_int_equal(stream_buffer_load(b.sb, &in, STREAM_FORMAT_NOW), 0);
	assert_int_equal(stream_bench_say(&b, " \n"), 1);
	assert_int_equal(stream_bench_say(&b, "\nb\n\n"), 2);
	assert_int_equal(stream_bench_say(&b, "\n"), 2);
	assert_int_equal(stream_bench_put(&b, EVENT_TOOL_CALL), 3);
	assert_int_equal(stream_bench_say(&b, "\n"), 0);
	assert_int_equal(stream_bench_say(&b, "c\n\n"), 4);
	assert_int_equal(stream_bench_end_turn(&b), 5);
	assert_int_equal(stream_bench_say(&b, "\n"), 0);
	buffer_finish(&saved);
	stream_bench_finish(&b);
	(void)state;
}

/** What a journal of the version before says of the rest must come out as it did then. */
static void complete_blocks_wait_in_older_journals(void **state)
{
	for (size_t i = 0; i < sizeof(complete) / sizeof(complete[0]); i++) {
		struct stream_bench b;
		struct buffer saved = {0};
		stream_bench_init(&b);
		stream_buffer_save(b.sb, &saved);
		/* Behind the three sizes is what it did not have. */
		memmove(saved.data + 24, saved.data + 34, saved.len - 34);
		struct unpack in = {.bytes = saved.data, .len = saved.len - 10};
		assert_int_equal(stream_buffer_load(b.sb, &in, STREAM_FORMAT_WAITS), 0);
		stream_bench_say_on(&b, complete[i]);
		assert_int_equal(b.last_seq, 0);
		stream_bench_say_on(&b, "\n\n");
		assert_int_equal(b.last_seq, 0);
		wait_until(&b, 1200, STREAM_FLUSH_BLOCK);
		assert_int_equal(b.last_seq, 1);
		assert_int_equal(b.text.len, strlen(complete[i]) + 2);
		/* From the next snapshot on it is as it is now. */
		stream_bench_say(&b, "b\n\n");
		assert_int_equal(b.last_seq, 2);
		buffer_finish(&saved);
		stream_bench_finish(&b);
	}
	(void)state;
}

/** A block that was over when the clock cut it does not go on in the next event. */
static void what_was_complete_is_not_continued(void **state)
{
	struct stream_bench *b = *state;
	stream_bench_say(b, "- a\n\n");
	wait_until(b, 1200, STREAM_FLUSH_BLOCK);
	stream_bench_say(b, "\nText\n");
	wait_until(b, 1400, STREAM_FLUSH_BLOCK);
	stream_bench_expect(b, "1 message [- a¶¶]; 2 message [¶Text¶]");
}

static void a_list_that_goes_on_after_a_cut_continues(void **state)
{
	struct stream_bench *b = *state;
	stream_bench_say(b, "- a\n\n");
	wait_until(b, 1200, STREAM_FLUSH_BLOCK);
	assert_int_equal(stream_bench_say(b, "- b\n"), 2);
	assert_int_equal(stream_bench_put(b, EVENT_TOOL_CALL), 3);
	stream_bench_end_turn(b);
	stream_bench_expect(b,
		"1 message [- a¶¶]; (3 tool_call); 2 message [- b¶] continues 1; 3 tool_call; 4 turn_end");
}

static void a_pause_below_a_header_row_does_not_cost_the_table(void **state)
{
	struct stream_bench *b = *state;
	stream_bench_say(b, "| a | b |\n");
	stream_bench_wait(b, 5000, STREAM_FLUSH_NONE);
	stream_bench_say(b, "|---|---|\n| 1 | 2 |\n\n");
	stream_bench_expect(b, "1 message [| a | b |¶|---|---|¶| 1 | 2 |¶¶]");
	stream_bench_say(b, "No header after all\na | b\n");
	wait_until(b, 15000, STREAM_FLUSH_BLOCK); /* inactivity */
	stream_bench_expect(b, "2 message [No header after all¶a | b¶]");
}

static void a_table_is_continued_with_its_header(void **state)
{
	struct stream_bench *b = *state;
	stream_bench_say(b, "| a |\n|---|\n| 1 |\n");
	wait_until(b, 31000, STREAM_FLUSH_BLOCK);
	stream_bench_say(b, "| 2 |\n\nText");
	stream_bench_expect(b,
		"1 message [| a |¶|---|¶| 1 |¶]; 2 message [| 2 |¶¶] continues 1 context [| a |¶|---|¶]");
}

static void a_thought_goes_out_after_a_while(void **state)
{
	struct stream_bench *b = *state;
	stream_bench_think(b, "a");
	b->now = 1300;
	stream_bench_think(b, "b");
	wait_until(b, 1800, STREAM_FLUSH_THOUGHT);
	stream_bench_expect(b, "1 thought [ab]");
	assert_true(stream_buffer_deadline(b->sb) == INT64_MAX);
	assert_int_equal(stream_bench_think(b, "c"), 2);
}

static void held_is_never_stuck(void **state)
{
	struct stream_bench *b = *state;
	stream_bench_say(b, "- a\n");
	b->now = 10000;
	stream_bench_put(b, EVENT_TOOL_CALL);
	assert_int_equal(stream_buffer_deadline(b->sb), 10500);
	b->now = 10400;
	stream_bench_think(b, "hm");
	b->now = 10450;
	stream_bench_say(b, "- b");
	wait_until(b, 10950, STREAM_FLUSH_BLOCK);
	stream_bench_expect(
		b, "(2 tool_call); (3 thought); 1 message [- a¶- b]; 2 tool_call; 3 thought [hm]");
	/* The thought is out: what comes next is another one, and the list is still open. */
	assert_int_equal(stream_bench_think(b, "so"), 4);
	assert_int_equal(stream_bench_say(b, "b\n"), 5);
	assert_int_equal(stream_bench_put(b, EVENT_TOOL_CALL), 6);
	stream_bench_expect(b, "4 thought [so]; (6 tool_call)");
	stream_bench_say(b, "\n");
	wait_until(b, 11150, STREAM_FLUSH_BLOCK);
	stream_bench_expect(b, "5 message [b¶¶] continues 1 context [- &#32;]; 6 tool_call");
}

/** What was no list after all ends like a paragraph: nothing continues it. */
static void held_by_first_marks_is_never_stuck(void **state)
{
	struct stream_bench *b = *state;
	stream_bench_say(b, "-");
	stream_bench_put(b, EVENT_TOOL_CALL);
	wait_until(b, 1500, STREAM_FLUSH_BLOCK);
	stream_bench_expect(b, "(2 tool_call); 1 message [-]; 2 tool_call");
	stream_bench_say(b, "5 degrees | cold");
	stream_bench_put(b, EVENT_TOOL_CALL);
	wait_until(b, 2000, STREAM_FLUSH_BLOCK);
	stream_bench_expect(b, "(4 tool_call); 3 message [5 degrees | cold]; 4 tool_call");
}

static void held_in_a_fence_waits_for_two_seconds(void **state)
{
	struct stream_bench *b = *state;
	stream_bench_say(b, "```\na\n");
	stream_bench_put(b, EVENT_TOOL_CALL);
	wait_until(b, 3000, STREAM_FLUSH_BLOCK);
	stream_bench_expect(b, "(2 tool_call); 1 message [```¶a¶]; 2 tool_call");
	/* A fence that was cut, and of which no more has come, holds nothing. */
	stream_bench_put(b, EVENT_TOOL_CALL);
	stream_bench_expect(b, "3 tool_call");
}

/* --- size --- */

static void say_lines(struct stream_bench *b, const char *line, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		stream_bench_say(b, line);
	}
}

static void a_paragraph_is_cut_at_4_kib(void **state)
{
	struct stream_bench *b = *state;
	static const char line[] = "thirty-two bytes of a long line\n";
	say_lines(b, line, 127);
	stream_bench_say_n(b, line, 31);
	assert_int_equal(b->last_seq, 0);
	stream_bench_say(b, "\n");
	assert_int_equal(b->last_seq, 1);
	assert_int_equal(b->text.len, 4096);
	stream_bench_say(b, "rest\n");
	buffer_clear(&b->log);
	stream_bench_end_turn(b);
	stream_bench_expect(b, "2 message [rest¶] continues 1 context [&#32;]; 3 turn_end");
}

static void an_unmatched_marker_makes_4_kib_wait(void **state)
{
	struct stream_bench *b = *state;
	stream_bench_say(b, "**open\n");
	say_lines(b, "thirty-two bytes of a long line\n", 300);
	assert_int_equal(b->last_seq, 0);
	stream_bench_say(b, "closed**\n");
	say_lines(b, "thirty-two bytes of a long line\n", 32);
	assert_int_equal(b->last_seq, 1);
}

/** Only paragraphs: the rest of an HTML block would be read as something else. */
static void other_blocks_are_not_cut_at_4_kib(void **state)
{
	static const struct {
		const char *begin;
		const char *line;
	} cases[] = {
		{"- a\n", "- thirty-two bytes of a long lin\n"},
		{"```\n", "thirty-two bytes of a long line.\n"},
		{"> a\n", "> thirty-two bytes of a long lin\n"},
		{"| a |\n|---|\n", "| thirty-two bytes of a long l |\n"},
		{"<pre>\n", "thirty-two bytes of a long line.\n"},
		{"    a\n", "    thirty-two bytes of a long l\n"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct stream_bench b;
		stream_bench_init(&b);
		stream_bench_say(&b, cases[i].begin);
		say_lines(&b, cases[i].line, 200);
		assert_int_equal(b.last_seq, 0);
		stream_bench_finish(&b);
	}
	(void)state;
}

/** Text of `chars` characters of `width` bytes each, in front of which stand `before` bytes. */
static void assert_capped(const char *before, const char *character, size_t width)
{
	struct stream_bench b;
	struct buffer text = {0};
	stream_bench_init(&b);
	buffer_append_str(&text, before);
	while (text.len < b.limits.block_size * 3) {
		buffer_append(&text, character, width);
	}
	stream_bench_say_n(&b, text.data, text.len);
	stream_bench_end_turn(&b);
	assert_true(b.last_seq >= 4);
	assert_int_equal(b.text.len, text.len);
	assert_memory_equal(b.text.data, text.data, text.len);
	buffer_finish(&text);
	stream_bench_finish(&b);
}

static void any_block_is_cut_at_64_kib_in_whole_characters(void **state)
{
	static const char *const begins[] = {"", "- ", "```\n", "> ", "**", "# ", "ab", "abc"};
	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
		assert_capped(begins[i], "a", 1);
		assert_capped(begins[i], "é", 2);
		assert_capped(begins[i], "€", 3);
		assert_capped(begins[i], "😀", 4);
	}
	(void)state;
}

/**
 * The first byte of a character ends the cut list, when so many blanks stand there that it is the
 * cap's, too.
 */
static void the_cap_never_splits_a_character(void **state)
{
	struct stream_bench *b = *state;
	stream_bench_say(b, "- a\n");
	stream_bench_put(b, EVENT_PERMISSION_REQUEST);
	for (size_t i = 0; i < b->limits.block_size - 1; i++) {
		stream_bench_say(b, "\n");
	}
	stream_bench_say(b, "é");
	stream_bench_end_turn(b);
	assert_int_equal(b->last_seq, 4);
	assert_memory_equal(b->text.data + b->text.len - 2, "é", 2);
}

static void a_thought_is_cut_at_4_kib(void **state)
{
	struct stream_bench *b = *state;
	char text[4097];
	memset(text, 't', 4096);
	text[4096] = '\0';
	assert_int_equal(stream_bench_think(b, text + 1), 1);
	assert_int_equal(b->last_seq, 0);
	assert_int_equal(stream_bench_think(b, "t"), 1);
	assert_int_equal(b->last_seq, 1);
	assert_int_equal(stream_bench_think(b, "t"), 2);
	stream_bench_say(b, "- a\n");
	assert_int_equal(stream_bench_think(b, text), 4);
	assert_int_equal(stream_bench_think(b, "held"), 5);
	assert_int_equal(b->last_seq, 2);
}

static void a_thought_ends_where_it_does_whatever_the_chunks(void **state)
{
	static const char text[] =
		"Hm, let me — see: 日本語 and then some words to get to the end.";
	for (int in_list = 0; in_list < 2; in_list++) {
		struct buffer want = {0};
		for (size_t step = sizeof(text); step > 0; step = step * 2 / 3) {
			struct stream_bench b;
			stream_bench_init(&b);
			b.limits.thought_size = 10;
			stream_bench_say(&b, in_list ? "- a\n" : "");
			char chunk[sizeof(text) + 1];
			for (size_t at = 0, len; at < strlen(text); at += len) {
				len = step < strlen(text) - at ? step : strlen(text) - at;
				while (((unsigned char)text[at + len] & 0xc0) == 0x80) {
					len++;
				}
				snprintf(chunk, sizeof(chunk), "%.*s", (int)len, text + at);
				stream_bench_think(&b, chunk);
			}
			stream_bench_end_turn(&b);
			if (want.len == 0) {
				buffer_append(&want, b.log.data, b.log.len);
			}
			assert_string_equal(buffer_cstr(&b.log), buffer_cstr(&want));
			assert_true(b.last_seq > 5);
			stream_bench_finish(&b);
		}
		buffer_finish(&want);
	}
	(void)state;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, stream_bench_setup, stream_bench_teardown)
	const struct CMUnitTest tests[] = {
		TEST(nothing_open_is_never_due),
		TEST(a_paragraph_goes_out_at_the_end_of_a_line),
		TEST(an_unmatched_marker_makes_a_timeout_wait),
		TEST(a_matched_marker_does_not_wait),
		TEST(code_has_no_markers),
		TEST(open_blocks_wait_longer),
		TEST(closable_blocks_have_the_soft_timeout),
		TEST(complete_blocks_do_not_wait),
		TEST(later_blank_lines_are_of_what_follows),
		TEST(blank_lines_behind_a_block_have_its_seq),
		TEST(complete_blocks_wait_in_older_journals),
		TEST(what_was_complete_is_not_continued),
		TEST(a_list_that_goes_on_after_a_cut_continues),
		TEST(a_pause_below_a_header_row_does_not_cost_the_table),
		TEST(a_table_is_continued_with_its_header),
		TEST(a_thought_goes_out_after_a_while),
		TEST(held_is_never_stuck),
		TEST(held_by_first_marks_is_never_stuck),
		TEST(held_in_a_fence_waits_for_two_seconds),
		TEST(a_paragraph_is_cut_at_4_kib),
		TEST(an_unmatched_marker_makes_4_kib_wait),
		TEST(other_blocks_are_not_cut_at_4_kib),
		TEST(any_block_is_cut_at_64_kib_in_whole_characters),
		TEST(the_cap_never_splits_a_character),
		TEST(a_thought_is_cut_at_4_kib),
		TEST(a_thought_ends_where_it_does_whatever_the_chunks),
	};
	return cmocka_run_group_tests_name("stream_buffer_flush", tests, NULL, NULL);
}
