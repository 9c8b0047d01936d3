/*
 * Finds where the top-level blocks of a markdown text begin and end, while the text is still coming
 * in. Follows CommonMark 0.31 and the table extension of GFM as cmark-gfm reads them; pure: bytes
 * in, positions out, no clock, no callback, linear time.
 *
 * The positions depend on the text alone and never on how it was cut into calls. What does depend
 * on the cut is how soon a position is known: the scanner tells it at the first byte that decides
 * it.
 *
 * Blank lines belong to the block before them; those in front of the first block belong to it. So a
 * block that is complete (a closed fence, a paragraph and its blank line) stays open until the
 * first byte of the next one, and block_scanner_closable() says that it may be ended before that.
 */
#ifndef HOLDFAST_BLOCK_SCANNER_H
#define HOLDFAST_BLOCK_SCANNER_H

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <stddef.h>

enum block_kind {
	BLOCK_NONE, /* nothing but blank lines and indentation so far */
	BLOCK_PARAGRAPH, /* also setext headings and link reference definitions */
	BLOCK_HEADING, /* ATX */
	BLOCK_THEMATIC_BREAK,
	BLOCK_LIST,
	BLOCK_QUOTE,
	BLOCK_FENCE,
	BLOCK_INDENTED_CODE,
	BLOCK_TABLE,
	BLOCK_HTML,
};

/**
 * What the versions of cmark-gfm read differently. The text is rendered by the one that is linked,
 * so blocks must end where that one ends them. The numbers are in saved states: a journal is
 * replayed by the rules that it was written with, whatever is linked since.
 */
enum block_rules {
	BLOCK_RULES_GFM_6 = 0, /* 0.29.0.gfm.6 (Debian 12) and older */
	/**
	 * 0.29.0.gfm.13 (Debian 13) and newer. `<textarea>` begins raw HTML, as `<pre>` does;
	 * `<source>` is the name of a block; a paragraph whose first delimiter row has another
	 * number of cells than the line above it never becomes a table; one line opens at most 99
	 * containers with a list among them.
	 */
	BLOCK_RULES_GFM_13 = 1,
};

/**
 * The rules of a version of cmark-gfm, as cmark_version() gives it. No Debian has a version between
 * the two above: they count as the older one.
 */
enum block_rules block_rules_of(int cmark_version);
/** Those of the cmark-gfm that is linked. */
enum block_rules block_rules_linked(void);

struct block_scanner;

#define BLOCK_SCANNER_NO_END ((size_t)-1)

/** Its rules are block_rules_linked(). */
struct block_scanner *block_scanner_create(void);
/** Other rules count from the next byte on, and stay over a reset. */
void block_scanner_set_rules(struct block_scanner *s, enum block_rules rules);
/** Accepts NULL. */
void block_scanner_destroy(struct block_scanner *s);
/** Forgets everything: the next byte is the first of a new text. */
void block_scanner_reset(struct block_scanner *s);

/**
 * Reads bytes and stops early when it learns that a block has ended. Returns how many of the `len`
 * bytes it read (at least 1 when len > 0). If a block ended, *ret_end is its length in bytes
 * counted from its own start (0 is possible only after block_scanner_cut(), when nothing of the cut
 * block followed), and what was read behind that end is the beginning of the next block, which is
 * the open one from now on; else *ret_end is BLOCK_SCANNER_NO_END. The end may lie before the bytes
 * of this call (the header row of a table is known by the row below it).
 * Bytes need not be whole characters, nor valid UTF-8.
 */
size_t block_scanner_feed(struct block_scanner *s, const char *text, size_t len, size_t *ret_end);

/** The kind of the open block as far as it can be told now. */
enum block_kind block_scanner_kind(const struct block_scanner *s);
/**
 * Whether the open block may end here without breaking anything: it is complete (a closed fence, a
 * thematic break or heading with its newline), or has seen a blank line with nothing after it but
 * blanks (a list, a table, a quote, a paragraph, and so on). False for BLOCK_NONE.
 */
bool block_scanner_closable(const struct block_scanner *s);
/**
 * Whether the last byte read was the newline that completed the open block: whatever comes, it gets
 * nothing more but blank lines. (A '\r' is none: a '\n' may follow.)
 */
bool block_scanner_is_complete(const struct block_scanner *s);
/** Whether the last byte read ended a line (true also before the first byte of a text). */
bool block_scanner_at_line_start(const struct block_scanner *s);
/**
 * Whether the last byte read ended a paragraph's line that has a `|` in it: a delimiter row below
 * would make a table of them.
 */
bool block_scanner_may_be_table(const struct block_scanner *s);
/**
 * Whether the last line may yet begin a list, a fence or a table: it has the first marks of one
 * (`-`, `1.`, two backticks, a `|`) and not yet what decides.
 */
bool block_scanner_is_undecided(const struct block_scanner *s);
/** How many bytes have been read of the open block, from its start (or from the last cut). */
size_t block_scanner_length(const struct block_scanner *s);
/**
 * How many of those bytes are certain to stay in this block: the others (the beginning of a line
 * that may yet turn out to be another block) may move to the next one. Never falls, except when a
 * block ends.
 */
size_t block_scanner_decided(const struct block_scanner *s);

/**
 * The open block's text so far has been given out, and the text that follows is the same block's:
 * counting begins anew at 0 and the reader's state (inside a fence, in a table) stays.
 */
void block_scanner_cut(struct block_scanner *s);
/**
 * The markdown that must come before the text after the last cut so that, rendered alone, it reads
 * as the same kind of block: the opening line of a fence, the header and delimiter row of a table,
 * the marks of the list items or quotes that it goes on in, `&#32;` (an empty place that is
 * certainly text) in a paragraph. Empty if nothing is needed, or if that line is too long to keep
 * (over 4 KiB). Begins with `<` for an HTML block and for no other.
 *
 * Depends on the first line after the cut, so it may change until that has been read, and is empty
 * before the first cut. Lent until the next call that changes the scanner; when
 * block_scanner_feed() reports the end of the block that was cut, it is still that block's.
 */
const char *block_scanner_context(const struct block_scanner *s, size_t *ret_len);

/** Appends the scanner's whole state as bytes, its rules among them. */
void block_scanner_save(const struct block_scanner *s, struct buffer *out);
/**
 * Takes over a state written by block_scanner_save(), of this version or the one before, which knew
 * no rules but BLOCK_RULES_GFM_6. The bytes are not trusted: returns -EINVAL, with the scanner
 * reset, if they are not such a state, else 0.
 */
int block_scanner_load(struct block_scanner *s, const char *bytes, size_t len);

#endif
