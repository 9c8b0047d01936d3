/*
 * HTML of blocks as a list of leaves: a paragraph, a heading, a code block, a row of a table, each
 * with the lists and quotes that it is in. So the parts of a block that was cut can be joined again
 * and compared with the block in one piece. What a part alone cannot know makes no difference:
 * whether a list is loose, and how many blank lines were where indented code was cut.
 */
#ifndef HOLDFAST_TESTS_PROOF_LEAVES_H
#define HOLDFAST_TESTS_PROOF_LEAVES_H

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <stddef.h>

struct leaf {
	/* `ul*>ol 2>` and so on; a star: this leaf begins the item, the quote or the table */
	struct buffer path;
	struct buffer text; /* its tag, and what is in it */
};

struct leaves {
	struct leaf *items;
	size_t count;
	size_t cap;
};

/**
 * Adds the leaves of an event's HTML. With `continues`, its first ones go on with what is there
 * already, as `context` says.
 */
void leaves_add(struct leaves *leaves, const char *html, bool continues, const char *context);
void leaves_finish(struct leaves *leaves);
bool leaves_are_same(const struct leaves *a, const struct leaves *b);
void leaves_print(const struct leaves *leaves);

#endif
