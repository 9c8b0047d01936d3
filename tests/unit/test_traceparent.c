/* Which values of a traceparent are taken, and what of them. */
#include "holdfast/traceparent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define GOOD "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

static bool take(const char *text, char ret[TRACEPARENT_SIZE])
{
	return traceparent_read(text, strlen(text), ret);
}

static void values_of_this_version_and_of_later_ones_are_taken(void **state)
{
	char got[TRACEPARENT_SIZE];
	assert_true(take(GOOD, got));
	assert_string_equal(got, GOOD);
	assert_true(take("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more", got));
	assert_string_equal(got, "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
}

static void others_are_not(void **state)
{
	static const char *const bad[] = {"", "00", GOOD "-more", GOOD "0",
		"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.more",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e473\"-00f067aa0ba902b7-01",
		"00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0g"};
	char got[TRACEPARENT_SIZE] = "untouched";
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_false(take(bad[i], got));
		assert_string_equal(got, "untouched");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_of_this_version_and_of_later_ones_are_taken),
		cmocka_unit_test(others_are_not),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
