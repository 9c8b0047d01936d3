/*
 * Markdown for a terminal, parsed as in markdown_html.h: headings, lists, quotes, code, tables and
 * emphasis in lines of the page's width. On a page without styles, emphasis, code and headings keep
 * their markup.
 */
#ifndef HOLDFAST_MARKDOWN_TERMINAL_H
#define HOLDFAST_MARKDOWN_TERMINAL_H

#include "holdfast/terminal_page.h"

#include <stddef.h>

/** Appends a block to the page; `context` and `text` are as for markdown_to_html(). */
void markdown_to_terminal(const char *context, size_t context_len, const char *text, size_t len,
	struct terminal_page *page);

#endif
