/*
 * Markdown to HTML with cmark-gfm (CommonMark, and GFM's tables, strikethrough, autolinks and task
 * lists), safe by construction: raw HTML comes out as text, links and images keep only http, https,
 * mailto and relative addresses (which stay on the page's own host: //host is none), no attribute
 * is written but cmark's own fixed few. Pure, for any thread.
 *
 * What would cost the parser more than a fixed budget of time or memory (only text made for that
 * does) is shown as it is, as code.
 */
#ifndef HOLDFAST_MARKDOWN_HTML_H
#define HOLDFAST_MARKDOWN_HTML_H

#include "holdfast/buffer.h"

#include <stddef.h>
#include <stdint.h>

/**
 * Appends the HTML of one block of markdown. `context` (may be empty) is what
 * block_scanner_context() gave when the block was cut: it is read before the text, so that the rest
 * of a fence comes out as code, the rest of a table as rows (with the header again) and the rest of
 * a list as a list. `text` may hold any bytes; invalid UTF-8 and NUL become U+FFFD.
 */
void markdown_to_html(
	const char *context, size_t context_len, const char *text, size_t len, struct buffer *out);

/** Names the renderer: another one may make other HTML of the same markdown. */
uint64_t markdown_html_version(void);

#endif
