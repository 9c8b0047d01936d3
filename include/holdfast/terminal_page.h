/*
 * Lays out text for a terminal: styled characters, lines of limited width, and a margin in front of
 * them. The input can be hostile: no escape sequence, control character or bidirectional override
 * gets through, only the page's own styles. The width of a character is wcwidth() in the LC_CTYPE
 * locale, or 1 if that is unknown. Pure.
 */
#ifndef HOLDFAST_TERMINAL_PAGE_H
#define HOLDFAST_TERMINAL_PAGE_H

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Bits of a style; the upper bits are the number of a colour. */
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

/**
 * A row of styled characters; a newline among them ends a line. Zero-initialise; free with
 * terminal_text_finish().
 */
struct terminal_text {
	struct terminal_cell *cells;
	size_t count;
	size_t size;
};

/** Appends the printable characters of any bytes; a newline or tab becomes a blank. */
void terminal_text_add(struct terminal_text *text, unsigned style, const char *bytes, size_t len);
/** Like terminal_text_add() for a NUL-terminated text. NULL appends nothing. */
void terminal_text_put(struct terminal_text *text, unsigned style, const char *bytes);
/** Ends the line. */
void terminal_text_break(struct terminal_text *text);
/** Returns the width of the longest line, in columns. */
size_t terminal_text_width(const struct terminal_text *text);
void terminal_text_finish(struct terminal_text *text);

/* Where to break a text that is wider than its space. */
enum terminal_wrap { TERMINAL_WORDS, TERMINAL_CHARACTERS };

/** A line of a text: `count` cells from `at` on. */
struct terminal_line {
	size_t at;
	size_t count;
	size_t width;
};
/**
 * Finds the line that begins at *at and moves *at to the next one. Returns false at the end of the
 * text. A line can be empty.
 */
bool terminal_text_next(const struct terminal_text *text, size_t width, enum terminal_wrap wrap,
	size_t *at, struct terminal_line *ret);

/* Fewest columns left for text; an indentation that would leave fewer is omitted. */
#define TERMINAL_COLUMNS_MIN 10

/** Lines are appended to a page. Zero-initialise it, then set the first two members. */
struct terminal_page {
	size_t width; /* columns, at least TERMINAL_COLUMNS_MIN; no line is wider */
	bool has_styles; /* otherwise no escape sequences are written */
	struct buffer out; /* owned by the caller */
	struct terminal_text margin; /* written before each line */
	struct terminal_text next; /* written before the next line instead; not wider */
	bool has_next;
	bool is_used; /* at least one line was written */
};

/** Returns the columns that the margin leaves for text. */
size_t terminal_page_room(const struct terminal_page *page);
/**
 * Indents: `first` is written before the next line, `rest` before those below it. Returns a mark
 * for terminal_page_outdent().
 */
size_t terminal_page_indent(
	struct terminal_page *page, unsigned style, const char *first, const char *rest);
/** Ends an indentation. If no line was written since, writes one with its front alone. */
void terminal_page_outdent(struct terminal_page *page, size_t mark);
/** Writes an empty line, with the margin. */
void terminal_page_gap(struct terminal_page *page);
/** Writes a text as lines, and empties it. */
void terminal_page_text(
	struct terminal_page *page, struct terminal_text *text, enum terminal_wrap wrap);
/** Frees the page's memory. */
void terminal_page_finish(struct terminal_page *page);

#endif
