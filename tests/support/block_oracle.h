/*
 * cmark-gfm itself, asked where blocks begin: one must begin on every line on which a child of the
 * document node begins, and nowhere else, and the blocks rendered one by one must give what the
 * whole text gives. Two things cannot be compared: a paragraph of nothing but link reference
 * definitions is no node, and definitions above a table have no line of their own.
 */
#ifndef HOLDFAST_TESTS_BLOCK_ORACLE_H
#define HOLDFAST_TESTS_BLOCK_ORACLE_H

#include <stdbool.h>
#include <stddef.h>

#define BLOCK_STARTS_MAX 8192

/** Where the blocks of a text begin. */
struct block_starts {
	size_t count;
	size_t at[BLOCK_STARTS_MAX];
	bool doubtful[BLOCK_STARTS_MAX]; /* the scanner may see none here */
};

void block_starts_add(struct block_starts *s, size_t at, bool doubtful);

/** What cmark-gfm says. The text must end with a line end. */
void block_oracle_find(const char *text, size_t len, struct block_starts *ret);
/**
 * Whether the starts that were found are those that are wanted. The scanner's first block begins at
 * 0, with the blank lines in front of it.
 */
bool block_oracle_accepts(const char *text, size_t len, const struct block_starts *got,
	const struct block_starts *want);
/** Whether the blocks, rendered one by one, give the HTML of the whole text. */
bool block_oracle_renders_alike(const char *text, size_t len, const struct block_starts *starts);

#endif
