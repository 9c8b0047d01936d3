/* Where a load starts, against a model of a few lines and all small numbers. */
#include "holdfast/observer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/** A page of at most `limit` events that ends at `to`, of a log that begins at `first`. */
static void check_page(const struct load_plan *plan, uint64_t first, uint64_t to, uint64_t limit)
{
	uint64_t count = to + 1 > first ? least(limit, to + 1 - first) : 0;
	assert_int_equal(plan->to, to);
	assert_int_equal(plan->to + 1 > plan->from ? plan->to + 1 - plan->from : 0, count);
	assert_true(plan->from >= first);
}

static void check_newest(const struct load_plan *plan, uint64_t first, uint64_t max, uint64_t limit,
	const char *reset)
{
	assert_true(plan->is_newest && plan->to_end && !plan->prepend);
	assert_string_equal(plan->reset ? plan->reset : "", reset);
	check_page(plan, first, max, limit);
}

static void check_after(uint64_t first, uint64_t max, uint64_t limit, uint64_t seq)
{
	struct load_request load = {.from = LOAD_AFTER, .seq = seq, .limit = limit};
	struct load_plan plan = load_plan_make(&load, 1, first, max);
	if (seq > max || seq + 1 < first) {
		check_newest(&plan, first, max, limit, seq > max ? "ahead" : "pruned");
		return;
	}
	assert_null(plan.reset);
	assert_true(plan.to_end && !plan.is_newest && !plan.prepend);
	assert_int_equal(plan.from, seq + 1);
}

static void check_before(uint64_t first, uint64_t max, uint64_t limit, uint64_t seq)
{
	struct load_request load = {.from = LOAD_BEFORE, .seq = seq, .limit = limit};
	struct load_plan plan = load_plan_make(&load, 1, first, max);
	assert_null(plan.reset);
	assert_true(plan.prepend && !plan.to_end && !plan.is_newest);
	check_page(&plan, first, least(seq - 1, max), limit);
}

static void all_small_logs(void **state)
{
	for (uint64_t first = 1; first <= 4; first++) {
		for (uint64_t max = first - 1; max <= 9; max++) {
			for (uint64_t limit = 1; limit <= 11; limit++) {
				struct load_request load = {.from = LOAD_NEWEST, .limit = limit};
				struct load_plan plan = load_plan_make(&load, 1, first, max);
				check_newest(&plan, first, max, limit, "");
				for (uint64_t seq = 0; seq <= 12; seq++) {
					check_after(first, max, limit, seq);
					check_before(first, max, limit, most(seq, 1));
				}
			}
		}
	}
	(void)state;
}

static void another_epoch_is_told_first(void **state)
{
	struct load_request load = {
		.from = LOAD_AFTER, .seq = 3, .limit = 2, .has_epoch = true, .epoch = 2};
	struct load_plan plan = load_plan_make(&load, 1, 1, 9);
	check_newest(&plan, 1, 9, 2, "epoch");
	load.from = LOAD_BEFORE;
	plan = load_plan_make(&load, 1, 1, 9);
	check_newest(&plan, 1, 9, 2, "epoch");
	load.from = LOAD_NEWEST;
	plan = load_plan_make(&load, 1, 1, 9);
	check_newest(&plan, 1, 9, 2, "epoch");
	load.epoch = 1;
	plan = load_plan_make(&load, 1, 1, 9);
	check_newest(&plan, 1, 9, 2, "");
	(void)state;
}

static void huge_numbers_do_not_wrap(void **state)
{
	struct load_request load = {.from = LOAD_AFTER, .seq = 9007199254740991, .limit = 5000};
	struct load_plan plan = load_plan_make(&load, 1, 1, 9);
	check_newest(&plan, 1, 9, 5000, "ahead");
	load.from = LOAD_BEFORE;
	plan = load_plan_make(&load, 1, 1, 9);
	assert_int_equal(plan.from, 1);
	assert_int_equal(plan.to, 9);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_small_logs),
		cmocka_unit_test(another_epoch_is_told_first),
		cmocka_unit_test(huge_numbers_do_not_wrap),
	};
	return cmocka_run_group_tests_name("load_plan", tests, NULL, NULL);
}
