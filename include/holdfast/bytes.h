/*
 * Searches for bytes eight at a time, for the few loops that scan all text. A search returns a word
 * whose bytes have their highest bit set where they match. Bits above the first match may be wrong,
 * so use only bytes_first() on it. Words are little-endian on every machine.
 */
#ifndef HOLDFAST_BYTES_H
#define HOLDFAST_BYTES_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BYTES_WORD sizeof(uint64_t)
#define BYTES_ONES UINT64_C(0x0101010101010101)
#define BYTES_HIGH UINT64_C(0x8080808080808080)

static inline uint64_t bytes_load(const char *at)
{
	uint64_t word;
	memcpy(&word, at, sizeof(word));
	return le64toh(word);
}

/** Finds bytes less than `limit`, which is at most 128. */
static inline uint64_t bytes_below(uint64_t word, unsigned char limit)
{
	return (word - BYTES_ONES * limit) & ~word & BYTES_HIGH;
}

static inline uint64_t bytes_equal(uint64_t word, unsigned char c)
{
	return bytes_below(word ^ (BYTES_ONES * c), 1);
}

/** The index of the first match; `found` is not 0. */
static inline size_t bytes_first(uint64_t found)
{
	return (size_t)__builtin_ctzll(found) / 8;
}

/** The value of a hexadecimal digit, or -1. */
static inline int bytes_hex_digit(char c)
{
	if (c >= '0' && c <= '9') {
		return c - '0';
	}
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/**
 * Reads exactly 16 lower-case hexadecimal digits, as buffer_append_hex() writes them. Returns
 * false, and 0, if `text` is anything else.
 */
static inline bool bytes_read_hex(const char *text, size_t len, uint64_t *ret)
{
	uint64_t value = 0;
	bool good = len == 16;
	for (size_t i = 0; i < len && good; i++) {
		int digit = text[i] >= 'A' && text[i] <= 'F' ? -1 : bytes_hex_digit(text[i]);
		good = digit >= 0;
		value = value << 4 | (unsigned)digit;
	}
	*ret = good ? value : 0;
	return good;
}

/** The index of the first `a` or `b`, or `len` if neither occurs. */
static inline size_t bytes_find_two(const char *text, size_t len, unsigned char a, unsigned char b)
{
	size_t at = 0;
	for (; len - at >= BYTES_WORD; at += BYTES_WORD) {
		uint64_t word = bytes_load(text + at);
		uint64_t found = bytes_equal(word, a) | bytes_equal(word, b);
		if (found) {
			return at + bytes_first(found);
		}
	}
	while (at < len && (unsigned char)text[at] != a && (unsigned char)text[at] != b) {
		at++;
	}
	return at;
}

#endif
