#include "holdfast/base64url.h"

#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void base64url_append(struct buffer *out, const void *bytes, size_t len)
{
	const unsigned char *at = bytes;
	unsigned bits = 0;
	unsigned count = 0;
	for (size_t i = 0; i < len; i++) {
		bits = (bits << 8) | at[i];
		for (count += 8; count >= 6; count -= 6) {
			buffer_append_char(out, digits[(bits >> (count - 6)) & 63]);
		}
	}
	if (count) {
		buffer_append_char(out, digits[(bits << (6 - count)) & 63]);
	}
}

bool base64url_read(const char *text, void *ret, size_t len)
{
	unsigned char *to = ret;
	unsigned bits = 0;
	unsigned count = 0;
	size_t size = 0;
	for (; *text; text++) {
		const char *digit = strchr(digits, *text);
		if (!digit || (size == len && count == 0)) {
			return false;
		}
		bits = (bits << 6) | (unsigned)(digit - digits);
		count += 6;
		if (count >= 8) {
			if (size == len) {
				return false;
			}
			count -= 8;
			to[size++] = (unsigned char)(bits >> count);
			bits &= (1U << count) - 1;
		}
	}
	return size == len && count < 6 && bits == 0;
}
