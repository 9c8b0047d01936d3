#include "examples.h"

#include "holdfast/markdown_terminal.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

static void assert_page(size_t width, bool has_styles, const char *context, const char *markdown,
	const char *expected)
{
	struct terminal_page page = {.width = width, .has_styles = has_styles};
	markdown_to_terminal(&(struct markdown){.context = context,
				     .context_len = strlen(context),
				     .text = markdown,
				     .len = strlen(markdown)},
		&page);
	assert_string_equal(buffer_cstr(&page.out), expected);
	terminal_page_finish(&page);
}

static void a_list_goes_on_with_its_number(void **state)
{
	static const struct {
		struct markdown markdown;
		const char *expected;
	} cases[] = {
		{{.text = "1. a\n1. b\n", .start = 9}, "9. a\n10. b\n"},
		{{.context = "1. &#32;\n\n", .text = "   1. a\n", .start = 2}, "1.\n\n   2. a\n"},
		{{.text = "- a\n", .start = 2}, "• a\n"},
		{{.text = "1. a\n", .start = UINT32_MAX}, "1. a\n"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct terminal_page page = {.width = 40};
		struct markdown markdown = cases[i].markdown;
		markdown.context = markdown.context ? markdown.context : "";
		markdown.context_len = strlen(markdown.context);
		markdown.len = strlen(markdown.text);
		markdown_to_terminal(&markdown, &page);
		assert_string_equal(buffer_cstr(&page.out), cases[i].expected);
		terminal_page_finish(&page);
	}
	(void)state;
}

static void assert_plain(const char *markdown, const char *expected)
{
	assert_page(40, false, "", markdown, expected);
}

static void blocks_are_laid_out(void **state)
{
	assert_plain("", "");
	assert_plain("one two\nthree\n", "one two three\n");
	assert_plain("one\\\ntwo\n", "one\ntwo\n");
	assert_plain("# Title\n\ntext\n", "# Title\n\ntext\n");
	assert_plain("- a\n- b\n  - c\n", "• a\n• b\n  • c\n");
	assert_plain("- a\n\n- b\n", "• a\n\n• b\n");
	assert_plain("9. a\n10. b\n\n    more\n", "9. a\n\n10. b\n\n    more\n");
	assert_plain("- - a\n-\n- b", "• • a\n•\n• b\n");
	assert_plain("- [ ] a\n- [x] b\n", "☐ a\n☑ b\n");
	assert_plain("> a\n>\n> > b\n", "> a\n>\n> > b\n");
	assert_plain("```c\nint a;\n\n\tb\n```\n", "    int a;\n\n        b\n");
	assert_plain("- a\n\n  ```\n  x\n  ```\n", "• a\n\n      x\n");
	assert_plain("---\n", "────────────────────────────────────────\n");
	assert_plain("<b>x</b>\n", "<b>x</b>\n");
	assert_plain("<div>\n<script>\n", "<div>\n<script>\n");
	(void)state;
}

static void inline_marks_stay_where_there_are_no_styles(void **state)
{
	assert_plain("*a* **b** `c` ~~d~~\n", "*a* **b** `c` ~~d~~\n");
	assert_plain("[text](http://x.example/)\n", "text (http://x.example/)\n");
	assert_plain("<http://x.example/> a@b.example\n", "http://x.example/ a@b.example\n");
	assert_plain("![a cat](cat.png)\n", "[image: a cat] (cat.png)\n");
	(void)state;
}

static void styles_end_with_their_line(void **state)
{
	assert_page(40, true, "", "a *b* c\n", "a \x1b[0;3mb\x1b[0m c\n");
	assert_page(40, true, "", "***a*** b\n", "\x1b[0;1;3ma\x1b[0m b\n");
	assert_page(40, true, "", "# T\n", "\x1b[0;1;4mT\x1b[0m\n");
	assert_page(40, true, "", "a `b`\n", "a \x1b[0;36mb\x1b[0m\n");
	assert_page(10, true, "", "**aaaaaa bbbbbb**\n",
		"\x1b[0;1maaaaaa\x1b[0m\n\x1b[0;1mbbbbbb\x1b[0m\n");
	assert_page(40, true, "", "**a [b](c) d**\n",
		"\x1b[0;1ma \x1b[0;1;4mb\x1b[0;1;2m (c)\x1b[0;1m d\x1b[0m\n");
	(void)state;
}

static void lines_are_as_wide_as_the_page(void **state)
{
	assert_page(12, false, "", "- one two three four\n", "• one two\n  three four\n");
	assert_page(14, false, "", "## one two three\n", "## one two\n   three\n");
	assert_page(10, false, "", "abcdefghijklmno p\n", "abcdefghij\nklmno p\n");
	assert_page(10, false, "", "你好你好你好\n", "你好你好你\n好\n");
	assert_page(14, false, "", "    abcdefghijkl\n", "    abcdefghij\n    kl\n");
	assert_page(20, false, "", "> one two three four five\n", "> one two three four\n> five\n");
	(void)state;
}

static void tables_fit(void **state)
{
	const char *table = "| a | b |\n|---|--:|\n| one | 2 |\n| 你好 | `x` |\n";
	assert_plain(table, "a    │   b\n─────┼────\none  │   2\n你好 │ `x`\n");
	assert_page(14, false, "", "| a | b |\n|:-:|---|\n| one two three | four |\n",
		"   a    │ b\n────────┼─────\none two │ four\n three  │\n");
	/* More columns than there is room for. */
	assert_page(10, false, "", "|a|b|c|d|\n|-|-|-|-|\n|1|2|3|4|\n",
		"a │ b │ c\n│ d\n1 │ 2 │ 3\n│ 4\n");
	(void)state;
}

static void what_is_in_front_of_a_cut_block_is_read(void **state)
{
	assert_page(40, false, "```c\n", "*a*\n```\n", "    *a*\n");
	assert_page(40, false, "<div>", "x\n", "x\n");
	(void)state;
}

static void nothing_that_a_terminal_obeys_gets_through(void **state)
{
	static const char *const texts[] = {"a\x1b[31mb\n", "\x1b]0;title\x07 a\n",
		"```\n\x1b[2J\x1b[H\r\b\n```\n", "`\x1b[5m`\n", "\xc2\x9b 31m\n",
		"| \x1b[1m | \x1bP |\n|-|-|\n| \x7f | \x9b |\n", "[\x1b[3m](\x1b[4m)\n",
		"<div \x1b[1m>\n", "&#27;[31m &#x9b;31m\n",
		("a\xe2\x80\xae"
		 "b\xe2\x81\xa6\n"),
		"\xff\xfe\x80\n", "&#8238;a&#8295;b\n", "# \x1b[31m\n", "- \x1b(0\n", "1\v2\f3\n"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct terminal_page page = {.width = 40};
		markdown_to_terminal(
			&(struct markdown){.text = texts[i], .len = strlen(texts[i])}, &page);
		const char *out = buffer_cstr(&page.out);
		for (const char *c = out; *c; c++) {
			bool is_c1 = (unsigned char)c[0] == 0xc2 && (unsigned char)c[1] < 0xa0;
			if ((*c != '\n' && (unsigned char)*c < ' ') || *c == 0x7f || is_c1) {
				fail_msg("text %zu: byte %02x", i, (unsigned char)*c);
			}
		}
		assert_null(strstr(out, "\xe2\x80\xae"));
		assert_null(strstr(out, "\xe2\x81\xa6"));
		terminal_page_finish(&page);
	}
	(void)state;
}

/** No line is wider than the page. */
static void check_example(void *arg, const struct example *example)
{
	static const size_t widths[] = {12, 30, 80};
	for (size_t i = 0; i < 3; i++) {
		struct terminal_page page = {.width = widths[i]};
		markdown_to_terminal(
			&(struct markdown){.text = example->markdown, .len = example->len}, &page);
		const char *at = buffer_cstr(&page.out);
		assert_true(page.out.len == 0 || at[page.out.len - 1] == '\n');
		while (*at) {
			struct terminal_text line = {0};
			size_t len = strcspn(at, "\n");
			terminal_text_add(&line, 0, at, len);
			if (terminal_text_width(&line) > widths[i]) {
				fail_msg("example %zu at %zu: %.*s", example->number, widths[i],
					(int)len, at);
			}
			if (len && at[len - 1] == ' ' && widths[i] == 80) {
				fail_msg("example %zu: a blank ends \"%.*s\"", example->number,
					(int)len, at);
			}
			terminal_text_finish(&line);
			at += len + 1;
		}
		terminal_page_finish(&page);
	}
	++*(size_t *)arg;
}

static void every_example_of_the_specification_fits(void **state)
{
	size_t count = 0;
	spec_examples_each(check_example, &count);
	assert_true(count > 600);
	(void)state;
}

static void what_costs_too_much_is_shown_as_it_is(void **state)
{
	struct buffer text = {0};
	for (size_t i = 0; i < 5000; i++) {
		buffer_append_str(&text, "> ");
	}
	buffer_append_str(&text, "x\n");
	struct terminal_page page = {.width = 40};
	markdown_to_terminal(&(struct markdown){.text = text.data, .len = text.len}, &page);
	assert_non_null(
		strstr(buffer_cstr(&page.out), "> > > > > > > > > > > > > > > > > > > >\n"));
	terminal_page_finish(&page);
	/* And what may be nested so deeply, in all of its lines. */
	buffer_clear(&text);
	for (size_t i = 0; i < 400; i++) {
		buffer_append_str(&text, "> ");
	}
	for (size_t i = 0; i < 20000; i++) {
		buffer_append_str(&text, "x\\\n");
	}
	page = (struct terminal_page){.width = 40, .has_styles = true};
	markdown_to_terminal(&(struct markdown){.text = text.data, .len = text.len}, &page);
	assert_true(page.out.len < 20000 * 100);
	terminal_page_finish(&page);
	buffer_finish(&text);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_are_laid_out),
		cmocka_unit_test(a_list_goes_on_with_its_number),
		cmocka_unit_test(inline_marks_stay_where_there_are_no_styles),
		cmocka_unit_test(styles_end_with_their_line),
		cmocka_unit_test(lines_are_as_wide_as_the_page),
		cmocka_unit_test(tables_fit),
		cmocka_unit_test(what_is_in_front_of_a_cut_block_is_read),
		cmocka_unit_test(nothing_that_a_terminal_obeys_gets_through),
		cmocka_unit_test(every_example_of_the_specification_fits),
		cmocka_unit_test(what_costs_too_much_is_shown_as_it_is),
	};
	setlocale(LC_CTYPE, "C.UTF-8");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
