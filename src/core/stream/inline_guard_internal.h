/*
 * Private to the inline guard: finds the part of a text whose inline markers are still undecided.
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
	size_t end; /* the rest, a line that may underline this text, is not shown */
	bool is_item; /* begins right after a list marker */
};

/** Finds the last run; linear. */
struct inline_run inline_run_find(const char *text, size_t len);

/**
 * Parses the parentheses of a link, whose `(` is at `at`. Returns the position after the `)`, `end`
 * + 1 if the text ends first, or 0 if it is not a link.
 */
size_t inline_link_skip_destination(const char *text, size_t at, size_t end);
/**
 * Skips the `<` at `at`, or all of `<https://…>` or `<tag attribute="…">`, whose contents have no
 * markers.
 */
size_t inline_link_skip_pointy(const char *text, size_t at, size_t end);
/**
 * Skips the character at `at`, or a bare address that begins there, which the autolink extension
 * makes a link: a `_` or `*` in it is not a marker.
 */
size_t inline_link_skip_bare(const char *text, size_t start, size_t at, size_t end);

/**
 * The character that begins at `at`; U+FFFD if it is invalid. The text is surrounded by newlines.
 */
uint32_t inline_char_after(const char *text, size_t at, size_t end);
/** The character that ends at `at`. */
uint32_t inline_char_before(const char *text, size_t start, size_t at);
/** Unicode whitespace and punctuation in the sense of CommonMark's flanking rules. */
bool inline_char_is_space(uint32_t c);
bool inline_char_is_punctuation(uint32_t c);

#endif
