#include "corpus.h"
#include "core/stream/inline_guard.h"
#include "holdfast/markdown_html.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MIB          (1024 * 1024)

struct heal_case {
	const char *text;
	const char *healed; /* NULL if the same as the text */
	bool open;
};

static struct buffer heal(const char *text, size_t len)
{
	/* A copy of its own, so that a read past its end is seen by the address sanitizer. */
	char *copy = xmalloc(len);
	memcpy(copy, text, len);
	struct buffer healed;
	buffer_init(&healed);
	inline_guard_heal(copy, len, &healed);
	buffer_cstr(&healed);
	free(copy);
	return healed;
}

static struct buffer render(const struct buffer *markdown)
{
	struct buffer html;
	buffer_init(&html);
	markdown_to_html(&(struct markdown){.text = markdown->data, .len = markdown->len}, &html);
	buffer_cstr(&html);
	return html;
}

static void assert_cases(const struct heal_case *cases, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct heal_case *c = &cases[i];
		struct buffer healed = heal(c->text, strlen(c->text));
		bool open = inline_guard_is_open(c->text, strlen(c->text));
		if (open != c->open) {
			print_message("of \"%s\" it is said that it is %s\n", c->text,
				open ? "open" : "closed");
		}
		assert_string_equal(healed.data, c->healed ? c->healed : c->text);
		assert_int_equal(open, c->open);
		buffer_finish(&healed);
	}
}

static void test_emphasis(void **state)
{
	static const struct heal_case cases[] = {
		{"", NULL, false},
		{"plain text", NULL, false},
		{"This is **bo", "This is **bo**", true},
		{"This is **bold** text", NULL, false},
		{"This is **bold**", NULL, false},
		{"**bold*", "**bold**", true},
		{"**bold ", "**bold** ", true},
		{"**bold\n", "**bold**\n", true},
		{"**bold\nand more", "**bold\nand more**", true},
		{"x *", "x ", true},
		{"x **", "x ", true},
		{"**", "", true},
		{"***", "", true},
		{"***both", "***both***", true},
		{"***both*", "***both***", true},
		{"***it* bo", "***it* bo**", true},
		{"**a *b", "**a *b***", true},
		{"**a *b*", "**a *b***", true},
		{"*a **b", "*a **b***", true},
		{"*a **b*", "*a **b***", true},
		{"*a **b**", "*a **b***", true},
		{"*foo**bar", "*foo**bar***", true},
		{"*foo**bar* x", NULL, false},
		{"**a _b", "**a _b_**", true},
		{"__a", "__a__", true},
		{"snake_case and __init__ x", NULL, false},
		{"snake_", "snake", true},
		{"a * b ** c _ d", NULL, false},
		{"5*3 = 15", NULL, false},
		{"a \\*b \\_c \\`d \\[e", NULL, false},
		{"a \\", "a ", false},
		{"**a\\", "**a**", true},
		{"**\\", "", true},
		{"~~gone", "~~gone~~", true},
		{"~~gone~", "~~gone~~", true},
		{"~~gone~~", NULL, false},
		{"~gone", "~gone~", true},
		{"~~~a", NULL, false},
		{"a ~~~b", NULL, false},
		{"\xe4\xb8\xad**\xe7\xb2\x97", "\xe4\xb8\xad**\xe7\xb2\x97**", true},
		{"a\xc2\xa0** b", NULL, false},
		{"a\xe3\x80\x82**\xe2\x80\x9c"
		 "b",
			"a\xe3\x80\x82**\xe2\x80\x9c"
			"b**",
			true},
		{"**\xff", "**\xff**", true},
		{"**\xe4\xb8", "**\xe4\xb8**", true},
	};
	assert_cases(cases, COUNT(cases));
}

static void test_code(void **state)
{
	static const struct heal_case cases[] = {
		{"a `cod", "a `cod`", true},
		{"a `code` b", NULL, false},
		{"a `", "a ", true},
		{"a ` ", "a ", true},
		{"a ``", "a ", true},
		{"a ``b`", "a ``b``", true},
		{"a ``b` ", "a ``b` ``", true},
		{"a ``b` c", "a ``b` c``", true},
		{"a `b``", "a `b`", true},
		{"a `b\n", "a `b`\n", true},
		{"`**a", "`**a`", true},
		{"`**` a", NULL, false},
		{"**a `b", "**a `b`**", true},
		{"**a `*", "**a `*`**", true},
		{"**`", "", true},
		{"`[a](` b", NULL, false},
		{"\\`a", NULL, false},
		{"`a\\` b", NULL, false},
		{"`a` **b` c", "`a` **b` c`**", true},
	};
	assert_cases(cases, COUNT(cases));
}

static void test_links(void **state)
{
	static const struct heal_case cases[] = {
		{"see [", "see ", true},
		{"see [the do", "see the do", true},
		{"see [doc]", "see doc", true},
		{"see [doc](", "see doc", true},
		{"see [doc](https://exa", "see doc", true},
		{"see [doc](<https://exa mple", "see doc", true},
		{"see [doc](https://x \"ti", "see doc", true},
		{"see [doc](https://x \"t\"", "see doc", true},
		{"see [doc](https://x) b", NULL, false},
		{"see [doc](https://x 't') b", NULL, false},
		{"see [doc](a(b) c) b", NULL, false},
		{"see [doc](a b) c", NULL, false},
		{"see [doc](a (b (c *d)) e", "see [doc](a (b (c *d)) e*", true},
		{"see [doc](a (b \\( *d)) e", NULL, false},
		{"see [doc] c", NULL, false},
		{"![alt](http", "alt", true},
		{"![al", "al", true},
		{"a !", NULL, false},
		{"[**do", "**do**", true},
		{"[**doc**](ht", "**doc**", true},
		{"**see [doc](ht", "**see doc**", true},
		{"[`co", "`co`", true},
		{"**[", "", true},
		{"**[_`", "", true},
		{"[![a](b)](c", "![a](b)", true},
		{"[![a](b", "a", true},
		{"array[0", NULL, false},
		{"array[0]", NULL, false},
		{"https://x.y/_a", NULL, false},
		{"**https://x.y**", NULL, false},
		{"**https://x.y", "**https://x.y**", true},
		{"<https://x/*a> b", NULL, false},
		{"<a b=\"*c\"> d", NULL, false},
		{"a <b **c", "a <b **c**", true},
	};
	assert_cases(cases, COUNT(cases));
	/* A bracket that has been open for long is text. */
	struct buffer text;
	buffer_init(&text);
	buffer_append_str(&text, "in [0, 1) ");
	for (size_t i = 0; i < 100; i++) {
		buffer_append_str(&text, "and so on ");
	}
	assert_false(inline_guard_is_open(text.data, text.len));
	struct buffer healed = heal(text.data, text.len);
	assert_string_equal(healed.data, buffer_cstr(&text));
	buffer_finish(&healed);
	buffer_finish(&text);
}

static void test_blocks(void **state)
{
	static const struct heal_case cases[] = {
		{"a **b\n\nc", NULL, false},
		{"a **b\n\nc *d", "a **b\n\nc *d*", true},
		{"a **b\n \t\nc", NULL, false},
		{"- a **b\n- c", NULL, false},
		{"- a\n- b **c", "- a\n- b **c**", true},
		{"* a", NULL, false},
		{"* ", NULL, false},
		{"*", "", true},
		{"* a\n*", "* a\n", true},
		{"* a\n  * *b", "* a\n  * *b*", true},
		{"- a **b\n  c", "- a **b\n  c**", true},
		{"1. a **b\n2. c", NULL, false},
		{"10) *b", "10) *b*", true},
		{"a **b\n2. c", "a **b\n2. c**", true},
		{"- [", "- ", false},
		{"- [ ]", "- ", false},
		{"- [x] a", NULL, false},
		{"- [x] *a", "- [x] *a*", true},
		{"# a **b", "# a **b**", true},
		{"# a **b\n", NULL, false},
		{"# a **b\nc", NULL, false},
		{"#a **b", "#a **b**", true},
		{"> **a", "> **a**", true},
		{"> **a\n> b", "> **a\n> b**", true},
		{"> **a\n>\n> b", NULL, false},
		{"> - *a", "> - *a*", true},
		{"| a | **b", "| a | **b**", true},
		{"| **a | b", NULL, false},
		{"| a\\| **b", "| a\\| **b**", true},
		{"a | b\n-|-\n**c | *d", "a | b\n-|-\n**c | *d*", true},
		{"| a **b |\n", NULL, false},
		{"| a |\n|---|\n| `b", "| a |\n|---|\n| `b`", true},
		{"***\n", NULL, false},
		{"* * *", NULL, false},
		{"a\n***\nb *c", "a\n***\nb *c*", true},
		{"a **b\n===\nc", NULL, false},
		{"text\n-", "text\n", false},
		{"text\n- ", "text\n", false},
		{"**text\n--", "**text**\n", true},
		{"text\n* ", "text\n", false},
		{"**text\n1. ", "**text**\n", true},
		{"text\n* \n", NULL, false},
		{"text\n---\n", NULL, false},
		{"- **a\n  ", "- **a**\n", true},
		{"> **a\n>", "> **a**\n", true},
		{"a | b\n--|", "a | b\n", false},
		{"---", NULL, false},
		{"**a\r\n**b", "**a\r\n**b****", true},
	};
	assert_cases(cases, COUNT(cases));
}

static void test_fences_are_left_alone(void **state)
{
	static const struct heal_case cases[] = {
		{"```", NULL, false},
		{"```c\n**a `b [c", NULL, false},
		{"~~~\n**a", NULL, false},
		{"   ```\n*a", NULL, false},
		{"```\n**a\n```", NULL, false},
		{"```\n**a\n```\n*b", "```\n**a\n```\n*b*", true},
		{"````\n```\n*b", NULL, false},
		{"```\n~~~\n*b", NULL, false},
		{"```\n> ```\n*b", NULL, false},
		{"```\n    ```\n*b", NULL, false},
		{"```\n``` x\n*b", NULL, false},
		{"``` `\n*b", "``` `\n*b```", true},
		{"- a\n  ```\n  *b", NULL, false},
		{"- a\n  ```\n  b\n  ```\n  *c", "- a\n  ```\n  b\n  ```\n  *c*", true},
		{"- ```\n  *b\n\n  *c", NULL, false},
		{"1. ```\n   a\nb *c", "1. ```\n   a\nb *c*", true},
		{"> ```\n> *a", NULL, false},
		{"> ```\n> a\n\n*b", "> ```\n> a\n\n*b*", true},
		{"    *a", NULL, false},
		{"a\n\n    *b", NULL, false},
		{"a\n    *b", "a\n    *b*", true},
		{"- a\n\n    *b", "- a\n\n    *b*", true},
	};
	assert_cases(cases, COUNT(cases));
}

static void test_appends(void **state)
{
	struct buffer out;
	buffer_init(&out);
	buffer_append_str(&out, "kept ");
	inline_guard_heal("*a", 2, &out);
	assert_string_equal(buffer_cstr(&out), "kept *a*");
	buffer_finish(&out);
}

/* How often two of `mark` stand in the text of the page, outside code. */
static size_t count_literal_pairs(const char *html, char mark)
{
	size_t count = 0;
	for (const char *at = html; *at; at++) {
		if (strncmp(at, "<code", 5) == 0) {
			at = strstr(at, "</code>");
		} else if (*at == '<') {
			at = strchr(at, '>');
		} else if (at[0] == mark && at[1] == mark) {
			count++;
			at++;
		}
	}
	return count;
}

static size_t block_end(const char *text, size_t at, size_t len)
{
	const char *end = memmem(text + at, len - at, "\n\n", 2);
	return end ? (size_t)(end - text) + 1 : len;
}

/*
 * A preview of every prefix shows no `**` or `~~` as text but those that the text shows in the end:
 * the finished text is the one up to the end of the paragraph that the prefix ends in.
 */
static void assert_prefixes_look_finished(const char *text, size_t len)
{
	for (size_t end = 0; end <= len; end++) {
		struct buffer finished = {0};
		buffer_append(&finished, text, block_end(text, end ? end - 1 : 0, len));
		struct buffer healed = heal(text, end);
		struct buffer finished_html = render(&finished);
		struct buffer healed_html = render(&healed);
		for (const char *mark = "*~"; *mark; mark++) {
			size_t shown = count_literal_pairs(healed_html.data, *mark);
			size_t allowed = count_literal_pairs(finished_html.data, *mark);
			if (shown > allowed) {
				print_message("%.*s\n  is shown as\n%s", (int)end, text,
					healed_html.data);
			}
			assert_true(shown <= allowed);
		}
		buffer_finish(&healed_html);
		buffer_finish(&finished_html);
		buffer_finish(&healed);
		buffer_finish(&finished);
	}
}

static void test_prefixes(void **state)
{
	static const char text[] =
		"Here is **bold**, *it*, ***both***, **bold with `code` and *it***, ~~gone~~ and\n"
		"**bold across\nlines** with [a **link**](https://a.b/c_d \"t\") and ![i](j).\n\n"
		"1. **Step one**: do `a ** b`\n"
		"2. **Step *two***\n"
		"   - [x] **done**\n"
		"   - ~~no~~\n\n"
		"| **a** | b |\n"
		"|---|---|\n"
		"| 1 | **2** |\n"
		"| ~~x~~ | y\n\n"
		"> **quote**\n"
		"> more **of\n"
		"> it**\n\n"
		"* **bullet**\n* *it* and **b**\n\n### **Heading**\n```\n** ~~\n```\n**end**\n";
	assert_prefixes_look_finished(text, strlen(text));
}

static void visit_prefixes(void *arg, const char *name, const char *text, size_t len)
{
	assert_prefixes_look_finished(text, len);
}

static void test_prefixes_of_corpus(void **state)
{
	corpus_each("markdown", visit_prefixes, NULL);
}

/* What is healed once is whole: neither open nor in need of more. */
static void test_random_fragments(void **state)
{
	static const char *const fragments[] = {"*", "**", "_", "~~", "`", "``", "```", "[", "![",
		"]", "](", "(", ")", "\\", "<", ">", "\n", "\n\n", " ", "- ", "1. ", "> ", "# ",
		"| ", "|-|\n", "a", "b c", "\xe4\xb8\xad", "\xe2\x80\x9d", "\xff", "https://x.y/",
		"www.", "\"", "\t", "    ", "\r\n", "---", "="};
	uint32_t seed = 1;
	struct buffer text;
	buffer_init(&text);
	for (size_t i = 0; i < 100000; i++) {
		buffer_clear(&text);
		for (size_t part = 0; part < 16; part++) {
			seed = seed * 1664525 + 1013904223;
			buffer_append_str(&text, fragments[(seed >> 8) % COUNT(fragments)]);
		}
		struct buffer healed = heal(text.data, text.len);
		bool open = inline_guard_is_open(text.data, text.len);
		assert_true(healed.len <= 2 * text.len);
		if (!open && healed.len > text.len) {
			print_message("added to what is not open: \"%s\"\n", buffer_cstr(&text));
		}
		assert_true(open || healed.len <= text.len);
		buffer_finish(&healed);
	}
	buffer_finish(&text);
}

static void append_repeated(struct buffer *text, const char *piece, size_t times)
{
	while (times--) {
		buffer_append_str(text, piece);
	}
}

/* However many were opened before, it is the last 32 that count, and those only. */
static void test_many_openers(void **state)
{
	struct buffer text = {0};
	struct buffer want = {0};
	for (size_t openers = 1; openers <= 600; openers += openers < 40 ? 1 : 37) {
		size_t kept = openers < 32 ? openers : 32;
		buffer_clear(&text);
		append_repeated(&text, "**a ", openers);
		append_repeated(&text, "b** ", kept - 1);
		assert_true(inline_guard_is_open(text.data, text.len));
		buffer_append_str(&text, "b** ");
		assert_false(inline_guard_is_open(text.data, text.len));

		/* One is left open, and healed where it stands. */
		buffer_clear(&text);
		buffer_clear(&want);
		append_repeated(&text, "[a ", openers);
		append_repeated(&want, "[a ", openers - kept);
		buffer_append_str(&want, "a ");
		append_repeated(&want, "[a ", kept - 1);
		append_repeated(&text, "b] ", kept - 1);
		append_repeated(&want, "b] ", kept - 1);
		struct buffer healed = heal(text.data, text.len);
		assert_int_equal(healed.len, want.len);
		assert_memory_equal(healed.data, want.data, want.len);
		buffer_finish(&healed);
	}
	buffer_finish(&text);
	buffer_finish(&want);
}

/* A megabyte of each, while the test's time limit lasts. */
static void test_large_texts(void **state)
{
	static const char *const pieces[] = {"*", "*a", "a*", "** a", "*a **b ", "_", "~", "~~a",
		"`", "`a``", "``a` ", "[", "![", "]", "[]", "[a](", "[a](b", "[a](<b", "[a](b \"",
		"[a](b (", "[a](b 'c", "\\", "<", "<a ", "<a b", "(", "https://", "www.a", "h",
		"- ", "> ", "- a\n", "> a\n", "| ", "|-|\n", "```\n", "~~~\n", "# ", "\n", "\n\n",
		"    ", "\t", "1. ", "-", "*_", "\xe4\xb8\xad*"};
	struct buffer text;
	buffer_init(&text);
	for (size_t i = 0; i < COUNT(pieces); i++) {
		buffer_clear(&text);
		buffer_append_str(&text, "a ");
		while (text.len < MIB) {
			buffer_append_str(&text, pieces[i]);
		}
		struct buffer healed = heal(text.data, text.len);
		assert_true(healed.len <= text.len + MIB);
		buffer_finish(&healed);
		inline_guard_is_open(text.data, text.len);
		buffer_append_str(&text, ") x"); /* far away, and of no use to any of them */
		inline_guard_is_open(text.data, text.len);
	}
	buffer_finish(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_emphasis),
		cmocka_unit_test(test_code),
		cmocka_unit_test(test_links),
		cmocka_unit_test(test_blocks),
		cmocka_unit_test(test_fences_are_left_alone),
		cmocka_unit_test(test_appends),
		cmocka_unit_test(test_many_openers),
		cmocka_unit_test(test_prefixes),
		cmocka_unit_test(test_prefixes_of_corpus),
		cmocka_unit_test(test_random_fragments),
		cmocka_unit_test(test_large_texts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
