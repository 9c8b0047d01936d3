/* Ordinary documents become what cmark makes of them, on several threads at once, too. */
#include "cmark_oracle.h"
#include "corpus.h"
#include "holdfast/markdown_html.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <uv.h>

static void assert_same_as_plain(const char *text, size_t len)
{
	char *plain = oracle_render(text, len);
	struct buffer html = {0};
	markdown_to_html(&(struct markdown){.text = text, .len = len}, &html);
	assert_string_equal(buffer_cstr(&html), plain);
	buffer_finish(&html);
	free(plain);
}

static const char ordinary[] =
	"# Title with `code` and *emphasis*\n\n"
	"Text with a [link](https://a.b/c?d=e&f='g' \"t\"), an\n"
	"![image *alt*](i.png), www.a.b, a@b.c, <https://x.y/å> and a\\*b.  \nHard break.\n\n"
	"1. one\n2. two\n\n   more\n   - [ ] open\n   - [x] done\n\n10) ten\n\n* tight\n* list\n\n"
	"> quote\n> > deeper\n> - list\n>\n>   | a | b |\n>   |:-:|---|\n>   | 1 |\n\n"
	"```c++ extra\nint a<b>;\n```\n\n    indented & code\n\n~~gone~~ ***both*** [ref][r]\n\n"
	"[r]: https://r \"title\"\n\n***\n\nSetext\n======\n\n| a |\n|--:|\n\n\"quotes\" & <\n";

static void test_equals_plain_renderer(void **state)
{
	for (size_t len = 0; len <= strlen(ordinary); len++) {
		assert_same_as_plain(ordinary, len);
	}
}

/* The tree of some of these has just no room in the memory that small documents are parsed in. */
static void test_equals_plain_renderer_when_large(void **state)
{
	struct buffer text = {0};
	for (int i = 0; i < 4; i++) {
		buffer_append_str(&text, ordinary);
	}
	for (size_t len = strlen(ordinary); len <= text.len; len += 3) {
		assert_same_as_plain(text.data, len);
	}
	buffer_finish(&text);
}

static void visit_every_prefix(void *arg, const char *name, const char *text, size_t len)
{
	for (size_t end = 0; end <= len; end++) {
		assert_same_as_plain(text, end);
	}
}

static void test_equals_plain_renderer_on_corpus(void **state)
{
	corpus_each("markdown", visit_every_prefix, NULL);
}

/* --- threads --- */

static const char with_all[] =
	"~~a~~ **b** www.example.org `c`\n\n| d | e |\n|---|---|\n| ~f~ | g |\n";

static void render_often(void *arg)
{
	const struct buffer *want = arg;
	for (int i = 0; i < 500; i++) {
		struct buffer html = {0};
		markdown_to_html(
			&(struct markdown){.text = with_all, .len = sizeof(with_all) - 1}, &html);
		assert_int_equal(html.len, want->len);
		assert_memory_equal(html.data, want->data, html.len);
		buffer_finish(&html);
	}
}

static void several_threads_render_the_same(void **state)
{
	uv_thread_t threads[4];
	struct buffer want = {0};
	markdown_to_html(&(struct markdown){.text = with_all, .len = sizeof(with_all) - 1}, &want);
	assert_non_null(strstr(buffer_cstr(&want), "<del>a</del>"));
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(uv_thread_create(&threads[i], render_often, &want), 0);
	}
	for (size_t i = 0; i < 4; i++) {
		uv_thread_join(&threads[i]);
	}
	buffer_finish(&want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(several_threads_render_the_same),
		cmocka_unit_test(test_equals_plain_renderer),
		cmocka_unit_test(test_equals_plain_renderer_when_large),
		cmocka_unit_test(test_equals_plain_renderer_on_corpus),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
