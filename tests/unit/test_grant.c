/* What tokens claim, which sessions their patterns are for, and what a role may do. */
#include "holdfast/grant.h"

#include "holdfast/hide.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

static struct grant *read_text(const char *text, const char **ret_why)
{
	json_t *claims = json_loads(text, 0, NULL);
	assert_non_null(claims);
	struct grant *grant = grant_read(claims, false, ret_why);
	json_decref(claims);
	return grant;
}

static void claims_are_read(void **state)
{
	const char *why;
	struct grant *grant = read_text(
		"{\"sub\":\"ann\",\"jti\":\"7\",\"exp\":2000000000.5,\"nbf\":1,\"iat\":1700000000,\"aud\":\"x\","
		"\"holdfast\":{\"role\":\"controller\",\"sessions\":[\"team-a.*\",\"one\"],\"hide\":[\"tools\"]}}",
		&why);
	assert_non_null(grant);
	assert_int_equal(grant->role, ROLE_CONTROLLER);
	assert_string_equal(grant->sub, "ann");
	assert_string_equal(grant->jti, "7");
	assert_int_equal(grant->expires_ms, 2000000000500);
	assert_int_equal(grant->not_before_ms, 1000);
	assert_int_equal(grant->issued_ms, 1700000000000);
	assert_int_equal(grant->hide, HIDE_TOOLS);
	assert_true(grant_sees(grant, "team-a.x", 8));
	assert_true(grant_sees(grant, "team-a.", 7));
	assert_true(grant_sees(grant, "one", 3));
	assert_false(grant_sees(grant, "one2", 4));
	assert_false(grant_sees(grant, "team-a", 6));
	assert_false(grant_sees(grant, "team-b.x", 8));

	json_t *claims = grant_write(grant);
	struct grant *again = grant_read(claims, false, &why);
	json_t *same = grant_write(again);
	assert_true(json_equal(claims, same));
	json_decref(claims);
	json_decref(same);
	grant_unref(again);
	grant_unref(grant);
	(void)state;
}

static void wrong_claims_are_refused(void **state)
{
	static const char *const wrong[] = {
		"{}",
		"{\"sub\":\"a\",\"exp\":2000000000}",
		"{\"exp\":2000000000,\"holdfast\":{\"role\":\"admin\",\"sessions\":[\"*\"]}}",
		"{\"sub\":\"\",\"exp\":2000000000,\"holdfast\":{\"role\":\"admin\",\"sessions\":[\"*\"]}}",
		"{\"sub\":7,\"exp\":2000000000,\"holdfast\":{\"role\":\"admin\",\"sessions\":[\"*\"]}}",
		"{\"sub\":\"a\\n\",\"exp\":2000000000,\"holdfast\":{\"role\":\"admin\",\"sessions\":[\"*\"]}}",
		"{\"sub\":\"a\",\"holdfast\":{\"role\":\"admin\",\"sessions\":[\"*\"]}}",
		"{\"sub\":\"a\",\"exp\":\"2000000000\",\"holdfast\":{\"role\":\"admin\",\"sessions\":[\"*\"]}}",
		"{\"sub\":\"a\",\"exp\":-1,\"holdfast\":{\"role\":\"admin\",\"sessions\":[\"*\"]}}",
		"{\"sub\":\"a\",\"exp\":1e300,\"holdfast\":{\"role\":\"admin\",\"sessions\":[\"*\"]}}",
		"{\"sub\":\"a\",\"exp\":2000000000,\"nbf\":null,\"holdfast\":{\"role\":\"admin\",\"sessions\":[\"*\"]}}",
		"{\"sub\":\"a\",\"exp\":2000000000,\"holdfast\":{\"role\":\"root\",\"sessions\":[\"*\"]}}",
		"{\"sub\":\"a\",\"exp\":2000000000,\"holdfast\":{\"role\":\"Admin\",\"sessions\":[\"*\"]}}",
		"{\"sub\":\"a\",\"exp\":2000000000,\"holdfast\":{\"sessions\":[\"*\"]}}",
		"{\"sub\":\"a\",\"exp\":2000000000,\"holdfast\":{\"role\":\"admin\"}}",
		"{\"sub\":\"a\",\"exp\":2000000000,\"holdfast\":{\"role\":\"admin\",\"sessions\":\"*\"}}",
		"{\"sub\":\"a\",\"exp\":2000000000,\"holdfast\":{\"role\":\"admin\",\"sessions\":[]}}",
		"{\"sub\":\"a\",\"exp\":2000000000,\"holdfast\":{\"role\":\"admin\",\"sessions\":[\"a*b\"]}}",
		"{\"sub\":\"a\",\"exp\":2000000000,\"holdfast\":{\"role\":\"admin\",\"sessions\":[\"\"]}}",
		"{\"sub\":\"a\",\"exp\":2000000000,\"holdfast\":{\"role\":\"admin\",\"sessions\":[\"a\\u0000*\"]}}",
		"{\"sub\":\"a\",\"exp\":2000000000,\"holdfast\":{\"role\":\"admin\",\"sessions\":[7]}}",
		"{\"sub\":\"a\",\"exp\":2000000000,\"holdfast\":{\"role\":\"admin\",\"sessions\":[\"*\"],\"hide\":[\"all\"]}}",
		"{\"sub\":\"a\",\"exp\":2000000000,\"holdfast\":{\"role\":\"admin\",\"sessions\":[\"*\"],\"hide\":\"tools\"}}",
		"{\"sub\":\"a\",\"jti\":\"\",\"exp\":2000000000,\"holdfast\":{\"role\":\"admin\",\"sessions\":[\"*\"]}}",
	};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		const char *why = NULL;
		json_t *claims = json_loads(wrong[i], JSON_ALLOW_NUL, NULL);
		assert_non_null(claims);
		if (grant_read(claims, false, &why)) {
			fail_msg("taken: %s", wrong[i]);
		}
		assert_non_null(why);
		json_decref(claims);
	}
	(void)state;
}

static void a_role_may_do_what_the_table_says(void **state)
{
	static const char *const table[ROLE_COUNT] = {"w", "wpucl", "wauc", "wpaucldm"};
	static const char letters[RIGHT_COUNT + 1] = "wpaucldm";
	for (int role = 0; role < ROLE_COUNT; role++) {
		struct grant *grant = grant_create((enum role)role, "x");
		assert_int_equal(role_parse(role_name((enum role)role)), role);
		for (int right = 0; right < RIGHT_COUNT; right++) {
			bool has = strchr(table[role], letters[right]) != NULL;
			assert_int_equal(grant_has(grant, (enum right)right), has);
		}
		grant_unref(grant);
	}
	assert_int_equal(role_parse(""), -1);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(claims_are_read),
		cmocka_unit_test(wrong_claims_are_refused),
		cmocka_unit_test(a_role_may_do_what_the_table_says),
	};
	return cmocka_run_group_tests_name("grant", tests, NULL, NULL);
}
