/*
 * Markdown for a terminal, parsed as in markdown_html.h: headings, lists, quotes, code, tables and
 * emphasis in lines of the page's width. On a page without styles, emphasis, code and headings keep
 * their markup.
 */
#ifndef HOLDFAST_MARKDOWN_TERMINAL_H
#define HOLDFAST_MARKDOWN_TERMINAL_H

#include "holdfast/markdown_html.h"
#include "holdfast/terminal_page.h"

/** Appends a block to the page. */
void markdown_to_terminal(const struct markdown *markdown, struct terminal_page *page);

#endif
