/*
 * The scanner's state as bytes. One list of the fields serves both directions; what comes in is
 * then checked so far that no later step can index, assert or count outside of its bounds.
 */
#include "block_scanner_internal.h"

#include <errno.h>
#include <string.h>

static const char magic[4] = {'H', 'F', 'b', '2'};

/* Writes to `out`, or reads from `in` if `out` is NULL. */
struct codec {
	struct buffer *out;
	const unsigned char *in;
	size_t left;
	bool failed;
};

static void code_bytes(struct codec *c, void *bytes, size_t len)
{
	if (c->out) {
		buffer_append(c->out, bytes, len);
		return;
	}
	if (c->failed || c->left < len) {
		c->failed = true;
		return;
	}
	memcpy(bytes, c->in, len);
	c->in += len;
	c->left -= len;
}

static uint64_t code_number(struct codec *c, uint64_t value, size_t width)
{
	unsigned char bytes[8];
	for (size_t i = 0; i < width; i++) {
		bytes[i] = (unsigned char)(value >> (8 * i));
	}
	code_bytes(c, bytes, width);
	uint64_t read = 0;
	for (size_t i = width; i > 0; i--) {
		read = read << 8 | bytes[i - 1];
	}
	return c->failed ? 0 : read;
}

static void code_u8(struct codec *c, uint8_t *value)
{
	*value = (uint8_t)code_number(c, *value, 1);
}

static void code_u16(struct codec *c, uint16_t *value)
{
	*value = (uint16_t)code_number(c, *value, 2);
}

static void code_u32(struct codec *c, uint32_t *value)
{
	*value = (uint32_t)code_number(c, *value, 4);
}

static void code_u64(struct codec *c, uint64_t *value)
{
	*value = code_number(c, *value, 8);
}

static void code_size(struct codec *c, size_t *value)
{
	*value = (size_t)code_number(c, *value, 8);
}

static void code_refs(struct codec *c, struct ref_scan *r)
{
	code_u8(c, &r->state);
	code_u8(c, &r->escaped);
	code_u8(c, &r->solid);
	code_u8(c, &r->closer);
	code_u8(c, &r->parens);
	code_u16(c, &r->label_len);
}

static void code_marker(struct codec *c, struct marker *m)
{
	code_u16(c, &m->alive);
	code_u8(c, &m->first);
	code_u8(c, &m->gap);
	code_u32(c, &m->run);
	code_u32(c, &m->total);
	code_u8(c, &m->list.state);
	code_u8(c, &m->list.mark);
	code_u8(c, &m->list.width);
	code_u8(c, &m->list.interrupts);
	code_u32(c, &m->list.number);
	code_size(c, &m->list.column);
	code_size(c, &m->list.end_column);
	code_size(c, &m->list.replay_at);
	code_u8(c, &m->html.state);
	code_u8(c, &m->html.closing);
	code_u8(c, &m->html.name_len);
	code_bytes(c, m->html.name, sizeof(m->html.name));
	code_u8(c, &m->html_tag);
	code_u32(c, &m->at);
	code_u8(c, &m->delimiter.state);
	code_u32(c, &m->delimiter.columns);
}

static void code_line(struct codec *c, struct line *l)
{
	code_u8(c, &l->phase);
	code_u8(c, &l->seat);
	code_u8(c, &l->boundary);
	code_u8(c, &l->matching);
	code_u8(c, &l->opened);
	code_u8(c, &l->lazy);
	code_u8(c, &l->top);
	code_u8(c, &l->blank);
	code_u8(c, &l->cut);
	code_u32(c, &l->matched);
	code_u32(c, &l->base);
	code_size(c, &l->column);
	code_size(c, &l->next_column);
	code_u64(c, &l->tail.bytes);
	code_u8(c, &l->tail.ends);
	code_u32(c, &l->cells.pipes);
	code_u8(c, &l->cells.first);
	code_u8(c, &l->cells.escaped);
	code_u8(c, &l->cells.tail);
	code_u8(c, &l->cells.escaped_pipe);
	code_refs(c, &l->refs);
}

static void code_stack(struct codec *c, struct block_scanner *s)
{
	code_u32(c, &s->depth);
	if (s->depth > SCANNER_DEPTH_MAX) {
		c->failed = true;
		return;
	}
	for (size_t i = 0; i < s->depth; i++) {
		code_u8(c, &s->stack[i].mark);
		code_u8(c, &s->stack[i].item_open);
		code_u8(c, &s->stack[i].children);
		code_u8(c, &s->stack[i].content);
		code_u32(c, &s->stack[i].number);
	}
}

static void code_kept(struct codec *c, uint8_t *over, uint32_t *len, char *bytes, size_t max)
{
	code_u8(c, over);
	code_u32(c, len);
	if (*len > max) {
		c->failed = true;
		return;
	}
	code_bytes(c, bytes, *len);
}

static void code_cut(struct codec *c, struct cut *cut)
{
	code_u8(c, &cut->open);
	code_u8(c, &cut->place);
	code_u8(c, &cut->settled);
	code_u8(c, &cut->leaf);
	code_u8(c, &cut->level);
	code_u8(c, &cut->after_blank);
	code_u8(c, &cut->only_refs);
	code_u32(c, &cut->depth);
	code_u32(c, &cut->prefix);
}

static void code_lead(struct codec *c, struct buffer *lead)
{
	uint32_t len = (uint32_t)lead->len;
	code_u32(c, &len);
	if (c->out) {
		code_bytes(c, lead->data, len);
		return;
	}
	if (c->failed || c->left < len) {
		c->failed = true;
		return;
	}
	buffer_clear(lead);
	buffer_append(lead, c->in, len);
	c->in += len;
	c->left -= len;
}

static void code_scanner(struct codec *c, struct block_scanner *s)
{
	code_size(c, &s->length);
	code_size(c, &s->line_start);
	code_size(c, &s->header_start);
	code_size(c, &s->hold_start);
	code_u8(c, &s->kind);
	code_u8(c, &s->started);
	code_u8(c, &s->after_cr);
	code_u8(c, &s->at_line_start);
	code_u8(c, &s->last_blank);
	code_u8(c, &s->leaf);
	code_u8(c, &s->html_kind);
	code_u8(c, &s->fence_char);
	code_u8(c, &s->fence_len);
	code_u8(c, &s->header_first);
	code_u8(c, &s->last_odd);
	code_u8(c, &s->above_odd);
	code_u8(c, &s->only_refs);
	code_u32(c, &s->header_cells);
	code_refs(c, &s->refs);
	code_stack(c, s);
	code_line(c, &s->line);
	code_marker(c, &s->marker);
	code_kept(c, &s->text_over, &s->text_len, s->text, SCANNER_LINE_MAX);
	code_kept(c, &s->context_over, &s->context_len, s->context, SCANNER_CONTEXT_MAX);
	code_cut(c, &s->cut);
	code_lead(c, &s->lead);
}

void block_scanner_save(const struct block_scanner *s, struct buffer *out)
{
	struct block_scanner copy = *s;
	struct codec c = {.out = out};
	buffer_append(out, magic, sizeof(magic));
	code_scanner(&c, &copy);
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
	/* An item needs room on the stack, unless it takes the place of the one before it. */
	return !(m->alive & MARK_LIST) || s->line.seat == SEAT_LIST ||
	       s->line.matched < SCANNER_DEPTH_MAX;
}

static bool scanner_is_valid(const struct block_scanner *s)
{
	bool positions = s->line_start <= s->length && s->header_start <= s->line_start &&
			 (s->hold_start == BLOCK_SCANNER_NO_END || s->hold_start <= s->line_start);
	bool in_range = s->kind <= BLOCK_HTML && s->leaf < LEAF_COUNT && s->html_kind <= 7 &&
			s->refs.state < REF_SCAN_STATES && s->cut.place < CUT_PLACE_COUNT &&
			s->cut.leaf < LEAF_COUNT && s->cut.depth <= SCANNER_DEPTH_MAX &&
			s->cut.level <= 6 && s->cut.prefix <= SCANNER_LINE_MAX &&
			s->marker.at <= SCANNER_LINE_MAX;
	return positions && in_range && stack_is_valid(s) && line_is_valid(s) && marker_is_valid(s);
}

int block_scanner_load(struct block_scanner *s, const char *bytes, size_t len)
{
	block_scanner_reset(s);
	if (len < sizeof(magic) || memcmp(bytes, magic, sizeof(magic)) != 0) {
		return -EINVAL;
	}
	struct codec c = {
		.in = (const unsigned char *)bytes + sizeof(magic), .left = len - sizeof(magic)};
	code_scanner(&c, s);
	if (c.failed || c.left > 0 || !scanner_is_valid(s)) {
		block_scanner_reset(s);
		return -EINVAL;
	}
	return 0;
}
