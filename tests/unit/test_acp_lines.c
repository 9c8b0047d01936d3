/* How an agent's output is cut into lines, and what is seen of one that is too long. */
#include "holdfast/json_lines.h"
#include "holdfast/json_rpc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/** The lines of a text, joined with "|", given to the reader in pieces of `step` bytes. */
static void cut(const char *text, size_t line_max, size_t step, struct buffer *out)
{
	struct json_lines lines;
	json_lines_init(&lines, line_max);
	size_t len = strlen(text);
	for (size_t at = 0; at < len; at += step) {
		json_lines_push(&lines, text + at, len - at < step ? len - at : step);
		assert_true(lines.bytes.len <= line_max + step);
		for (;;) {
			char *line;
			size_t line_len;
			enum json_line found = json_lines_next(&lines, &line, &line_len);
			if (found == JSON_LINE_NONE) {
				break;
			}
			if (found == JSON_LINE_TOO_LONG) {
				buffer_append_str(out, "!|");
			} else if (found == JSON_LINE_SKIPPED) {
				buffer_append_str(out, "~|");
			} else {
				buffer_append(out, line, line_len);
				buffer_append_char(out, '|');
			}
		}
	}
	json_lines_finish(&lines);
}

static void test_lines(void **state)
{
	static const char text[] =
		"one\n\ntwo\r\n12345678\n123456789\nx\n1234567890123456789\n\nend\nrest";
	for (size_t step = 1; step <= sizeof(text); step++) {
		struct buffer out = {0};
		cut(text, 8, step, &out);
		assert_string_equal(buffer_cstr(&out), "one||two|12345678|!|~|x|!|~||end|");
		buffer_finish(&out);
	}
}

/** What can be seen of a line that is too long, however it comes. */
static void expect_peek(const char *line, const char *expected)
{
	for (size_t step = 1; step <= 7000; step += 997) {
		struct json_lines lines;
		json_lines_init(&lines, 100);
		size_t len = strlen(line);
		enum json_line found = JSON_LINE_NONE;
		for (size_t at = 0; at < len && found != JSON_LINE_SKIPPED; at += step) {
			char *none;
			size_t none_len;
			json_lines_push(&lines, line + at, len - at < step ? len - at : step);
			found = json_lines_next(&lines, &none, &none_len);
			if (found == JSON_LINE_TOO_LONG) {
				found = json_lines_next(&lines, &none, &none_len);
			}
		}
		assert_int_equal(found, JSON_LINE_SKIPPED);
		json_t *seen = json_rpc_peek(&lines);
		char *json = json_dumps(seen, JSON_COMPACT | JSON_SORT_KEYS);
		assert_string_equal(json, expected);
		free(json);
		json_decref(seen);
		json_lines_finish(&lines);
	}
}

static void expect_peek_around(const char *before, const char *after, const char *expected)
{
	static const size_t fills[] = {101, 4000, 4200, 9000};
	for (size_t i = 0; i < sizeof(fills) / sizeof(fills[0]); i++) {
		struct buffer line = {0};
		buffer_append_str(&line, before);
		for (size_t n = 0; n < fills[i]; n++) {
			buffer_append_char(&line, 'x');
		}
		buffer_append_str(&line, after);
		buffer_append_char(&line, '\n');
		expect_peek(buffer_cstr(&line), expected);
		buffer_finish(&line);
	}
}

static void test_peek(void **state)
{
	expect_peek_around("{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"m\",\"params\":{\"a\":\"",
		"\"}}", "{\"id\":5,\"method\":\"m\"}");
	expect_peek_around(" { \"method\" : \"m\\\"\" , \"params\" : [ \"",
		"\" ] , \"id\" : \"u\" } \r", "{\"id\":\"u\",\"method\":\"m\\\"\"}");
	expect_peek_around("{\"result\":{\"content\":\"", "\"},\"id\":null}", "{\"id\":null}");
	expect_peek_around("{\"a\":{\"id\":1,\"method\":\"no\"},\"b\":\"", "\"}", "{}");
	/* The id of something inside is none. */
	expect_peek_around(
		"{\"method\":\"m\",\"params\":{\"a\":\"", "\",\"id\":7}}", "{\"method\":\"m\"}");
	expect_peek_around("{\"id\":{\"a\":1},\"method\":[],\"p\":\"", "\"}", "{}");
	expect_peek_around("no JSON ", "", "{}");
	expect_peek_around("{\"id\":5", "", "{}");
	expect_peek_around("", "\"id\"", "{}");
	expect_peek_around("\"id\":1}", "}", "{}");
}

/** A line that nests `depth` deep in arrays; 2 of the levels are objects. */
static void put_deep(struct buffer *out, size_t depth)
{
	buffer_append_str(out, "{\"id\":3,\"method\":\"m\",\"params\":{\"a\":\"[[{\\\"[[\",\"b\":");
	for (size_t i = 2; i < depth; i++) {
		buffer_append_char(out, '[');
	}
	for (size_t i = 2; i < depth; i++) {
		buffer_append_char(out, ']');
	}
	buffer_append_str(out, "}}\n");
}

static void test_deep(void **state)
{
	static const size_t depths[] = {64, 65, 1500};
	for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
		struct buffer text = {0};
		struct json_lines lines;
		char *line;
		size_t len;
		put_deep(&text, depths[i]);
		json_lines_init(&lines, 100000);
		json_lines_push(&lines, text.data, text.len);
		enum json_line found = json_lines_next(&lines, &line, &len);
		assert_int_equal(found, depths[i] > 64 ? JSON_LINE_TOO_LONG : JSON_LINE_READY);
		if (found == JSON_LINE_TOO_LONG) {
			assert_int_equal(json_lines_next(&lines, &line, &len), JSON_LINE_SKIPPED);
			assert_true(lines.too_deep);
			json_t *seen = json_rpc_peek(&lines);
			assert_int_equal(json_integer_value(json_object_get(seen, "id")), 3);
			json_decref(seen);
		}
		assert_int_equal(json_lines_next(&lines, &line, &len), JSON_LINE_NONE);
		json_lines_finish(&lines);
		buffer_finish(&text);
	}
}

/* --- noise --- */

/* Longer strings first: a sequence can be part of another. */
static const char *const noises[] = {
	"",
	" \t \r",
	"\xef\xbb\xbf",
	"\x1b]0;repo: ready\a",
	"\x1b]2;{\"a\":[\x1b\\",
	"\x1b]8;;http://x\xc2\x9c",
	"\xc2\x9d"
	"0;t\a",
	"\xc2\x9d"
	"0;t\xc2\x9c",
	"\x1b[?2004h",
	"\x1b[0;31m\x1b[K",
	"\x1b[200~",
	"\x1b[201~",
	"\xc2\x9b"
	"31m",
	"\x1bPq#0;2\x1b\\",
	"\x1b_Gi=1;AAAA\x1b\\",
	"\x1b^private\x1b\\",
	"\x1bXstring\x1b\\",
	"\x1b_apc\a",
	"\xc2\x90"
	"dcs\xc2\x9c",
	"\xc2\x98"
	"sos\xc2\x9c",
	"\xc2\x9e"
	"pm\x1b\\",
	"\xc2\x9f"
	"apc\a",
	"\x1bktitle\x1b\\",
	"\x1bPtmux;\x1b\x1b]0;t\a\x1b\\",
	"\x1b]0;aborted\x18",
	"\x1b[3\x1a",
	"\x1b[3\x1b[1m",
	"\x1b"
	"c",
	"\x1b"
	"7\x1b"
	"8",
	"\x1b(B\x1b)0",
	"\x1b#8",
	"\x1b%G",
	"\x1b=\x1b>",
	"\x1bM",
	"\x1bNx\x1bOy",
	"\x1b",
	"\x1b\x1b",
	"\xc2\x85\xc2\x8ex",
	"\a\b\v\f\x0e\x0f\x11\x13\x7f",
};
#define NOISES (sizeof(noises) / sizeof(noises[0]))

static void expect_unwrapped(const struct buffer *line, const char *expected)
{
	const char *text = line->data;
	size_t len = line->len;
	json_unwrap(&text, &len);
	assert_int_equal(len, strlen(expected));
	assert_memory_equal(text, expected, len);
}

static void test_noise_around(void **state)
{
	static const char *const messages[] = {
		"{}", "{\"a\":\"}]\\\"\x7f\xc2\x9b[\",\"b\":[{}]}", "[{},[]]"};
	for (size_t i = 0; i < NOISES * NOISES; i++) {
		/* ESC [ begins a sequence: an ESC cannot stand before an array. */
		const char *before = noises[i / NOISES];
		bool is_escape = strspn(before, "\x1b") == strlen(before);
		const char *message = messages[i % (is_escape ? 2 : 3)];
		struct buffer line = {0};
		buffer_append_str(&line, before);
		buffer_append_str(&line, message);
		buffer_append_str(&line, noises[i % NOISES]);
		expect_unwrapped(&line, message);
		buffer_finish(&line);
	}
	/* A NUL too, and a sequence that the end of the line cuts off behind the message. */
	static const char *const cut[] = {"\x1b]0;t", "\x1b[3", "\x1b(", "\xc2\x9b"};
	for (size_t i = 0; i < 4; i++) {
		struct buffer line = {0};
		buffer_append(&line, "\0{}\0", 4);
		buffer_append_str(&line, cut[i]);
		expect_unwrapped(&line, "{}");
		buffer_finish(&line);
	}
}

static void test_no_message(void **state)
{
	static const char *const lines[] = {
		"words",
		"words{}",
		"{}words",
		"{}{}",
		"{} {}",
		"\x1b]0;t{}",
		"\x1b[{}",
		"\xc2\xa0{}",
		("\x9b"
		 "31m{}"),
		"{\"a\":\x1b[1m1}}x",
		"\x1b]0;t\a{\"a\":1",
		"\xef\xbb{}",
		"\x1b]0;cut",
	};
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct buffer line = {0};
		buffer_append_str(&line, lines[i]);
		expect_unwrapped(&line, lines[i]);
		buffer_finish(&line);
	}
	for (size_t i = 0; i < NOISES; i++) {
		struct buffer line = {0};
		buffer_append_str(&line, noises[i]);
		expect_unwrapped(
			&line, strcmp(noises[i], "\x1b") == 0 || strcmp(noises[i], "\x1b\x1b") == 0
				       ? noises[i]
				       : "");
		buffer_finish(&line);
	}
}

static void test_noisy_lines(void **state)
{
	struct buffer out = {0};
	cut("\x1b]0;t\a{}\n\x1b[1m\n\x1b[0m{}\x1b[m\r\n", 20, 3, &out);
	assert_string_equal(buffer_cstr(&out), "{}||{}|");
	buffer_clear(&out);
	/* Colours are no JSON that nests. */
	for (size_t i = 0; i < 100; i++) {
		buffer_append_str(&out, "\x1b[1m");
	}
	struct buffer text = {0};
	buffer_append(&text, out.data, out.len);
	buffer_append_str(&text, "words\n");
	buffer_clear(&out);
	cut(buffer_cstr(&text), 1000, 1000, &out);
	buffer_append_char(&text, 0);
	text.data[text.len - 2] = '|';
	assert_string_equal(buffer_cstr(&out), text.data);
	buffer_finish(&text);
	buffer_finish(&out);
	expect_peek_around("\x1b]0;t\a{\"id\":5,\"a\":\"", "\"}", "{\"id\":5}");
	expect_peek_around("{\"a\":\"", "\",\"id\":6}\x1b]0;t\a", "{\"id\":6}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_peek),
		cmocka_unit_test(test_deep),
		cmocka_unit_test(test_noise_around),
		cmocka_unit_test(test_no_message),
		cmocka_unit_test(test_noisy_lines),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
