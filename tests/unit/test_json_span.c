/* JSON read without a tree says what jansson says, whatever the text. */
#include "holdfast/requests.h"
#include "json_compare.h"
#include "random.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define ROUNDS 20000

static void expect_same(const char *text, size_t len)
{
	const char *wrong = json_compare(text, len);
	if (wrong) {
		fail_msg("this does not hold: %s: %.*s", wrong, (int)len, text);
	}
}

/* --- one by one --- */

static void what_is_taken(void **state)
{
	static const struct {
		const char *text;
		const char *written; /* NULL: as it is */
	} cases[] = {
		{"{}", NULL},
		{" {} ", "{}"},
		{"[1 ,2]", "[1,2]"},
		{"{\"a\":1.50,\"b\":[-0,1E+3,12345678901234567890]}", NULL},
		{"{\"b\":1,\"a\":{\"c\" :null}}", "{\"b\":1,\"a\":{\"c\":null}}"},
		{"[\"\\u0041\\/\\b\",1]", "[\"A/\\u0008\",1]"},
		{"[\"a\x7f\"]", "[\"a\\u007f\"]"},
		{"[\"\\\"\\\\\\n\\r\\t\"]", NULL},
		{"\"\\ud83d\\ude00\"", "\"\xf0\x9f\x98\x80\""},
		{"\n[true,\tfalse\r]", "[true,false]"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct json_spans spans;
		struct buffer out = {0};
		const char *want = cases[i].written ? cases[i].written : cases[i].text;
		assert_int_equal(json_spans_read(cases[i].text, strlen(cases[i].text), &spans), 0);
		json_span_write(&out, spans.all);
		assert_string_equal(buffer_cstr(&out), want);
		expect_same(cases[i].text, strlen(cases[i].text));
		buffer_finish(&out);
		json_spans_finish(&spans);
	}
}

static void what_is_refused(void **state)
{
	static const char *const texts[] = {"", " ", "{", "[", "[1,]", "{\"a\"}", "{\"a\":}",
		"{\"a\":1,}", "{a:1}", "[1]x", "01", "-", "1.", ".5", "1e", "+1", "tru", "nulls",
		"\"", "\"\\", "\"\\x\"", "\"\\u12\"", "\"\\ud800\"", "\"\\ud800\\u0041\"",
		"\"\\udc00\"", "\"\\u0000\"", "\"\n\"", "{\"a\":1,\"a\":2}",
		"{\"a\":1,\"\\u0061\":2}", "[{\"b\":{\"\":1,\"\":1}}]", "\xff", "\"\xc0\x80\"",
		"\"\xed\xa0\x80\"", "\xef\xbb\xbf{}", "[1 2]", "{\"a\" 1}", "//\n1", "NaN"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct json_spans spans;
		assert_int_equal(json_spans_read(texts[i], strlen(texts[i]), &spans), -EINVAL);
		expect_same(texts[i], strlen(texts[i]));
	}
	expect_same("[\"\0\"]", 5);
	expect_same("[1\0]", 4);
}

static void not_deeper_than_the_limit(void **state)
{
	for (size_t depth = JSON_DEPTH_MAX - 1; depth <= JSON_DEPTH_MAX + 1; depth++) {
		struct buffer text = {0};
		struct json_spans spans;
		for (size_t i = 0; i < 2 * depth; i++) {
			buffer_append_char(&text, i < depth ? '[' : ']');
		}
		int r = json_spans_read(text.data, text.len, &spans);
		assert_int_equal(r, depth <= JSON_DEPTH_MAX ? 0 : -EINVAL);
		if (r == 0) {
			json_spans_finish(&spans);
		}
		expect_same(text.data, text.len);
		buffer_finish(&text);
	}
}

/** Objects of all sizes around the one from which names are sorted, with a name twice or not. */
static void a_name_twice_among_many(void **state)
{
	for (int count = 1; count < 60; count++) {
		for (int twice = 0; twice < count; twice += 1 + count / 7) {
			struct buffer text = {0};
			for (int i = 0; i < count; i++) {
				buffer_printf(&text, "%c\"n%d\":{\"n\":[]}", i ? ',' : '{',
					i == count - 1 ? twice : i * 7919 % 60 + 60 * (i != twice));
			}
			buffer_append_char(&text, '}');
			expect_same(text.data, text.len);
			buffer_finish(&text);
		}
	}
}

/* --- at random --- */

static void append_random_string(struct buffer *out, struct random *random)
{
	static const char *const pieces[] = {"a", "name", "type", "\xc3\xa9", "\xf0\x9f\x98\x80",
		"\\n", "\\\"", "\\\\", "\\/", "\\u0041", "\\u00e9", "\\ud83d\\ude00", "\\b",
		"\\u001f", "\x7f", "a plain piece of some length", " ", "{", "]", ":", ","};
	buffer_append_char(out, '"');
	for (uint32_t n = random_below(random, 5); n > 0; n--) {
		buffer_append_str(
			out, pieces[random_below(random, sizeof(pieces) / sizeof(pieces[0]))]);
	}
	buffer_append_char(out, '"');
}

static void append_blanks(struct buffer *out, struct random *random)
{
	if (random_below(random, 8) == 0) {
		buffer_append_char(out, " \n\t\r"[random_below(random, 4)]);
	}
}

static void append_random(struct buffer *out, struct random *random, int depth)
{
	static const char *const others[] = {"0", "-0", "1", "-12", "1.50", "1e3", "-1.25E-2",
		"9007199254740991", "9007199254740992", "123456789012345678901", "1e999", "true",
		"false", "null"};
	uint32_t kind = random_below(random, depth > 5 ? 2 : 5);
	append_blanks(out, random);
	if (kind == 0) {
		buffer_append_str(
			out, others[random_below(random, sizeof(others) / sizeof(others[0]))]);
	} else if (kind == 1) {
		append_random_string(out, random);
	} else {
		bool is_object = kind > 2;
		buffer_append_char(out, is_object ? '{' : '[');
		for (uint32_t i = 0, n = random_below(random, 5); i < n; i++) {
			buffer_append_str(out, i ? "," : "");
			append_blanks(out, random);
			if (is_object) {
				append_random_string(out, random);
				append_blanks(out, random);
				buffer_append_char(out, ':');
			}
			append_random(out, random, depth + 1);
		}
		append_blanks(out, random);
		buffer_append_char(out, is_object ? '}' : ']');
	}
	append_blanks(out, random);
}

/** A text, the same with a byte changed, and cut off. */
static void whatever_the_text(void **state)
{
	struct random random = {20251};
	for (int round = 0; round < ROUNDS; round++) {
		struct buffer text = {0};
		append_random(&text, &random, 0);
		expect_same(text.data, text.len);
		size_t at = random_below(&random, (uint32_t)text.len);
		char was = text.data[at];
		text.data[at] = random_below(&random, 2)
					? "{}[],:\"\\ -.eu0\x7f"[random_below(&random, 15)]
					: (char)random_next(&random);
		expect_same(text.data, text.len);
		text.data[at] = was;
		expect_same(text.data, at);
		buffer_finish(&text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_taken),
		cmocka_unit_test(what_is_refused),
		cmocka_unit_test(not_deeper_than_the_limit),
		cmocka_unit_test(a_name_twice_among_many),
		cmocka_unit_test(whatever_the_text),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
