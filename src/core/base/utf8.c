#include "holdfast/utf8.h"

#include <string.h>

size_t utf8_length(const char *text, size_t len)
{
	const unsigned char *s = (const unsigned char *)text;
	if (len == 0 || s[0] < 0x80) {
		return len > 0;
	}
	size_t need = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
	if (s[0] < 0xc2 || s[0] > 0xf4 || need > len) {
		return 0;
	}
	for (size_t i = 1; i < need; i++) {
		if ((s[i] & 0xc0) != 0x80) {
			return 0;
		}
	}
	/* Overlong forms, surrogates, and values above U+10FFFF. */
	bool bad = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
		   (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f);
	return bad ? 0 : need;
}

size_t utf8_prefix(const char *text, size_t len, size_t max)
{
	size_t at = 0;
	while (at < len) {
		size_t n = utf8_length(text + at, len - at);
		if (n == 0 || at + n > max) {
			break;
		}
		at += n;
	}
	return at;
}

/**
 * Starts a character: sets how many bytes follow and the bounds of the next one. Returns false if
 * `c` cannot start one.
 */
static bool begin_character(struct utf8_state *state, uint8_t c)
{
	if (c < 0xc2 || c > 0xf4) {
		return false;
	}
	state->left = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
	state->low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
	state->high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
	return true;
}

bool utf8_check(struct utf8_state *state, const char *bytes, size_t len)
{
	size_t i = 0;
	while (i < len) {
		uint8_t c = (uint8_t)bytes[i];
		if (state->left) {
			if (c < state->low || c > state->high) {
				return false;
			}
			state->left--;
			state->low = 0x80;
			state->high = 0xbf;
			i++;
			continue;
		}
		uint64_t word;
		while (len - i >= 8) { /* most text is ASCII */
			memcpy(&word, bytes + i, sizeof(word));
			if (word & 0x8080808080808080ULL) {
				break;
			}
			i += 8;
		}
		if (i == len) {
			break;
		}
		c = (uint8_t)bytes[i++];
		if (c >= 0x80 && !begin_character(state, c)) {
			return false;
		}
	}
	return true;
}

bool utf8_is_valid(const char *text, size_t len)
{
	struct utf8_state state = {0};
	return utf8_check(&state, text, len) && utf8_is_whole(&state);
}

size_t utf8_floor(const char *text, size_t text_len, size_t len)
{
	len = len < text_len ? len : text_len;
	while (len > 0 && len < text_len && !utf8_is_start(text[len])) {
		len--;
	}
	return len;
}

size_t utf8_ceil(const char *text, size_t text_len, size_t len)
{
	len = len ? len : 1;
	while (len < text_len && !utf8_is_start(text[len])) {
		len++;
	}
	return len < text_len ? len : text_len;
}

size_t utf8_half(const char *text, size_t len)
{
	for (size_t n = 1; n <= 3 && n <= len; n++) {
		struct utf8_state state = {0};
		const char *at = text + len - n;
		if (utf8_is_start(*at)) {
			return utf8_check(&state, at, n) && !utf8_is_whole(&state) ? n : 0;
		}
	}
	return 0;
}

uint32_t utf8_decode(const char *text, size_t len)
{
	static const unsigned char first[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	uint32_t code = (unsigned char)text[0] & first[len];
	for (size_t i = 1; i < len; i++) {
		code = code << 6 | ((unsigned char)text[i] & 0x3f);
	}
	return code;
}

bool utf8_is_hidden(uint32_t code)
{
	static const uint32_t ranges[][2] = {{0, 0x1f}, {0x7f, 0x9f}, {0xad, 0xad}, {0x34f, 0x34f},
		{0x61c, 0x61c}, {0x115f, 0x1160}, {0x17b4, 0x17b5}, {0x180e, 0x180e},
		{0x200b, 0x200b}, {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},
		{0x3164, 0x3164}, {0xfeff, 0xfeff}, {0xffa0, 0xffa0}, {0xfff0, 0xfffb},
		{0xe0000, 0xe0fff}};
	size_t i = 0;
	while (i < sizeof(ranges) / sizeof(ranges[0]) && code > ranges[i][1]) {
		i++;
	}
	return i < sizeof(ranges) / sizeof(ranges[0]) && code >= ranges[i][0];
}
