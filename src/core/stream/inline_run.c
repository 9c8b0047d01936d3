#include "inline_guard_internal.h"

#include <string.h>

#define FENCE_MIN   3
#define HEADING_MAX 6
#define CODE_INDENT 4

struct line {
	size_t start;
	size_t end; /* excluding its newline */
	size_t next; /* after its newline */
	bool ended; /* by a newline */
	size_t text; /* start of the text, after the markers of quotes and lists */
	size_t indent; /* columns before the first marker or the text */
	size_t column; /* of the text */
	size_t quotes;
	bool is_item;
};

struct finder {
	const char *text;
	size_t len;
	struct inline_run run;
	bool in_paragraph; /* the previous line can continue in this one */
	bool in_list;
	bool in_table; /* below a delimiter row */
	char fence; /* character of the open fence; 0: none */
	size_t fence_len;
	size_t fence_column;
	size_t fence_quotes;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static size_t skip_blanks(const char *text, size_t at, size_t end)
{
	while (at < end && is_blank(text[at])) {
		at++;
	}
	return at;
}

static size_t count_char(const char *text, size_t at, size_t end, char c)
{
	size_t count = 0;
	while (at + count < end && text[at + count] == c) {
		count++;
	}
	return count;
}

static bool holds_only(const char *text, size_t at, size_t end, const char *set)
{
	while (at < end && text[at] && strchr(set, text[at])) {
		at++;
	}
	return at == end;
}

static bool holds_one(const char *text, size_t at, size_t end, const char *set)
{
	while (at < end && (!text[at] || !strchr(set, text[at]))) {
		at++;
	}
	return at < end;
}

/*
 * Returns the length of the list marker at `at`, or 0. A blank or the end of the line must follow a
 * marker.
 */
static size_t marker_len(const struct finder *f, const struct line *l, size_t at)
{
	size_t digits = 0;
	while (at + digits < l->end && digits < 9 && f->text[at + digits] >= '0' &&
		f->text[at + digits] <= '9') {
		digits++;
	}
	size_t last = at + digits;
	if (last >= l->end || !strchr(digits ? ".)" : "-*+", f->text[last]) || !f->text[last]) {
		return 0;
	}
	/* Only a list that starts with 1 can interrupt a paragraph. */
	if (digits && f->in_paragraph && !f->in_list && !l->is_item &&
		(digits > 1 || f->text[at] != '1')) {
		return 0;
	}
	if (last + 1 < l->end ? !is_blank(f->text[last + 1]) : !l->ended) {
		return 0;
	}
	return digits + 1;
}

/* Reads the indentation and the markers of quotes and list items before a line's text. */
static void line_read_prefix(struct finder *f, struct line *l)
{
	size_t at = l->start;
	size_t column = 0;
	bool marked = false;
	for (;;) {
		while (at < l->end && is_blank(f->text[at])) {
			column += f->text[at] == '\t' ? 4 - column % 4 : 1;
			at++;
		}
		l->indent = marked ? l->indent : column;
		size_t len = marker_len(f, l, at);
		if (at < l->end && f->text[at] == '>') {
			len = 1;
			l->quotes++;
		} else if (len) {
			l->is_item = true;
		} else {
			break;
		}
		if (!marked && l->indent >= CODE_INDENT && !f->in_list && !f->in_paragraph) {
			break;
		}
		marked = true;
		at += len;
		column += len;
	}
	l->text = at;
	l->column = column;
}

/* Whether the line belongs to the open fence; the closing fence is its last line. */
static bool line_is_fenced(struct finder *f, const struct line *l)
{
	size_t at = l->start;
	size_t column = 0;
	for (size_t quotes = 0;; at++, column++) {
		while (at < l->end && is_blank(f->text[at])) {
			column += f->text[at] == '\t' ? 4 - column % 4 : 1;
			at++;
		}
		if (quotes == f->fence_quotes) {
			break;
		}
		quotes++;
		if (at == l->end || f->text[at] != '>') {
			at = l->start;
			column = 0;
			break;
		}
	}
	if (l->quotes < f->fence_quotes || (at < l->end && column < f->fence_column)) {
		/* The quote or list item around the fence has ended, and the fence with it. */
		f->fence = 0;
		return false;
	}
	size_t marks = count_char(f->text, at, l->end, f->fence);
	if (column < f->fence_column + CODE_INDENT && marks >= f->fence_len &&
		skip_blanks(f->text, at + marks, l->end) == l->end) {
		f->fence = 0;
	}
	return true;
}

static bool line_opens_fence(struct finder *f, const struct line *l)
{
	char mark = l->text < l->end ? f->text[l->text] : '\0';
	size_t marks = count_char(f->text, l->text, l->end, mark);
	if ((mark != '`' && mark != '~') || marks < FENCE_MIN) {
		return false;
	}
	size_t info = l->text + marks;
	if (mark == '`' && memchr(f->text + info, '`', l->end - info)) {
		return false;
	}
	f->fence = mark;
	f->fence_len = marks;
	/* Up to three columns are not the indentation of a container. */
	f->fence_column = l->is_item || (l->column > 1 && f->in_list) ? l->column : 0;
	f->fence_quotes = l->quotes;
	return true;
}

static bool line_is_thematic_break(const struct finder *f, const struct line *l)
{
	size_t at = skip_blanks(f->text, l->start, l->end);
	char mark = at < l->end ? f->text[at] : '\0';
	size_t marks = 0;
	bool spaced = false;
	for (; at < l->end; at++) {
		spaced = spaced || is_blank(f->text[at]);
		marks += f->text[at] == mark;
		if (f->text[at] != mark && !is_blank(f->text[at])) {
			return false;
		}
	}
	/* While its line is unfinished, `***` may be the beginning of bold text. */
	return mark && strchr("*-_", mark) && marks >= 3 && (l->ended || spaced || mark == '-');
}

static void end_run(struct finder *f, const struct line *l)
{
	f->run = (struct inline_run){.start = l->next, .end = l->next};
	f->in_paragraph = false;
}

static size_t heading_text(const struct finder *f, const struct line *l)
{
	size_t marks = count_char(f->text, l->text, l->end, '#');
	size_t text = l->text + marks;
	if (!marks || marks > HEADING_MAX || (text < l->end && !is_blank(f->text[text]))) {
		return 0;
	}
	return text;
}

static size_t last_cell(const struct finder *f, const struct line *l)
{
	size_t cell = l->text;
	for (size_t i = l->text; i < l->end; i++) {
		if (f->text[i] == '\\') {
			i++;
		} else if (f->text[i] == '|') {
			cell = i + 1;
		}
	}
	return cell;
}

/*
 * Holds back an unfinished last line that is undecided. A line of dashes, equals signs or table
 * rules below a paragraph makes it a heading now, but may become a list; a line of blanks and quote
 * markers may continue it; an item's marker without text is still text of the paragraph. Returns
 * whether the line is one of these.
 */
static bool hold_back_rule(struct finder *f, const struct line *l)
{
	bool undecided = (l->is_item && l->text == l->end) ||
			 holds_only(f->text, l->start, l->end, "-=|:> \t");
	if (l->ended || !f->in_paragraph || !undecided) {
		return false;
	}
	f->run.end = l->start;
	return true;
}

static bool line_is_delimiter_row(const struct finder *f, const struct line *l)
{
	return holds_only(f->text, l->text, l->end, "-|: \t") &&
	       holds_one(f->text, l->text, l->end, "-") &&
	       holds_one(f->text, l->text, l->end, "|:");
}

static void read_text_line(struct finder *f, const struct line *l)
{
	bool is_row = f->in_table || (l->text < l->end && f->text[l->text] == '|');
	size_t heading = heading_text(f, l);
	if (heading) {
		f->run = (struct inline_run){.start = heading};
	} else if (is_row) {
		f->run = (struct inline_run){.start = last_cell(f, l)};
	} else if (l->is_item || !f->in_paragraph) {
		f->run = (struct inline_run){.start = l->text, .is_item = l->is_item};
	}
	f->run.end = l->next;
	f->in_paragraph = !heading && l->text < l->end;
	if (l->ended && (heading || is_row)) {
		f->run.start = l->next;
	}
}

static void read_line(struct finder *f, struct line *l)
{
	line_read_prefix(f, l);
	if (f->fence && line_is_fenced(f, l)) {
		end_run(f, l);
	} else if (hold_back_rule(f, l)) {
		return;
	} else if (l->text == l->end && !l->is_item) {
		end_run(f, l);
		f->in_table = false;
	} else if (f->in_paragraph && line_is_delimiter_row(f, l)) {
		end_run(f, l);
		f->in_paragraph = true;
		f->in_table = true;
	} else if (line_opens_fence(f, l) || line_is_thematic_break(f, l)) {
		end_run(f, l);
		f->in_table = false;
	} else if (f->in_paragraph && holds_only(f->text, l->text, l->end, "= ")) {
		end_run(f, l);
	} else if (l->indent >= CODE_INDENT && !f->in_list && !f->in_paragraph) {
		end_run(f, l);
	} else {
		f->in_list = l->is_item || (f->in_list && (f->in_paragraph || l->indent >= 2));
		f->in_table = f->in_table && !l->is_item && !l->quotes;
		read_text_line(f, l);
	}
}

struct inline_run inline_run_find(const char *text, size_t len)
{
	struct finder f = {.text = text, .len = len};
	for (size_t at = 0; at < len;) {
		const char *newline = memchr(text + at, '\n', len - at);
		size_t end = newline ? (size_t)(newline - text) : len;
		struct line l = {
			.start = at, .end = end, .next = end + !!newline, .ended = newline};
		if (l.end > l.start && l.ended && text[l.end - 1] == '\r') {
			l.end--;
		}
		read_line(&f, &l);
		at = l.next;
	}
	return f.run;
}
