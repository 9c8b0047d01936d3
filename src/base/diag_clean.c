/* Makes untrusted text safe for a terminal. */
#include "holdfast/buffer.h"
#include "holdfast/diag.h"
#include "holdfast/utf8.h"

#include <string.h>

/**
 * Returns the length of the escape sequence at `text`, which begins with ESC: CSI up to its final
 * byte, OSC and other strings up to BEL or ESC \, anything else two bytes. An unterminated sequence
 * extends to the end.
 */
static size_t escape_length(const char *text, size_t len)
{
	if (len < 2) {
		return len;
	}
	size_t i = 2;
	if (text[1] == '[') {
		while (i < len && (text[i] < 0x40 || text[i] > 0x7e)) {
			i++;
		}
		return i < len ? i + 1 : len;
	}
	if (text[1] && strchr("]PX^_", text[1])) {
		while (i < len && text[i] != '\a' && text[i] != '\x1b') {
			i++;
		}
		if (i + 1 < len && text[i] == '\x1b') {
			i++;
		}
		return i < len ? i + 1 : len;
	}
	return 2;
}

void diag_clean(struct buffer *out, const char *text, size_t len)
{
	size_t i = 0;
	while (i < len) {
		unsigned char c = (unsigned char)text[i];
		size_t n = utf8_length(text + i, len - i);
		if (c == 0x1b) {
			n = escape_length(text + i, len - i);
		} else if (n == 0) {
			buffer_append_char(out, '?');
			n = 1;
		} else if (c < 0x20 || c == 0x7f) {
			buffer_append_char(out, ' ');
		} else if (n != 2 || c != 0xc2 || (unsigned char)text[i + 1] >= 0xa0) {
			/* Drops the C1 control characters, CSI among them. */
			buffer_append(out, text + i, n);
		}
		i += n;
	}
}
