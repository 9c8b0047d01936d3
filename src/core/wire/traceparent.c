#include "holdfast/traceparent.h"

#include <string.h>

#define HEX "0123456789abcdef"

/** Whether the text is lower-case hexadecimal digits, not all of them equal to `no`; 0: any. */
static bool is_hex(const char *text, size_t len, char no)
{
	size_t same = 0;
	for (size_t i = 0; i < len; i++) {
		if (!text[i] || !strchr(HEX, text[i])) {
			return false;
		}
		same += text[i] == no;
	}
	return same < len;
}

bool traceparent_read(const char *text, size_t len, char ret[TRACEPARENT_SIZE])
{
	size_t most = TRACEPARENT_SIZE - 1;
	if (len < most || text[2] != '-' || text[35] != '-' || text[52] != '-') {
		return false;
	}
	bool is_first = memcmp(text, "00", 2) == 0;
	if (len > most && (is_first || text[most] != '-')) {
		return false;
	}
	if (!is_hex(text, 2, 'f') || !is_hex(text + 3, 32, '0') || !is_hex(text + 36, 16, '0') ||
		!is_hex(text + 53, 2, 0)) {
		return false;
	}
	memcpy(ret, text, most);
	ret[most] = '\0';
	return true;
}
