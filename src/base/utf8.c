#include "holdfast/utf8.h"

#include <stdint.h>

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
	/* Overlong forms, surrogates, and what lies beyond U+10FFFF. */
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

bool utf8_is_valid(const char *text, size_t len)
{
	const unsigned char *at = (const unsigned char *)text;
	const unsigned char *end = at + len;
	while (at < end) {
		unsigned char c = *at++;
		if (c < 0x80) {
			continue;
		}
		int more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
		uint32_t point = c & (0x3f >> more);
		if (c < 0xc2 || c > 0xf4 || end - at < more) {
			return false;
		}
		for (int i = 0; i < more; i++, at++) {
			if ((*at & 0xc0) != 0x80) {
				return false;
			}
			point = point << 6 | (*at & 0x3f);
		}
		if ((more == 2 && point < 0x800) || (more == 3 && point < 0x10000) ||
			point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) {
			return false;
		}
	}
	return true;
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
