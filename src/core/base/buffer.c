#include "holdfast/buffer.h"

#include "holdfast/bytes.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BUFFER_MOVES 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define BUFFER_MOVES 1
#endif

void *xmalloc(size_t size)
{
	void *ptr = malloc(size ? size : 1);
	if (!ptr) {
		abort();
	}
	return ptr;
}

void *xcalloc(size_t count, size_t size)
{
	void *ptr = calloc(count ? count : 1, size ? size : 1);
	if (!ptr) {
		abort();
	}
	return ptr;
}

void *xrealloc(void *ptr, size_t size)
{
	void *moved = realloc(ptr, size ? size : 1);
	if (!moved) {
		abort();
	}
	return moved;
}

char *xstrndup(const char *text, size_t len)
{
	char *copy = xmalloc(len + 1);
	memcpy(copy, text, len);
	copy[len] = '\0';
	return copy;
}

char *xstrdup(const char *text)
{
	return xstrndup(text, strlen(text));
}

char *xprintf(const char *fmt, ...)
{
	char *text;
	va_list args;
	va_start(args, fmt);
	int len = vasprintf(&text, fmt, args);
	va_end(args);
	if (len < 0) {
		abort();
	}
	return text;
}

void buffer_init(struct buffer *b)
{
	*b = (struct buffer){0};
}

void buffer_finish(struct buffer *b)
{
	free(b->data);
	buffer_init(b);
}

/** AddressSanitizer's realloc() always moves, and poisons the old block. */
static void move(struct buffer *b, size_t cap)
{
	b->data = xrealloc(b->data, cap);
	b->cap = cap;
}

#ifdef BUFFER_MOVES

/* Larger buffers do not move at each append, or at each buffer_consume(): it would take too long. */
#define MOVES_ALWAYS   1024
#define MOVES_CONSUMED ((size_t)64 * 1024)

void buffer_reserve(struct buffer *b, size_t extra)
{
	size_t need = b->len + extra;
	if (!extra) {
		return;
	}
	if (b->len <= MOVES_ALWAYS) {
		move(b, need);
	} else if (need > b->cap) {
		move(b, need + (b->len <= MOVES_CONSUMED ? b->len / 8 : b->len));
	}
}

/** Moves, so that no pointer to the bytes is good any more, to a block with room for `extra`. */
static void settle(struct buffer *b, size_t extra)
{
	size_t size = b->len + extra;
	if (b->data || extra) {
		move(b, size ? size : 1);
	}
}

#else

#define MOVES_CONSUMED SIZE_MAX

void buffer_reserve(struct buffer *b, size_t extra)
{
	size_t cap = b->cap ? b->cap : 64;
	if (b->cap - b->len >= extra) {
		return;
	}
	while (cap - b->len < extra) {
		cap *= 2;
	}
	move(b, cap);
}

static void settle(struct buffer *b, size_t extra)
{
	buffer_reserve(b, extra);
}

#endif

void buffer_append(struct buffer *b, const void *bytes, size_t len)
{
	if (!len) {
		return;
	}
	buffer_reserve(b, len);
	memcpy(b->data + b->len, bytes, len);
	b->len += len;
}

void buffer_append_str(struct buffer *b, const char *str)
{
	buffer_append(b, str, strlen(str));
}

void buffer_append_char(struct buffer *b, char c)
{
	buffer_append(b, &c, 1);
}

void buffer_append_u64(struct buffer *b, uint64_t value)
{
	char digits[20];
	size_t at = sizeof(digits);
	do {
		digits[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	buffer_append(b, digits + at, sizeof(digits) - at);
}

void buffer_append_hex(struct buffer *b, uint64_t value)
{
	char digits[16];
	for (size_t at = sizeof(digits); at-- > 0; value >>= 4) {
		digits[at] = "0123456789abcdef"[value & 15];
	}
	buffer_append(b, digits, sizeof(digits));
}

void buffer_printf(struct buffer *b, const char *fmt, ...)
{
	va_list args;
	va_list again;
	va_start(args, fmt);
	va_copy(again, args);
	buffer_reserve(b, 64);
	int need = vsnprintf(b->data + b->len, b->cap - b->len, fmt, args);
	if (need >= 0 && (size_t)need >= b->cap - b->len) {
		buffer_reserve(b, (size_t)need + 1);
		vsnprintf(b->data + b->len, b->cap - b->len, fmt, again);
	}
	b->len += need > 0 ? (size_t)need : 0;
	va_end(args);
	va_end(again);
}

static void append_escape(struct buffer *b, unsigned char c)
{
	static const char hex[] = "0123456789abcdef";
	switch (c) {
	case '"':
		buffer_append(b, "\\\"", 2);
		break;
	case '\\':
		buffer_append(b, "\\\\", 2);
		break;
	case '\n':
		buffer_append(b, "\\n", 2);
		break;
	case '\r':
		buffer_append(b, "\\r", 2);
		break;
	case '\t':
		buffer_append(b, "\\t", 2);
		break;
	default:
		buffer_append(b, (char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}, 6);
		break;
	}
}

static bool needs_escape(unsigned char c)
{
	return c < 0x20 || c == '"' || c == '\\' || c == 0x7f;
}

/* needs_escape() of eight bytes. */
static uint64_t find_escapes(uint64_t word)
{
	return bytes_below(word, 0x20) | bytes_equal(word, '"') | bytes_equal(word, '\\') |
	       bytes_equal(word, 0x7f);
}

/*
 * Copies up to the first byte that needs an escape, and returns the number of bytes before it.
 * Whole words are copied before they are checked, so `to` must have room for `len` bytes and one
 * word.
 */
static size_t copy_plain(char *to, const char *text, size_t len)
{
	size_t at = 0;
	while (len - at >= BYTES_WORD) {
		uint64_t found = find_escapes(bytes_load(text + at));
		memcpy(to + at, text + at, BYTES_WORD);
		if (found) {
			return at + bytes_first(found);
		}
		at += BYTES_WORD;
	}
	for (; at < len && !needs_escape((unsigned char)text[at]); at++) {
		to[at] = text[at];
	}
	return at;
}

void buffer_append_json(struct buffer *b, const char *text, size_t len)
{
	buffer_append_char(b, '"');
	for (;;) {
		buffer_reserve(b, len + BYTES_WORD);
		size_t plain = copy_plain(b->data + b->len, text, len);
		b->len += plain;
		if (plain == len) {
			break;
		}
		append_escape(b, (unsigned char)text[plain]);
		text += plain + 1;
		len -= plain + 1;
	}
	buffer_append_char(b, '"');
}

void buffer_append_member(struct buffer *b, const char *name, const char *text)
{
	if (b->len && b->data[b->len - 1] != '{') {
		buffer_append_char(b, ',');
	}
	buffer_append_char(b, '"');
	buffer_append_str(b, name);
	buffer_append(b, "\":", 2);
	buffer_append_json(b, text, strlen(text));
}

void buffer_consume(struct buffer *b, size_t len)
{
	b->len -= len;
	if (b->len) {
		memmove(b->data, b->data + len, b->len);
	}
	if (b->len <= MOVES_CONSUMED) {
		settle(b, 0);
	}
}

void buffer_clear(struct buffer *b)
{
	b->len = 0;
	settle(b, 0);
}

const char *buffer_cstr(struct buffer *b)
{
	settle(b, 1);
	b->data[b->len] = '\0';
	return b->data;
}
