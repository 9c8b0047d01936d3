#include "holdfast/terminal_page.h"

#include "holdfast/diag.h"
#include "holdfast/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <wchar.h>

/* --- characters --- */

static void add_cell(
	struct terminal_text *text, unsigned style, const char *bytes, size_t len, int width)
{
	if (text->count == text->size) {
		text->size = text->size ? 2 * text->size : 64;
		text->cells = xrealloc(text->cells, text->size * sizeof(*text->cells));
	}
	struct terminal_cell *cell = &text->cells[text->count++];
	*cell = (struct terminal_cell){
		.len = (uint8_t)len, .width = (uint8_t)width, .style = (uint16_t)style};
	memcpy(cell->bytes, bytes, len);
}

void terminal_text_add(struct terminal_text *text, unsigned style, const char *bytes, size_t len)
{
	struct buffer clean = {0};
	diag_clean(&clean, bytes, len);
	for (size_t i = 0; i < clean.len;) {
		size_t n = utf8_length(clean.data + i, clean.len - i);
		int width = wcwidth((wchar_t)utf8_decode(clean.data + i, n));
		add_cell(text, style, clean.data + i, n, width < 0 ? 1 : width);
		i += n;
	}
	buffer_finish(&clean);
}

void terminal_text_put(struct terminal_text *text, unsigned style, const char *bytes)
{
	if (bytes) {
		terminal_text_add(text, style, bytes, strlen(bytes));
	}
}

void terminal_text_break(struct terminal_text *text)
{
	add_cell(text, 0, "\n", 1, 0);
}

static bool is_break(const struct terminal_cell *cell)
{
	return cell->bytes[0] == '\n';
}

static bool is_blank(const struct terminal_cell *cell)
{
	return cell->bytes[0] == ' ';
}

size_t terminal_text_width(const struct terminal_text *text)
{
	size_t most = 0;
	size_t width = 0;
	for (size_t i = 0; i < text->count; i++) {
		width = is_break(&text->cells[i]) ? 0 : width + text->cells[i].width;
		most = width > most ? width : most;
	}
	return most;
}

void terminal_text_finish(struct terminal_text *text)
{
	free(text->cells);
	*text = (struct terminal_text){0};
}

/* --- lines --- */

static size_t skip_blanks(const struct terminal_text *text, size_t at)
{
	while (at < text->count && is_blank(&text->cells[at])) {
		at++;
	}
	return at;
}

/** Returns where the line at `at` must end: after as many characters as fit, but at least one. */
static size_t find_end(const struct terminal_text *text, size_t at, size_t width)
{
	size_t used = 0;
	size_t i = at;
	while (i < text->count && !is_break(&text->cells[i]) &&
		(used + text->cells[i].width <= width || !used)) {
		used += text->cells[i].width;
		i++;
	}
	return i;
}

bool terminal_text_next(const struct terminal_text *text, size_t width, enum terminal_wrap wrap,
	size_t *at, struct terminal_line *ret)
{
	if (*at >= text->count) {
		return false;
	}
	size_t end = find_end(text, *at, width);
	size_t next = end;
	bool is_cut = end < text->count && !is_break(&text->cells[end]);
	if (is_cut && wrap == TERMINAL_WORDS) {
		size_t blank = end;
		while (blank > *at && !is_blank(&text->cells[blank])) {
			blank--;
		}
		end = blank > *at ? blank : end;
		next = skip_blanks(text, end);
		is_cut = next < text->count && !is_break(&text->cells[next]);
	}
	*ret = (struct terminal_line){.at = *at, .count = end - *at};
	while (ret->count && is_blank(&text->cells[ret->at + ret->count - 1])) {
		ret->count--;
	}
	for (size_t i = 0; i < ret->count; i++) {
		ret->width += text->cells[ret->at + i].width;
	}
	*at = is_cut ? next : next + 1;
	return true;
}

/* --- the page --- */

static void write_style(struct buffer *out, unsigned style)
{
	static const char codes[] = {'1', '2', '3', '4', '9'};
	buffer_append_str(out, "\x1b[0");
	for (size_t i = 0; i < sizeof(codes); i++) {
		if (style & (1u << i)) {
			buffer_append_char(out, ';');
			buffer_append_char(out, codes[i]);
		}
	}
	if (style >> 5) {
		buffer_printf(out, ";3%u", style >> 5);
	}
	buffer_append_char(out, 'm');
}

static unsigned write_cells(
	struct terminal_page *page, const struct terminal_cell *cells, size_t count, unsigned style)
{
	for (size_t i = 0; i < count; i++) {
		if (page->has_styles && cells[i].style != style) {
			style = cells[i].style;
			write_style(&page->out, style);
		}
		buffer_append(&page->out, cells[i].bytes, cells[i].len);
	}
	return style;
}

static void write_line(struct terminal_page *page, const struct terminal_cell *cells, size_t count)
{
	const struct terminal_text *front = page->has_next ? &page->next : &page->margin;
	size_t front_count = front->count;
	while (!count && front_count && is_blank(&front->cells[front_count - 1])) {
		front_count--;
	}
	unsigned style = write_cells(page, front->cells, front_count, 0);
	style = write_cells(page, cells, count, style);
	if (style) {
		write_style(&page->out, 0);
	}
	buffer_append_char(&page->out, '\n');
	page->has_next = false;
	page->is_used = true;
}

size_t terminal_page_room(const struct terminal_page *page)
{
	size_t margin = terminal_text_width(&page->margin);
	return page->width < margin + TERMINAL_COLUMNS_MIN ? TERMINAL_COLUMNS_MIN
							   : page->width - margin;
}

static void copy_text(struct terminal_text *to, const struct terminal_text *from)
{
	to->count = 0;
	for (size_t i = 0; i < from->count; i++) {
		const struct terminal_cell *cell = &from->cells[i];
		add_cell(to, cell->style, cell->bytes, cell->len, cell->width);
	}
}

/** Appends to a margin, unless that leaves too little room for text. */
static void put_if_it_fits(const struct terminal_page *page, struct terminal_text *margin,
	unsigned style, const char *bytes)
{
	size_t count = margin->count;
	terminal_text_put(margin, style, bytes);
	if (terminal_text_width(margin) + TERMINAL_COLUMNS_MIN > page->width) {
		margin->count = count;
	}
}

size_t terminal_page_indent(
	struct terminal_page *page, unsigned style, const char *first, const char *rest)
{
	size_t mark = page->margin.count;
	if (!page->has_next) {
		copy_text(&page->next, &page->margin);
		page->has_next = true;
	}
	put_if_it_fits(page, &page->next, style, first);
	put_if_it_fits(page, &page->margin, style, rest);
	return mark;
}

void terminal_page_outdent(struct terminal_page *page, size_t mark)
{
	if (page->has_next) {
		write_line(page, NULL, 0);
	}
	page->margin.count = mark;
}

void terminal_page_gap(struct terminal_page *page)
{
	write_line(page, NULL, 0);
}

void terminal_page_text(
	struct terminal_page *page, struct terminal_text *text, enum terminal_wrap wrap)
{
	struct terminal_line line;
	size_t room = terminal_page_room(page);
	size_t at = 0;
	while (terminal_text_next(text, room, wrap, &at, &line)) {
		write_line(page, text->cells + line.at, line.count);
	}
	text->count = 0;
}

void terminal_page_finish(struct terminal_page *page)
{
	buffer_finish(&page->out);
	terminal_text_finish(&page->margin);
	terminal_text_finish(&page->next);
	*page = (struct terminal_page){0};
}
