/*
 * Private to render/: what stands around cmark-gfm's parser. In front of it, what it may be given;
 * behind it, what becomes of the tree it gives back; below it, the memory.
 */
#ifndef HOLDFAST_RENDER_INTERNAL_H
#define HOLDFAST_RENDER_INTERNAL_H

#include "holdfast/buffer.h"

#include <cmark-gfm.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Whether parsing and writing this markdown stays within a fixed budget of time and memory. The
 * parser is linear for what people and models write, and quadratic or worse for a few patterns that
 * only somebody who means harm writes (most are published as CVE-2023-22483 to 22486, 24824, 26485
 * and 37463; Debian 12's 0.29.0.gfm.6 has none of the fixes). Linear; its bounds err towards "no".
 */
bool markdown_cost_is_fair(const char *text, size_t len);

/**
 * Makes of a parsed document one that is written as safe HTML: raw HTML becomes text, a link or
 * image with a refused address its content, and a code block's language holds only
 * [A-Za-z0-9_+#.-]. There is no other way from the text into a tag or an attribute. `skip` bytes of
 * a first block of raw HTML are not the text's own and are left out.
 */
void safe_tree_make(cmark_node *document, size_t skip);

/** A parser with the extensions; inside of render_enter(). */
cmark_parser *render_parser_create(void);
/** Around all that is done with cmark-gfm. Any thread. */
void render_enter(void);
void render_leave(void);

/** Memory for the parsing of one document, on this thread: all of it is freed, and then scratch_reset() called. */
cmark_mem *scratch_memory(void);
void scratch_reset(void);

#endif
