#include "holdfast/markdown_html.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define BLOCK_MAX    (64 * 1024)
#define MIB          (1024 * 1024)

static struct buffer render(const char *text, size_t len)
{
	struct buffer html;
	buffer_init(&html);
	markdown_to_html(&(struct markdown){.text = text, .len = len}, &html);
	buffer_cstr(&html);
	return html;
}

/* Fills `text` with copies of `piece` up to `size` bytes. */
static void fill(struct buffer *text, const char *piece, size_t size)
{
	size_t len = strlen(piece);
	while (text->len + len <= size) {
		buffer_append(text, piece, len);
	}
}

/*
 * Patterns that cost cmark-gfm 0.29.0.gfm.6 seconds to hours, or gigabytes: they must come out
 * safe, not much larger than they went in, and while the test's time limit lasts.
 */
static void assert_affordable(const char *head, const char *piece, const char *tail, size_t size)
{
	struct buffer text;
	buffer_init(&text);
	buffer_append_str(&text, head);
	fill(&text, piece, *tail ? size / 2 : size);
	if (*tail) {
		fill(&text, tail, size);
	}
	struct buffer html = render(text.data, text.len);
	if (html.len > 20 * size) {
		print_message("%zu bytes of %s %s %s\n", html.len, head, piece, tail);
	}
	assert_true(html.len <= 20 * size);
	buffer_finish(&html);
	buffer_finish(&text);
}

static void test_hostile_sizes(void **state)
{
	static const char *const pieces[] = {"[", "![", "*", "**", "_", "~", "`", ">", "> ", "- ",
		"1. ", "<", "<!--", "<?", "a<!A ", "<![CDATA[", "&", "\\", "@", "a@", "a@b.c",
		"mailto:a@b.c ", "www.", "_www.a", "http://", "www.a<", "|", "|-", "a|b\n-|-|-\n",
		"|\\|", "a\n:-", "![[]()", "**x [a]()", "[a](b", "[a](<b", "[a](b '", "*a **b ",
		"a**b", "- a\n", "\n", "\t", "\xff", "# ", "[a]: b\n", "[a]", "*_", "> - ",
		"<a b='", "\r\n", "    a\n"};
	for (size_t i = 0; i < COUNT(pieces); i++) {
		assert_affordable("", pieces[i], "", BLOCK_MAX);
		assert_affordable("a", pieces[i], "", MIB);
	}
}

static void test_hostile_combinations(void **state)
{
	struct buffer text;
	buffer_init(&text);
	/* A wide table with short rows: 4,000 columns by 13,000 rows. */
	fill(&text, "|a", 8000);
	buffer_append_str(&text, "\n");
	fill(&text, "|-", 16000);
	buffer_append_str(&text, "\n");
	assert_affordable(buffer_cstr(&text), "a\n", "", BLOCK_MAX);
	/* One long address, used many times: 256 MiB of links. */
	buffer_clear(&text);
	buffer_append_str(&text, "[a]: ");
	fill(&text, "x", BLOCK_MAX / 2);
	buffer_append_str(&text, "\n\n");
	assert_affordable(buffer_cstr(&text), "[a] ", "", BLOCK_MAX);
	/* Deep nesting, and lines that walk all of it. */
	buffer_clear(&text);
	fill(&text, "- ", 20000);
	buffer_append_str(&text, "a\n");
	assert_affordable(buffer_cstr(&text), "\n", "", BLOCK_MAX);
	assert_affordable(buffer_cstr(&text), "a\n", "", BLOCK_MAX);
	buffer_clear(&text);
	for (size_t depth = 0; depth < 1000; depth++) {
		for (size_t i = 0; i < depth; i++) {
			buffer_append_str(&text, "  ");
		}
		buffer_append_str(&text, "- a\n");
	}
	assert_affordable(buffer_cstr(&text), "b\n", "", text.len + 100);
	assert_affordable("www.a", ")", "", BLOCK_MAX);
	assert_affordable("http://a", "&a;)", "", MIB);
	assert_affordable("![a](javascript:b)", "![", "](x:)", BLOCK_MAX);
	assert_affordable("*", "*_", "<a>", MIB);
	buffer_finish(&text);
}

static void assert_starts_with(const char *text, const char *start)
{
	assert_memory_equal(text, start, strlen(start));
}

static void test_too_costly_is_shown_as_code(void **state)
{
	struct buffer text;
	buffer_init(&text);
	buffer_append_str(&text, "<b>&\n");
	fill(&text, "> ", 10000);
	struct buffer html = render(text.data, text.len);
	assert_starts_with(html.data, "<pre><code>&lt;b&gt;&amp;\n&gt; &gt; ");
	assert_null(strstr(html.data, "<blockquote>"));
	buffer_finish(&html);
	buffer_finish(&text);
}

static void test_large_ordinary_text_is_rendered(void **state)
{
	static const char *const blocks[] = {"| a | `b` | **c** | [d](https://e.f) |\n",
		"- item *one* [a](b)\n", "See https://a.b/c, <i> and ![x](y) or a@b.c; done.\n"};
	for (size_t i = 0; i < COUNT(blocks); i++) {
		struct buffer text;
		buffer_init(&text);
		if (*blocks[i] == '|') {
			buffer_append_str(&text, "| h | h | h | h |\n|---|---|---|---|\n");
		}
		fill(&text, blocks[i], BLOCK_MAX);
		struct buffer html = render(text.data, text.len);
		assert_null(strstr(html.data, "<pre>"));
		assert_non_null(strstr(html.data, "<a href="));
		buffer_finish(&html);
		buffer_finish(&text);
	}
	/* Code may look like anything. */
	struct buffer code;
	buffer_init(&code);
	buffer_append_str(&code, "```x\n");
	fill(&code, "> > > [a]: <?<!|-|-|\n", BLOCK_MAX);
	struct buffer html = render(code.data, code.len);
	assert_starts_with(html.data, "<pre><code class=\"language-x\">&gt; &gt;");
	buffer_finish(&html);
	buffer_finish(&code);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hostile_sizes),
		cmocka_unit_test(test_hostile_combinations),
		cmocka_unit_test(test_too_costly_is_shown_as_code),
		cmocka_unit_test(test_large_ordinary_text_is_rendered),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
