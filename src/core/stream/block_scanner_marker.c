/*
 * Decides which block the first bytes of a line's text open. All readings that are still possible
 * are followed together; the order in which they win is cmark-gfm's: ATX heading, fence, HTML,
 * setext underline, thematic break, list item, delimiter row, text.
 *
 * Only one pair needs a second pass: `- - -` may be a thematic break or nested lists. The item's
 * content is then kept and read again when the break is ruled out.
 */
#include "block_scanner_internal.h"

#define NEWS (MARK_ATX | MARK_FENCE | MARK_HTML | MARK_HTML_TAG | MARK_THEMATIC | MARK_LONE_PIPE)

/* The number of bytes kept of the line before the current one. */
static size_t kept_before(const struct block_scanner *s)
{
	return s->text_over ? s->text_len : s->text_len - 1;
}

static void list_begin(struct block_scanner *s, unsigned char c)
{
	struct marker *m = &s->marker;
	struct line *l = &s->line;
	bool joins = l->seat == SEAT_LIST;
	bool line_is_full = s->rules >= BLOCK_RULES_GFM_13 && l->opened >= SCANNER_LINE_DEPTH_MAX;
	if (line_is_full || (l->matched >= SCANNER_DEPTH_MAX && !joins)) {
		return;
	}
	m->alive |= MARK_LIST;
	m->list = (struct list_mark){.interrupts = l->seat == SEAT_PARAGRAPH};
	if (scan_is_digit(c)) {
		m->list.state = LIST_DIGITS;
	} else {
		m->list.state = LIST_NEEDS_BLANK;
		m->list.mark = c;
		m->list.width = 1;
	}
}

static void bullet_begin(struct block_scanner *s, unsigned char c)
{
	if (c != '+' && !s->line.replaying) {
		s->marker.alive |= MARK_THEMATIC;
	}
	if (c != '_') {
		list_begin(s, c);
	}
}

static void begin_by_byte(struct block_scanner *s, unsigned char c)
{
	struct marker *m = &s->marker;
	switch (c) {
	case '#':
		m->alive = MARK_ATX;
		break;
	case '`':
	case '~':
		m->alive = MARK_FENCE;
		break;
	case '<':
		m->alive = MARK_HTML | (s->line.seat == SEAT_PARAGRAPH ? 0 : MARK_HTML_TAG);
		html_start_begin(&m->html);
		break;
	case '|':
		m->alive = s->line.seat == SEAT_TABLE ? MARK_LONE_PIPE : 0;
		break;
	case '-':
	case '*':
	case '+':
	case '_':
		bullet_begin(s, c);
		break;
	default:
		if (scan_is_digit(c)) {
			list_begin(s, c);
		}
		break;
	}
}

/* In a paragraph, the line may also be its underline, or the delimiter row below its last line. */
static void begin_in_paragraph(struct block_scanner *s, unsigned char c)
{
	struct marker *m = &s->marker;
	if (c == '=' || c == '-') {
		m->alive |= MARK_SETEXT;
	}
	if ((s->header_cells > 0 || s->header_counts) && !s->line.cut) {
		m->delimiter = (struct row_delimiter){0};
		m->alive |= row_delimiter_byte(&m->delimiter, c) ? MARK_DELIMITER : 0;
	}
}

/* Whether the line, read as a list item, may belong to the open list, or begin a new one. */
static void list_outcomes(const struct block_scanner *s, bool *same, bool *fresh)
{
	const struct list_mark *list = &s->marker.list;
	unsigned char open = s->line.seat == SEAT_LIST ? s->stack[s->line.matched].mark : 0;
	if (list->mark) {
		*(list->mark == open ? same : fresh) = true;
		return;
	}
	*fresh = true;
	*same |= open == '.' || open == ')';
}

static bool text_is_possible(const struct block_scanner *s)
{
	const struct marker *m = &s->marker;
	if (m->alive & MARK_FENCE) {
		return m->first != '~' || m->run < 3;
	}
	if (m->alive & MARK_LIST) {
		return m->list.state < LIST_PADDING ||
		       (m->list.state == LIST_PADDING && m->list.interrupts);
	}
	return true;
}

/* Settles whether a new top-level block begins, if all remaining readings agree. */
static void settle(struct block_scanner *s)
{
	struct line *l = &s->line;
	const struct marker *m = &s->marker;
	if (l->boundary != BOUNDARY_OPEN) {
		return;
	}
	bool fresh = m->alive & NEWS;
	bool same = m->alive & (MARK_SETEXT | MARK_DELIMITER);
	if (m->alive & MARK_LIST) {
		list_outcomes(s, &same, &fresh);
	}
	if (text_is_possible(s)) {
		bool joins = l->lazy || l->seat == SEAT_PARAGRAPH || l->seat == SEAT_TABLE;
		*(joins ? &same : &fresh) = true;
	}
	if (fresh && !same) {
		blocks_settle_new(s);
	} else if (same && !fresh) {
		blocks_settle_same(s);
	}
}

static void settle_or_add_text(struct block_scanner *s)
{
	if (!(s->marker.alive & MARK_DELIMITER) || s->header_cells == 0) {
		/* The line above is not a header row. */
		s->hold_start = BLOCK_SCANNER_NO_END;
	}
	if (s->marker.alive) {
		settle(s);
	} else {
		blocks_add_text(s);
	}
}

void marker_begin(struct block_scanner *s, unsigned char c)
{
	struct marker *m = &s->marker;
	struct line *l = &s->line;
	*m = (struct marker){.first = c, .run = 1, .total = 1, .at = (uint32_t)kept_before(s)};
	l->phase = PHASE_MARKER;
	l->tail = (struct html_tail){0};
	begin_by_byte(s, c);
	if (m->alive & MARK_LIST) {
		m->list.column = m->list.end_column = l->next_column + 1;
		m->list.number = scan_is_digit(c) ? c - '0' : 0;
		m->list.width = 1;
		if (m->list.interrupts && m->list.number > 1) {
			m->alive &= ~MARK_LIST;
		}
	}
	if (l->seat == SEAT_PARAGRAPH) {
		begin_in_paragraph(s, c);
	}
	settle_or_add_text(s);
}

static void atx_byte(struct block_scanner *s, unsigned char c)
{
	struct marker *m = &s->marker;
	if (scan_is_blank(c)) {
		blocks_open_leaf(s, BLOCK_HEADING, LEAF_NONE);
	} else if (c != '#' || m->run > 6) {
		m->alive &= ~MARK_ATX;
	}
}

/* A backtick in the info string makes it an inline code span rather than a fence. */
static void fence_byte(struct marker *m, unsigned char c)
{
	if (m->gap && (m->run < 3 || (m->first == '`' && c == '`'))) {
		m->alive &= ~MARK_FENCE;
	}
}

static void html_byte(struct block_scanner *s, unsigned char c)
{
	struct marker *m = &s->marker;
	html_tail_byte(&s->line.tail, c);
	if (m->alive & MARK_HTML) {
		int kind = html_start_byte(&m->html, s->rules, c);
		if (kind > 0) {
			blocks_open_html(s, (unsigned)kind);
			return;
		}
		if (kind == HTML_DEAD) {
			m->alive &= ~MARK_HTML;
		}
	}
	if (m->alive & MARK_HTML_TAG) {
		int state = html_tag_byte(m->html_tag, c);
		if (state == HTML_DEAD) {
			m->alive &= ~MARK_HTML_TAG;
		} else {
			m->html_tag = (uint8_t)state;
		}
	}
}

/* Both the underline of a setext heading and a thematic break allow no other bytes. */
static void rule_byte(struct marker *m, unsigned char c)
{
	if (c != m->first && !scan_is_blank(c)) {
		m->alive &= ~(MARK_SETEXT | MARK_THEMATIC);
	} else if (c == m->first && m->gap) {
		m->alive &= ~MARK_SETEXT;
	}
}

static bool list_digit(struct list_mark *list, unsigned char c)
{
	if (scan_is_digit(c) && list->width < 9) {
		list->number = list->number * 10 + (c - '0');
		list->width++;
		return !list->interrupts || list->number <= 1;
	}
	if (c != '.' && c != ')') {
		return false;
	}
	list->mark = c;
	list->width++;
	list->state = LIST_NEEDS_BLANK;
	return !list->interrupts || list->number == 1;
}

/* Returns false if the line is not a list item. In LIST_READY, the item's content has begun. */
static bool list_byte(struct block_scanner *s, unsigned char c)
{
	struct list_mark *list = &s->marker.list;
	switch (list->state) {
	case LIST_DIGITS:
		list->column++;
		list->end_column++;
		return list_digit(list, c);
	case LIST_NEEDS_BLANK:
		if (!scan_is_blank(c)) {
			return false;
		}
		break;
	case LIST_PADDING:
		break;
	default:
		return true;
	}
	if (scan_is_blank(c)) {
		list->state = LIST_PADDING;
		list->column = scan_blank_column(list->column, c);
		return true;
	}
	list->state = LIST_READY;
	list->replay_at = kept_before(s);
	return true;
}

/*
 * Opens the item and reads the bytes of its content that were kept while the line could be a
 * thematic break. They are all marks and blanks, so none of them raises that question again.
 */
static void open_item(struct block_scanner *s, size_t content_end)
{
	const struct list_mark list = s->marker.list;
	blocks_open_item(s, &list, false);
	bool outer = s->line.replaying;
	s->line.replaying = 1;
	for (size_t i = list.replay_at; i < content_end && i < s->text_len; i++) {
		line_byte(s, (unsigned char)s->text[i]);
	}
	s->line.replaying = outer;
}

/* The kept line is full and the line is still undecided: see SCANNER_LINE_MAX. */
static void decide_long_line(struct block_scanner *s, unsigned char c)
{
	struct marker *m = &s->marker;
	if (m->total >= 3) {
		blocks_open_leaf(s, BLOCK_THEMATIC_BREAK, LEAF_NONE);
		return;
	}
	m->alive &= ~MARK_THEMATIC;
	if (m->list.state == LIST_READY) {
		open_item(s, s->text_len);
		line_byte(s, c);
	}
}

static void count_run(struct marker *m, unsigned char c)
{
	if (c != m->first) {
		m->gap = 1;
		return;
	}
	m->total++;
	m->run += !m->gap;
}

static void update(struct block_scanner *s, unsigned char c)
{
	struct marker *m = &s->marker;
	if (m->alive & (MARK_SETEXT | MARK_THEMATIC)) {
		rule_byte(m, c);
	}
	count_run(m, c);
	if (m->alive & MARK_FENCE) {
		fence_byte(m, c);
	}
	if (m->alive & MARK_DELIMITER && !row_delimiter_byte(&m->delimiter, c)) {
		m->alive &= ~MARK_DELIMITER;
	}
	if (m->alive & MARK_LIST && !list_byte(s, c)) {
		m->alive &= ~MARK_LIST;
	}
	if (!scan_is_space(c)) {
		m->alive &= ~MARK_LONE_PIPE;
	}
	if (m->alive & MARK_ATX) {
		atx_byte(s, c);
	} else if (m->first == '<') {
		html_byte(s, c);
	}
}

void marker_byte(struct block_scanner *s, unsigned char c)
{
	struct marker *m = &s->marker;
	update(s, c);
	if (s->line.phase != PHASE_MARKER) {
		return;
	}
	bool item = m->alive & MARK_LIST && m->list.state == LIST_READY;
	if (item && !(m->alive & MARK_THEMATIC)) {
		open_item(s, kept_before(s));
		line_byte(s, c);
		return;
	}
	if (s->text_over && m->alive & MARK_LIST && m->alive & MARK_THEMATIC) {
		decide_long_line(s, c);
		return;
	}
	settle_or_add_text(s);
}

/* The line ended after a list mark. An item without content cannot interrupt a paragraph. */
static bool end_as_item(struct block_scanner *s)
{
	const struct list_mark list = s->marker.list;
	if (list.state == LIST_READY) {
		open_item(s, s->text_len);
		line_end(s);
		return true;
	}
	if (list.state == LIST_DIGITS || list.interrupts) {
		return false;
	}
	blocks_open_item(s, &list, true);
	return true;
}

static bool end_as_html(struct block_scanner *s)
{
	struct marker *m = &s->marker;
	int kind = m->alive & MARK_HTML ? html_start_byte(&m->html, s->rules, '\n') : HTML_DEAD;
	if (kind <= 0 && m->alive & MARK_HTML_TAG && html_tag_is_done(m->html_tag)) {
		kind = 7;
	}
	if (kind <= 0) {
		return false;
	}
	blocks_open_html(s, (unsigned)kind);
	line_end(s);
	return true;
}

static bool end_as_table(struct block_scanner *s)
{
	struct marker *m = &s->marker;
	uint32_t cells = m->alive & MARK_DELIMITER ? row_delimiter_count(&m->delimiter) : 0;
	if (cells > 0 && cells == s->header_cells) {
		blocks_open_table(s);
		return true;
	}
	s->no_table |= cells > 0 && s->header_counts;
	return false;
}

/* An underline below link reference definitions alone is text, the first line of its paragraph. */
static bool end_as_underline(struct block_scanner *s)
{
	if (s->only_refs) {
		s->only_refs = 0;
		s->last_odd = 0;
		s->above_odd = 0;
		return false;
	}
	blocks_settle_same(s);
	s->leaf = LEAF_NONE;
	s->hold_start = BLOCK_SCANNER_NO_END;
	return true;
}

void marker_end(struct block_scanner *s)
{
	struct marker *m = &s->marker;
	if (m->alive & MARK_LONE_PIPE) {
		blocks_begin_paragraph(s);
		line_end(s);
		return;
	}
	if (m->alive & MARK_ATX && m->run <= 6) {
		blocks_open_leaf(s, BLOCK_HEADING, LEAF_NONE);
		return;
	}
	if (m->alive & MARK_FENCE && m->run >= 3) {
		blocks_open_fence(s);
		return;
	}
	if (m->alive & (MARK_HTML | MARK_HTML_TAG) && end_as_html(s)) {
		return;
	}
	if (m->alive & MARK_SETEXT) {
		if (end_as_underline(s)) {
			return;
		}
	} else if (m->alive & MARK_THEMATIC && m->total >= 3) {
		blocks_open_leaf(s, BLOCK_THEMATIC_BREAK, LEAF_NONE);
		return;
	} else if (m->alive & MARK_LIST && end_as_item(s)) {
		return;
	} else if (end_as_table(s)) {
		return;
	}
	blocks_add_text(s);
	line_end(s);
}
