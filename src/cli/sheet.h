/*
 * Writes markdown: blocks with blank lines between them, without what a terminal must not get
 * (diag_unsafe()).
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

/** Begins a block, after a blank line. */
void sheet_begin(struct sheet *sheet, enum sheet_kind kind);
/**
 * Appends markdown as it is. Control characters become U+FFFD; carriage returns and what is
 * invisible are dropped.
 */
void sheet_text(struct sheet *sheet, const char *text, size_t len);
/** Appends markdown of our own. */
void sheet_mark(struct sheet *sheet, const char *markdown);
/** Appends plain text on one line: markdown in it is escaped. */
void sheet_plain(struct sheet *sheet, const char *text);
/** Appends text in a quote; continues the last block if that is a quote. */
void sheet_quote(struct sheet *sheet, const char *text, size_t len);
/** Appends a code span, with more backticks around it than are in it. */
void sheet_code(struct sheet *sheet, const char *text, size_t len);
/** Appends the blocks of another sheet, and empties that one. */
void sheet_move(struct sheet *sheet, struct sheet *from);

#endif
