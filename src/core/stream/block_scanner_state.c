/*
 * Saves and loads the scanner's state. One list of the fields serves both directions. A loaded
 * state is checked so far that no later step can index, assert or count out of bounds.
 */
#include "block_scanner_internal.h"

#include "holdfast/pack.h"

#include <errno.h>
#include <string.h>

/* The last byte is a digit: how much the state has. */
static const char magic[4] = {'H', 'F', 'b', '4'};
#define HAS_RULES '3' /* without them, it was written with BLOCK_RULES_GFM_6 */
#define HAS_START '4'
#define OLDEST    '2'

static void code_bytes(struct codec *c, void *bytes, size_t len)
{
	if (c->out) {
		buffer_append(c->out, bytes, len);
		return;
	}
	if (c->in.failed || c->in.len < len) {
		c->in.failed = true;
		return;
	}
	memcpy(bytes, c->in.bytes, len);
	c->in.bytes += len;
	c->in.len -= len;
}

static void code_refs(struct codec *c, struct ref_scan *r)
{
	CODE(c, r->state, 1);
	CODE(c, r->escaped, 1);
	CODE(c, r->solid, 1);
	CODE(c, r->closer, 1);
	CODE(c, r->parens, 1);
	CODE(c, r->label_len, 2);
}

static void code_marker(struct codec *c, struct marker *m)
{
	CODE(c, m->alive, 2);
	CODE(c, m->first, 1);
	CODE(c, m->gap, 1);
	CODE(c, m->run, 4);
	CODE(c, m->total, 4);
	CODE(c, m->list.state, 1);
	CODE(c, m->list.mark, 1);
	CODE(c, m->list.width, 1);
	CODE(c, m->list.interrupts, 1);
	CODE(c, m->list.number, 4);
	CODE(c, m->list.column, 8);
	CODE(c, m->list.end_column, 8);
	CODE(c, m->list.replay_at, 8);
	CODE(c, m->html.state, 1);
	CODE(c, m->html.closing, 1);
	CODE(c, m->html.name_len, 1);
	code_bytes(c, m->html.name, sizeof(m->html.name));
	CODE(c, m->html_tag, 1);
	CODE(c, m->at, 4);
	CODE(c, m->delimiter.state, 1);
	CODE(c, m->delimiter.columns, 4);
}

static void code_line(struct codec *c, struct line *l)
{
	CODE(c, l->phase, 1);
	CODE(c, l->seat, 1);
	CODE(c, l->boundary, 1);
	CODE(c, l->matching, 1);
	CODE(c, l->opened, 1);
	CODE(c, l->lazy, 1);
	CODE(c, l->top, 1);
	CODE(c, l->blank, 1);
	CODE(c, l->cut, 1);
	CODE(c, l->matched, 4);
	CODE(c, l->base, 4);
	CODE(c, l->column, 8);
	CODE(c, l->next_column, 8);
	CODE(c, l->tail.bytes, 8);
	CODE(c, l->tail.ends, 1);
	CODE(c, l->cells.pipes, 4);
	CODE(c, l->cells.first, 1);
	CODE(c, l->cells.escaped, 1);
	CODE(c, l->cells.tail, 1);
	CODE(c, l->cells.escaped_pipe, 1);
	code_refs(c, &l->refs);
}

static void code_stack(struct codec *c, struct block_scanner *s)
{
	CODE(c, s->depth, 4);
	if (s->depth > SCANNER_DEPTH_MAX) {
		c->in.failed = true;
		return;
	}
	for (size_t i = 0; i < s->depth; i++) {
		CODE(c, s->stack[i].mark, 1);
		CODE(c, s->stack[i].item_open, 1);
		CODE(c, s->stack[i].children, 1);
		CODE(c, s->stack[i].content, 1);
		CODE(c, s->stack[i].number, 4);
	}
}

static void code_kept(struct codec *c, uint8_t *over, uint32_t *len, char *bytes, size_t max)
{
	CODE(c, *over, 1);
	CODE(c, *len, 4);
	if (*len > max) {
		c->in.failed = true;
		return;
	}
	code_bytes(c, bytes, *len);
}

static void code_cut(struct codec *c, struct cut *cut)
{
	CODE(c, cut->open, 1);
	CODE(c, cut->place, 1);
	CODE(c, cut->settled, 1);
	CODE(c, cut->leaf, 1);
	CODE(c, cut->level, 1);
	CODE(c, cut->after_blank, 1);
	CODE(c, cut->only_refs, 1);
	CODE(c, cut->depth, 4);
	CODE(c, cut->prefix, 4);
}

static void code_scanner(struct codec *c, struct block_scanner *s)
{
	CODE(c, s->length, 8);
	CODE(c, s->line_start, 8);
	CODE(c, s->header_start, 8);
	CODE(c, s->hold_start, 8);
	CODE(c, s->kind, 1);
	CODE(c, s->started, 1);
	CODE(c, s->after_cr, 1);
	CODE(c, s->at_line_start, 1);
	CODE(c, s->last_blank, 1);
	CODE(c, s->leaf, 1);
	CODE(c, s->html_kind, 1);
	CODE(c, s->fence_char, 1);
	CODE(c, s->fence_len, 1);
	CODE(c, s->header_first, 1);
	CODE(c, s->last_odd, 1);
	CODE(c, s->above_odd, 1);
	CODE(c, s->only_refs, 1);
	CODE(c, s->header_cells, 4);
	code_refs(c, &s->refs);
	code_stack(c, s);
	code_line(c, &s->line);
	code_marker(c, &s->marker);
	code_kept(c, &s->text_over, &s->text_len, s->text, SCANNER_LINE_MAX);
	code_kept(c, &s->context_over, &s->context_len, s->context, SCANNER_CONTEXT_MAX);
	code_cut(c, &s->cut);
	code_buffer(c, &s->lead);
}

/* The rules, and fields that only some rules need. */
static void code_rules(struct codec *c, struct block_scanner *s)
{
	CODE(c, s->rules, 1);
	CODE(c, s->no_table, 1);
	CODE(c, s->header_counts, 1);
	CODE(c, s->line.tail.early, 2);
}

static void code_start(struct codec *c, struct block_scanner *s)
{
	CODE(c, s->cut.start, 4);
	CODE(c, s->old_cuts, 1);
}

void block_scanner_save(const struct block_scanner *s, struct buffer *out)
{
	struct codec c = {.out = out};
	buffer_append(out, magic, sizeof(magic));
	code_scanner(&c, (struct block_scanner *)s);
	code_rules(&c, (struct block_scanner *)s);
	code_start(&c, (struct block_scanner *)s);
}

bool block_scanner_is_fresh(const struct block_scanner *s)
{
	struct buffer now = {0};
	struct buffer fresh = {0};
	struct block_scanner *scanner = block_scanner_create();
	scanner->rules = s->rules;
	scanner->old_cuts = s->old_cuts;
	block_scanner_save(s, &now);
	block_scanner_save(scanner, &fresh);
	bool same = now.len == fresh.len && memcmp(now.data, fresh.data, now.len) == 0;
	block_scanner_destroy(scanner);
	buffer_finish(&now);
	buffer_finish(&fresh);
	return same;
}

static bool stack_is_valid(const struct block_scanner *s)
{
	for (size_t i = 0; i < s->depth; i++) {
		const struct container *c = &s->stack[i];
		if (!c->mark || !strchr(">-+*.)", c->mark) || c->children > 2) {
			return false;
		}
	}
	return true;
}

static bool line_is_valid(const struct block_scanner *s)
{
	const struct line *l = &s->line;
	bool in_range = l->phase < PHASE_COUNT && l->seat < SEAT_COUNT &&
			l->boundary < BOUNDARY_COUNT && l->refs.state < REF_SCAN_STATES &&
			l->matched <= s->depth && l->base <= SCANNER_DEPTH_MAX &&
			l->column <= l->next_column;
	if (!in_range) {
		return false;
	}
	return l->seat != SEAT_LIST || (l->matched < s->depth && s->stack[l->matched].mark != '>');
}

static bool marker_is_valid(const struct block_scanner *s)
{
	const struct marker *m = &s->marker;
	bool in_range = m->alive <= MARK_ALL && m->list.state < LIST_STATE_COUNT &&
			m->html.state < HTML_START_STATES && m->html.name_len <= HTML_NAME_MAX &&
			m->html_tag < HTML_TAG_STATES && m->delimiter.state < ROW_DELIMITER_STATES;
	if (!in_range || strnlen(m->html.name, HTML_NAME_MAX + 1) > HTML_NAME_MAX) {
		return false;
	}
	/* An item needs room on the stack, unless it replaces the previous item. */
	return !(m->alive & MARK_LIST) || s->line.seat == SEAT_LIST ||
	       s->line.matched < SCANNER_DEPTH_MAX;
}

static bool scanner_is_valid(const struct block_scanner *s)
{
	bool positions = s->line_start <= s->length && s->header_start <= s->line_start &&
			 (s->hold_start == BLOCK_SCANNER_NO_END || s->hold_start <= s->line_start);
	bool in_range = s->rules <= BLOCK_RULES_GFM_13 && s->kind <= BLOCK_HTML &&
			s->leaf < LEAF_COUNT && s->html_kind <= 7 &&
			s->refs.state < REF_SCAN_STATES && s->cut.place < CUT_PLACE_COUNT &&
			s->cut.leaf < LEAF_COUNT && s->cut.depth <= SCANNER_DEPTH_MAX &&
			s->cut.level <= 6 && s->cut.prefix <= SCANNER_LINE_MAX &&
			s->marker.at <= SCANNER_LINE_MAX;
	return positions && in_range && stack_is_valid(s) && line_is_valid(s) && marker_is_valid(s);
}

int block_scanner_load(struct block_scanner *s, const char *bytes, size_t len)
{
	enum block_rules before = s->rules;
	uint8_t old_cuts = s->old_cuts;
	block_scanner_reset(s);
	if (len < sizeof(magic) || memcmp(bytes, magic, sizeof(magic) - 1) != 0) {
		return -EINVAL;
	}
	char format = bytes[sizeof(magic) - 1];
	if (format < OLDEST || format > magic[sizeof(magic) - 1]) {
		return -EINVAL;
	}
	struct codec c = {.in = {.bytes = bytes + sizeof(magic), .len = len - sizeof(magic)}};
	code_scanner(&c, s);
	if (format >= HAS_RULES) {
		code_rules(&c, s);
	} else {
		s->rules = BLOCK_RULES_GFM_6;
	}
	s->old_cuts = format < HAS_START;
	if (format >= HAS_START) {
		code_start(&c, s);
	}
	if (c.in.failed || c.in.len > 0 || !scanner_is_valid(s)) {
		s->rules = (uint8_t)before;
		s->old_cuts = old_cuts;
		block_scanner_reset(s);
		return -EINVAL;
	}
	return 0;
}
