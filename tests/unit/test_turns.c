/* Work in turns: in the order in which it was asked for, and so much in a tick. */
#include "holdfast/turns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <uv.h>

#include <cmocka.h>

struct worker {
	struct turn turn; /* first */
	int64_t takes_ms;
	int runs;
	struct worker **last; /* who ran last */
};

static void run(struct turn *turn)
{
	struct worker *worker = (struct worker *)turn;
	uint64_t until = uv_hrtime() + (uint64_t)worker->takes_ms * 1000000;
	while (uv_hrtime() < until) {
	}
	worker->runs++;
	*worker->last = worker;
}

static void init(struct worker *worker, int64_t takes_ms, struct worker **last)
{
	*worker = (struct worker){.takes_ms = takes_ms, .last = last};
	turn_init(&worker->turn, run);
}

static void whoever_comes_later_waits(void **state)
{
	struct turns turns;
	struct worker a;
	struct worker b;
	struct worker c;
	struct worker *last = NULL;
	turns_init(&turns, 2);
	init(&a, 5, &last);
	init(&b, 5, &last);
	init(&c, 0, &last);
	assert_true(turns_take(&turns, &a.turn)); /* there was time when it began */
	assert_false(turns_take(&turns, &b.turn));
	assert_false(turns_take(&turns, &b.turn)); /* it waits already */
	assert_false(turns_take(&turns, &c.turn));
	assert_true(turns_go_on(&turns)); /* there is no time in this tick */
	assert_int_equal(b.runs + c.runs, 0);
	turns_renew(&turns);
	assert_true(turns_go_on(&turns));
	assert_ptr_equal(last, &b);
	assert_true(turn_is_waiting(&c.turn));
	turns_renew(&turns);
	assert_false(turns_take(&turns, &a.turn)); /* c was there before */
	assert_false(turns_go_on(&turns));
	assert_int_equal(a.runs + b.runs + c.runs, 4);
}

static void who_is_cancelled_does_not_run(void **state)
{
	struct turns turns;
	struct worker a;
	struct worker b;
	struct worker *last = NULL;
	turns_init(&turns, 1);
	init(&a, 3, &last);
	init(&b, 0, &last);
	turn_cancel(&a.turn); /* it does not wait */
	turns_take(&turns, &a.turn);
	assert_false(turns_take(&turns, &b.turn));
	turn_cancel(&b.turn);
	turns_renew(&turns);
	assert_false(turns_go_on(&turns));
	assert_int_equal(b.runs, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whoever_comes_later_waits),
		cmocka_unit_test(who_is_cancelled_does_not_run),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
