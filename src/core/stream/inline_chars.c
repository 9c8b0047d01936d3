#include "inline_guard_internal.h"

#define REPLACEMENT 0xfffd

/* Unicode's P categories, for common scripts; rare punctuation counts as letters. */
static const struct {
	uint32_t first;
	uint32_t last;
} punctuation[] = {
	{'!', '/'},
	{':', '@'},
	{'[', '`'},
	{'{', '~'},
	{0xa1, 0xa1},
	{0xa7, 0xa7},
	{0xab, 0xab},
	{0xb6, 0xb7},
	{0xbb, 0xbb},
	{0xbf, 0xbf},
	{0x37e, 0x37e},
	{0x387, 0x387},
	{0x55a, 0x55f},
	{0x589, 0x58a},
	{0x5be, 0x5be},
	{0x5f3, 0x5f4},
	{0x609, 0x60a},
	{0x60c, 0x60d},
	{0x61b, 0x61b},
	{0x61e, 0x61f},
	{0x66a, 0x66d},
	{0x6d4, 0x6d4},
	{0x964, 0x965},
	{0xe4f, 0xe4f},
	{0x2010, 0x2027},
	{0x2030, 0x2043},
	{0x2045, 0x2051},
	{0x2053, 0x205e},
	{0x207d, 0x207e},
	{0x208d, 0x208e},
	{0x2308, 0x230b},
	{0x2329, 0x232a},
	{0x2768, 0x2775},
	{0x27e6, 0x27ef},
	{0x2e00, 0x2e42},
	{0x3001, 0x3003},
	{0x3008, 0x3011},
	{0x3014, 0x301f},
	{0x3030, 0x3030},
	{0x303d, 0x303d},
	{0x30a0, 0x30a0},
	{0x30fb, 0x30fb},
	{0xfe10, 0xfe19},
	{0xfe30, 0xfe52},
	{0xff01, 0xff03},
	{0xff05, 0xff0a},
	{0xff0c, 0xff0f},
	{0xff1a, 0xff1b},
	{0xff1f, 0xff20},
	{0xff3b, 0xff3d},
	{0xff3f, 0xff3f},
	{0xff5b, 0xff5b},
	{0xff5d, 0xff5d},
	{0xff5f, 0xff65},
};

static bool is_continuation(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

uint32_t inline_char_after(const char *text, size_t at, size_t end)
{
	if (at >= end) {
		return '\n';
	}
	unsigned char lead = (unsigned char)text[at];
	if (lead < 0x80) {
		return lead;
	}
	size_t extra = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
	if (lead < 0xc0 || end - at <= extra) {
		return REPLACEMENT;
	}
	uint32_t c = lead & (0x3fu >> extra);
	for (size_t i = 1; i <= extra; i++) {
		if (!is_continuation(text[at + i])) {
			return REPLACEMENT;
		}
		c = c << 6 | ((unsigned char)text[at + i] & 0x3f);
	}
	return c;
}

uint32_t inline_char_before(const char *text, size_t start, size_t at)
{
	if (at <= start) {
		return '\n';
	}
	size_t lead = at - 1;
	while (lead > start && at - lead < 4 && is_continuation(text[lead])) {
		lead--;
	}
	return inline_char_after(text, lead, at);
}

bool inline_char_is_space(uint32_t c)
{
	switch (c) {
	case '\t':
	case '\n':
	case '\f':
	case '\r':
	case ' ':
	case 0xa0:
	case 0x1680:
	case 0x202f:
	case 0x205f:
	case 0x3000:
		return true;
	default:
		return c >= 0x2000 && c <= 0x200a;
	}
}

bool inline_char_is_punctuation(uint32_t c)
{
	for (size_t i = 0; i < sizeof(punctuation) / sizeof(punctuation[0]); i++) {
		if (c >= punctuation[i].first && c <= punctuation[i].last) {
			return true;
		}
	}
	return false;
}
