#include "block_scanner_internal.h"

#include <string.h>

enum delimiter_state {
	DELIMITER_START,
	DELIMITER_GAP, /* blanks before the first dashes */
	DELIMITER_COLON,
	DELIMITER_DASH,
	DELIMITER_AFTER, /* after the dashes: blanks, or the right colon */
	DELIMITER_PIPE,
};

/* Blanks at the start of a lazy line are kept: they are, or begin, its first cell. */
void row_cells_begin(struct row_cells *r, bool indented)
{
	*r = (struct row_cells){.first = !indented, .tail = indented};
}

/* For cmark-gfm, every pipe after a backslash is escaped, whatever precedes it. */
void row_cells_byte(struct row_cells *r, unsigned char c)
{
	if (c == '|' && !r->escaped) {
		r->pipes += !r->first;
		r->tail = 0;
	} else if (r->first || !scan_is_space(c)) {
		r->tail = 1;
	}
	r->escaped_pipe |= c == '|' && r->escaped;
	r->escaped = c == '\\';
	r->first = 0;
}

static bool has_ink(const char *text, size_t len)
{
	while (len > 0 && scan_is_space((unsigned char)text[len - 1])) {
		len--;
	}
	return len > 0;
}

/* Between two pipes, all that matters is whether there is any text and how it ends. */
void row_cells_read(struct row_cells *r, const char *text, size_t len)
{
	const char *end = text + len;
	while (text < end) {
		const char *pipe = r->first ? text : memchr(text, '|', (size_t)(end - text));
		const char *next = pipe ? pipe : end;
		if (next > text) {
			r->tail = r->tail || has_ink(text, (size_t)(next - text));
			r->escaped = next[-1] == '\\';
			text = next;
		} else {
			row_cells_byte(r, (unsigned char)*text++);
		}
	}
}

uint32_t row_cells_count(const struct row_cells *r)
{
	return r->pipes + r->tail;
}

static bool delimiter_dash(struct row_delimiter *d)
{
	if (d->state != DELIMITER_DASH) {
		d->columns++;
	}
	d->state = DELIMITER_DASH;
	return true;
}

static bool delimiter_colon(struct row_delimiter *d)
{
	if (d->state == DELIMITER_DASH) {
		d->state = DELIMITER_AFTER;
		return true;
	}
	bool left = d->state == DELIMITER_START || d->state == DELIMITER_GAP ||
		    d->state == DELIMITER_PIPE;
	d->state = DELIMITER_COLON;
	return left;
}

static bool delimiter_pipe(struct row_delimiter *d)
{
	if (d->state == DELIMITER_START) {
		d->state = DELIMITER_GAP;
		return true;
	}
	bool after = d->state == DELIMITER_DASH || d->state == DELIMITER_AFTER;
	d->state = DELIMITER_PIPE;
	return after;
}

static bool delimiter_space(struct row_delimiter *d)
{
	if (d->state == DELIMITER_START) {
		d->state = DELIMITER_GAP;
	} else if (d->state == DELIMITER_DASH) {
		d->state = DELIMITER_AFTER;
	}
	return d->state != DELIMITER_COLON;
}

bool row_delimiter_byte(struct row_delimiter *d, unsigned char c)
{
	switch (c) {
	case '-':
		return d->state != DELIMITER_AFTER && delimiter_dash(d);
	case ':':
		return delimiter_colon(d);
	case '|':
		return delimiter_pipe(d);
	default:
		return scan_is_space(c) && delimiter_space(d);
	}
}

uint32_t row_delimiter_count(const struct row_delimiter *d)
{
	return d->state >= DELIMITER_DASH ? d->columns : 0;
}
