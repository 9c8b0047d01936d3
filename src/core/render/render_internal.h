/*
 * Private to render/: the safeguards around cmark-gfm's parser. Before it, a check of its input;
 * after it, a cleanup of the tree it returns; below it, its memory.
 */
#ifndef HOLDFAST_RENDER_INTERNAL_H
#define HOLDFAST_RENDER_INTERNAL_H

#include "holdfast/buffer.h"
#include "holdfast/markdown_html.h"

#include <cmark-gfm.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Whether parsing and rendering this markdown stays within a fixed budget of time and memory. The
 * parser is linear for what people and models write, but quadratic or worse for a few malicious
 * patterns (most are published as CVE-2023-22483 to 22486, 24824, 26485 and 37463; Debian 12's
 * 0.29.0.gfm.6 has none of the fixes). Runs in linear time and errs towards "no".
 */
bool markdown_cost_is_fair(const char *text, size_t len);

/**
 * Makes a parsed document safe to render as HTML: raw HTML becomes text, a link or image with a
 * disallowed URL is replaced by its content, and a code block's language keeps only
 * [A-Za-z0-9_+#.-]. No other text can reach a tag or an attribute. If the first block is raw HTML,
 * its first `skip` bytes are context, not text, and are removed.
 */
void safe_tree_make(cmark_node *document, size_t skip);

/** Gives the first ordered list in the text its number: see struct markdown. */
void render_set_start(cmark_node *document, const struct markdown *markdown);

/** Creates a parser with the extensions. Call between render_enter() and render_leave(). */
cmark_parser *render_parser_create(void);
/** Enclose every use of cmark-gfm in these. Any thread. */
void render_enter(void);
void render_leave(void);

/** The allocator for one document on this thread. Free everything, then call scratch_reset(). */
cmark_mem *scratch_memory(void);
void scratch_reset(void);

#endif
