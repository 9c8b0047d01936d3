/* Makes untrusted text safe for a terminal, as text or as JSON. */
#include "holdfast/buffer.h"
#include "holdfast/diag.h"
#include "terminal_sequence.h"
#include "holdfast/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t diag_unsafe(const char *text, size_t len)
{
	unsigned char c = len ? (unsigned char)text[0] : ' ';
	if (c >= 0x20 && c < 0x7f) {
		return 0;
	}
	size_t n = utf8_length(text, len);
	return !n ? 1 : utf8_is_hidden(utf8_decode(text, n)) ? n : 0;
}

/** Returns the length of what begins the text and is safe. */
static size_t safe_length(const char *text, size_t len)
{
	size_t i = 0;
	while (i < len && !diag_unsafe(text + i, len - i)) {
		i += (unsigned char)text[i] < 0x80 ? 1 : utf8_length(text + i, len - i);
	}
	return i;
}

void diag_clean(struct buffer *out, const char *text, size_t len)
{
	for (size_t i = 0; i < len;) {
		size_t safe = safe_length(text + i, len - i);
		buffer_append(out, text + i, safe);
		i += safe;
		size_t n = diag_unsafe(text + i, len - i);
		bool is_cut;
		if (n == 1 && text[i] == 0x1b) {
			/* One without an end does not take our own words behind it with it. */
			n = terminal_sequence_length(text + i, len - i, &is_cut);
			n = is_cut ? 1 : n;
		} else if (n == 1) {
			buffer_append_char(out, (unsigned char)text[i] < 0x80 ? ' ' : '?');
		}
		i += n;
	}
}

void diag_show(struct buffer *out, const char *text, size_t len)
{
	for (size_t i = 0; i < len;) {
		size_t safe = safe_length(text + i, len - i);
		buffer_append(out, text + i, safe);
		i += safe;
		for (size_t n = diag_unsafe(text + i, len - i); n > 0; n--, i++) {
			buffer_printf(out, "\\x%02x", (unsigned char)text[i]);
		}
	}
}

void diag_clean_json(struct buffer *out, const char *json, size_t len)
{
	for (size_t i = 0; i < len;) {
		size_t safe = safe_length(json + i, len - i);
		buffer_append(out, json + i, safe);
		i += safe;
		size_t n = diag_unsafe(json + i, len - i);
		unsigned char c = n ? (unsigned char)json[i] : 0;
		uint32_t code = n && utf8_length(json + i, n) ? utf8_decode(json + i, n) : 0xfffd;
		if (n && c < 0x20) { /* between two values, not in a string */
			buffer_append_char(out, ' ');
		} else if (n && code > 0xffff) {
			code -= 0x10000;
			buffer_printf(out, "\\u%04x\\u%04x", 0xd800 + (code >> 10),
				0xdc00 + (code & 0x3ff));
		} else if (n) {
			buffer_printf(out, "\\u%04x", code);
		}
		i += n;
	}
}

/* errno of the first write to stdout that failed: the stream only keeps that one did. */
static int print_error;

static void note_print(bool is_good)
{
	if (!is_good && !print_error) {
		print_error = errno;
	}
}

void diag_print_bytes(const char *bytes, size_t len)
{
	note_print(fwrite(bytes, 1, len, stdout) == len);
}

void diag_print_text(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	note_print(vprintf(fmt, args) >= 0);
	va_end(args);
}

int diag_flush(void)
{
	note_print(fflush(stdout) == 0);
	return print_error ? -print_error : ferror(stdout) ? -EIO : 0;
}

void diag_print(const char *fmt, ...)
{
	va_list args;
	char *text;
	struct buffer out = {0};
	va_start(args, fmt);
	int len = vasprintf(&text, fmt, args);
	va_end(args);
	if (len < 0) {
		abort();
	}
	diag_clean(&out, text, (size_t)len);
	buffer_append_char(&out, '\n');
	diag_print_bytes(out.data, out.len);
	buffer_finish(&out);
	free(text);
}

void diag_print_json(const char *json, size_t len)
{
	struct buffer out = {0};
	diag_clean_json(&out, json, len);
	buffer_append_char(&out, '\n');
	diag_print_bytes(out.data, out.len);
	buffer_finish(&out);
}
