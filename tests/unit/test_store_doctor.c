/* What a database's promises mean: which findings they make, and how bad the worst is. */
#include "holdfast/store_doctor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct store_facts_of_database good(void)
{
	return (struct store_facts_of_database){.version = 150004,
		.version_text = (char *)"15.4",
		.is_utf8 = true,
		.has_fsync = true,
		.has_full_pages = true,
		.commit_level = (char *)"on",
		.standby_names = (char *)"one",
		.standbys = 1,
		.synchronous = 1,
		.timeline = 2,
		.timeline_used = 2,
		.has_commits = true,
		.commit_us = 900,
		.slowest_us = 2000,
		.connections_left = 90};
}

struct told {
	const char *wanted;
	enum store_finding finding; /* of the text that has that in it */
	int count;
};

static void note(void *arg, enum store_finding finding, const char *text)
{
	struct told *told = arg;
	if (strstr(text, told->wanted)) {
		told->finding = finding;
		told->count++;
	}
}

static void expect(
	struct store_facts_of_database facts, enum store_finding finding, const char *words)
{
	struct told told = {.wanted = words};
	assert_int_equal(store_doctor_judge(&facts, note, &told), finding);
	assert_int_equal(told.count, 1);
	assert_int_equal(told.finding, finding);
}

static void all_is_well(void **state)
{
	expect(good(), FINDING_GOOD, "1 synchronous standbys of 1");
}

#define CASE(name, change, finding, words)                     \
	static void name(void **state)                         \
	{                                                      \
		struct store_facts_of_database facts = good(); \
		change;                                        \
		expect(facts, finding, words);                 \
	}

CASE(an_old_version, facts.version = 140009, FINDING_BAD, "15 or newer")
CASE(another_encoding, facts.is_utf8 = false, FINDING_BAD, "UTF8")
CASE(a_standby, facts.is_standby = true, FINDING_BAD, "takes no writes")
CASE(no_fsync, facts.has_fsync = false, FINDING_BAD, "fsync is off")
CASE(no_full_pages, facts.has_full_pages = false, FINDING_BAD, "full_page_writes is off")
CASE(weak_commits, facts.commit_level = (char *)"off", FINDING_WARNING, "synchronous_commit is off")
CASE(a_standby_that_is_missing, facts.synchronous = 0, FINDING_BAD, "commits wait until one is")
CASE(standbys_that_lag, facts.standby_names = (char *)"", FINDING_WARNING,
	"none of them synchronous")
CASE(no_standby, (facts.standby_names = (char *)"", facts.standbys = 0), FINDING_WARNING,
	"lost with its disk")
CASE(a_clock_that_is_off, facts.clock_ahead_ms = -1500, FINDING_WARNING, "1500 ms behind")
CASE(a_clock_that_is_wrong, facts.clock_ahead_ms = 16000, FINDING_BAD, "16000 ms ahead")
CASE(another_timeline, facts.timeline = 3, FINDING_WARNING,
	"timeline 3, and sessions were used on 2")
CASE(slow_commits, facts.commit_us = 60000, FINDING_WARNING, "a commit takes 60.0 ms")
CASE(few_connections, facts.connections_left = 3, FINDING_WARNING, "3 connections are left")

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_is_well),
		cmocka_unit_test(an_old_version),
		cmocka_unit_test(another_encoding),
		cmocka_unit_test(a_standby),
		cmocka_unit_test(no_fsync),
		cmocka_unit_test(no_full_pages),
		cmocka_unit_test(weak_commits),
		cmocka_unit_test(a_standby_that_is_missing),
		cmocka_unit_test(standbys_that_lag),
		cmocka_unit_test(no_standby),
		cmocka_unit_test(a_clock_that_is_off),
		cmocka_unit_test(a_clock_that_is_wrong),
		cmocka_unit_test(another_timeline),
		cmocka_unit_test(slow_commits),
		cmocka_unit_test(few_connections),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
