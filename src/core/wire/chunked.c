#include "holdfast/chunked.h"

#include "holdfast/bytes.h"

#include <string.h>

/** Allowed in an extension or trailer: no control characters except tab. */
static bool is_text(char c)
{
	return (unsigned char)c >= 0x20 ? c != 0x7f : c == '\t';
}

/** Behind the digits of a size: blanks, an extension, or the end of the line. */
static enum chunked_state take_blank(char c)
{
	if (c == '\r') {
		return CHUNKED_SIZE_LF;
	}
	return c == ';'                ? CHUNKED_EXTENSION
	       : c == ' ' || c == '\t' ? CHUNKED_SIZE_BLANK
				       : CHUNKED_BAD;
}

static enum chunked_state take_size(struct chunked *chunked, char c)
{
	int digit = bytes_hex_digit(c);
	if (digit >= 0) {
		/* At most 15 digits, including leading zeros, so the number cannot overflow. */
		chunked->left = chunked->left << 4 | (unsigned)digit;
		return ++chunked->digits <= 15 ? CHUNKED_SIZE : CHUNKED_BAD;
	}
	return chunked->digits ? take_blank(c) : CHUNKED_BAD;
}

static enum chunked_state take_extension(struct chunked *chunked, char c)
{
	if (c == '\r') {
		return CHUNKED_SIZE_LF;
	}
	return is_text(c) && ++chunked->line < CHUNKED_LINE_MAX ? CHUNKED_EXTENSION : CHUNKED_BAD;
}

static enum chunked_state end_size(struct chunked *chunked)
{
	chunked->digits = 0;
	chunked->line = 0;
	return chunked->left ? CHUNKED_DATA : CHUNKED_TRAILER_START;
}

/** Trailers are parsed as header fields, and dropped. */
static enum chunked_state take_trailer_name(struct chunked *chunked, char c)
{
	bool is_name = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		       (c && strchr("!#$%&'*+-.^_`|~", c));
	if (!is_name || ++chunked->line >= CHUNKED_TRAILER_MAX) {
		return CHUNKED_BAD;
	}
	return CHUNKED_TRAILER_NAME;
}

static enum chunked_state take_trailer(struct chunked *chunked, char c)
{
	if (c == '\r') {
		return CHUNKED_TRAILER_LF;
	}
	return is_text(c) && ++chunked->line < CHUNKED_TRAILER_MAX ? CHUNKED_TRAILER : CHUNKED_BAD;
}

/** Consumes one byte that is not part of the body itself. */
static enum chunked_state step(struct chunked *chunked, char c)
{
	switch (chunked->state) {
	case CHUNKED_SIZE:
		return take_size(chunked, c);
	case CHUNKED_SIZE_BLANK:
		return ++chunked->line < CHUNKED_LINE_MAX ? take_blank(c) : CHUNKED_BAD;
	case CHUNKED_EXTENSION:
		return take_extension(chunked, c);
	case CHUNKED_SIZE_LF:
		return c == '\n' ? end_size(chunked) : CHUNKED_BAD;
	case CHUNKED_DATA_CR:
		return c == '\r' ? CHUNKED_DATA_LF : CHUNKED_BAD;
	case CHUNKED_DATA_LF:
		return c == '\n' ? CHUNKED_SIZE : CHUNKED_BAD;
	case CHUNKED_TRAILER_START:
		return c == '\r' ? CHUNKED_LAST_LF : take_trailer_name(chunked, c);
	case CHUNKED_TRAILER_NAME:
		return c == ':' ? CHUNKED_TRAILER : take_trailer_name(chunked, c);
	case CHUNKED_TRAILER:
		return take_trailer(chunked, c);
	case CHUNKED_TRAILER_LF:
		return c == '\n' ? CHUNKED_TRAILER_START : CHUNKED_BAD;
	case CHUNKED_LAST_LF:
		return c == '\n' ? CHUNKED_DONE : CHUNKED_BAD;
	default:
		return CHUNKED_BAD;
	}
}

size_t chunked_take(struct chunked *chunked, const char **at, size_t *len, const char **ret_bytes)
{
	while (*len && chunked->state < CHUNKED_DONE) {
		if (chunked->state == CHUNKED_DATA) {
			size_t n = chunked->left < *len ? (size_t)chunked->left : *len;
			*ret_bytes = *at;
			*at += n;
			*len -= n;
			chunked->left -= n;
			chunked->state = chunked->left ? CHUNKED_DATA : CHUNKED_DATA_CR;
			return n;
		}
		chunked->state = step(chunked, **at);
		(*at)++;
		(*len)--;
	}
	return 0;
}
