/* What one node says to another of who asks: it counts as it was signed, for its request and for half a minute. */
#include "nodes/node_identity.h"

#include "holdfast/hide.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define NOW    INT64_C(1700000000123)
#define TARGET "/api/sessions/one/events?create=1"

static const unsigned char key[NODE_IDENTITY_KEY] = "0123456789abcdef0123456789abcde";
static const unsigned char other_key[NODE_IDENTITY_KEY] = "0123456789abcdef0123456789abcdf";

static struct grant *make_grant(void)
{
	const char *why;
	json_t *claims = json_loads(
		"{\"sub\":\"ann\",\"exp\":1800000000.25,"
		"\"holdfast\":{\"role\":\"controller\",\"sessions\":[\"team-a.*\",\"one\"],"
		"\"hide\":[\"tools\"]}}",
		0, NULL);
	struct grant *grant = grant_read(claims, false, &why);
	assert_non_null(grant);
	json_decref(claims);
	return grant;
}

static void make(struct buffer *out, struct grant *grant)
{
	struct node_identity identity = {.grant = grant, .is_https = true};
	assert_true(address_parse("192.0.2.7", 9, &identity.client));
	node_identity_append(out, key, &identity, "POST", TARGET, NOW);
	grant_unref(grant);
}

static const char *read_text(const char *text, size_t len, struct node_identity *ret)
{
	return node_identity_read(text, len, key, "POST", TARGET, NOW, ret);
}

static void what_is_said_arrives(void **state)
{
	struct buffer text = {0};
	struct node_identity got;
	struct address client;
	make(&text, make_grant());
	assert_null(read_text(text.data, text.len, &got));
	assert_string_equal(got.grant->sub, "ann");
	assert_int_equal(got.grant->role, ROLE_CONTROLLER);
	assert_int_equal(got.grant->hide, HIDE_TOOLS);
	assert_int_equal(got.grant->expires_ms, 1800000000250);
	assert_true(grant_sees(got.grant, "team-a.x", 8));
	assert_false(grant_sees(got.grant, "team-b.x", 8));
	assert_true(address_parse("192.0.2.7", 9, &client));
	assert_memory_equal(&got.client, &client, sizeof(client));
	assert_true(got.is_https);
	grant_unref(got.grant);
	buffer_finish(&text);
	(void)state;
}

static void the_access_token_and_the_unix_socket_arrive(void **state)
{
	struct buffer text = {0};
	struct node_identity got;
	static const struct address none;
	struct node_identity identity = {.grant = grant_create(ROLE_ADMIN, "")};
	node_identity_append(&text, key, &identity, "GET", "/", NOW);
	assert_null(node_identity_read(text.data, text.len, key, "GET", "/", NOW, &got));
	assert_string_equal(got.grant->sub, "");
	assert_int_equal(got.grant->role, ROLE_ADMIN);
	assert_int_equal(got.grant->expires_ms, 0);
	assert_true(grant_sees_all(got.grant));
	assert_memory_equal(&got.client, &none, sizeof(none));
	assert_false(got.is_https);
	grant_unref(got.grant);
	grant_unref(identity.grant);
	buffer_finish(&text);
	(void)state;
}

static void a_changed_or_cut_one_counts_for_nothing(void **state)
{
	struct buffer text = {0};
	struct node_identity got;
	make(&text, make_grant());
	for (size_t i = 0; i < text.len; i++) {
		char had = text.data[i];
		text.data[i] = had == 'A' ? 'B' : 'A';
		assert_non_null(read_text(text.data, text.len, &got));
		assert_null(got.grant);
		text.data[i] = had;
		char *cut = xstrndup(text.data, i);
		assert_non_null(read_text(cut, i, &got));
		free(cut);
	}
	buffer_append_char(&text, 'A');
	assert_non_null(read_text(text.data, text.len, &got));
	buffer_finish(&text);
	(void)state;
}

static void another_key_counts_for_nothing(void **state)
{
	struct buffer text = {0};
	struct node_identity got;
	make(&text, make_grant());
	const char *why =
		node_identity_read(text.data, text.len, other_key, "POST", TARGET, NOW, &got);
	assert_non_null(why);
	assert_non_null(strstr(why, "signature"));
	buffer_finish(&text);
	(void)state;
}

static void it_is_for_one_request(void **state)
{
	struct buffer text = {0};
	struct node_identity got;
	make(&text, make_grant());
	assert_non_null(node_identity_read(text.data, text.len, key, "DELETE", TARGET, NOW, &got));
	assert_non_null(node_identity_read(
		text.data, text.len, key, "POST", "/api/sessions/two/events?create=1", NOW, &got));
	assert_non_null(node_identity_read(
		text.data, text.len, key, "POST", "/api/sessions/one", NOW, &got));
	buffer_finish(&text);
	(void)state;
}

static void it_counts_for_half_a_minute(void **state)
{
	static const struct {
		int64_t after_ms;
		bool counts;
	} cases[] = {{NODE_IDENTITY_MS, true}, {NODE_IDENTITY_MS + 1, false},
		{-NODE_IDENTITY_MS, true}, {-NODE_IDENTITY_MS - 1, false}};
	struct buffer text = {0};
	make(&text, make_grant());
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct node_identity got;
		const char *why = node_identity_read(
			text.data, text.len, key, "POST", TARGET, NOW + cases[i].after_ms, &got);
		assert_int_equal(!why, cases[i].counts);
		grant_unref(got.grant);
	}
	buffer_finish(&text);
	(void)state;
}

/** A grant of the most patterns fits. */
static void the_largest_one_fits(void **state)
{
	struct buffer text = {0};
	struct node_identity got;
	char pattern[129];
	struct grant *grant = grant_create(ROLE_PRODUCER, "");
	memset(pattern, 'x', 128);
	pattern[128] = '\0';
	free(grant->patterns[0]);
	grant->patterns =
		xrealloc(grant->patterns, (GRANT_PATTERNS_MAX + 1) * sizeof(*grant->patterns));
	for (size_t i = 0; i < GRANT_PATTERNS_MAX; i++) {
		grant->patterns[i] = xstrdup(pattern);
	}
	grant->patterns[GRANT_PATTERNS_MAX] = NULL;
	make(&text, grant);
	assert_true(text.len < NODE_IDENTITY_MAX);
	assert_null(read_text(text.data, text.len, &got));
	grant_unref(got.grant);
	buffer_finish(&text);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_said_arrives),
		cmocka_unit_test(the_access_token_and_the_unix_socket_arrive),
		cmocka_unit_test(a_changed_or_cut_one_counts_for_nothing),
		cmocka_unit_test(another_key_counts_for_nothing),
		cmocka_unit_test(it_is_for_one_request),
		cmocka_unit_test(it_counts_for_half_a_minute),
		cmocka_unit_test(the_largest_one_fits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
