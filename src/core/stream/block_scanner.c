#include "block_scanner_internal.h"

#include <cmark-gfm.h>
#include <stdlib.h>
#include <string.h>

#define CMARK_GFM_13 (29 << 16 | 13)

enum block_rules block_rules_of(int cmark_version)
{
	return cmark_version >= CMARK_GFM_13 ? BLOCK_RULES_GFM_13 : BLOCK_RULES_GFM_6;
}

enum block_rules block_rules_linked(void)
{
	return block_rules_of(cmark_version());
}

struct block_scanner *block_scanner_create(void)
{
	struct block_scanner *s = xcalloc(1, sizeof(*s));
	s->rules = (uint8_t)block_rules_linked();
	block_scanner_reset(s);
	return s;
}

void block_scanner_set_rules(struct block_scanner *s, enum block_rules rules)
{
	s->rules = (uint8_t)rules;
	s->old_cuts = 0;
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
	uint8_t rules = s->rules;
	uint8_t old_cuts = s->old_cuts;
	memset(s, 0, offsetof(struct block_scanner, text));
	s->rules = rules;
	s->old_cuts = old_cuts;
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

/* Whether the line may have to be read again, or may be the header row of a table. */
static bool line_is_needed(const struct block_scanner *s)
{
	return s->line.phase <= PHASE_TEXT;
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
	if (line_is_needed(s)) {
		keep_byte(s, c);
	}
	line_byte(s, c);
}

static void scan_byte(struct block_scanner *s, unsigned char c)
{
	bool second_half = c == '\n' && s->after_cr;
	s->length++;
	s->after_cr = c == '\r';
	if (second_half) {
		s->line_start = s->length;
		cut_second_half(s);
		return;
	}
	read_byte(s, c);
}

size_t block_scanner_feed(struct block_scanner *s, const char *text, size_t len, size_t *ret_end)
{
	*ret_end = BLOCK_SCANNER_NO_END;
	size_t at = 0;
	while (at < len) {
		/* A single byte takes the slow path, so that tests can compare the two. */
		if (len > 1 && bulk_is_possible(s)) {
			at += bulk_read(s, text + at, len - at);
			if (at == len) {
				break;
			}
		}
		scan_byte(s, (unsigned char)text[at++]);
		if (s->end != BLOCK_SCANNER_NO_END) {
			*ret_end = s->end;
			s->end = BLOCK_SCANNER_NO_END;
			return at;
		}
	}
	cut_update(s);
	return len;
}

/*
 * Whether the line is one like "```js" that has not ended: only another backtick could make it
 * something else.
 */
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

bool block_scanner_is_complete(const struct block_scanner *s)
{
	return s->kind != BLOCK_NONE && s->line.blank && s->leaf == LEAF_NONE && s->depth == 0 &&
	       s->at_line_start && !s->after_cr;
}

bool block_scanner_can_go_on(const struct block_scanner *s)
{
	return s->kind != BLOCK_NONE && (s->leaf != LEAF_NONE || s->depth > 0);
}

bool block_scanner_line_is_blank(const struct block_scanner *s)
{
	return s->line.blank;
}

bool block_scanner_at_line_start(const struct block_scanner *s)
{
	return s->at_line_start;
}

/* Whether the line above belongs to a paragraph and contains a `|`. */
static bool is_below_header(const struct block_scanner *s)
{
	return s->leaf == LEAF_PARAGRAPH && s->depth == 0 && s->header_cells > 0 &&
	       memchr(s->context, '|', s->context_len);
}

bool block_scanner_may_be_table(const struct block_scanner *s)
{
	return s->at_line_start && is_below_header(s);
}

bool block_scanner_is_undecided(const struct block_scanner *s)
{
	const struct line *l = &s->line;
	bool marks = l->phase == PHASE_MARKER;
	if (s->depth > 0) {
		return false;
	}
	if (l->phase == PHASE_INDENT) {
		return is_below_header(s);
	}
	if (marks && s->marker.alive & (MARK_LIST | MARK_FENCE | MARK_DELIMITER)) {
		return true;
	}
	return (marks || l->phase == PHASE_TEXT) && memchr(s->text, '|', s->text_len);
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
	/* If the line becomes text, it may be the header row of a table. */
	bool unread = l->phase == PHASE_MARKER && l->seat == SEAT_PARAGRAPH && l->top;
	return unread || l->boundary == BOUNDARY_OPEN ? s->line_start : s->length;
}
