/*
 * Private to the inline guard: where in a text the inline markers are that are still undecided.
 */
#ifndef HOLDFAST_INLINE_GUARD_INTERNAL_H
#define HOLDFAST_INLINE_GUARD_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * The last piece of text whose inline markers can only match each other: the open paragraph, the
 * text of the last list item or heading, the last cell of a table. Empty where there are no such
 * markers: in code, after a heading's or a row's line, at a thematic break.
 */
struct inline_run {
	size_t start;
	size_t end; /* what follows is a line of which one cannot yet tell what it underlines: not
		       shown */
	bool is_item; /* begins right after a list marker */
};

/** Finds the last run; linear. */
struct inline_run inline_run_find(const char *text, size_t len);

/**
 * What is in the parentheses of a link whose `(` is at `at`: returns where the text goes on
 * behind the `)`, `end` + 1 if the text ends before it, or 0 if this is no link.
 */
size_t inline_link_skip_destination(const char *text, size_t at, size_t end);
/** Steps over the `<` at `at`, or all of `<https://…>` or `<tag attribute="…">`, which hides what
 * is in it. */
size_t inline_link_skip_pointy(const char *text, size_t at, size_t end);
/**
 * Steps over the character at `at`, or over a bare address that begins there, which the autolink
 * extension makes a link: a `_` or `*` in it is no marker.
 */
size_t inline_link_skip_bare(const char *text, size_t start, size_t at, size_t end);

/** The character that begins at `at`, or U+FFFD. Before the first and after the last is a newline.
 */
uint32_t inline_char_after(const char *text, size_t at, size_t end);
/** The character that ends at `at`. */
uint32_t inline_char_before(const char *text, size_t start, size_t at);
/** Unicode whitespace and punctuation as CommonMark's flanking rules mean them. */
bool inline_char_is_space(uint32_t c);
bool inline_char_is_punctuation(uint32_t c);

#endif
