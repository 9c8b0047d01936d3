/* Where push messages may go: hosts, URLs and addresses. */
#include "notify/push/push_internal.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static bool allows_url(const struct push_rules *rules, const char *text)
{
	struct post_url url;
	return post_url_parse(text, 0, &url) && push_rules_allow(rules, &url);
}

static bool allows(const struct push_rules *rules, const char *text)
{
	struct address address;
	assert_true(address_parse(text, strlen(text), &address));
	return post_may_connect(rules->addresses, rules->address_count, &address);
}

static void hosts(void **state)
{
	struct push_rules rules = {0};
	assert_null(push_add_host(&rules, "off"));
	assert_null(rules.hosts);
	assert_false(allows_url(&rules, "https://push.example.org/x"));
	assert_null(push_add_host(&rules, "push.example.org"));
	assert_null(push_add_host(&rules, "*.push.apple.com"));
	assert_null(push_add_host(&rules, "other.example.org:8443"));
	for (const char *const *at = (const char *const[]){"", "*", "*.", "https://x", "x/y", "X",
		     "x:", "x:0", "x:70000", "x y", "[::1]", "*.x.*", NULL};
		*at; at++) {
		assert_non_null(push_add_host(&rules, *at));
	}
	assert_true(allows_url(&rules, "https://push.example.org/x?y=1"));
	assert_true(allows_url(&rules, "https://push.example.org:443/x"));
	assert_true(allows_url(&rules, "https://web.push.apple.com/x"));
	assert_true(allows_url(&rules, "https://other.example.org:8443/x"));
	assert_false(allows_url(&rules, "https://other.example.org/x"));
	assert_false(allows_url(&rules, "https://push.example.org:8443/x"));
	assert_false(allows_url(&rules, "https://push.apple.com/x"));
	assert_false(allows_url(&rules, "https://evilpush.apple.com/x"));
	assert_false(allows_url(&rules, "https://push.example.org.evil.example/x"));
	assert_false(allows_url(&rules, "https://a.push.example.org/x"));
	push_rules_finish(&rules);
}

static void urls(void **state)
{
	struct post_url url;
	assert_true(post_url_parse("https://push.example.org:0443/a/b?c=d", 0, &url));
	assert_string_equal(url.host, "push.example.org");
	assert_string_equal(url.port, "443");
	assert_string_equal(url.path, "/a/b?c=d");
	assert_string_equal(url.origin, "https://push.example.org");
	assert_true(post_url_parse("https://push.example.org:8443/", 0, &url));
	assert_string_equal(url.origin, "https://push.example.org:8443");
	for (const char *const *at = (const char *const[]){"", "https://", "https:///x",
		     "https://x", "https://x?y", "http://x/y", "https://x:/y", "https://x:123456/y",
		     "https://x:99999/y", "https://x:8 0/y", "https://u@x/y", "https://u:p@x/y",
		     "https://x/y#z", "https://x/y z", "https://x\\y/z", "https://x/y\r\nz",
		     "https://x/\xc3\xa9", "https://[::1]/x", "https://X/y", NULL};
		*at; at++) {
		assert_false(post_url_parse(*at, 0, &url));
	}
}

static void urls_that_a_person_typed(void **state)
{
	static const char *const typed[][4] = {
		{"HTTPS://Hooks.Example.ORG/A?B=%c3", "https://hooks.example.org", "/A?B=%c3",
			"hooks.example.org"},
		{"https://x", "https://x", "/", "x"},
		{"https://x:443?y=/", "https://x", "/?y=/", "x"},
		{"Http://my_hook:8080", "http://my_hook:8080", "/", "my_hook"},
		{"http://[FE80::A]:80", "http://[fe80::a]", "/", "fe80::a"},
	};
	unsigned also = POST_URL_TYPED | POST_URL_PLAIN | POST_URL_ADDRESS;
	struct post_url url;
	for (size_t i = 0; i < sizeof(typed) / sizeof(typed[0]); i++) {
		assert_true(post_url_parse(typed[i][0], also, &url));
		assert_string_equal(url.origin, typed[i][1]);
		assert_string_equal(url.path, typed[i][2]);
		assert_string_equal(url.host, typed[i][3]);
	}
	for (const char *const *at = (const char *const[]){"", "https:", "https://", "https:///x",
		     "https://?x", "https://:8/", "https://x:", "https://x:/", "https://x:0/",
		     "https://x:65536", "https://x:+8/", "https://x:8a/", "https://x:8:9/",
		     "https://u@x", "https://u:p@x/", "https://x@[::1]/", "https://x#y",
		     "https://x/#", "https://x%2ey/", "https://[::1", "https://[::1]x/",
		     "https://[::1]]/", "https://[fe80::1%25eth0]/", "https://[v1.x]/",
		     "https://::1/", "https://x y/", "ftp://x/", "//x/", "x.example.org", NULL};
		*at; at++) {
		if (post_url_parse(*at, also, &url)) {
			fail_msg("%s is taken", *at);
		}
	}
}

static void addresses(void **state)
{
	struct push_rules rules = {0};
	for (const char *const *at = (const char *const[]){"1.1.1.1", "8.8.8.8", "172.15.255.255",
		     "172.32.0.1", "100.128.0.1", "223.255.255.255", "2606:4700::1111",
		     "2a00:1450::1", "::ffff:8.8.8.8", NULL};
		*at; at++) {
		assert_true(allows(&rules, *at));
	}
	for (const char *const *at = (const char *const[]){"0.0.0.0", "0.1.2.3", "10.0.0.1",
		     "100.64.0.1", "127.0.0.1", "127.255.255.255", "169.254.169.254", "172.16.0.1",
		     "172.31.255.255", "192.0.0.1", "192.168.1.1", "198.18.0.1", "224.0.0.1",
		     "240.0.0.1", "255.255.255.255", "::", "::1", "::ffff:127.0.0.1",
		     "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "100::1",
		     "fc00::1", "fd12::1", "fe80::1", "fec0::1", "ff02::1", "2001::1",
		     "2001:db8::1", "2002:7f00:1::", "3fff::1", NULL};
		*at; at++) {
		assert_false(allows(&rules, *at));
	}
	assert_non_null(push_add_address(&rules, "localhost"));
	assert_non_null(push_add_address(&rules, "10.0.0.0/33"));
	assert_null(push_add_address(&rules, "10.1.0.0/16"));
	assert_null(push_add_address(&rules, "fd12::/16"));
	assert_true(allows(&rules, "10.1.2.3"));
	assert_true(allows(&rules, "fd12::1"));
	assert_false(allows(&rules, "10.2.0.1"));
	assert_false(allows(&rules, "fd13::1"));
	push_rules_finish(&rules);
}

static void retry_after(void **state)
{
	assert_int_equal(post_retry_after(" 120", 0), 120);
	assert_int_equal(post_retry_after("120\r\nx: y", 0), 120);
	assert_int_equal(post_retry_after("Thu, 01 Jan 1970 00:01:00 GMT", 15), 45);
	assert_int_equal(post_retry_after("Thu, 01 Jan 1970 00:01:00 GMT", 100), 0);
	assert_int_equal(post_retry_after("120 \t\r\nx: y", 0), 120);
	assert_int_equal(post_retry_after("0", 0), 0);
	assert_int_equal(post_retry_after("2147483648", 0), INT32_MAX);
	assert_int_equal(post_retry_after("99999999999999999999", 0), INT32_MAX);
	assert_int_equal(post_retry_after("120s", 0), 0);
	assert_int_equal(post_retry_after("1.5", 0), 0);
	assert_int_equal(post_retry_after("1e3", 0), 0);
	assert_int_equal(post_retry_after("120, 60", 0), 0);
	assert_int_equal(post_retry_after("+5", 0), 0);
	assert_int_equal(post_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", 784111717), 60);
	assert_int_equal(post_retry_after("Sunday, 06-Nov-94 08:49:37 GMT\r\n", 784111717), 60);
	assert_int_equal(post_retry_after("Sun Nov  6 08:49:37 1994", 784111717), 60);
	assert_int_equal(post_retry_after("Sun, 31 Nov 1994 08:49:37 GMT", 0), 0);
	assert_int_equal(post_retry_after("Sun, 06 Nov 1994 08:49:37 PST", 0), 0);
	assert_int_equal(post_retry_after("Sun, 06 Nov 1994 08:49:37", 0), 0);
	assert_int_equal(post_retry_after("1994-11-06T08:49:37Z", 0), 0);
	assert_int_equal(post_retry_after("-5", 0), 0);
	assert_int_equal(post_retry_after("soon", 0), 0);
	assert_int_equal(post_retry_after("", 0), 0);
}

static int read_answer(const char *head)
{
	int64_t seconds;
	int status = post_read_answer(head, 0, &seconds);
	return status < 0 ? status : status * 1000 + (int)seconds;
}

static void heads_of_answers(void **state)
{
	assert_int_equal(read_answer("HTTP/1.1 429 Slow\r\nRETRY-AFTER:7\r\n\r\n"), 429007);
	assert_int_equal(
		read_answer("HTTP/1.0 503\r\nx: y\r\n\r\n\r\nRetry-After: 7\r\n\r\n"), 503000);
	assert_int_equal(read_answer("HTTP/1.1 204 \r\n\r\n"), 204000);
	assert_int_equal(read_answer("HTTP/1.1 2000 OK\r\n\r\n"), -EPROTO);
	assert_int_equal(read_answer("HTTP/1.1 20 OK\r\n\r\n"), -EPROTO);
	assert_int_equal(read_answer("HTTP/1.x 200 OK\r\n\r\n"), -EPROTO);
	assert_int_equal(read_answer("HTTP/2 200\r\n\r\n"), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hosts),
		cmocka_unit_test(urls),
		cmocka_unit_test(addresses),
		cmocka_unit_test(urls_that_a_person_typed),
		cmocka_unit_test(retry_after),
		cmocka_unit_test(heads_of_answers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
