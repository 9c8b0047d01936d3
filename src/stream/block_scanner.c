#include "block_scanner_internal.h"

#include <stdlib.h>
#include <string.h>

static const unsigned char byte_order_mark[3] = {0xef, 0xbb, 0xbf};

struct block_scanner *block_scanner_create(void)
{
	struct block_scanner *s = xcalloc(1, sizeof(*s));
	block_scanner_reset(s);
	return s;
}

void block_scanner_destroy(struct block_scanner *s)
{
	if (s) {
		buffer_finish(&s->lead);
		free(s);
	}
}

void block_scanner_reset(struct block_scanner *s)
{
	struct buffer lead = s->lead;
	memset(s, 0, sizeof(*s));
	s->lead = lead;
	buffer_clear(&s->lead);
	s->hold_start = BLOCK_SCANNER_NO_END;
	s->end = BLOCK_SCANNER_NO_END;
	line_begin(s);
}

static void keep_byte(struct block_scanner *s, unsigned char c)
{
	if (s->text_len < SCANNER_LINE_MAX) {
		s->text[s->text_len++] = (char)c;
	} else {
		s->text_over = 1;
	}
}

static void read_byte(struct block_scanner *s, unsigned char c)
{
	if (c == '\n' || c == '\r') {
		line_end(s);
		cut_line_end(s);
		line_begin(s);
		return;
	}
	s->at_line_start = 0;
	keep_byte(s, c);
	line_byte(s, c);
}

/* A byte order mark at the very start is no text. True while the bytes may be one. */
static bool read_bom(struct block_scanner *s, unsigned char c)
{
	unsigned seen = s->bom;
	if (c == byte_order_mark[seen]) {
		s->bom++;
		s->at_line_start = 0;
		return true;
	}
	s->bom = sizeof(byte_order_mark);
	for (unsigned i = 0; i < seen; i++) {
		read_byte(s, byte_order_mark[i]);
	}
	return false;
}

static void scan_byte(struct block_scanner *s, unsigned char c)
{
	bool second_half = c == '\n' && s->after_cr;
	s->length++;
	s->after_cr = c == '\r';
	if (second_half) {
		s->line_start = s->length;
		return;
	}
	if (s->bom < sizeof(byte_order_mark) && read_bom(s, c)) {
		return;
	}
	read_byte(s, c);
}

size_t block_scanner_feed(struct block_scanner *s, const char *text, size_t len, size_t *ret_end)
{
	*ret_end = BLOCK_SCANNER_NO_END;
	for (size_t i = 0; i < len; i++) {
		scan_byte(s, (unsigned char)text[i]);
		if (s->end != BLOCK_SCANNER_NO_END) {
			*ret_end = s->end;
			s->end = BLOCK_SCANNER_NO_END;
			return i + 1;
		}
	}
	cut_update(s);
	return len;
}

/* A line like "```js" that has not ended yet: only a backtick in its rest could undo it. */
static bool in_opening_fence_line(const struct block_scanner *s)
{
	const struct line *l = &s->line;
	return l->phase == PHASE_MARKER && l->boundary == BOUNDARY_NEW && s->depth == 0 &&
	       s->marker.alive == MARK_FENCE && s->marker.run >= 3;
}

enum block_kind block_scanner_kind(const struct block_scanner *s)
{
	return in_opening_fence_line(s) ? BLOCK_FENCE : (enum block_kind)s->kind;
}

bool block_scanner_closable(const struct block_scanner *s)
{
	if (s->kind == BLOCK_NONE || !s->line.blank) {
		return false;
	}
	if (s->leaf == LEAF_NONE && s->depth == 0) {
		return true;
	}
	bool inside = s->leaf == LEAF_FENCE || (s->leaf == LEAF_HTML && s->html_kind < 6);
	return s->last_blank && !inside;
}

bool block_scanner_at_line_start(const struct block_scanner *s)
{
	return s->at_line_start;
}

bool block_scanner_may_be_table(const struct block_scanner *s)
{
	return s->leaf == LEAF_PARAGRAPH && s->depth == 0 && s->at_line_start &&
	       s->header_cells > 0 && memchr(s->context, '|', s->context_len);
}

size_t block_scanner_length(const struct block_scanner *s)
{
	return s->length;
}

size_t block_scanner_decided(const struct block_scanner *s)
{
	if (!s->started) {
		return s->length;
	}
	if (s->hold_start != BLOCK_SCANNER_NO_END) {
		return s->hold_start;
	}
	const struct line *l = &s->line;
	/* Should the line become text, it may be the header row of a table. */
	bool unread = l->phase == PHASE_MARKER && l->seat == SEAT_PARAGRAPH && l->top;
	return unread || l->boundary == BOUNDARY_OPEN ? s->line_start : s->length;
}
