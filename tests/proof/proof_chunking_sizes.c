/*
 * The same with limits so small that the size rules cut blocks all the time: where they do depends
 * on the text alone.
 */
#include "chunks.h"
#include "part.h"
#include "text.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

static void check_sizes(const struct texts *texts, size_t block_size, size_t longest)
{
	struct limits limits = *limits_default();
	struct chunks_count count = {0};
	limits.block_size = block_size;
	limits.paragraph_flush_size = block_size / 4;
	for (size_t i = 0; i < texts->count; i++) {
		if (texts->items[i].markdown.len <= longest && part_has_next()) {
			chunks_check_buffer(&texts->items[i], &limits, &count);
		}
	}
	print_message(
		"blocks of %zu bytes: %zu texts cut in %zu ways: each time the same %zu events, of which %zu continue\n",
		block_size, count.texts, count.cuts, count.events, count.continued);
	assert_true(count.continued > count.texts);
}

/** Nearly every character is a cut: short texts have all that matters here. */
static void tiny_blocks_do_not_depend_on_the_chunks(void **state)
{
	check_sizes(*state, 7, 100);
}

static void small_blocks_do_not_depend_on_the_chunks(void **state)
{
	check_sizes(*state, 24, SIZE_MAX);
}

/** One paragraph of all words of a text: beyond 1 KiB it is flushed at the end of a line. */
static void make_paragraph(const struct buffer *markdown, struct buffer *out)
{
	bool in_line = false;
	for (size_t i = 0; i < markdown->len; i++) {
		char c = markdown->data[i];
		bool ends = c == '\n' && in_line;
		if (ends || (c != '\n' && (in_line || isalpha((unsigned char)c)))) {
			buffer_append_char(out, c);
			in_line = !ends;
		}
	}
}

static void long_paragraphs_do_not_depend_on_the_chunks(void **state)
{
	const struct texts *texts = *state;
	struct limits limits = *limits_default();
	struct chunks_count count = {0};
	limits.paragraph_flush_size = 600;
	for (size_t i = 0; i < texts->count; i++) {
		struct text paragraph = {.name = texts->items[i].name};
		if (texts->items[i].markdown.len > 1500) {
			make_paragraph(&texts->items[i].markdown, &paragraph.markdown);
			chunks_check_buffer(&paragraph, &limits, &count);
		}
		buffer_finish(&paragraph.markdown);
	}
	print_message(
		"long paragraphs: %zu texts cut in %zu ways: each time the same %zu events, of which %zu continue\n",
		count.texts, count.cuts, count.events, count.continued);
	assert_true(count.continued > count.texts / 2 || !texts->of[TEXT_SPEC]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tiny_blocks_do_not_depend_on_the_chunks),
		cmocka_unit_test(small_blocks_do_not_depend_on_the_chunks),
		cmocka_unit_test(long_paragraphs_do_not_depend_on_the_chunks),
	};
	return cmocka_run_group_tests_name(
		"proof_chunking_sizes", tests, texts_setup, texts_teardown);
}
