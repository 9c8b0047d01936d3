/*
 * Text laid out for a terminal: styled characters, lines of a width, what stands in front of them.
 * What is put in may come from anybody: no escape sequence, control character or change of the
 * direction of text gets through, only the page's own styles. Characters are as wide as wcwidth()
 * says in the locale of LC_CTYPE; 1 where it does not know. Pure.
 */
#ifndef HOLDFAST_TERMINAL_PAGE_H
#define HOLDFAST_TERMINAL_PAGE_H

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Bits of a style; a colour is one number in its upper bits. */
enum terminal_style {
	TERMINAL_BOLD = 1,
	TERMINAL_DIM = 2,
	TERMINAL_ITALIC = 4,
	TERMINAL_UNDERLINE = 8,
	TERMINAL_STRIKE = 16,
	TERMINAL_RED = 1 << 5,
	TERMINAL_GREEN = 2 << 5,
	TERMINAL_YELLOW = 3 << 5,
	TERMINAL_BLUE = 4 << 5,
	TERMINAL_CYAN = 6 << 5,
};

struct terminal_cell {
	char bytes[4];
	uint8_t len;
	uint8_t width; /* columns: 0 to 2 */
	uint16_t style;
};

/** Characters in a row, zeroed at first; a newline among them ends a line. terminal_text_finish(). */
struct terminal_text {
	struct terminal_cell *cells;
	size_t count;
	size_t size;
};

/** Appends what can be shown of any bytes; a newline or tab is a blank. */
void terminal_text_add(struct terminal_text *text, unsigned style, const char *bytes, size_t len);
/** The same of a text that ends with a NUL; NULL: nothing. */
void terminal_text_put(struct terminal_text *text, unsigned style, const char *bytes);
/** Ends the line. */
void terminal_text_break(struct terminal_text *text);
/** The columns that its longest line takes. */
size_t terminal_text_width(const struct terminal_text *text);
void terminal_text_finish(struct terminal_text *text);

/* How a text that is wider than its place goes on in the next line. */
enum terminal_wrap { TERMINAL_WORDS, TERMINAL_CHARACTERS };

/** A line of a text: cells from `at` on. */
struct terminal_line {
	size_t at;
	size_t count;
	size_t width;
};
/** Finds the line that begins at *at and moves *at behind it; false at the end. Some lines may be empty. */
bool terminal_text_next(const struct terminal_text *text, size_t width, enum terminal_wrap wrap,
	size_t *at, struct terminal_line *ret);

/* A page has at least so many columns for its text: what would stand in front of it and leave fewer, is left out. */
#define TERMINAL_COLUMNS_MIN 10

/** Where lines are appended. Zeroed but for the first two. */
struct terminal_page {
	size_t width; /* columns, at least TERMINAL_COLUMNS_MIN; no line is wider */
	bool has_styles; /* else no escape sequence at all is written */
	struct buffer out; /* the caller takes and frees it */
	struct terminal_text margin; /* what stands in front of each line */
	struct terminal_text next; /* in front of the next one, instead: not wider */
	bool has_next;
	bool is_used; /* it has a line */
};

/** The columns that are left of a line. */
size_t terminal_page_room(const struct terminal_page *page);
/** From now on `first` stands in front of the next line and `rest` in front of those below it; gives what outdent takes. */
size_t terminal_page_indent(
	struct terminal_page *page, unsigned style, const char *first, const char *rest);
/** As it was before; writes what stood in front of a line that never came. */
void terminal_page_outdent(struct terminal_page *page, size_t mark);
/** An empty line, but for the margin. */
void terminal_page_gap(struct terminal_page *page);
/** Writes a text as lines, and empties it. */
void terminal_page_text(
	struct terminal_page *page, struct terminal_text *text, enum terminal_wrap wrap);
/** Frees all of it. */
void terminal_page_finish(struct terminal_page *page);

#endif
