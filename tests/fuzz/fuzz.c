#include "fuzz.h"

size_t fuzz_utf8_length(const char *bytes, size_t len)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	unsigned char first = len ? (unsigned char)bytes[0] : 0x80;
	if (first < 0x80) {
		return 1;
	}
	size_t want = first >= 0xf8   ? 0
		      : first >= 0xf0 ? 4
		      : first >= 0xe0 ? 3
		      : first >= 0xc0 ? 2
				      : 0;
	if (!want || want > len) {
		return 0;
	}
	uint32_t code = first & (0x7fu >> want);
	for (size_t i = 1; i < want; i++) {
		if (((unsigned char)bytes[i] & 0xc0) != 0x80) {
			return 0;
		}
		code = code << 6 | ((unsigned char)bytes[i] & 0x3f);
	}
	bool surrogate = code >= 0xd800 && code <= 0xdfff;
	return code < least[want] || code > 0x10ffff || surrogate ? 0 : want;
}

bool fuzz_repeat(const struct fuzz_input *in, size_t size, struct buffer *ret)
{
	if (in->plan_len != 1 || in->len == 0) {
		return false;
	}
	size_t head = in->plan[0] % in->len;
	*ret = (struct buffer){0};
	buffer_append(ret, in->text, head);
	while (ret->len < size) {
		buffer_append(ret, in->text + head, in->len - head);
	}
	return true;
}
