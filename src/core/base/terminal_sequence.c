#include "terminal_sequence.h"

#include <string.h>

#define BEL 0x07
#define CAN 0x18
#define SUB 0x1a
#define ESC 0x1b
#define DEL 0x7f
#define C1  0xc2 /* the first byte of a C1 character in UTF-8 */

static unsigned char byte_at(const char *text, size_t i)
{
	return (unsigned char)text[i];
}

/** Behind CSI: the length up to and with the final byte. */
static size_t control_length(const char *text, size_t len, size_t i, bool *ret_is_cut)
{
	for (; i < len; i++) {
		unsigned char c = byte_at(text, i);
		if ((c >= 0x40 && c < DEL) || c == CAN || c == SUB) {
			return i + 1;
		}
		if (c == ESC || c > DEL) {
			return i;
		}
	}
	*ret_is_cut = true;
	return len;
}

/** Behind OSC and the like: the length up to and with what ends the string. */
static size_t string_length(const char *text, size_t len, size_t i, bool *ret_is_cut)
{
	for (; i < len; i++) {
		unsigned char c = byte_at(text, i);
		if (c == BEL || c == CAN || c == SUB) {
			return i + 1;
		}
		if (c == C1 && i + 1 < len && byte_at(text, i + 1) == 0x9c) {
			return i + 2;
		}
		if (c == ESC && i + 1 < len) {
			return text[i + 1] == '\\' ? i + 2 : i;
		}
	}
	*ret_is_cut = true;
	return len;
}

/** Behind a single shift, which is for the next character: the length with that. */
static size_t shift_length(const char *text, size_t len, size_t i)
{
	bool has_character = i < len && byte_at(text, i) >= 0x20 && byte_at(text, i) < DEL;
	return has_character && text[i] != '{' ? i + 1 : i;
}

static size_t escape_length(const char *text, size_t len, bool *ret_is_cut)
{
	unsigned char c = len > 1 ? byte_at(text, 1) : 0;
	size_t i = 1;
	if (len == 1) {
		*ret_is_cut = true;
		return 1;
	}
	if (c == '[') {
		return control_length(text, len, 2, ret_is_cut);
	}
	if (c && strchr("]PX^_k", c)) {
		return string_length(text, len, 2, ret_is_cut);
	}
	if (c == 'N' || c == 'O') {
		return shift_length(text, len, 2);
	}
	while (i < len && byte_at(text, i) >= 0x20 && byte_at(text, i) < 0x30) {
		i++;
	}
	if (i == len) {
		*ret_is_cut = true;
		return len;
	}
	c = byte_at(text, i);
	return c >= 0x30 && c < DEL && c != '{' ? i + 1 : i;
}

/** `text` begins with C1, the first byte of any character from U+0080 to U+00BF. */
static size_t c1_length(const char *text, size_t len, bool *ret_is_cut)
{
	unsigned char c = len > 1 ? byte_at(text, 1) : 0;
	if (c < 0x80 || c > 0x9f) {
		return 0;
	}
	if (c == 0x9b) {
		return control_length(text, len, 2, ret_is_cut);
	}
	if (c == 0x90 || c == 0x98 || c >= 0x9d) {
		return string_length(text, len, 2, ret_is_cut);
	}
	return c == 0x8e || c == 0x8f ? shift_length(text, len, 2) : 2;
}

size_t terminal_sequence_length(const char *text, size_t len, bool *ret_is_cut)
{
	*ret_is_cut = false;
	unsigned char c = len ? byte_at(text, 0) : ' ';
	if (c == ESC) {
		return escape_length(text, len, ret_is_cut);
	}
	if (c == C1) {
		return c1_length(text, len, ret_is_cut);
	}
	return c < 0x20 || c == DEL;
}
