/*
 * Fast paths: they do for many bytes at once what line_byte() does for one, where that is simple:
 * in a line in which nothing, or only the number of cells, is left to be found out, and in the
 * blanks at the beginning of a line. Everything else is read byte by byte, and a single byte always
 * is: line_byte() defines the scanner, and the tests compare the two.
 */
#include "block_scanner_internal.h"

#include "holdfast/bytes.h"

#include <string.h>

/* The number of bytes before the end of the line, or of the text. */
static size_t rest_of_line(const char *text, size_t len)
{
	return bytes_find_two(text, len, '\n', '\r');
}

/* See keep_byte(). */
static void keep(struct block_scanner *s, const char *bytes, size_t len)
{
	size_t room = SCANNER_LINE_MAX - s->text_len;
	if (len > room) {
		s->text_over = 1;
		len = room;
	}
	memcpy(s->text + s->text_len, bytes, len);
	s->text_len += (uint32_t)len;
}

static size_t read_text(struct block_scanner *s, const char *text, size_t len)
{
	struct line *l = &s->line;
	size_t rest = rest_of_line(text, len);
	for (size_t at = 0; at < rest && !ref_scan_is_over(&l->refs); at++) {
		ref_scan_byte(&l->refs, (unsigned char)text[at]);
	}
	row_cells_read(&l->cells, text, rest);
	keep(s, text, rest);
	return rest;
}

/*
 * Whether the line is indented enough for an item or for code need only be checked at the end: more
 * blanks do not change that.
 */
static size_t read_indent(struct block_scanner *s, const char *text, size_t len)
{
	size_t blanks = 0;
	while (blanks < len && text[blanks] == ' ') {
		blanks++;
	}
	if (blanks) {
		line_add_indent(s, blanks);
		keep(s, text, blanks);
	}
	return blanks;
}

static size_t read_html(struct block_scanner *s, const char *text, size_t len)
{
	size_t rest = rest_of_line(text, len);
	html_tail_read(&s->line.tail, text, rest);
	return rest;
}

size_t bulk_read(struct block_scanner *s, const char *text, size_t len)
{
	size_t used;
	switch (s->line.phase) {
	case PHASE_REST:
		used = rest_of_line(text, len);
		break;
	case PHASE_TEXT:
		used = read_text(s, text, len);
		break;
	case PHASE_HTML:
		used = read_html(s, text, len);
		break;
	default:
		used = read_indent(s, text, len);
		break;
	}
	if (used) {
		s->length += used;
		s->after_cr = 0;
		s->at_line_start = 0;
	}
	return used;
}
