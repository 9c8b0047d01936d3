#include "holdfast/buffer.h"
#include "holdfast/chunked.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

/**
 * Decodes a text that comes in pieces of `piece` bytes; returns the state, and what is left over.
 */
static enum chunked_state decode(
	const char *text, size_t len, size_t piece, struct buffer *out, size_t *ret_unused)
{
	struct chunked chunked = {0};
	buffer_clear(out);
	for (size_t done = 0; done < len;) {
		const char *at = text + done;
		const char *bytes;
		size_t left = piece < len - done ? piece : len - done;
		size_t n;
		done += left;
		while ((n = chunked_take(&chunked, &at, &left, &bytes))) {
			assert_true(bytes >= text);
			assert_true(bytes + n <= text + len);
			buffer_append(out, bytes, n);
		}
		if (chunked.state >= CHUNKED_DONE) {
			*ret_unused = len - done + left;
			return chunked.state;
		}
		assert_int_equal(left, 0);
	}
	*ret_unused = 0;
	return chunked.state;
}

struct sample {
	const char *text;
	const char *body;
	size_t unused;
};

static void bodies_come_out_however_they_are_cut(void **state)
{
	static const struct sample samples[] = {
		{"0\r\n\r\n", "", 0},
		{"5\r\nhello\r\n0\r\n\r\n", "hello", 0},
		{"1\r\na\r\n2\r\nbc\r\n0\r\n\r\nGET /", "abc", 5},
		{"00A\r\n0123456789\r\n0\r\n\r\n", "0123456789", 0},
		{"a\r\n0123456789\r\n000\r\n\r\n", "0123456789", 0},
		{"3;name=value\r\n\r\n\n\r\n0;last\r\n\r\n", "\r\n\n", 0},
		{"3 \t;a=\"b\"\r\nxyz\r\n0\r\n\r\n", "xyz", 0},
		{"1 \t \r\nx\r\n0 \r\n\r\n", "x", 0},
		{"1\r\nx\r\n0\r\nDigest: abc\r\nOther:\r\n\r\n", "x", 0},
		{"000000000000001\r\nx\r\n0\r\n\r\n", "x", 0},
	};
	struct buffer out = {0};
	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
		size_t len = strlen(samples[i].text);
		for (size_t piece = 1; piece <= len; piece++) {
			size_t unused;
			assert_int_equal(
				decode(samples[i].text, len, piece, &out, &unused), CHUNKED_DONE);
			assert_string_equal(buffer_cstr(&out), samples[i].body);
			assert_int_equal(unused, samples[i].unused);
		}
		for (size_t cut = 0; cut < len - samples[i].unused; cut++) {
			size_t unused;
			assert_true(decode(samples[i].text, cut, 3, &out, &unused) < CHUNKED_DONE);
		}
	}
	buffer_finish(&out);
	(void)state;
}

static void what_is_no_chunked_body_is_refused(void **state)
{
	static const char *const samples[] = {"\r\n", "x\r\n", "-1\r\nx", "+1\r\nx", "0x1\r\nx",
		" 1\r\n", "1\nx", "1\r\rx", "1\r\nxy", "1\r\nx\n0", "1\r\nx\r0", "g\r\n", "\n",
		"1\r\nx\r\n\r\n", "0\r\n\n", "0\n\r\n", "0\r\n\rX", "0\r\na\nb", "0\r\na: b\r\rc",
		"0\r\na\001: b", "1;\001\r\n", "1;a\nx", "1,1\r\n", "1 1\r\n", "1 x\r\n", "1 \n",
		"1 \t\v\r\n", "1 =a\r\n", "0000000000000001\r\n", "ffffffffffffffff\r\n",
		"10000000000000000\r\n"};
	struct buffer out = {0};
	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
		size_t len = strlen(samples[i]);
		for (size_t piece = 1; piece <= len; piece++) {
			size_t unused;
			if (decode(samples[i], len, piece, &out, &unused) != CHUNKED_BAD) {
				fail_msg("sample %zu is taken, in pieces of %zu", i, piece);
			}
		}
	}
	buffer_finish(&out);
	(void)state;
}

/** `count` bytes between two texts; whether the decoder still goes along. */
static enum chunked_state decode_long(const char *front, char fill, size_t count, const char *back)
{
	struct buffer text = {0};
	struct buffer out = {0};
	size_t unused;
	buffer_append_str(&text, front);
	for (size_t i = 0; i < count; i++) {
		buffer_append_char(&text, fill);
	}
	buffer_append_str(&text, back);
	enum chunked_state end = decode(text.data, text.len, 100, &out, &unused);
	buffer_finish(&text);
	buffer_finish(&out);
	return end;
}

static void extensions_and_trailers_have_an_end(void **state)
{
	assert_int_equal(decode_long("0;", 'e', CHUNKED_LINE_MAX - 1, "\r\n\r\n"), CHUNKED_DONE);
	assert_int_equal(decode_long("0;", 'e', CHUNKED_LINE_MAX, "\r\n\r\n"), CHUNKED_BAD);
	assert_int_equal(decode_long("0 ", ' ', CHUNKED_LINE_MAX, "\r\n\r\n"), CHUNKED_BAD);
	assert_int_equal(
		decode_long("0\r\nt:", 't', CHUNKED_TRAILER_MAX - 2, "\r\n\r\n"), CHUNKED_DONE);
	assert_int_equal(
		decode_long("0\r\nt:", 't', CHUNKED_TRAILER_MAX - 1, "\r\n\r\n"), CHUNKED_BAD);
	struct buffer lines = {0};
	struct buffer out = {0};
	size_t unused;
	buffer_append_str(&lines, "0\r\n");
	for (size_t i = 0; i < CHUNKED_TRAILER_MAX; i++) {
		buffer_append_str(&lines, "t\r\n");
	}
	assert_int_equal(decode(lines.data, lines.len, 7, &out, &unused), CHUNKED_BAD);
	buffer_finish(&lines);
	buffer_finish(&out);
	(void)state;
}

/** The largest chunk that can be announced: nothing is kept or reserved for it. */
static void a_chunk_may_be_endless(void **state)
{
	static const char size[] = "fffffffffffffff\r\n";
	struct chunked chunked = {0};
	const char *at = size;
	size_t len = sizeof(size) - 1;
	const char *bytes;
	assert_int_equal(chunked_take(&chunked, &at, &len, &bytes), 0);
	for (int i = 0; i < 1000; i++) {
		static const char text[1000];
		at = text;
		len = sizeof(text);
		assert_int_equal(chunked_take(&chunked, &at, &len, &bytes), sizeof(text));
		assert_ptr_equal(bytes, text);
	}
	assert_int_equal(chunked.left, UINT64_C(0xfffffffffffffff) - 1000000);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bodies_come_out_however_they_are_cut),
		cmocka_unit_test(what_is_no_chunked_body_is_refused),
		cmocka_unit_test(extensions_and_trailers_have_an_end),
		cmocka_unit_test(a_chunk_may_be_endless),
	};
	return cmocka_run_group_tests_name("chunked", tests, NULL, NULL);
}
