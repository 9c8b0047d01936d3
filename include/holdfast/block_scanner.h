/*
 * Finds where the top-level blocks of a markdown text begin and end while the text is still coming
 * in. Follows CommonMark and the table extension of GFM, as cmark-gfm reads both. Pure: bytes
 * in, positions out; no clock, no callback, linear time.
 *
 * The positions depend on the text alone, never on how it was cut into calls. Only how early a
 * position is known depends on that: the scanner reports it at the first byte that decides it.
 *
 * Blank lines belong to the block before them; those at the start of the text belong to the first
 * block. So a block that is complete (a closed fence, a paragraph and its blank line) stays open
 * until the first byte of the next one. The caller can end it earlier: a block that is complete
 * (block_scanner_is_complete()) gets only blank lines, one that is closable (block_scanner_closable())
 * could still go on, as a list behind a blank line can.
 */
#ifndef HOLDFAST_BLOCK_SCANNER_H
#define HOLDFAST_BLOCK_SCANNER_H

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
 * What the versions of cmark-gfm read differently. The text is rendered by the version that is
 * linked, so blocks must end where that version ends them. The numbers are part of saved states: a
 * journal is replayed with the rules it was written with, whatever is linked since.
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
 * The rules of a version of cmark-gfm, as cmark_version() returns it. No Debian release has a
 * version between the two above; such versions count as the older one.
 */
enum block_rules block_rules_of(int cmark_version);
/** The rules of the cmark-gfm that is linked. */
enum block_rules block_rules_linked(void);

struct block_scanner;

#define BLOCK_SCANNER_NO_END ((size_t)-1)

/** Creates a scanner with the rules of block_rules_linked(). */
struct block_scanner *block_scanner_create(void);
/** Sets the rules, and those of this version, from the next byte on; a reset keeps them. */
void block_scanner_set_rules(struct block_scanner *s, enum block_rules rules);
/** Accepts NULL. */
void block_scanner_destroy(struct block_scanner *s);
/** Forgets everything: the next byte is the first of a new text. */
void block_scanner_reset(struct block_scanner *s);

/**
 * Reads bytes, and stops early when it learns that a block has ended. Returns how many of the `len`
 * bytes it has read (at least 1 when len > 0). If a block ended, *ret_end is the block's length in
 * bytes, counted from its own start; bytes read after that end belong to the next block, which is
 * the open one from then on. The length can be 0 only after block_scanner_cut(), if the cut block
 * did not continue. If no block ended, *ret_end is BLOCK_SCANNER_NO_END. The end may lie before the
 * bytes of this call: the header row of a table is recognized by the row below it. Bytes need not
 * be whole characters, nor valid UTF-8.
 */
size_t block_scanner_feed(struct block_scanner *s, const char *text, size_t len, size_t *ret_end);

/** The kind of the open block, as far as it is known now. */
enum block_kind block_scanner_kind(const struct block_scanner *s);
/**
 * Whether the open block can be ended here without changing how it reads: it is complete (a closed
 * fence, a thematic break or heading with its newline), or it has seen a blank line and nothing but
 * blanks since (a list, a table, a quote, a paragraph, and so on). False for BLOCK_NONE.
 */
bool block_scanner_closable(const struct block_scanner *s);
/**
 * Whether the last byte read was the newline that completed the open block: whatever follows, only
 * blank lines can still belong to it. A '\r' does not count, since a '\n' may follow.
 */
bool block_scanner_is_complete(const struct block_scanner *s);
/** Whether more than blank lines can still follow in the open block. */
bool block_scanner_can_go_on(const struct block_scanner *s);
/** Whether nothing but blanks, and no mark of a quote, has been read of the current line. */
bool block_scanner_line_is_blank(const struct block_scanner *s);
/** Whether the last byte read ended a line. Also true before the first byte of a text. */
bool block_scanner_at_line_start(const struct block_scanner *s);
/**
 * Whether the last byte read ended a line of a paragraph that contains a `|`: a delimiter row below
 * it would make it the header row of a table.
 */
bool block_scanner_may_be_table(const struct block_scanner *s);
/**
 * Whether the current line may still begin a list, a fence or a table: it has the first marks of
 * one (`-`, `1.`, two backticks, a `|`), but not yet what decides.
 */
bool block_scanner_is_undecided(const struct block_scanner *s);
/** How many bytes of the open block have been read, from its start or from the last cut. */
size_t block_scanner_length(const struct block_scanner *s);
/**
 * How many of those bytes are certain to stay in this block. The rest, the beginning of a line that
 * may turn out to be another block, may move to the next one. Never decreases, except when a block
 * ends.
 */
size_t block_scanner_decided(const struct block_scanner *s);

/**
 * Cuts the open block: its text so far has been emitted, and what follows belongs to the same
 * block. Counting restarts at 0; the parser's state (inside a fence, in a table) is kept.
 */
void block_scanner_cut(struct block_scanner *s);
/**
 * The same where the current line begins, of which nothing but blanks has been read: they have not
 * been emitted, and are to be read again.
 */
void block_scanner_cut_line(struct block_scanner *s);
/**
 * The markdown that must be put in front of the text after the last cut so that, rendered alone, it
 * reads as the same kind of block: the opening line of a fence, the header and delimiter row of a
 * table, the marks of the list items or quotes that the text continues, or `&#32;` (a space that is
 * certain to be text) in a paragraph. Empty if nothing is needed, or if that line is too long to be
 * kept (over 4 KiB). Begins with `<` for an HTML block and for no other.
 *
 * It depends on the first line after the cut, so it may change until that line has been read;
 * before the first cut it is empty. Borrowed until the next call that changes the scanner. When
 * block_scanner_feed() reports the end of the block that was cut, it is still the context of that
 * block.
 */
const char *block_scanner_context(const struct block_scanner *s, size_t *ret_len);

/**
 * The number of the first item in the text after the last cut, if that item goes on with an ordered
 * list and another number is written in front of it, as in a list whose items are all `1.`; else 0.
 * It is known, and is valid, as long as the context.
 */
uint32_t block_scanner_start(const struct block_scanner *s);

/** Whether its state, apart from its rules, is that of a scanner that was just created. */
bool block_scanner_is_fresh(const struct block_scanner *s);
/** Appends the scanner's whole state as bytes, including its rules. */
void block_scanner_save(const struct block_scanner *s, struct buffer *out);
/**
 * Loads a state written by block_scanner_save(), of this version or of the two before, the older of
 * which knew only BLOCK_RULES_GFM_6. The bytes are not trusted: returns -EINVAL, with the scanner reset, if
 * they are not a valid state, else 0.
 */
int block_scanner_load(struct block_scanner *s, const char *bytes, size_t len);

#endif
