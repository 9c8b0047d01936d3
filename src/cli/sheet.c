#include "sheet.h"

#include "holdfast/diag.h"
#include "holdfast/utf8.h"

#include <string.h>

static void put(struct sheet *sheet, const char *bytes, size_t len)
{
	buffer_append(&sheet->text, bytes, len);
	size_t end = len;
	while (end && len - end < 2 && bytes[end - 1] == '\n') {
		end--;
	}
	size_t newlines = len - end + (end ? 0 : sheet->newlines);
	sheet->newlines = newlines < 2 ? (unsigned)newlines : 2;
	sheet->is_used = sheet->is_used || len;
}

void sheet_mark(struct sheet *sheet, const char *markdown)
{
	put(sheet, markdown, strlen(markdown));
}

void sheet_begin(struct sheet *sheet, enum sheet_kind kind)
{
	while (sheet->is_used && sheet->newlines < 2) {
		put(sheet, "\n", 1);
	}
	sheet->last = kind;
}

void sheet_text(struct sheet *sheet, const char *text, size_t len)
{
	size_t plain = 0;
	for (size_t i = 0; i < len;) {
		size_t unsafe = diag_unsafe(text + i, len - i);
		if (!unsafe || text[i] == '\n' || text[i] == '\t') {
			i += unsafe ? 1 : utf8_length(text + i, len - i);
			continue;
		}
		put(sheet, text + plain, i - plain);
		bool is_control = unsafe == 1 || utf8_decode(text + i, unsafe) < 0xa0;
		if (is_control && text[i] != '\r') {
			sheet_mark(sheet, UTF8_REPLACEMENT);
		}
		i += unsafe;
		plain = i;
	}
	put(sheet, text + plain, len - plain);
}

void sheet_plain(struct sheet *sheet, const char *text)
{
	while (*text) {
		size_t len = strcspn(text, "\n\t\r\\`*_[]<>|~");
		sheet_text(sheet, text, len);
		text += len;
		if (*text && strchr("\\`*_[]<>|~", *text)) {
			put(sheet, "\\", 1);
			put(sheet, text++, 1);
		} else if (*text) {
			put(sheet, " ", 1);
			text++;
		}
	}
}

void sheet_quote(struct sheet *sheet, const char *text, size_t len)
{
	if (sheet->last != SHEET_THOUGHT) {
		sheet_begin(sheet, SHEET_THOUGHT);
		sheet_mark(sheet, "> ");
	}
	while (len) {
		const char *newline = memchr(text, '\n', len);
		size_t line = newline ? (size_t)(newline - text) : len;
		if (sheet->newlines) {
			sheet_mark(sheet, line ? "> " : ">");
		}
		sheet_text(sheet, text, line);
		if (newline) {
			put(sheet, "\n", 1);
		}
		len -= line + (newline != NULL);
		text += line + (newline != NULL);
	}
}

void sheet_code(struct sheet *sheet, const char *text, size_t len)
{
	size_t longest = 0;
	size_t run = 0;
	for (size_t i = 0; i < len; i++) {
		run = text[i] == '`' ? run + 1 : 0;
		longest = run > longest ? run : longest;
	}
	const char *pad = longest ? " " : "";
	for (size_t i = 0; i <= longest; i++) {
		put(sheet, "`", 1);
	}
	sheet_mark(sheet, pad);
	sheet_text(sheet, text, len);
	sheet_mark(sheet, pad);
	for (size_t i = 0; i <= longest; i++) {
		put(sheet, "`", 1);
	}
}

void sheet_move(struct sheet *sheet, struct sheet *from)
{
	if (from->is_used) {
		sheet_begin(sheet, from->last);
		put(sheet, from->text.data, from->text.len);
	}
	buffer_finish(&from->text);
	*from = (struct sheet){0};
}
