/*
 * The internals of the block scanner, shared by the block_scanner*.c files only.
 *
 * A line is read byte by byte, in the order in which cmark-gfm reads it: first the open containers
 * are matched against its prefix, then new blocks are opened where the match ended (the "seat"),
 * and the rest is text. While several readings of a line's first bytes are possible, all of them
 * are followed at once (struct marker), until one wins or only plain text is left.
 */
#ifndef HOLDFAST_BLOCK_SCANNER_INTERNAL_H
#define HOLDFAST_BLOCK_SCANNER_INTERNAL_H

#include "holdfast/block_scanner.h"

#include <stdint.h>

/** Quotes and lists nested deeper than this are read as text of the innermost one. */
#define SCANNER_DEPTH_MAX 100
/**
 * Bytes kept of the current line. They are needed to read `- - - x` again as nested lists when it
 * turns out not to be a thematic break, and for what precedes a cut piece. A line that still can be
 * either after this many bytes is a thematic break if it has three marks.
 */
#define SCANNER_LINE_MAX    4096
#define SCANNER_CONTEXT_MAX 4096
/** Columns of indentation that make a line indented code. */
#define SCANNER_CODE_INDENT 4
#define HTML_NAME_MAX       10 /* longest tag name that opens an HTML block: blockquote */
#define HTML_TAIL_MAX       10 /* longest end of an HTML block without its `>`: </textarea */
/** Once a line has opened this many containers, it cannot open a list: BLOCK_RULES_GFM_13. */
#define SCANNER_LINE_DEPTH_MAX 99

/* What part of a line is being read. */
enum line_phase {
	PHASE_INDENT, /* blanks before the next mark or the text */
	PHASE_QUOTE_GAP, /* the one blank that belongs to the preceding `>` */
	PHASE_MARKER, /* the first bytes of the text, which may open a block */
	PHASE_TEXT, /* a line of a paragraph */
	PHASE_HTML, /* a line of an HTML block, which may contain its end */
	PHASE_FENCE_END, /* a line that may be the closing fence */
	PHASE_REST, /* nothing in the rest of the line matters */
	PHASE_COUNT,
};

/* The open block that contains no other blocks, at the end of the container stack. */
enum leaf {
	LEAF_NONE,
	LEAF_PARAGRAPH,
	LEAF_FENCE,
	LEAF_CODE,
	LEAF_HTML,
	LEAF_TABLE,
	LEAF_COUNT,
};

/* Where a new block in this line would be placed. */
enum seat {
	SEAT_BLOCK, /* the document, a quote or a list item */
	SEAT_LIST, /* a list whose last item the line does not belong to */
	SEAT_PARAGRAPH,
	SEAT_TABLE,
	SEAT_COUNT,
};

/* Whether the line begins a new top-level block; OPEN: not known yet. */
enum boundary {
	BOUNDARY_OPEN,
	BOUNDARY_SAME,
	BOUNDARY_NEW,
	BOUNDARY_COUNT,
};

/* A quote, or a list together with its last item. */
struct container {
	uint8_t mark; /* '>' for a quote; '-', '+', '*', '.' or ')' for a list */
	uint8_t item_open; /* of a list: its last item can still continue */
	uint8_t children; /* blocks in that item: 0, 1 or "2 or more" */
	uint8_t content; /* columns by which the lines of that item are indented */
	uint32_t number; /* of that item, if the list is ordered */
};

/* The possible readings of a line's first bytes, see struct marker. */
enum {
	MARK_ATX = 1 << 0,
	MARK_FENCE = 1 << 1,
	MARK_HTML = 1 << 2, /* kinds 1 to 6 */
	MARK_HTML_TAG = 1 << 3, /* kind 7 */
	MARK_SETEXT = 1 << 4,
	MARK_THEMATIC = 1 << 5,
	MARK_LIST = 1 << 6,
	MARK_DELIMITER = 1 << 7, /* the delimiter row of a table */
	MARK_LONE_PIPE = 1 << 8, /* below a table: a lone `|` is not a row */
	MARK_ALL = (1 << 9) - 1,
};

enum list_state {
	LIST_DIGITS, /* in the number of an ordered item */
	LIST_NEEDS_BLANK, /* the mark is complete; a blank must follow */
	LIST_PADDING, /* in the blanks after the mark */
	LIST_READY, /* certainly an item, unless the line is a thematic break */
	LIST_STATE_COUNT,
};

struct list_mark {
	uint8_t state;
	uint8_t mark; /* as in struct container; 0: not known yet */
	uint8_t width; /* bytes of the mark */
	uint8_t interrupts; /* it would interrupt a paragraph, where the rules are stricter */
	uint32_t number;
	size_t column; /* end of the mark, and later of the blanks after it */
	size_t end_column; /* end of the mark */
	size_t replay_at; /* where the item's content begins in the kept line */
};

/* `<name`, `<!--`, `<?` and so on: the start of an HTML block of the kinds 1 to 6. */
struct html_start {
	uint8_t state;
	uint8_t closing;
	uint8_t name_len;
	char name[HTML_NAME_MAX + 1];
};

/* The last bytes of an HTML line, and which kinds of HTML block it ends. */
struct html_tail {
	uint64_t bytes;
	uint16_t early; /* the two bytes before those */
	uint8_t ends; /* bit n: the line has the end of kind n */
};

/* Counts the cells of a line the way the table extension does. */
struct row_cells {
	uint32_t pipes; /* pipes that end a cell */
	uint8_t first; /* the next byte is the line's first */
	uint8_t escaped; /* the last byte was a backslash */
	uint8_t tail; /* something but blanks since the last pipe */
	uint8_t escaped_pipe; /* the line has an escaped pipe */
};

struct row_delimiter {
	uint8_t state;
	uint32_t columns;
};

/* Parses the link reference definitions at the beginning of a paragraph. */
struct ref_scan {
	uint8_t state;
	uint8_t escaped;
	uint8_t solid; /* the label has more than blanks; or: a blank has followed the address */
	uint8_t closer; /* the character that ends the title */
	uint8_t parens; /* open parentheses in the address */
	uint16_t label_len;
};

struct marker {
	uint16_t alive; /* MARK_ bits of the readings that are still possible */
	uint8_t first; /* the first byte */
	uint8_t gap; /* another byte has followed the first run */
	uint32_t run; /* length of the first run of `first` */
	uint32_t total; /* number of `first` in the line */
	struct list_mark list;
	struct html_start html;
	uint8_t html_tag; /* state of the parser for kind 7 */
	uint32_t at; /* position of the first byte in the kept line */
	struct row_delimiter delimiter;
};

struct line {
	uint8_t phase;
	uint8_t seat;
	uint8_t boundary;
	uint8_t matching; /* the containers are still being matched */
	uint8_t opened; /* number of containers opened in this line */
	uint8_t lazy; /* the text would be a lazy continuation of a paragraph */
	uint8_t top; /* the seat is in the document itself */
	uint8_t blank; /* nothing but blanks so far */
	uint8_t cut; /* the line began before the last block_scanner_cut() */
	uint8_t replaying;
	uint32_t matched; /* number of containers of the stack that the line matches */
	uint32_t base; /* the same, before the line opened any */
	size_t column; /* after the prefix consumed so far */
	size_t next_column; /* after the blanks that follow it */
	struct html_tail tail;
	struct row_cells cells;
	struct ref_scan refs;
};

enum cut_place {
	CUT_AT_LINE_START,
	CUT_IN_LINE,
	CUT_AT_LINE_END, /* at the end of a line: its newline was the first byte after the cut */
	CUT_PLACE_COUNT,
};

/* The last cut, and what was open there; see block_scanner_cut.c. */
struct cut {
	uint8_t open; /* the first line after it has not ended */
	uint8_t place;
	uint8_t settled; /* the block of the line was known */
	uint8_t leaf;
	uint8_t level; /* level of a heading; 0: none */
	uint8_t after_blank; /* the line before was blank */
	uint8_t only_refs;
	uint32_t depth;
	uint32_t start; /* see block_scanner_start() */
	/* bytes of the line before the cut, if they are only blanks and `>` marks */
	uint32_t prefix;
};

struct block_scanner {
	/* Positions count from the block's start, or from the last cut. */
	size_t length;
	size_t line_start;
	size_t header_start; /* start of the last line of the open top-level paragraph */
	size_t hold_start; /* the same while that line may be a header row; else NO_END */
	size_t end; /* where the byte just read ended a block; NO_END between calls */

	uint8_t rules; /* enum block_rules */
	uint8_t old_cuts; /* as in older states: see cut_second_half() */
	uint8_t kind; /* enum block_kind */
	uint8_t started; /* the first block has begun */
	uint8_t after_cr;
	uint8_t at_line_start;
	uint8_t last_blank; /* the line before this one was blank */

	uint8_t leaf;
	uint8_t html_kind;
	uint8_t fence_char;
	uint8_t fence_len;
	uint8_t header_first; /* a header row would be the paragraph's first line */
	uint8_t last_odd; /* the paragraph's last line has an escaped pipe */
	uint8_t above_odd; /* a line above it has one, or is a definition: see can_split() */
	uint8_t only_refs; /* the open paragraph is nothing but link reference definitions */
	uint8_t no_table; /* a delimiter row in the paragraph did not fit: see enum block_rules */
	/* the next delimiter row, whether it fits or not, is the paragraph's only one */
	uint8_t header_counts;
	uint32_t header_cells; /* of the paragraph's last line; 0 if it cannot be a header row */
	struct ref_scan refs; /* at the end of that line */

	uint32_t depth;
	struct container stack[SCANNER_DEPTH_MAX];
	struct line line;
	struct marker marker;

	uint8_t text_over; /* the line is longer than `text` */
	uint8_t context_over;
	uint32_t text_len;
	uint32_t context_len;
	struct cut cut;

	/* Only the parts that the fields above describe as used are meaningful from here on. */
	char text[SCANNER_LINE_MAX]; /* the current line, while its phase needs it */
	char context[SCANNER_CONTEXT_MAX]; /* a fence's opening line, a table's first two rows */
	struct buffer lead; /* see block_scanner_context() */
};

/** The only white space around block marks. */
static inline bool scan_is_blank(unsigned char c)
{
	return c == ' ' || c == '\t';
}

/** White space within a line, for the table extension and the HTML rules. */
static inline bool scan_is_space(unsigned char c)
{
	return c == ' ' || c == '\t' || c == '\v' || c == '\f';
}

static inline bool scan_is_letter(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static inline bool scan_is_digit(unsigned char c)
{
	return c >= '0' && c <= '9';
}

static inline size_t scan_blank_column(size_t column, unsigned char c)
{
	return c == '\t' ? (column / 4 + 1) * 4 : column + 1;
}

/* block_scanner_bulk.c */
/** Whether the phase allows reading many bytes at once. */
static inline bool bulk_is_possible(const struct block_scanner *s)
{
	const unsigned phases =
		1 << PHASE_REST | 1 << PHASE_TEXT | 1 << PHASE_HTML | 1 << PHASE_INDENT;
	return phases >> s->line.phase & 1;
}
/** Reads bytes at once in such a phase; returns how many, possibly 0. */
size_t bulk_read(struct block_scanner *s, const char *text, size_t len);

/* block_scanner_line.c: one line, its prefix and its end. '\n' stands for any line end. */
void line_begin(struct block_scanner *s);
void line_byte(struct block_scanner *s, unsigned char c);
/** Adds blanks, `columns` wide, to the indentation of the line. */
void line_add_indent(struct block_scanner *s, size_t columns);
void line_end(struct block_scanner *s);

/* block_scanner_blocks.c: the stack of open blocks. */
void blocks_settle_new(struct block_scanner *s);
void blocks_settle_same(struct block_scanner *s);
void blocks_close_leaf(struct block_scanner *s);
void blocks_open_leaf(struct block_scanner *s, enum block_kind kind, enum leaf leaf);
void blocks_open_quote(struct block_scanner *s);
void blocks_open_item(struct block_scanner *s, const struct list_mark *list, bool empty);
/** The line is text: it continues a paragraph or a table, or begins a paragraph. */
void blocks_add_text(struct block_scanner *s);
void blocks_begin_paragraph(struct block_scanner *s);
void blocks_end_text(struct block_scanner *s);
/** The delimiter row below the paragraph's last line is complete. */
void blocks_open_table(struct block_scanner *s);
void blocks_open_fence(struct block_scanner *s);
void blocks_open_html(struct block_scanner *s, unsigned kind);

/* block_scanner_cut.c: the context of the text after a cut. */
/** Updates the context after bytes were read. */
void cut_update(struct block_scanner *s);
/** Call it at every line end, before line_begin(). */
void cut_line_end(struct block_scanner *s);
/** A '\n' that belongs to the '\r' before it has been read. */
void cut_second_half(struct block_scanner *s);
/** An open list goes on with an item, which is number `number` of it. */
void cut_note_item(struct block_scanner *s, const struct list_mark *list, uint32_t number);

/* block_scanner_marker.c: which block the first bytes of the text open. */
void marker_begin(struct block_scanner *s, unsigned char c);
void marker_byte(struct block_scanner *s, unsigned char c);
void marker_end(struct block_scanner *s);

/* block_scanner_html.c. A '\n' is passed at the end of a line. */
#define HTML_DEAD (-1)
void html_start_begin(struct html_start *h);
/**
 * Returns the kind (1 to 6) once it is known, 0 to continue, HTML_DEAD if it is not an HTML block.
 */
int html_start_byte(struct html_start *h, enum block_rules rules, unsigned char c);
/** Returns the next state of the parser of one open or closing tag; the first state is 0. */
int html_tag_byte(unsigned state, unsigned char c);
/** Whether the tag is complete and only blanks have followed it. */
bool html_tag_is_done(unsigned state);
/** Notes the ends of all rules; html_tail_has_end() decides which of them count. */
void html_tail_byte(struct html_tail *t, unsigned char c);
/** Reads many bytes, none of which is a line end. */
void html_tail_read(struct html_tail *t, const char *text, size_t len);
/** Whether the line contains the end of an HTML block of that kind. */
bool html_tail_has_end(const struct html_tail *t, enum block_rules rules, unsigned kind);

/* block_scanner_table.c */
void row_cells_begin(struct row_cells *r, bool indented);
void row_cells_byte(struct row_cells *r, unsigned char c);
/** Reads many bytes, none of which is a line end. */
void row_cells_read(struct row_cells *r, const char *text, size_t len);
uint32_t row_cells_count(const struct row_cells *r);
/** Returns false if the line is not a delimiter row. */
bool row_delimiter_byte(struct row_delimiter *d, unsigned char c);
/** The number of columns of a complete row; 0 if it is not complete. */
uint32_t row_delimiter_count(const struct row_delimiter *d);

/* block_scanner_refs.c */
void ref_scan_byte(struct ref_scan *r, unsigned char c);
/** Whether no further definition can follow. */
bool ref_scan_is_over(const struct ref_scan *r);
/** At the end of a line: whether all the text so far is link reference definitions. */
bool ref_scan_is_complete(const struct ref_scan *r);

#define HTML_START_STATES    7
#define HTML_TAG_STATES      15
#define ROW_DELIMITER_STATES 6
#define REF_SCAN_STATES      11

#endif
