/*
 * Markdown to HTML with cmark-gfm (CommonMark, and GFM's tables, strikethrough, autolinks and task
 * lists), safe by construction: raw HTML comes out as text; links and images keep only http, https,
 * mailto and relative addresses (//host does not count as relative); no attributes are written but
 * the few that cmark itself writes. Pure, for any thread.
 *
 * Text that would cost the parser more than a fixed budget of time or memory, which only hostile
 * text does, is shown verbatim, as code.
 */
#ifndef HOLDFAST_MARKDOWN_HTML_H
#define HOLDFAST_MARKDOWN_HTML_H

#include "holdfast/buffer.h"

#include <stddef.h>
#include <stdint.h>

/** One block of markdown. All of it is borrowed. */
struct markdown {
	/**
	 * What block_scanner_context() returned when the block was cut, or nothing: it is parsed
	 * before the text, so that the rest of a fence comes out as code, the rest of a table as
	 * rows (with the header again) and the rest of a list as a list.
	 */
	const char *context;
	size_t context_len;
	const char *text; /* any bytes; invalid UTF-8 and NUL become U+FFFD */
	size_t len;
	/**
	 * What block_scanner_start() returned: the number that the first ordered list in the text
	 * begins with, in place of the one that is written there; 0: that one.
	 */
	uint32_t start;
};

/** Appends the HTML of one block. */
void markdown_to_html(const struct markdown *markdown, struct buffer *out);

/** Identifies the renderer. Another version can make different HTML from the same markdown. */
uint64_t markdown_html_version(void);

#endif
