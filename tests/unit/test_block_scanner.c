/*
 * What the block scanner tells in the middle of a text, what a cut does to it, and what it must
 * survive. That it finds the right blocks is the matter of test_block_scanner_oracle.c.
 */
#include "block_scanner_soup.h"

#include <cmark-gfm.h>
#include <errno.h>

/* Feeds a text whose only block end is known at its last byte, or that has none. */
static struct block_scanner *scan(const char *text, size_t *ret_end)
{
	struct block_scanner *s = block_scanner_create();
	size_t len = strlen(text);
	*ret_end = BLOCK_SCANNER_NO_END;
	for (size_t i = 0; i < len; i++) {
		assert_int_equal(*ret_end, BLOCK_SCANNER_NO_END);
		assert_int_equal(block_scanner_feed(s, text + i, 1, ret_end), 1);
	}
	return s;
}

static void test_ends_are_known_at_once(void **state)
{
	static const struct {
		const char *text;
		size_t end;
	} cases[] = {
		{"- a\n\nO", 5},
		{"- a\n\n1", 5},
		{"- a\n\n-x", 5},
		{"1. a\n\n2)", 6},
		{"a\n\nb", 3},
		{"a\n\n-", 3},
		{"a\n\n    b", 3},
		{"a\n# ", 2},
		{"a\n- b", 2},
		{"a\n- -", 2},
		{"a\n~~~", 2},
		{"a\n>", 2},
		{"a\n<!-", BLOCK_SCANNER_NO_END},
		{"a\n<!--", 2},
		{"a\n---", BLOCK_SCANNER_NO_END},
		{"a\n***\n", 2},
		{"a\n```\n", 2},
		{"a\n---\nb", 6},
		{"```\na\n```\nb", 10},
		{"# a\n\n \n  b", 7},
		{"a\nb|c\n-|-\n", 2},
		{"> a\nb\n\nc", 7},
		{"|a|\n|-|\n|\n", 8},
		{"<div>\n\na", 7},
		{"<!-- a\n\n--> b\nc", 14},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t end;
		struct block_scanner *s = scan(cases[i].text, &end);
		if (end != cases[i].end) {
			soup_fail("the end is not known when it should be", cases[i].text,
				strlen(cases[i].text));
		}
		block_scanner_destroy(s);
	}
}

static void test_kind_closable_decided(void **state)
{
	static const struct {
		const char *text;
		enum block_kind kind;
		bool closable;
		size_t decided;
	} cases[] = {
		{"", BLOCK_NONE, false, 0},
		{"\n  ", BLOCK_NONE, false, 3},
		{"a long line", BLOCK_PARAGRAPH, false, 11},
		{"a\n", BLOCK_PARAGRAPH, false, 2},
		{"a\n\n", BLOCK_PARAGRAPH, true, 3},
		{"a\n\n  ", BLOCK_PARAGRAPH, true, 3},
		{"a\n-", BLOCK_PARAGRAPH, false, 2},
		{"a\nb", BLOCK_PARAGRAPH, false, 2},
		{"a\nb\n", BLOCK_PARAGRAPH, false, 2},
		{"a\nb\nc", BLOCK_PARAGRAPH, false, 4},
		{"a\nb\n|", BLOCK_PARAGRAPH, false, 2},
		{"a\nb\n\n", BLOCK_PARAGRAPH, true, 5},
		{"| a |\n| - ", BLOCK_PARAGRAPH, false, 6},
		{"| a |\n| - |\n", BLOCK_TABLE, false, 12},
		{"| a |\n| - |\n\n", BLOCK_TABLE, true, 13},
		{"a\n===\n", BLOCK_PARAGRAPH, true, 6},
		{"# a", BLOCK_HEADING, false, 3},
		{"# a\n", BLOCK_HEADING, true, 4},
		{"***\n", BLOCK_THEMATIC_BREAK, true, 4},
		{"- a\n", BLOCK_LIST, false, 4},
		{"- a\n-", BLOCK_LIST, false, 4},
		{"- a\n- b", BLOCK_LIST, false, 7},
		{"- a\n  ", BLOCK_LIST, false, 6},
		{"- a\n\n", BLOCK_LIST, true, 5},
		{"- ```\n\n", BLOCK_LIST, false, 7},
		{"> a\n", BLOCK_QUOTE, false, 4},
		{"> a\n\n", BLOCK_QUOTE, true, 5},
		{"```js", BLOCK_FENCE, false, 5},
		{"```\n\n\n", BLOCK_FENCE, false, 6},
		{"```\n``", BLOCK_FENCE, false, 6},
		{"```\n```\n", BLOCK_FENCE, true, 8},
		{"    a\n", BLOCK_INDENTED_CODE, false, 6},
		{"    a\n\n", BLOCK_INDENTED_CODE, true, 7},
		{"<!--\n\n", BLOCK_HTML, false, 6},
		{"<div>\n\n", BLOCK_HTML, true, 7},
		{"<!-- -->\n", BLOCK_HTML, true, 9},
		{"a\r", BLOCK_PARAGRAPH, false, 2},
		{"a\r\n", BLOCK_PARAGRAPH, false, 3},
		{"a\r\n\r", BLOCK_PARAGRAPH, true, 4},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t end;
		struct block_scanner *s = scan(cases[i].text, &end);
		size_t len = strlen(cases[i].text);
		bool fits = end == BLOCK_SCANNER_NO_END && block_scanner_length(s) == len &&
			    block_scanner_kind(s) == cases[i].kind &&
			    block_scanner_closable(s) == cases[i].closable &&
			    block_scanner_decided(s) == cases[i].decided &&
			    block_scanner_at_line_start(s) ==
				    (!len || strchr("\r\n", cases[i].text[len - 1]));
		if (!fits) {
			soup_fail("kind, closable or decided", cases[i].text, len);
		}
		block_scanner_destroy(s);
	}
}

/* ---- Cuts ---- */

/* The text before `|cut|` is given out; then where does the block end? */
static void assert_end_after_cut(const char *before, const char *after, size_t want)
{
	size_t end;
	struct block_scanner *s = scan(before, &end);
	assert_int_equal(end, BLOCK_SCANNER_NO_END);
	block_scanner_cut(s);
	size_t len = strlen(after);
	assert_int_equal(block_scanner_feed(s, after, len, &end), len);
	assert_int_equal(end, want);
	block_scanner_destroy(s);
}

static void test_cut_keeps_the_state(void **state)
{
	assert_end_after_cut("```\na", "b\n# c\n", BLOCK_SCANNER_NO_END);
	assert_end_after_cut("```\na", "b\n```\n\nc", 7);
	assert_end_after_cut("```\na\n```\n", "c", 0);
	assert_end_after_cut("a ", "b\n\nc", 3);
	assert_end_after_cut("- a\n", "- b\n\nc", 5);
	assert_end_after_cut("|a|\n|-|\n", "|b|\n|", BLOCK_SCANNER_NO_END);
	assert_end_after_cut("|a|\n|-|\n", "|b|\n\nc", 5);
	/* What was given out becomes no header row and does not move to the next block. */
	assert_end_after_cut("a\n|b|\n", "|-|\n|c|\nd", BLOCK_SCANNER_NO_END);
	assert_end_after_cut("a\n#", " ", 0);
	assert_end_after_cut("a\n", "|b|\n|-|\n", 0);
	assert_end_after_cut("a\n", "b\n|c|\n|-|\n", 2);
}

static size_t random_piece(size_t left)
{
	size_t len = soup_random() % 7 + 1;
	return len < left ? len : left;
}

static void test_cut_anywhere(void **state)
{
	char text[SOUP_MAX];
	soup_state = 77;
	for (int i = 0; i < 20000; i++) {
		struct block_scanner *s = block_scanner_create();
		size_t len = soup_cook(text, soup_random() % 60 + 1);
		for (size_t at = 0; at < len;) {
			size_t before = block_scanner_length(s);
			size_t end;
			size_t read =
				block_scanner_feed(s, text + at, random_piece(len - at), &end);
			size_t taken = end == BLOCK_SCANNER_NO_END ? 0 : end;
			assert_int_equal(block_scanner_length(s), before + read - taken);
			assert_true(block_scanner_decided(s) <= block_scanner_length(s));
			at += read;
			if (soup_random() % 4 == 0) {
				block_scanner_cut(s);
				s = soup_reload(s);
			}
		}
		block_scanner_destroy(s);
	}
}

/* ---- Limits and hostile input ---- */

static void feed_all(struct block_scanner *s, const char *text, size_t len)
{
	for (size_t at = 0; at < len;) {
		size_t end;
		at += block_scanner_feed(s, text + at, len - at, &end);
	}
}

static void test_deep_nesting(void **state)
{
	static const char *const marks[] = {"> ", "- ", "1) ", "-\n", ">"};
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		struct block_scanner *s = block_scanner_create();
		for (int n = 0; n < 20000; n++) {
			feed_all(s, marks[i], strlen(marks[i]));
		}
		s = soup_reload(s);
		feed_all(s, "a\n\n", 3);
		size_t end;
		block_scanner_feed(s, "b", 1, &end);
		assert_int_not_equal(end, BLOCK_SCANNER_NO_END);
		assert_int_equal(block_scanner_kind(s), BLOCK_PARAGRAPH);
		block_scanner_destroy(s);
	}
}

/* A line of marks longer than SCANNER_LINE_MAX is a thematic break by rule. */
static void test_long_undecided_line(void **state)
{
	struct block_scanner *s = block_scanner_create();
	for (int i = 0; i < 5000; i++) {
		feed_all(s, "- ", 2);
	}
	assert_int_equal(block_scanner_kind(s), BLOCK_THEMATIC_BREAK);
	feed_all(s, "x\n\n", 3);
	assert_true(block_scanner_closable(s));
	block_scanner_destroy(s);
}

/* The first block's length by both rules, of texts that end in the middle of a later one. */
static const struct {
	const char *text;
	size_t by_6;
	size_t by_13;
} by_rules[] = {
	{"<textarea>\n\na</textarea>\n\nb", 12, 26},
	{"<textarea\n\na\n</TEXTAREA>\nb", 11, 25},
	{"<textarea/>\n\nb", 13, 13},
	{"<pre>\n\n</textarea>\nb</pre>\n\nc", 28, 19},
	{"</textarea>\n\nb", 13, 13},
	{"a\n<source>\n\nb", 12, 2},
	{"a\n|-|-|\nb\n|-|\nc", 8, 0},
	{"a\n|-|-|\n\nb\n|-|\n\nc", 9, 9},
	{"a\nb\n|-|\n\nc", 2, 2},
};

static size_t first_end(enum block_rules rules, const char *text, bool bytewise)
{
	struct block_scanner *s = block_scanner_create();
	block_scanner_set_rules(s, rules);
	size_t len = strlen(text);
	size_t end = BLOCK_SCANNER_NO_END;
	for (size_t at = 0; at < len && end == BLOCK_SCANNER_NO_END;) {
		at += block_scanner_feed(s, text + at, bytewise ? 1 : len - at, &end);
		s = bytewise ? soup_reload(s) : s;
	}
	block_scanner_destroy(s);
	return end == BLOCK_SCANNER_NO_END ? 0 : end;
}

static void test_both_rules(void **state)
{
	for (size_t i = 0; i < sizeof(by_rules) / sizeof(by_rules[0]); i++) {
		const char *text = by_rules[i].text;
		for (int bytewise = 0; bytewise < 2; bytewise++) {
			size_t by_6 = first_end(BLOCK_RULES_GFM_6, text, bytewise);
			size_t by_13 = first_end(BLOCK_RULES_GFM_13, text, bytewise);
			if (by_6 != by_rules[i].by_6 || by_13 != by_rules[i].by_13) {
				fail_msg("%s: %zu and %zu", text, by_6, by_13);
			}
		}
	}
	(void)state;
}

static void test_versions(void **state)
{
	assert_int_equal(block_rules_of(29 << 16 | 0), BLOCK_RULES_GFM_6);
	assert_int_equal(block_rules_of(29 << 16 | 6), BLOCK_RULES_GFM_6);
	assert_int_equal(block_rules_of(29 << 16 | 13), BLOCK_RULES_GFM_13);
	assert_int_equal(block_rules_of(29 << 16 | 14), BLOCK_RULES_GFM_13);
	assert_int_equal(block_rules_of(30 << 16), BLOCK_RULES_GFM_13);
	assert_int_equal(block_rules_linked(), block_rules_of(cmark_version()));
	(void)state;
}

/* A state keeps its rules, and one of the oldest version has the older ones. */
static void test_load_keeps_the_rules(void **state)
{
	static const struct {
		enum block_rules rules;
		char format;
		size_t lacks; /* bytes at the end that only later versions have */
		size_t end;
	} cases[] = {{BLOCK_RULES_GFM_6, '4', 0, 12}, {BLOCK_RULES_GFM_13, '4', 0, 26},
		{BLOCK_RULES_GFM_6, '3', 5, 12}, {BLOCK_RULES_GFM_13, '3', 5, 26},
		{BLOCK_RULES_GFM_6, '2', 10, 12}};
	static const char text[] = "\n\na</textarea>\n\nb";
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t end;
		struct buffer saved = {0};
		struct block_scanner *s = block_scanner_create();
		block_scanner_set_rules(s, cases[i].rules);
		feed_all(s, "<textarea>", 10);
		block_scanner_save(s, &saved);
		saved.data[3] = cases[i].format;
		saved.len -= cases[i].lacks;
		block_scanner_set_rules(s, cases[i].rules == BLOCK_RULES_GFM_6 ? BLOCK_RULES_GFM_13
									       : BLOCK_RULES_GFM_6);
		assert_int_equal(block_scanner_load(s, saved.data, saved.len), 0);
		block_scanner_feed(s, text, sizeof(text) - 1, &end);
		assert_int_equal(end, cases[i].end);
		buffer_finish(&saved);
		block_scanner_destroy(s);
	}
	(void)state;
}

/* Behind a cut, a '\n' ends the line above; for the versions before it was a line of its own. */
static void test_load_keeps_how_lines_are_cut(void **state)
{
	static const char *const contexts[] = {"<p>", "<p>\n", "<p>"};
	for (size_t i = 0; i < 3; i++) {
		size_t end;
		size_t len;
		struct buffer saved = {0};
		struct block_scanner *s = block_scanner_create();
		block_scanner_save(s, &saved);
		if (i > 0) {
			saved.data[3] = '3';
			saved.len -= 5;
		}
		assert_int_equal(block_scanner_load(s, saved.data, saved.len), 0);
		assert_true(block_scanner_is_fresh(s));
		if (i == 2) {
			block_scanner_set_rules(s, BLOCK_RULES_GFM_6);
		}
		feed_all(s, "<div>\r", 6);
		block_scanner_cut(s);
		block_scanner_feed(s, "\n", 1, &end);
		const char *context = block_scanner_context(s, &len);
		assert_int_equal(len, strlen(contexts[i]));
		assert_memory_equal(context, contexts[i], len);
		buffer_finish(&saved);
		block_scanner_destroy(s);
	}
	(void)state;
}

static void test_load_refuses(void **state)
{
	size_t end;
	struct block_scanner *s = scan("- a\n  > - b\n- - ", &end);
	struct buffer good = {0};
	block_scanner_save(s, &good);
	for (size_t len = 0; len < good.len; len++) {
		assert_int_equal(block_scanner_load(s, good.data, len), -EINVAL);
		assert_int_equal(block_scanner_length(s), 0);
		assert_int_equal(block_scanner_kind(s), BLOCK_NONE);
	}
	buffer_append_char(&good, 'x');
	assert_int_equal(block_scanner_load(s, good.data, good.len), -EINVAL);
	assert_int_equal(block_scanner_load(s, good.data, good.len - 1), 0);
	assert_int_equal(block_scanner_kind(s), BLOCK_LIST);
	good.data[0] ^= 1;
	assert_int_equal(block_scanner_load(s, good.data, good.len - 1), -EINVAL);
	buffer_finish(&good);
	block_scanner_destroy(s);
}

/* Whatever state is let in, reading on from it must be safe: the sanitizers watch. */
static void test_load_of_spoilt_bytes(void **state)
{
	char text[SOUP_MAX];
	int loaded = 0;
	soup_state = 4711;
	struct buffer bytes = {0};
	struct block_scanner *s = block_scanner_create();
	for (int i = 0; i < 30000; i++) {
		block_scanner_reset(s);
		feed_all(s, text, soup_cook(text, soup_random() % 40 + 1));
		buffer_clear(&bytes);
		block_scanner_save(s, &bytes);
		for (uint32_t n = soup_random() % 3; n < 3; n++) {
			bytes.data[4 + soup_random() % (bytes.len - 4)] = (char)soup_random();
		}
		if (block_scanner_load(s, bytes.data, bytes.len) == 0) {
			loaded++;
			feed_all(s, text, soup_cook(text, 60));
			size_t context_len;
			block_scanner_context(s, &context_len);
		}
	}
	assert_true(loaded > 1000);
	buffer_finish(&bytes);
	block_scanner_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ends_are_known_at_once),
		cmocka_unit_test(test_kind_closable_decided),
		cmocka_unit_test(test_cut_keeps_the_state),
		cmocka_unit_test(test_cut_anywhere),
		cmocka_unit_test(test_deep_nesting),
		cmocka_unit_test(test_long_undecided_line),
		cmocka_unit_test(test_both_rules),
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_load_keeps_the_rules),
		cmocka_unit_test(test_load_keeps_how_lines_are_cut),
		cmocka_unit_test(test_load_refuses),
		cmocka_unit_test(test_load_of_spoilt_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
