/* Numbers go through as they came, and everything else as jansson has it. */
#include "holdfast/json_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void expect(const char *text, size_t flags, struct json_numbers *numbers, const char *want)
{
	json_t *json = json_read(text, strlen(text), flags, numbers, NULL);
	assert_non_null(json);
	char *got = json_text(json, numbers);
	assert_string_equal(got, want);
	free(got);
	json_decref(json);
}

static void as_they_came(void **state)
{
	static const char *const texts[] = {"0", "-0", "0.1", "1.0", "1.10", "1e3", "1E+3", "-0.0",
		"1e-7", "1e400", "-1e400", "1e-400", "9223372036854775807", "9223372036854775808",
		"123456789012345678901234567890", "[1.50,1.5,15e-1]", "{\"a\":1.50,\"b\":[1.50]}",
		"{\"\\\"1.0\\\\\":1.00,\"-\":\"-0\"}",
		"[[],{},null,true,false,\"\\n\xc3\xa9\",-0]"};
	struct json_numbers *numbers = json_numbers_create();
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		expect(texts[i], JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, numbers, texts[i]);
		json_numbers_sweep(numbers);
	}
	json_numbers_destroy(numbers);
}

static void without_texts_the_shortest(void **state)
{
	expect("[0.1,1.10,1.0,1e3,-0.0,100.0,1e400,12345678901234567890]", 0, NULL,
		"[0.1,1.1,1.0,1000.0,-0.0,100.0,1.7976931348623157e+308,1.2345678901234567e+19]");
	expect("[0.30000000000000004,5e-324,3.141592653589793]", 0, NULL,
		"[0.30000000000000004,4.94065645841247e-324,3.141592653589793]");
}

/** What does not fit is put right only where it is a number. */
static void what_is_no_number(void **state)
{
	static const char *const texts[] = {"12345678901234567890-", "[012345678901234567890]",
		"[1.e999]", "[1e999e1]", "[-e999]", "[1e999.5]", "[12345678901234567890.]"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_null(json_read(texts[i], strlen(texts[i]), JSON_DECODE_ANY, NULL, NULL));
	}
}

/* The tree has fewer numbers than the text, or others: none may get the text of another. */
static void where_a_member_is_twice_values_are_right(void **state)
{
	struct json_numbers *numbers = json_numbers_create();
	expect("{\"a\":1.50,\"a\":2.50,\"b\":3.50}", 0, numbers, "{\"a\":2.5,\"b\":3.5}");
	expect("{\"a\":\"x\",\"b\":1.50,\"a\":2.50}", 0, numbers, "{\"a\":2.5,\"b\":1.5}");
	expect("{\"a\":[1.50],\"a\":2}", 0, numbers, "{\"a\":2}");
	json_numbers_destroy(numbers);
}

static void copies_and_sweeps(void **state)
{
	struct json_numbers *numbers = json_numbers_create();
	static const char text[] = "{\"a\":[1.50,2.50],\"b\":3.50}";
	json_t *json = json_read(text, sizeof(text) - 1, 0, numbers, NULL);
	json_t *kept = json_pack("{s:O}", "kept", json_object_get(json, "a"));
	json_t *shallow = json_copy(json);
	char *got = json_text(shallow, numbers);
	assert_string_equal(got, text);
	free(got);
	json_decref(shallow);
	json_decref(json);
	for (int i = 0; i < 3; i++) {
		json_numbers_sweep(numbers);
		got = json_text(kept, numbers);
		assert_string_equal(got, "{\"kept\":[1.50,2.50]}");
		free(got);
	}
	json_decref(kept);
	json_numbers_sweep(numbers);
	struct buffer many = {0};
	for (int i = 0; i < 5000; i++) {
		buffer_append_str(&many, i ? ",1.50" : "[1.50");
	}
	buffer_append_str(&many, "]");
	const char *array = buffer_cstr(&many);
	expect(array, 0, numbers, array);
	json_numbers_sweep(numbers);
	buffer_finish(&many);
	json_numbers_destroy(numbers);
	json_numbers_destroy(NULL);
}

static void what_is_no_json_stays_none(void **state)
{
	static const char *const texts[] = {"[1.]", "[01]", "[1e]", "[--1]", "[1e400x]", "[-]",
		"[12345678901234567890", "[\"1e400]", "", "[1e400,]", "{\"a\":1e400,}"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		json_error_t error;
		assert_null(json_read(texts[i], strlen(texts[i]), 0, NULL, &error));
		assert_null(json_read(texts[i], strlen(texts[i]), 0, NULL, NULL));
	}
}

static void whole_numbers_in_any_spelling(void **state)
{
	static const struct {
		const char *text;
		bool is_whole;
		json_int_t number;
	} table[] = {
		{"7", true, 7},
		{"7.0", true, 7},
		{"7e0", true, 7},
		{"70E-1", true, 7},
		{"\"7\"", true, 7},
		{"\"7.0\"", true, 7},
		{"-7.0", true, -7},
		{"\"-7\"", true, -7},
		{"0", true, 0},
		{"-0.0", true, 0},
		{"9223372036854775807", true, INT64_MAX},
		{"9007199254740991.0", true, JSON_SAFE_MAX},
		{"9007199254740992.0", false, 0},
		{"1e300", false, 0},
		{"12345678901234567890", false, 0},
		{"7.5", false, 0},
		{"\"7.5\"", false, 0},
		{"\"\"", false, 0},
		{"\" 7\"", false, 0},
		{"\"+7\"", false, 0},
		{"\"07\"", false, 0},
		{"\"0x7\"", false, 0},
		{"\"7a\"", false, 0},
		{"\"seven\"", false, 0},
		{"null", false, 0},
		{"true", false, 0},
		{"[7]", false, 0},
		{"{}", false, 0},
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		json_t *value = json_read(
			table[i].text, strlen(table[i].text), JSON_DECODE_ANY, NULL, NULL);
		json_int_t number = 0;
		assert_int_equal(json_whole(value, &number), table[i].is_whole);
		if (table[i].is_whole) {
			assert_int_equal(number, table[i].number);
		}
		json_decref(value);
	}
	json_int_t number;
	assert_false(json_whole(NULL, &number));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_they_came),
		cmocka_unit_test(without_texts_the_shortest),
		cmocka_unit_test(what_is_no_number),
		cmocka_unit_test(where_a_member_is_twice_values_are_right),
		cmocka_unit_test(copies_and_sweeps),
		cmocka_unit_test(what_is_no_json_stays_none),
		cmocka_unit_test(whole_numbers_in_any_spelling),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
