/*
 * Where cmark-gfm itself finds the blocks of a text: the tests' oracle, which shares no code with
 * the scanner. Its nodes have lines; what the tests compare are bytes.
 */
#ifndef HOLDFAST_TESTS_CMARK_ORACLE_H
#define HOLDFAST_TESTS_CMARK_ORACLE_H

#include <cmark-gfm.h>
#include <stddef.h>

/*
 * cmark_parser_feed() of a text from its beginning. cmark-gfm drops a byte order mark there; for us
 * it is a character like any other, since the text may be from the middle of one.
 */
void oracle_feed(cmark_parser *parser, const char *text, size_t len);

/** Reads a text with the table extension. If ret_html is not NULL, it gets the HTML (to free). */
cmark_node *oracle_parse(const char *text, size_t len, char **ret_html);
/** What cmark-gfm's own renderer makes of a text, with all of our extensions; the caller frees. */
char *oracle_render(const char *text, size_t len);
/** Where line number `line` (from 1) begins; the text's end if it has no such line. */
size_t oracle_line_start(const char *text, size_t len, int line);
/**
 * The line of a table's header row. cmark-gfm gives a table the first line of the paragraph that
 * its header row was in, and the paragraph above it none.
 */
int oracle_header_line(cmark_node *table);

#endif
