/* Addresses as proxies write them, and ranges of them. */
#include "holdfast/address.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

static bool parse(const char *text, struct address *ret)
{
	return address_parse(text, strlen(text), ret);
}

static void the_same_address_is_written_in_many_ways(void **state)
{
	static const char *const same[][2] = {{"192.0.2.1", "192.0.2.1:80"},
		{"192.0.2.1", "::ffff:192.0.2.1"}, {"192.0.2.1", "[::ffff:c000:201]:65535"},
		{"2001:db8::1", "[2001:DB8:0:0::1]"}, {"2001:db8::1", "[2001:db8::1]:443"}};
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		struct address a;
		struct address b;
		assert_true(parse(same[i][0], &a) && parse(same[i][1], &b));
		assert_memory_equal(a.bytes, b.bytes, sizeof(a.bytes));
	}
}

static void what_is_no_address_is_refused(void **state)
{
	static const char *const wrong[] = {"", " ", "x", "unknown", "_hidden", "256.1.1.1",
		"1.2.3", "1.2.3.4.5", "1.2.3.4:", "1.2.3.4:x", "1.2.3.4:123456", "1.2.3.4:-1",
		"[1.2.3.4]", "[::1", "[::1]x", "[::1]:", "[::1]:x", "[]", ":::", "::1%eth0",
		"\"::1\"", "1.2.3.4 ", " 1.2.3.4", "01.2.3.4567", "2001:db8::1:2:3:4:5:6:7:8",
		"1111111111111111111111111111111111111111111111111111111111"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct address address;
		if (parse(wrong[i], &address)) {
			fail_msg("\"%s\" is taken", wrong[i]);
		}
	}
	/* Text of a header field has no NUL behind it. */
	struct address address;
	assert_true(address_parse("192.0.2.12, x", 9, &address));
	assert_int_equal(address.bytes[15], 1);
	assert_false(address_parse("192.0.2.1\0", 10, &address));
}

static void a_range_is_its_first_bits(void **state)
{
	static const struct {
		const char *range;
		const char *inside;
		const char *outside;
	} cases[] = {{"127.0.0.1", "127.0.0.1", "127.0.0.2"},
		{"10.0.0.0/8", "10.255.1.2", "11.0.0.0"}, {"10.1.2.3/8", "10.255.1.2", "11.0.0.0"},
		{"192.0.2.128/25", "192.0.2.200", "192.0.2.1"},
		{"192.0.2.1/32", "192.0.2.1", "192.0.2.0"},
		{"0.0.0.0/0", "203.0.113.9", "2001:db8::1"}, {"::1", "::1", "::2"},
		{"2001:db8::/33", "2001:db8:7fff::", "2001:db8:8000::"},
		{"fd00::/8", "fdff::1", "fe00::1"},
		{"::ffff:10.0.0.0/104", "10.9.9.9", "11.0.0.0"}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct address_range range;
		struct address address;
		assert_true(address_range_parse(cases[i].range, &range));
		assert_true(parse(cases[i].inside, &address));
		assert_true(address_is_in(&address, &range));
		assert_true(parse(cases[i].outside, &address));
		assert_false(address_is_in(&address, &range));
	}
	struct address_range all;
	struct address any;
	assert_true(address_range_parse("::/0", &all) && parse("192.0.2.1", &any));
	assert_true(address_is_in(&any, &all));
	static const char *const wrong[] = {"", "/8", "10.0.0.0/", "10.0.0.0/33", "::/129",
		"10.0.0.0/8/8", "10.0.0.0/0x8", "10.0.0.0/-1", "10.0.0.0/1000", "10.0.0.0:80/8"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_false(address_range_parse(wrong[i], &all));
	}
}

static void a_household_is_an_ipv4_address_or_a_64(void **state)
{
	static const struct {
		const char *a;
		const char *b;
		bool is_same;
	} cases[] = {{"192.0.2.1", "192.0.2.1", true}, {"192.0.2.1", "192.0.2.2", false},
		{"2001:db8:1:2:3::", "2001:db8:1:2:ffff::1", true},
		{"2001:db8:1:2::", "2001:db8:1:3::", false}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct address a;
		struct address b;
		assert_true(parse(cases[i].a, &a) && parse(cases[i].b, &b));
		a = address_household(&a);
		b = address_household(&b);
		assert_int_equal(memcmp(&a, &b, sizeof(a)) == 0, cases[i].is_same);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_address_is_written_in_many_ways),
		cmocka_unit_test(what_is_no_address_is_refused),
		cmocka_unit_test(a_range_is_its_first_bits),
		cmocka_unit_test(a_household_is_an_ipv4_address_or_a_64),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
