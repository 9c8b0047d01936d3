#include "token.h"

#include <stdbool.h>
#include <stdint.h>

/* The text being split; the functions below read at `at` and stop at `len`. */
struct reader {
	const char *text;
	size_t len;
	size_t at;
};

static unsigned char byte_at(const struct reader *r, size_t ahead)
{
	return r->at + ahead < r->len ? (unsigned char)r->text[r->at + ahead] : '\0';
}

static size_t character_length(unsigned char lead)
{
	if (lead < 0xc0) {
		return 1;
	}
	return lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

static bool is_digit(unsigned char c)
{
	return c >= '0' && c <= '9';
}

/* ASCII letters and two-byte characters: accented Latin, Greek, Cyrillic. */
static bool is_letter(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= 0xc3 && c < 0xe0);
}

/* A pseudorandom number that decides where to cut; it depends on its arguments alone. */
static unsigned dither(size_t offset, unsigned char c)
{
	uint32_t x = (uint32_t)offset * 2654435761u + c * 40503u;
	x ^= x >> 15;
	x *= 2246822519u;
	return (x >> 16) & 0xff;
}

static void skip(struct reader *r, size_t bytes)
{
	r->at = r->at + bytes < r->len ? r->at + bytes : r->len;
}

static size_t skip_run(struct reader *r, unsigned char c, size_t max)
{
	size_t count = 0;
	while (count < max && r->at < r->len && byte_at(r, 0) == c) {
		r->at++;
		count++;
	}
	return count;
}

static void skip_letters(struct reader *r, size_t max)
{
	for (size_t i = 0; i < max && is_letter(byte_at(r, 0)); i++) {
		skip(r, character_length(byte_at(r, 0)));
	}
}

static void skip_word(struct reader *r, unsigned dice)
{
	struct reader ahead = *r;
	size_t letters = 0;
	while (is_letter(byte_at(&ahead, 0))) {
		skip(&ahead, character_length(byte_at(&ahead, 0)));
		letters++;
	}
	bool cut = letters > 7 || (letters > 4 && dice % 6 == 0);
	skip_letters(r, cut ? 3 + dice % 3 : letters);
}

static void skip_punctuation(struct reader *r, unsigned dice)
{
	unsigned char c = byte_at(r, 0);
	if (c == '*' || c == '`') {
		skip_run(r, c, dice % 2 ? 1 : 3);
		if (dice % 4 == 2) {
			skip_letters(r, 3);
		}
		return;
	}
	skip_run(r, c, c == '-' || c == '#' || c == '=' ? 3 : 1);
	if (dice % 3 == 0) {
		skip_run(r, '\n', 2);
	}
}

/* Indentation leaves one space for the word that follows it. */
static bool skip_spaces(struct reader *r)
{
	size_t count = skip_run(r, ' ', SIZE_MAX);
	if (count < 2) {
		return false;
	}
	if (byte_at(r, 0) != '\n' && r->at < r->len) {
		r->at--;
	}
	return true;
}

size_t demo_token_length(const char *text, size_t len, size_t offset)
{
	struct reader r = {.text = text, .len = len, .at = offset};
	unsigned dice = dither(offset, byte_at(&r, 0));
	if (skip_spaces(&r) || r.at == r.len) {
		return r.at - offset;
	}
	unsigned char c = byte_at(&r, 0);
	if (c == '\n') {
		skip_run(&r, '\n', SIZE_MAX);
	} else if (is_letter(c)) {
		skip_word(&r, dice);
	} else if (is_digit(c)) {
		for (size_t i = 0; i < 3 && is_digit(byte_at(&r, 0)); i++) {
			r.at++;
		}
	} else if (c >= 0x80) {
		skip(&r, character_length(c));
	} else {
		skip_punctuation(&r, dice);
	}
	return r.at - offset;
}
