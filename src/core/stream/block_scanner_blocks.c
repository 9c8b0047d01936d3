#include "block_scanner_internal.h"

#include <assert.h>
#include <string.h>

/* Notes that the line begins a new top-level block: the previous one ended where the line began. */
void blocks_settle_new(struct block_scanner *s)
{
	struct line *l = &s->line;
	if (l->boundary != BOUNDARY_OPEN) {
		return;
	}
	l->boundary = BOUNDARY_NEW;
	l->seat = SEAT_BLOCK;
	l->lazy = 0;
	s->depth = 0;
	s->leaf = LEAF_NONE;
	s->kind = BLOCK_NONE;
	s->hold_start = BLOCK_SCANNER_NO_END;
	if (s->cut.open) {
		/* Only blanks have followed the cut. */
		s->cut.open = 0;
		s->cut.start = 0;
		buffer_clear(&s->lead);
	}
	if (!s->started) {
		s->started = 1;
		return;
	}
	s->end = s->line_start;
	s->length -= s->line_start;
	s->line_start = 0;
	s->header_start = 0;
}

void blocks_settle_same(struct block_scanner *s)
{
	if (s->line.boundary == BOUNDARY_OPEN) {
		s->line.boundary = BOUNDARY_SAME;
	}
}

/* A paragraph that consists of link reference definitions leaves no block behind. */
void blocks_close_leaf(struct block_scanner *s)
{
	if (s->leaf == LEAF_PARAGRAPH && s->only_refs && s->depth > 0) {
		struct container *parent = &s->stack[s->depth - 1];
		parent->children -= parent->children == 1;
	}
	s->leaf = LEAF_NONE;
	s->hold_start = BLOCK_SCANNER_NO_END;
}

/** Closes what the line did not match, to make room for a new block at the seat. */
static void take_seat(struct block_scanner *s, enum block_kind kind)
{
	struct line *l = &s->line;
	if (l->top) {
		blocks_settle_new(s);
		s->kind = kind;
	}
	blocks_close_leaf(s);
	s->depth = l->matched;
	l->seat = SEAT_BLOCK;
	if (s->depth > 0) {
		struct container *parent = &s->stack[s->depth - 1];
		parent->children += parent->children < 2;
	}
}

void blocks_open_leaf(struct block_scanner *s, enum block_kind kind, enum leaf leaf)
{
	take_seat(s, kind);
	s->leaf = leaf;
	s->line.phase = PHASE_REST;
}

/* Enters a container: the rest of the line belongs to it. */
static void enter_container(struct block_scanner *s, struct container container)
{
	assert(s->depth < SCANNER_DEPTH_MAX);
	s->stack[s->depth++] = container;
	s->line.matched = s->depth;
	s->line.seat = SEAT_BLOCK;
	s->line.opened += s->line.opened < UINT8_MAX;
	s->line.lazy = 0;
	s->line.top = 0;
}

void blocks_open_quote(struct block_scanner *s)
{
	struct line *l = &s->line;
	take_seat(s, BLOCK_QUOTE);
	enter_container(s, (struct container){.mark = '>'});
	l->column = l->next_column + 1;
	l->next_column = l->column;
	l->phase = PHASE_QUOTE_GAP;
}

/*
 * Opens a list item. Its content begins after the blanks that follow the mark; if these are too
 * many (the content is indented code) or there is no content, after the first of them.
 */
void blocks_open_item(struct block_scanner *s, const struct list_mark *list, bool empty)
{
	struct line *l = &s->line;
	size_t padding = list->column - list->end_column;
	size_t taken = padding;
	size_t counted = padding;
	if (empty || padding < 1 || padding > SCANNER_CODE_INDENT) {
		taken = padding > 0;
		counted = 1;
	}
	size_t indent = list->end_column - list->width - l->column;
	struct container item = {.mark = list->mark,
		.item_open = 1,
		.content = (uint8_t)(indent + list->width + counted),
		.number = list->number};
	if (l->seat == SEAT_LIST && s->stack[l->matched].mark == list->mark) {
		item.number = s->stack[l->matched].number + 1;
		cut_note_item(s, list, item.number);
		blocks_settle_same(s);
		blocks_close_leaf(s);
		s->depth = l->matched;
	} else {
		take_seat(s, BLOCK_LIST);
	}
	enter_container(s, item);
	l->column = list->end_column + taken;
	l->next_column = list->column;
	l->phase = PHASE_INDENT;
}

void blocks_begin_paragraph(struct block_scanner *s)
{
	s->line.phase = PHASE_TEXT;
	take_seat(s, BLOCK_PARAGRAPH);
	s->leaf = LEAF_PARAGRAPH;
	s->header_first = 1;
	s->last_odd = 0;
	s->above_odd = 0;
	s->only_refs = 0;
	s->no_table = 0;
	s->header_start = s->line_start;
}

static void continue_paragraph(struct block_scanner *s)
{
	blocks_settle_same(s);
	s->header_first = 0;
	s->header_start = s->line_start;
	bool above_stands = !(s->above_odd | s->last_odd | s->only_refs);
	if (s->depth == 0 && above_stands && !s->no_table) {
		s->hold_start = s->line_start;
	}
}

void blocks_add_text(struct block_scanner *s)
{
	struct line *l = &s->line;
	l->phase = PHASE_TEXT;
	if (l->seat == SEAT_PARAGRAPH || l->lazy) {
		continue_paragraph(s);
	} else if (l->seat == SEAT_TABLE) {
		blocks_settle_same(s);
		l->phase = PHASE_REST;
	} else {
		blocks_begin_paragraph(s);
	}
}

/* Keeps the line, without its first `skip` bytes, after the first `at` bytes of the context. */
static void keep_context(struct block_scanner *s, size_t at, size_t skip)
{
	s->context_over = s->text_over || at + s->text_len + 1 > SCANNER_CONTEXT_MAX;
	if (s->context_over) {
		s->context_len = 0;
		return;
	}
	skip = skip < s->text_len ? skip : s->text_len;
	size_t len = s->text_len - skip;
	memcpy(s->context + at, s->text + skip, len);
	s->context[at + len] = '\n';
	s->context_len = (uint32_t)(at + len) + 1;
}

void blocks_end_text(struct block_scanner *s)
{
	struct line *l = &s->line;
	s->above_odd |= s->last_odd | s->only_refs;
	s->last_odd = l->cells.escaped_pipe;
	ref_scan_byte(&l->refs, '\n');
	s->refs = l->refs;
	s->only_refs = ref_scan_is_complete(&l->refs);
	bool may_be_header = !l->cut && !s->no_table;
	s->header_cells = may_be_header ? row_cells_count(&l->cells) : 0;
	s->header_counts = may_be_header && s->rules >= BLOCK_RULES_GFM_13;
	if (s->depth == 0) {
		keep_context(s, 0, 0);
	}
}

/*
 * Whether the lines above the header row can be a block of their own. They cannot if the two parts
 * would read differently alone: cmark-gfm shows definitions above a table as text and removes the
 * backslash of escaped pipes there; and a header row like `2. a`, which cannot interrupt a
 * paragraph, is a list where there is none.
 */
static bool can_split(const struct block_scanner *s)
{
	if (s->above_odd || s->context_over) {
		return false;
	}
	struct block_scanner alone;
	alone.lead = (struct buffer){0};
	alone.rules = s->rules;
	size_t end;
	block_scanner_reset(&alone);
	block_scanner_feed(&alone, s->context, s->context_len, &end);
	return alone.kind == BLOCK_PARAGRAPH;
}

/*
 * Opens a table whose header row is the paragraph's last line; the lines above it remain a
 * paragraph. A new top-level block then begins with the header row, which may lie before the line
 * of the current byte.
 */
void blocks_open_table(struct block_scanner *s)
{
	s->leaf = LEAF_TABLE;
	s->hold_start = BLOCK_SCANNER_NO_END;
	blocks_settle_same(s);
	if (s->depth > 0) {
		return;
	}
	bool split = !s->header_first && can_split(s);
	if (!s->context_over) {
		keep_context(s, s->context_len, 0);
	}
	s->kind = BLOCK_TABLE;
	if (!split) {
		return;
	}
	assert(s->header_start <= s->line_start);
	s->end = s->header_start;
	s->length -= s->header_start;
	s->line_start -= s->header_start;
	s->header_start = 0;
}

void blocks_open_fence(struct block_scanner *s)
{
	const struct marker *m = &s->marker;
	blocks_open_leaf(s, BLOCK_FENCE, LEAF_FENCE);
	s->fence_char = m->first;
	s->fence_len = m->run > UINT8_MAX ? UINT8_MAX : (uint8_t)m->run;
	keep_context(s, 0, s->depth > 0 ? m->at : 0);
}

void blocks_open_html(struct block_scanner *s, unsigned kind)
{
	blocks_open_leaf(s, BLOCK_HTML, LEAF_HTML);
	s->html_kind = (uint8_t)kind;
	s->line.phase = PHASE_HTML;
}
