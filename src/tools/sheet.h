/*
 * Markdown being written: blocks with blank lines between them, and nothing that a terminal obeys.
 */
#ifndef HOLDFAST_SHEET_H
#define HOLDFAST_SHEET_H

#include "holdfast/buffer.h"

#include <stdbool.h>

enum sheet_kind { SHEET_OTHER, SHEET_MESSAGE, SHEET_THOUGHT };

struct sheet {
	struct buffer text;
	bool is_used;
	unsigned newlines; /* at its end: 0, 1 or 2 */
	enum sheet_kind last;
};

/** Ends what is open and begins a block, below an empty line. */
void sheet_begin(struct sheet *sheet, enum sheet_kind kind);
/** The text as it is, but for control characters: they become U+FFFD. */
void sheet_text(struct sheet *sheet, const char *text, size_t len);
/** Literal markdown of ours. */
void sheet_mark(struct sheet *sheet, const char *markdown);
/** A text that is to be read as it is, on one line. */
void sheet_plain(struct sheet *sheet, const char *text);
/** The text in a quote; goes on in the last one if that is open. */
void sheet_quote(struct sheet *sheet, const char *text, size_t len);
/** A span of code, whatever is in it. */
void sheet_code(struct sheet *sheet, const char *text, size_t len);
/** Appends what is on another sheet, as blocks, and empties that one. */
void sheet_move(struct sheet *sheet, struct sheet *from);

#endif
