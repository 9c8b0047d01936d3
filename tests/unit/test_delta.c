/* Bytes as their difference from others. */
#include "core/base/delta.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

static size_t goes_there_and_back(const char *base, size_t base_len, const char *bytes, size_t len)
{
	struct buffer delta = {0};
	size_t made_len;
	delta_make(base, base_len, bytes, len, &delta);
	char *made = xmalloc(base_len + delta.len); /* a byte behind it would be seen */
	assert_int_equal(delta_apply(base, base_len, delta.data, delta.len, made, &made_len), 0);
	assert_int_equal(made_len, len);
	assert_memory_equal(made, bytes, len);
	size_t size = delta.len;
	buffer_finish(&delta);
	free(made);
	return size;
}

static void html_costs_little_beside_its_markdown(void **state)
{
	static const char markdown[] =
		"{\"seq\":12,\"type\":\"agent_message\",\"data\":{\"markdown\":\"Words, *in a slant*, and many others.\\n\"}}";
	static const char html[] =
		"{\"seq\":12,\"type\":\"agent_message\",\"data\":{\"html\":\"<p>Words, <em>in a slant</em>, and many others.</p>\\n\"}}";
	size_t size = goes_there_and_back(markdown, sizeof(markdown) - 1, html, sizeof(html) - 1);
	assert_true(size < sizeof(html) / 2);
}

static void edges(void **state)
{
	char long_one[3000];
	memset(long_one, 'x', sizeof(long_one));
	assert_int_equal(goes_there_and_back("", 0, "", 0), 0);
	assert_int_equal(goes_there_and_back("abcdefgh", 8, "", 0), 0);
	assert_int_equal(goes_there_and_back("", 0, "abcdefgh", 8), 9);
	assert_int_equal(goes_there_and_back("abcdefgh", 8, "abcdefgh", 8), 3);
	assert_int_equal(goes_there_and_back("abcde", 5, "abcde", 5), 6);
	assert_int_equal(goes_there_and_back(long_one, 3000, long_one, 3000), 4);
	assert_int_equal(goes_there_and_back(long_one, 3000, "y", 1), 2);
}

static void random_bytes(void **state)
{
	srand(1);
	for (int i = 0; i < 20000; i++) {
		char base[400];
		char bytes[400];
		size_t base_len = (size_t)rand() % sizeof(base);
		size_t len = (size_t)rand() % sizeof(bytes);
		int letters = 1 + rand() % 4;
		for (size_t k = 0; k < sizeof(base); k++) {
			base[k] = (char)('a' + rand() % letters);
			bytes[k] = (char)('a' + rand() % letters);
		}
		goes_there_and_back(base, base_len, bytes, len);
	}
}

static void a_damaged_delta_makes_no_more_than_both_are_long(void **state)
{
	static const char base[] = "some words that are copied";
	srand(2);
	for (int i = 0; i < 50000; i++) {
		/* Of its own piece of memory, so that a byte behind it would be seen. */
		size_t len = (size_t)rand() % 12;
		char *delta = xmalloc(len + 1);
		for (size_t k = 0; k < len; k++) {
			delta[k] = (char)(rand() % 3 ? rand() % 24 : rand());
		}
		delta = xrealloc(delta, len ? len : 1);
		size_t made_len = 0;
		char *made = xmalloc(sizeof(base) - 1 + len);
		int r = delta_apply(base, sizeof(base) - 1, delta, len, made, &made_len);
		assert_true(r == 0 || r == -EBADMSG);
		assert_true(made_len <= sizeof(base) - 1 + len);
		free(made);
		free(delta);
	}
}

static void what_is_refused(void **state)
{
	static const struct {
		const char *delta;
		size_t len;
	} bad[] = {
		{"\x80", 1}, /* a number without its end */
		{"\x02w", 2}, /* fewer new bytes than it says */
		{"\x01w\x01", 3}, /* no length to copy */
		{"\x01w\x05\x01", 4}, /* beyond the base */
		{"\x01w\x02\x03", 4}, /* the same */
		{"\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
			12}, /* a number without bounds */
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char made[16];
		size_t made_len;
		assert_int_equal(delta_apply("base", 4, bad[i].delta, bad[i].len, made, &made_len),
			-EBADMSG);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(html_costs_little_beside_its_markdown),
		cmocka_unit_test(edges),
		cmocka_unit_test(random_bytes),
		cmocka_unit_test(a_damaged_delta_makes_no_more_than_both_are_long),
		cmocka_unit_test(what_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
