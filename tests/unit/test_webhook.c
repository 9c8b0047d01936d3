/* Webhooks: URLs and their addresses, secrets, ids, what is signed, which events are messages, cursors. */
#include "notify/webhook/webhook_internal.h"

#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static bool may_connect(const char *url, const char *address)
{
	struct webhook_rules rules = {0};
	struct post_url parts;
	struct address at;
	struct address_range *ranges = NULL;
	size_t count = 0;
	assert_int_equal(webhook_url_read(&rules, url, &parts, &ranges, &count), 0);
	assert_true(address_parse(address, strlen(address), &at));
	bool may = post_may_connect(ranges, count, &at);
	free(ranges);
	return may;
}

static void only_addresses_that_a_url_names_may_be_private(void **state)
{
	assert_true(may_connect("https://hooks.example.org/x", "1.1.1.1"));
	assert_false(may_connect("https://hooks.example.org/x", "127.0.0.1"));
	assert_false(may_connect("https://hooks.example.org/x", "10.0.0.1"));
	assert_false(may_connect("https://hooks.example.org/x", "::1"));
	assert_false(may_connect("https://hooks.example.org/x", "169.254.169.254"));
	assert_true(may_connect("https://10.0.0.1:8443/x", "10.0.0.1"));
	assert_false(may_connect("https://10.0.0.1:8443/x", "10.0.0.2"));
	assert_true(may_connect("http://localhost/x", "127.0.0.1"));
	assert_true(may_connect("http://[::1]:9/x", "::1"));
	assert_false(may_connect("http://[::1]:9/x", "::2"));
	assert_false(may_connect("https://localhost/x", "10.0.0.1"));
}

static void urls(void **state)
{
	struct webhook_rules rules = {.secret_file = "x"};
	struct post_url url;
	static const char *const good[] = {"https://hooks.example.org/x?y=%20z",
		"http://127.0.0.1:8/x", "http://127.9.9.9/x", "http://localhost/x",
		"http://[::1]/x", "https://[2001:db8::1]:9/x", "HTTPS://X", "HTTP://LocalHost?x"};
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_null(webhook_url_fault(&rules, good[i]));
	}
	static const char *const bad[] = {"", "x", "https://x:", "http://example.org/x",
		"http://[::2]/x", "http://localhost.example.org/x", "http://1.2.3.4/x",
		"https://[::1/x", "https://[]/x", "https://[x]/x", "https://[1.2.3.4/8]/x",
		"https://u@x/y", "https://x/y#z", "https://x/ y", "ftp://x/y", "HTTP://X/y",
		"https://x/y\r\nz: 1"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_non_null(webhook_url_fault(&rules, bad[i]));
	}
	rules.may_be_plain = true;
	assert_null(webhook_url_fault(&rules, "http://example.org/x"));
	rules.secret_file = NULL;
	assert_non_null(webhook_url_fault(&rules, "https://example.org/x"));
	assert_true(post_url_parse("http://[::1]:80/x", POST_URL_PLAIN | POST_URL_ADDRESS, &url));
	assert_string_equal(url.host, "::1");
	assert_string_equal(url.origin, "http://[::1]");
	assert_true(url.is_literal);
	assert_false(post_url_parse("http://example.org/x", POST_URL_ADDRESS, &url));
}

/** What a file of this text gives: how many secrets, or -1. */
static int secrets_in(const char *text, struct webhook_secrets *ret)
{
	char path[] = "/tmp/holdfast-webhook-XXXXXX";
	char *why = NULL;
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	int r = webhook_secrets_read(path, ret, &why);
	unlink(path);
	free(why);
	return r < 0 ? -1 : (int)ret->count;
}

#define SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

static void secrets(void **state)
{
	struct webhook_secrets got;
	assert_int_equal(secrets_in(SECRET, &got), 1);
	assert_int_equal(got.all[0].len, 24);
	assert_int_equal(secrets_in("# old\r\n" SECRET "\r\n\n" SECRET "\n", &got), 2);
	assert_int_equal(secrets_in("", &got), -1);
	assert_int_equal(secrets_in("# none\n", &got), -1);
	assert_int_equal(secrets_in("whsec_\n", &got), -1);
	assert_int_equal(secrets_in("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS\n", &got), -1);
	assert_int_equal(secrets_in("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa==\n", &got), -1);
	assert_int_equal(secrets_in(SECRET " \n", &got), -1);
	assert_int_equal(secrets_in("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n", &got), -1);
	assert_int_equal(
		secrets_in(SECRET "\n" SECRET "\n" SECRET "\n" SECRET "\n" SECRET "\n", &got), -1);
}

/** The example that the libraries of Standard Webhooks test themselves with. */
static void the_signature_is_that_of_the_standard(void **state)
{
	struct webhook_secrets got;
	struct buffer body = {0};
	struct buffer out = {0};
	assert_int_equal(secrets_in(SECRET, &got), 1);
	buffer_append_str(&body, "{\"test\": 2432232314}");
	webhook_append_headers(&out, &got, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, &body);
	assert_non_null(strstr(buffer_cstr(&out),
		"webhook-signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=\r\n"));
	assert_non_null(strstr(out.data, "webhook-id: msg_p5jXN8AQM9LWM0D4loKWxJek\r\n"));
	assert_non_null(strstr(out.data, "webhook-timestamp: 1614265330\r\n"));
	buffer_finish(&body);
	buffer_finish(&out);
}

static void an_id_is_of_one_event(void **state)
{
	char one[WEBHOOK_ID_SIZE];
	char other[WEBHOOK_ID_SIZE];
	webhook_make_id("s", 1, 23, one);
	webhook_make_id("s", 1, 23, other);
	assert_string_equal(one, other);
	webhook_make_id("s", 12, 3, other);
	assert_string_not_equal(one, other);
	webhook_make_id("s", 2, 23, other);
	assert_string_not_equal(one, other);
	webhook_make_id("t", 1, 23, other);
	assert_string_not_equal(one, other);
	assert_int_equal(strlen(one), 36);
}

static enum webhook_kind kind(enum event_type type, const char *data)
{
	struct event *event = event_create(&(struct event_view){
		.seq = 1, .type = type, .ts = 1, .data = data, .data_len = strlen(data)});
	enum webhook_kind got = webhook_kind_of(event);
	event_unref(event);
	return got;
}

static void which_events_are_messages(void **state)
{
	assert_int_equal(kind(EVENT_PERMISSION_REQUEST, "{}"), WEBHOOK_WAITING);
	assert_int_equal(kind(EVENT_TURN_END, "{}"), WEBHOOK_TURN_ENDED);
	assert_int_equal(
		kind(EVENT_AGENT_STOPPED, "{\"reason\":\"signal\"}"), WEBHOOK_AGENT_FAILED);
	assert_int_equal(kind(EVENT_AGENT_STOPPED, "{\"reason\":\"limit\"}"), WEBHOOK_AGENT_FAILED);
	assert_int_equal(kind(EVENT_AGENT_STOPPED, "{\"reason\":\"idle\"}"), WEBHOOK_NONE);
	assert_int_equal(
		kind(EVENT_AGENT_STOPPED, "{\"reason\":\"server_stopped\"}"), WEBHOOK_NONE);
	assert_int_equal(kind(EVENT_AGENT_STOPPED, "{}"), WEBHOOK_NONE);
	assert_int_equal(kind(EVENT_AGENT_MESSAGE, "{\"markdown\":\"turn_end\"}"), WEBHOOK_NONE);
	assert_int_equal(kind(EVENT_PERMISSION_RESOLVED, "{}"), WEBHOOK_NONE);
}

static void visit(void *arg, const struct cursor_line *line)
{
	*(uint64_t *)arg = line->seq;
}

static void a_cursor_that_could_not_be_written_is_tried_again(void **state)
{
	uv_loop_t loop;
	struct cursors *cursors;
	char *why;
	uint64_t seq = 0;
	struct server_life life = {0};
	char dir[] = "/tmp/holdfast-webhook-XXXXXX";
	char away[sizeof(dir) + 5];
	assert_non_null(mkdtemp(dir));
	snprintf(away, sizeof(away), "%s-away", dir);
	uv_loop_init(&loop);
	assert_int_equal(cursors_open(&life, &loop, dir, visit, &seq, &cursors, &why), 0);
	assert_int_equal(rename(dir, away), 0);
	cursors_note(cursors, &(struct cursor_line){.hook = "h", .session = "s", .seq = 7});
	uv_run(&loop, UV_RUN_ONCE); /* until the write has failed */
	assert_int_equal(rename(away, dir), 0);
	uv_run(&loop, UV_RUN_DEFAULT); /* until nothing is left to do */
	struct cursors *others; /* those of the next server, if this one is killed */
	assert_int_equal(cursors_open(&life, &loop, dir, visit, &seq, &others, &why), 0);
	assert_int_equal(seq, 7);
	server_reach(&life, SERVER_CLOSED);
	cursors_stop(others);
	cursors_stop(cursors);
	uv_run(&loop, UV_RUN_DEFAULT);
	cursors_destroy(others);
	cursors_destroy(cursors);
	uv_loop_close(&loop);
	rig_remove_dir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_addresses_that_a_url_names_may_be_private),
		cmocka_unit_test(urls),
		cmocka_unit_test(secrets),
		cmocka_unit_test(the_signature_is_that_of_the_standard),
		cmocka_unit_test(an_id_is_of_one_event),
		cmocka_unit_test(which_events_are_messages),
		cmocka_unit_test(a_cursor_that_could_not_be_written_is_tried_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
