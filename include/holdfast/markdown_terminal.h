/*
 * Markdown for a terminal, read by the parser of markdown_html.h: headings, lists, quotes, code,
 * tables and emphasis in lines of the page's width. Where the page has no styles, emphasis, code and
 * headings keep their marks.
 */
#ifndef HOLDFAST_MARKDOWN_TERMINAL_H
#define HOLDFAST_MARKDOWN_TERMINAL_H

#include "holdfast/terminal_page.h"

#include <stddef.h>

/** Appends a block; `context` and `text` as for markdown_to_html(). */
void markdown_to_terminal(const char *context, size_t context_len, const char *text, size_t len,
	struct terminal_page *page);

#endif
