/*
 * Finds what must precede the text after a cut so that it reads as the same kind of block: the
 * "lead". It depends on where the cut was, and for lists and quotes also on the first line after
 * the cut (which of the open containers does it continue?), so it is computed again until that line
 * has ended.
 *
 * The entity `&#32;` stands for what is left out: it renders as nothing, and what follows it is
 * text, whatever it looks like.
 */
#include "block_scanner_internal.h"

#include <string.h>

#define BLANK_ENTITY "&#32;"

/* --- blocks outside of lists and quotes --- */

/* Appends the kept lines, without their last newline if the text itself begins with one. */
static void add_kept(const struct block_scanner *s, struct buffer *out)
{
	size_t newline = s->cut.place == CUT_AT_LINE_END && s->context_len > 0;
	buffer_append(out, s->context, s->context_len - newline);
}

static void add_table(const struct block_scanner *s, struct buffer *out)
{
	add_kept(s, out);
	if (s->cut.place == CUT_IN_LINE && s->context_len > 0) {
		buffer_append_str(out, BLANK_ENTITY); /* the text continues a row */
	}
}

/* One start for each kind of HTML block; kind 7, a lone tag, ends like kind 6. */
static void add_html(const struct block_scanner *s, struct buffer *out)
{
	static const char *const starts[] = {
		"<p>", "<pre>", "<!--", "<?", "<!A", "<![CDATA[", "<p>", "<p>"};
	buffer_append_str(out, starts[s->html_kind]);
	if (s->cut.place == CUT_AT_LINE_START) {
		buffer_append_char(out, '\n');
	}
}

static void add_heading(const struct block_scanner *s, struct buffer *out)
{
	for (unsigned i = 0; i < s->cut.level; i++) {
		buffer_append_char(out, '#');
	}
	buffer_append_str(out, " " BLANK_ENTITY);
}

static void add_top(const struct block_scanner *s, struct buffer *out)
{
	bool in_line = s->cut.place == CUT_IN_LINE;
	switch (s->cut.leaf) {
	case LEAF_FENCE:
		add_kept(s, out);
		break;
	case LEAF_TABLE:
		add_table(s, out);
		break;
	case LEAF_HTML:
		add_html(s, out);
		break;
	case LEAF_CODE:
		buffer_append_str(out, in_line ? "    " : "");
		break;
	case LEAF_PARAGRAPH:
		/* Definitions can be followed by more definitions. */
		buffer_append_str(out, s->cut.only_refs ? "" : BLANK_ENTITY);
		break;
	default:
		if (in_line && s->cut.level > 0) {
			add_heading(s, out);
		}
		break;
	}
}

/* --- lists and quotes --- */

/* Appends the mark of an item, with blanks that put its content where it was. */
static void add_item(const struct container *item, bool first, struct buffer *out)
{
	struct buffer mark = {0};
	if (item->mark == '.' || item->mark == ')') {
		buffer_append_u64(&mark, item->number);
	}
	buffer_append_char(&mark, (char)item->mark);
	size_t gap = item->content > mark.len ? item->content - mark.len : 1;
	size_t indent = gap > SCANNER_CODE_INDENT ? gap - SCANNER_CODE_INDENT : 0;
	/* Blanks before an inner mark would count as the gap of the outer one. */
	for (size_t i = 0; first && i < indent && i < SCANNER_CODE_INDENT - 1; i++) {
		buffer_append_char(out, ' ');
	}
	buffer_append(out, mark.data, mark.len);
	for (size_t i = 0; i < gap && i < SCANNER_CODE_INDENT; i++) {
		buffer_append_char(out, ' ');
	}
	buffer_finish(&mark);
}

static void add_marks(const struct block_scanner *s, uint32_t count, struct buffer *out)
{
	for (uint32_t i = 0; i < count && i < s->depth; i++) {
		if (s->stack[i].mark == '>') {
			buffer_append_str(out, "> ");
		} else {
			add_item(&s->stack[i], i == 0, out);
		}
	}
}

/* Appends the prefix that makes a line belong to the open containers. */
static void add_indent(const struct block_scanner *s, struct buffer *out)
{
	for (uint32_t i = 0; i < s->depth; i++) {
		if (s->stack[i].mark == '>') {
			buffer_append_str(out, "> ");
			continue;
		}
		for (unsigned n = 0; n < s->stack[i].content; n++) {
			buffer_append_char(out, ' ');
		}
	}
}

/* For a cut in a line that has text: the text continues in everything that is open. */
static void add_in_line(const struct block_scanner *s, struct buffer *out)
{
	add_marks(s, s->depth, out);
	if (s->leaf == LEAF_FENCE && s->cut.settled) {
		add_kept(s, out);
		add_indent(s, out);
	} else {
		buffer_append_str(out, BLANK_ENTITY);
	}
}

/* The number of containers that the first line continues, whether or not it repeats their marks. */
static uint32_t goes_on_in(const struct block_scanner *s)
{
	const struct line *l = &s->line;
	if (l->matching) {
		return s->cut.depth;
	}
	bool lazy = l->lazy && !l->opened && s->leaf == LEAF_PARAGRAPH && s->depth == s->cut.depth;
	return lazy ? s->cut.depth : l->base;
}

static bool brings_its_marks(const struct block_scanner *s, uint32_t count)
{
	for (uint32_t i = 0; i < count && i < s->depth; i++) {
		if (s->stack[i].mark != '>') {
			return false;
		}
	}
	return !s->line.lazy;
}

static void add_whole_line(const struct block_scanner *s, struct buffer *out)
{
	uint32_t count = goes_on_in(s);
	bool newline = s->cut.place != CUT_AT_LINE_END;
	if (s->cut.leaf == LEAF_FENCE && count == s->cut.depth) {
		add_marks(s, count, out);
		add_kept(s, out);
	} else if (!brings_its_marks(s, count)) {
		add_marks(s, count, out);
		buffer_append_str(out, newline ? BLANK_ENTITY "\n" : BLANK_ENTITY);
		if (s->cut.after_blank || s->cut.leaf == LEAF_CODE) {
			buffer_append_char(out, '\n');
		}
	}
	if (s->cut.place == CUT_IN_LINE) {
		uint32_t kept = s->text_len < s->cut.prefix ? s->text_len : s->cut.prefix;
		buffer_append(out, s->text, kept);
	}
}

/* --- the lead --- */

static void find_lead(struct block_scanner *s)
{
	buffer_clear(&s->lead);
	if (s->cut.depth == 0) {
		add_top(s, &s->lead);
	} else if (s->cut.place == CUT_IN_LINE && s->cut.prefix == 0) {
		add_in_line(s, &s->lead);
	} else {
		add_whole_line(s, &s->lead);
	}
}

/* Remembers the blocks at the cut, or at the end of the line that was cut. */
static void remember_blocks(struct block_scanner *s)
{
	struct cut *cut = &s->cut;
	cut->leaf = s->leaf;
	cut->depth = s->depth;
	cut->after_blank = s->last_blank;
	cut->only_refs = s->only_refs && cut->place != CUT_IN_LINE;
}

/* Whether the cut is in the bytes that decide which block it is, as in "```j" or "1." */
static bool is_in_first_mark(const struct block_scanner *s)
{
	const struct line *l = &s->line;
	return l->phase == PHASE_MARKER && l->boundary == BOUNDARY_NEW && s->depth == 0;
}

/*
 * What was emitted cannot move to another block any more: a line with a cut in it is not a row of a
 * table, and a block that began in it is taken to begin at the cut.
 */
void block_scanner_cut(struct block_scanner *s)
{
	const struct line *l = &s->line;
	bool in_prefix = l->phase == PHASE_INDENT || l->phase == PHASE_QUOTE_GAP;
	s->cut = (struct cut){.open = 1,
		.place = s->at_line_start ? CUT_AT_LINE_START : CUT_IN_LINE,
		.prefix = in_prefix ? s->text_len : 0,
		.settled = !in_prefix && l->phase != PHASE_MARKER,
		.level = s->kind == BLOCK_HEADING ? (uint8_t)s->marker.run : 0};
	remember_blocks(s);
	s->length = 0;
	s->line_start = 0;
	s->header_start = 0;
	s->header_cells = 0;
	s->header_counts = 0;
	s->no_table = 0; /* what comes is read as a paragraph of its own */
	s->hold_start = BLOCK_SCANNER_NO_END;
	s->line.cut = !s->at_line_start;
	s->marker.alive &= ~MARK_DELIMITER;
	find_lead(s);
	if (is_in_first_mark(s)) {
		s->cut.open = 0;
		buffer_clear(&s->lead);
		buffer_append(&s->lead, s->text, s->text_over ? 0 : s->text_len);
	}
}

void block_scanner_cut_line(struct block_scanner *s)
{
	line_begin(s);
	block_scanner_cut(s);
}

void cut_note_item(struct block_scanner *s, const struct list_mark *list, uint32_t number)
{
	bool is_numbered = list->mark == '.' || list->mark == ')';
	/* Else the item's mark is in the lead. */
	bool has_its_mark = s->cut.place != CUT_IN_LINE || s->cut.prefix > 0;
	if (s->cut.open && is_numbered && has_its_mark && list->number != number) {
		s->cut.start = number;
	}
}

void cut_update(struct block_scanner *s)
{
	if (s->cut.open) {
		find_lead(s);
	}
}

void cut_line_end(struct block_scanner *s)
{
	struct cut *cut = &s->cut;
	if (!cut->open) {
		return;
	}
	if (cut->place == CUT_IN_LINE && s->length == 1) {
		cut->place = CUT_AT_LINE_END;
		remember_blocks(s);
	} else {
		cut->open = s->line.blank;
		if (cut->prefix > 0 && cut->open && cut->depth > 0) {
			/* The cut line has ended; its blank rest needs no prefix. */
			cut->place = CUT_AT_LINE_START;
			cut->prefix = 0;
		}
	}
	find_lead(s);
}

uint32_t block_scanner_start(const struct block_scanner *s)
{
	return s->cut.start;
}

/*
 * Behind a cut between the two it is the end of the line above, as at CUT_AT_LINE_END. Earlier
 * versions took it for a blank line.
 */
void cut_second_half(struct block_scanner *s)
{
	if (s->cut.open && s->length == 1 && !s->old_cuts) {
		s->cut.place = CUT_AT_LINE_END;
		find_lead(s);
	}
}

const char *block_scanner_context(const struct block_scanner *s, size_t *ret_len)
{
	*ret_len = s->lead.len;
	return s->lead.data;
}
