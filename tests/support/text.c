#include "text.h"

#include "holdfast/buffer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

size_t text_next(const char *text, size_t len, size_t at)
{
	do {
		at++;
	} while (at < len && ((unsigned char)text[at] & 0xc0) == 0x80);
	return at;
}

void text_fail(const char *what, const char *text, size_t len, size_t at)
{
	struct buffer shown = {0};
	buffer_append_json(&shown, text, len);
	print_error("%s, at byte %zu of %s\n", what, at, buffer_cstr(&shown));
	buffer_finish(&shown);
	fail();
}
