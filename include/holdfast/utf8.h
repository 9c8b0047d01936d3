/*
 * UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing beyond U+10FFFF.
 */
#ifndef HOLDFAST_UTF8_H
#define HOLDFAST_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* U+FFFD, for bytes that are no character. */
#define UTF8_REPLACEMENT "\xef\xbf\xbd"

/** The length of the sequence at `text` (1 to 4), or 0 if there is no valid one. */
size_t utf8_length(const char *text, size_t len);
/** The longest prefix of valid UTF-8 that is no longer than `max` and cuts no character. */
size_t utf8_prefix(const char *text, size_t len, size_t max);
bool utf8_is_valid(const char *text, size_t len);

/** The state of a text that comes in pieces. Zeroed: between two characters. */
struct utf8_state {
	uint8_t left; /* bytes that the character still has */
	uint8_t low; /* bounds of the next one, if there is any left */
	uint8_t high;
};

/** False as soon as the text can be no UTF-8 any more. */
bool utf8_check(struct utf8_state *state, const char *bytes, size_t len);
/** Whether the text may end here. */
static inline bool utf8_is_whole(const struct utf8_state *state)
{
	return !state->left;
}

/** Whether a character begins with this byte. */
static inline bool utf8_is_start(char byte)
{
	return ((unsigned char)byte & 0xc0) != 0x80;
}
/* Of valid text: */
/** The longest prefix of at most `len` bytes that ends between two characters. */
size_t utf8_floor(const char *text, size_t text_len, size_t len);
/** The shortest piece of at least `len` bytes (and at least a character) that ends between two. */
size_t utf8_ceil(const char *text, size_t text_len, size_t len);

#endif
