/*
 * What both tests of the block scanner use: markdown soup, which is markers in a random order, and
 * a scanner that goes on from its saved state.
 */
#ifndef HOLDFAST_TESTS_BLOCK_SCANNER_SOUP_H
#define HOLDFAST_TESTS_BLOCK_SCANNER_SOUP_H

#include "holdfast/block_scanner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define SOUP_MAX 128 /* bytes of a text that soup_cook() was asked at most 60 of */

static uint64_t soup_state;

static inline uint32_t soup_random(void)
{
	soup_state ^= soup_state << 13;
	soup_state ^= soup_state >> 7;
	soup_state ^= soup_state << 17;
	return (uint32_t)(soup_state >> 20);
}

static const char *const soup_pots[][32] = {
	{"-", "*", "+", "_", "1", "2", ".", ")", " ", " ", "\n", "\n", "a", "\t", ">", "#", "`",
		"```", "~~~", "|", "|-|", "<", "=", "    ", "[a]: b", "\n\n", "- ", "1. ", "> "},
	{"|", "-", ":", " ", "\n", "a", "\\", "> ", "- ", "|-|\n", "| a | b |\n", "|-|-|\n", "\v",
		"\f", "1. x\n", "2. x\n", "    "},
	{"<", "a", ">", "/", "!", "--", "<!--", "-->", "<div>", "</pre>", "<pre>", "<?", "?>",
		"<![CDATA[", "]]>", " ", "\n", "=", "\"", "'", "- ", "> ", "<!A", "<a>", "\n\n",
		"<textarea>", "</textarea>", "</textAREA>", "<source>"},
	{"- ", "> ", "  ", "    ", "\t", "\n", "\n", "a", "1. ", "```", "\n\n", "~~~", "---",
		"===", "|a|", "|-|", "# ", "<b>", "<div>", "\r", "\r\n", "-", "   ", " ", "- a\n",
		"  a\n"},
	{"[", "]", ":", "a", "<", ">", " ", "\n", "(", ")", "'", "===\n", "---\n", "- ", "[a]: b",
		"\n\n", "  ", "> ", "|-|\n", "[a]: b\n", "  a\n"},
	{"words that make a line\n", "more words, and", " | ", "\\|", "\\", "|-|\n", "         ",
		"\t", "\n", "\r\n", "```\n", "- item of words\n", "    code = words();\n",
		"> words", "a", "[a]: words\n", "=", "<!-- words"},
};

static inline size_t soup_cook(char *text, size_t want)
{
	const char *const *soup =
		soup_pots[soup_random() % (sizeof(soup_pots) / sizeof(soup_pots[0]))];
	size_t count = 0;
	while (count < 32 && soup[count]) {
		count++;
	}
	size_t len = 0;
	while (len < want) {
		const char *piece = soup[soup_random() % count];
		memcpy(text + len, piece, strlen(piece));
		len += strlen(piece);
	}
	return len;
}

static inline void soup_fail(const char *what, const char *text, size_t len)
{
	struct buffer shown = {0};
	buffer_append_json(&shown, text, len);
	fail_msg("%s: %s", what, buffer_cstr(&shown));
}

static inline struct block_scanner *soup_reload(struct block_scanner *s)
{
	struct buffer state = {0};
	block_scanner_save(s, &state);
	struct block_scanner *next = block_scanner_create();
	assert_int_equal(block_scanner_load(next, state.data, state.len), 0);
	assert_int_equal(block_scanner_kind(next), block_scanner_kind(s));
	assert_int_equal(block_scanner_decided(next), block_scanner_decided(s));
	assert_int_equal(block_scanner_closable(next), block_scanner_closable(s));
	assert_int_equal(block_scanner_at_line_start(next), block_scanner_at_line_start(s));
	buffer_finish(&state);
	block_scanner_destroy(s);
	return next;
}

#endif
