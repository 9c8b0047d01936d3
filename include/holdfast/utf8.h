/*
 * UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing beyond U+10FFFF.
 */
#ifndef HOLDFAST_UTF8_H
#define HOLDFAST_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* U+FFFD, the replacement for invalid bytes. */
#define UTF8_REPLACEMENT "\xef\xbf\xbd"

/** Returns the length of the character at `text` (1 to 4), or 0 if it is invalid or incomplete. */
size_t utf8_length(const char *text, size_t len);
/**
 * Returns the length of the longest valid prefix of at most `max` bytes that ends between two
 * characters.
 */
size_t utf8_prefix(const char *text, size_t len, size_t max);
bool utf8_is_valid(const char *text, size_t len);

/** Validates a text that arrives in pieces. All zero: between two characters. */
struct utf8_state {
	uint8_t left; /* bytes of the current character still to come */
	uint8_t low; /* bounds of the next byte, if `left` is not 0 */
	uint8_t high;
};

/** Feeds bytes. Returns false as soon as the text cannot be valid UTF-8. */
bool utf8_check(struct utf8_state *state, const char *bytes, size_t len);
/** Whether the text so far ends between two characters. */
static inline bool utf8_is_whole(const struct utf8_state *state)
{
	return !state->left;
}

/**
 * Returns how many bytes at the end, 0 to 3, begin a character that is not complete. What is in front of
 * them may be anything.
 */
size_t utf8_half(const char *text, size_t len);

/** Returns the code point of the character at `text`, whose length utf8_length() has given. */
uint32_t utf8_decode(const char *text, size_t len);
/**
 * Whether a character is invisible or changes how the text around it is shown: control characters,
 * those that change the direction of text, line separators, tags, fillers. Joiners (U+200C, U+200D)
 * and variation selectors up to U+FE0F are not: some languages and emoji need them.
 */
bool utf8_is_hidden(uint32_t code);

/** Whether the byte is not a continuation byte. */
static inline bool utf8_is_start(char byte)
{
	return ((unsigned char)byte & 0xc0) != 0x80;
}
/* For valid text: */
/** Returns the largest character boundary that is at most `len`. */
size_t utf8_floor(const char *text, size_t text_len, size_t len);
/**
 * Returns the smallest character boundary, greater than 0, that is at least `len`; at most
 * `text_len`.
 */
size_t utf8_ceil(const char *text, size_t text_len, size_t len);

#endif
