#include "holdfast/buffer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

/* Of a build with AddressSanitizer, as all builds for the unit tests are. */
int __asan_address_is_poisoned(const volatile void *address) __attribute__((weak));

static void append(struct buffer *b)
{
	buffer_append(b, "x", 1);
}

static void append_number(struct buffer *b)
{
	buffer_append_u64(b, 7);
}

static void print(struct buffer *b)
{
	buffer_printf(b, "%c", 'x');
}

static void append_json(struct buffer *b)
{
	buffer_append_json(b, "x\n", 2);
}

static void reserve(struct buffer *b)
{
	buffer_reserve(b, 1);
}

static void consume(struct buffer *b)
{
	buffer_consume(b, 1);
}

static void terminate(struct buffer *b)
{
	assert_int_equal(strlen(buffer_cstr(b)), b->len);
}

static bool is_poisoned(const char *at)
{
	assert_non_null(__asan_address_is_poisoned);
	return __asan_address_is_poisoned(at);
}

/** So that the suites find each pointer into a buffer that is kept over a change of it. */
static void no_pointer_outlives_a_change(void **state)
{
	static void (*const changes[])(struct buffer *) = {append, append_number, print,
		append_json, reserve, consume, terminate, buffer_clear};
	for (size_t len = 1; len <= 1024; len = len < 70 ? len + 1 : 2 * len) {
		for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++) {
			struct buffer b = {0};
			while (b.len < len) {
				append(&b);
			}
			const char *was = b.data;
			changes[i](&b);
			assert_true(is_poisoned(was));
			buffer_finish(&b);
		}
	}
}

static void no_byte_behind_the_last_is_readable(void **state)
{
	struct buffer b = {0};
	for (size_t len = 1; len <= 1024; len++) {
		append(&b);
		assert_true(len % 8 == 0 || is_poisoned(b.data + b.len)); /* it marks words of 8 */
	}
	append(&b);
	buffer_cstr(&b);
	assert_true(is_poisoned(b.data + b.len + 1));
	buffer_finish(&b);
}

/** The end of a large buffer moves when it is made a string, however much room there is. */
static void a_large_buffer_moves_as_well(void **state)
{
	struct buffer b = {0};
	size_t moves = 0;
	for (size_t len = 0; len < 1 << 20; len++) {
		const char *was = b.data;
		append(&b);
		moves += b.data != was;
	}
	assert_in_range(moves, 1024, 1200); /* each time below 1 KiB, and seldom behind it */
	const char *was = b.data;
	buffer_cstr(&b);
	assert_true(is_poisoned(was));
	buffer_finish(&b);
}

static void bytes_stay_what_they_are(void **state)
{
	struct buffer b = {0};
	char expected[4096];
	size_t len = 0;
	for (size_t i = 0; i < sizeof(expected); i++) {
		expected[len++] = (char)('a' + i % 26);
		buffer_append_char(&b, expected[len - 1]);
		if (i % 7 == 6) {
			buffer_consume(&b, 2);
			memmove(expected, expected + 2, len -= 2);
		}
		assert_memory_equal(b.data, expected, len);
		assert_int_equal(b.len, len);
	}
	assert_memory_equal(buffer_cstr(&b), expected, len);
	buffer_clear(&b);
	assert_string_equal(buffer_cstr(&b), "");
	buffer_finish(&b);
	assert_null(b.data);
	assert_string_equal(buffer_cstr(&b), "");
	buffer_finish(&b);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_pointer_outlives_a_change),
		cmocka_unit_test(no_byte_behind_the_last_is_readable),
		cmocka_unit_test(a_large_buffer_moves_as_well),
		cmocka_unit_test(bytes_stay_what_they_are),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
