#include "block_scanner_internal.h"

void line_begin(struct block_scanner *s)
{
	s->line_start = s->length;
	s->at_line_start = 1;
	s->text_len = 0;
	s->text_over = 0;
	s->line = (struct line){.phase = PHASE_INDENT, .matching = 1, .blank = 1};
	if (s->depth == 0 && (s->leaf == LEAF_FENCE || s->leaf == LEAF_HTML)) {
		/* Only its own end, or a blank line, ends such a block. */
		s->line.boundary = BOUNDARY_SAME;
	}
}

static size_t indent_of(const struct line *l)
{
	return l->next_column - l->column;
}

/* Returns true if the byte is the container's own mark and is used up by that. */
static bool match_quote(struct block_scanner *s, unsigned char c)
{
	struct line *l = &s->line;
	if (c != '>' || indent_of(l) >= SCANNER_CODE_INDENT) {
		return false;
	}
	l->column = l->next_column + 1;
	l->next_column = l->column;
	l->matched++;
	l->phase = PHASE_QUOTE_GAP;
	return true;
}

static bool match_item(struct block_scanner *s, unsigned char c)
{
	struct line *l = &s->line;
	const struct container *item = &s->stack[l->matched];
	if (!item->item_open) {
		return false;
	}
	if (indent_of(l) >= item->content) {
		l->column += item->content;
	} else if (c == '\n' && item->children) {
		l->column = l->next_column;
	} else {
		return false;
	}
	l->matched++;
	return true;
}

/* With all containers matched: whether the open leaf continues in this line. */
static bool match_leaf(const struct block_scanner *s, unsigned char c)
{
	switch (s->leaf) {
	case LEAF_FENCE:
		return true;
	case LEAF_CODE:
		return c == '\n' || indent_of(&s->line) >= SCANNER_CODE_INDENT;
	case LEAF_HTML:
		return c != '\n' || s->html_kind < 6;
	default:
		return c != '\n';
	}
}

static void read_leaf_line(struct block_scanner *s, unsigned char c)
{
	struct line *l = &s->line;
	blocks_settle_same(s);
	l->phase = PHASE_REST;
	if (s->leaf == LEAF_HTML) {
		l->phase = PHASE_HTML;
		html_tail_byte(&l->tail, c);
	} else if (s->leaf == LEAF_FENCE && c == s->fence_char &&
		   indent_of(l) < SCANNER_CODE_INDENT) {
		l->phase = PHASE_FENCE_END;
		s->marker = (struct marker){.first = c, .run = 1};
	}
}

/* Matches the containers as far as the line belongs to them; returns true if one used up `c`. */
static bool match_containers(struct block_scanner *s, unsigned char c)
{
	struct line *l = &s->line;
	while (l->matched < s->depth) {
		if (s->stack[l->matched].mark == '>') {
			if (match_quote(s, c)) {
				blocks_settle_same(s);
				return true;
			}
			break;
		}
		if (!match_item(s, c)) {
			l->seat = SEAT_LIST;
			break;
		}
		blocks_settle_same(s);
	}
	l->matching = 0;
	l->base = l->matched;
	l->top = l->matched == 0;
	return false;
}

static void read_text(struct block_scanner *s, unsigned char c)
{
	struct line *l = &s->line;
	bool open_paragraph = !l->opened && s->leaf == LEAF_PARAGRAPH;
	bool joins = open_paragraph && (l->lazy || l->seat == SEAT_PARAGRAPH);
	bool indented = l->lazy && indent_of(l) > 0;
	l->refs = joins ? s->refs : (struct ref_scan){0};
	if (indented) {
		ref_scan_byte(&l->refs, ' ');
	}
	ref_scan_byte(&l->refs, c);
	row_cells_begin(&l->cells, indented);
	row_cells_byte(&l->cells, c);
	if (indent_of(l) < SCANNER_CODE_INDENT) {
		marker_begin(s, c);
	} else if (open_paragraph) {
		s->hold_start = BLOCK_SCANNER_NO_END;
		blocks_add_text(s);
	} else {
		blocks_open_leaf(s, BLOCK_INDENTED_CODE, LEAF_CODE);
	}
}

/* Reads the first byte after the blanks. */
static void read_first_byte(struct block_scanner *s, unsigned char c)
{
	struct line *l = &s->line;
	l->blank = 0;
	if (l->matching) {
		if (match_containers(s, c)) {
			return;
		}
		bool all = l->matched == s->depth;
		if (all && s->leaf != LEAF_NONE && s->leaf < LEAF_COUNT && match_leaf(s, c)) {
			if (s->leaf != LEAF_PARAGRAPH && s->leaf != LEAF_TABLE) {
				read_leaf_line(s, c);
				return;
			}
			l->seat = s->leaf == LEAF_TABLE ? SEAT_TABLE : SEAT_PARAGRAPH;
		}
		l->lazy = !all && s->leaf == LEAF_PARAGRAPH;
	}
	if (c == '>' && indent_of(l) < SCANNER_CODE_INDENT && l->matched < SCANNER_DEPTH_MAX) {
		blocks_open_quote(s);
		return;
	}
	read_text(s, c);
}

static void read_fence_end(struct block_scanner *s, unsigned char c)
{
	struct marker *m = &s->marker;
	if (c == m->first && !m->gap) {
		m->run++;
	} else if (scan_is_blank(c)) {
		m->gap = 1;
	} else {
		s->line.phase = PHASE_REST;
	}
}

/* Whether the indentation alone makes the line part of an item or of indented code. */
static bool is_deep_enough(const struct block_scanner *s)
{
	const struct line *l = &s->line;
	if (!l->matching || l->matched > 0) {
		return false;
	}
	if (s->depth == 0) {
		return s->leaf == LEAF_CODE && indent_of(l) >= SCANNER_CODE_INDENT;
	}
	return s->stack[0].item_open && indent_of(l) >= s->stack[0].content;
}

void line_add_indent(struct block_scanner *s, size_t columns)
{
	s->line.next_column += columns;
	if (is_deep_enough(s)) {
		blocks_settle_same(s);
	}
}

static void read_indent(struct block_scanner *s, unsigned char c)
{
	size_t column = s->line.next_column;
	if (scan_is_blank(c)) {
		line_add_indent(s, scan_blank_column(column, c) - column);
	} else {
		read_first_byte(s, c);
	}
}

/* One blank after a `>` belongs to it; of a tab, only the first column does. */
static void read_quote_gap(struct block_scanner *s, unsigned char c)
{
	struct line *l = &s->line;
	l->phase = PHASE_INDENT;
	if (!scan_is_blank(c)) {
		read_first_byte(s, c);
		return;
	}
	l->next_column = scan_blank_column(l->column, c);
	l->column++;
}

void line_byte(struct block_scanner *s, unsigned char c)
{
	struct line *l = &s->line;
	switch (l->phase) {
	case PHASE_INDENT:
		read_indent(s, c);
		break;
	case PHASE_QUOTE_GAP:
		read_quote_gap(s, c);
		break;
	case PHASE_MARKER:
		ref_scan_byte(&l->refs, c);
		row_cells_byte(&l->cells, c);
		marker_byte(s, c);
		break;
	case PHASE_TEXT:
		ref_scan_byte(&l->refs, c);
		row_cells_byte(&l->cells, c);
		break;
	case PHASE_HTML:
		html_tail_byte(&l->tail, c);
		break;
	case PHASE_FENCE_END:
		read_fence_end(s, c);
		break;
	default:
		break;
	}
}

/* Only a prefix was in the line: closes what a blank line ends. */
static void end_blank(struct block_scanner *s)
{
	struct line *l = &s->line;
	if (!l->matching) {
		return;
	}
	match_containers(s, '\n');
	blocks_settle_same(s);
	if (l->matched == s->depth && match_leaf(s, '\n')) {
		return;
	}
	blocks_close_leaf(s);
	s->depth = l->matched;
	if (l->seat == SEAT_LIST) {
		s->stack[s->depth++].item_open = 0;
	}
}

static void end_fence(struct block_scanner *s)
{
	if (s->marker.run >= 3 && s->marker.run >= s->fence_len) {
		s->leaf = LEAF_NONE;
	}
}

void line_end(struct block_scanner *s)
{
	struct line *l = &s->line;
	switch (l->phase) {
	case PHASE_INDENT:
	case PHASE_QUOTE_GAP:
		end_blank(s);
		break;
	case PHASE_MARKER:
		marker_end(s);
		break;
	case PHASE_TEXT:
		blocks_end_text(s);
		break;
	case PHASE_HTML:
		if (html_tail_has_end(&l->tail, s->rules, s->html_kind)) {
			s->leaf = LEAF_NONE;
		}
		break;
	case PHASE_FENCE_END:
		end_fence(s);
		break;
	default:
		break;
	}
	s->last_blank = l->blank;
}
