/* Observers, sockets that fill up, loads and inputs in any order: every client has the whole log in
 * the end. */
#include "random.h"
#include "stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define CROWD 4

static void load_something(struct stage *st, struct fake_socket *s, struct random *r)
{
	uint64_t max = st->channel->max_seq;
	struct load_request loads[] = {
		load_newest(1 + random_below(r, 20)),
		load_before(1 + random_below(r, (uint32_t)max + 3), 1 + random_below(r, 20)),
		load_after(s->has_page ? s->last : 0, 1 + random_below(r, 20), true),
		load_after(random_below(r, (uint32_t)max + 3), 1 + random_below(r, 20), true),
		load_after(random_below(r, (uint32_t)max + 1), 1 + random_below(r, 20), false),
	};
	fake_socket_load(s, &loads[random_below(r, 5)]);
}

static void do_something(struct stage *st, struct fake_socket *crowd, struct random *r)
{
	struct fake_socket *s = &crowd[random_below(r, CROWD)];
	switch (random_below(r, 10)) {
	case 0:
		load_something(st, s, r);
		break;
	case 1:
		fake_socket_drain(s, random_below(r, 3));
		break;
	case 2:
		fake_socket_drain(s, 100);
		break;
	case 3:
		rig_turn(&st->rig);
		break;
	case 4:
		rig_put(st->session, "turn_end", "{}");
		break;
	case 5:
		session_table_end_tick(st->rig.table);
		break;
	case 6:
		rig_say(st->session, random_below(r, 3) ? "- é\n" : "\n\ntext");
		break;
	case 7:
		rig_think(st->session, "hm");
		break;
	default:
		stage_append(st, 1 + (int)random_below(r, 3));
	}
}

/** In the end every client loads what it misses, and must have the whole log. */
static void catch_up(struct stage *st, struct fake_socket *s)
{
	fake_socket_drain(s, SIZE_MAX);
	struct load_request load = load_after(s->live ? s->last : 0, 50, true);
	fake_socket_load(s, &load);
	do {
		rig_settle(&st->rig);
		fake_socket_drain(s, SIZE_MAX);
	} while (s->wanted || st->rig.loop.active_reqs.count);
	assert_true(s->live);
	assert_int_equal(s->last, st->channel->max_seq);
}

static void whatever_happens_every_client_has_the_log(void **state)
{
	for (uint64_t seed = 1; seed <= 150; seed++) {
		void *stage;
		struct random r = {seed};
		struct fake_socket crowd[CROWD];
		stage_setup_cold(&stage);
		struct stage *st = stage;
		st->rig.limits.hot_tail_size = seed % 3 ? 1 : 600;
		st->rig.limits.page_size = seed % 2 ? 700 : 1 << 20;
		for (size_t i = 0; i < CROWD; i++) {
			fake_socket_open(&crowd[i], st->channel, (enum deltas)(i % 3));
		}
		for (int i = 0; i < 150; i++) {
			do_something(st, crowd, &r);
		}
		rig_settle(&st->rig);
		for (size_t i = 0; i < CROWD; i++) {
			catch_up(st, &crowd[i]);
			fake_socket_finish(&crowd[i]);
		}
		stage_teardown(&stage);
	}
	(void)state;
}

int main(void)
{
	/* One thread does the work in the order in which it was asked for: every run is the same.
	 */
	setenv("UV_THREADPOOL_SIZE", "1", 1);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whatever_happens_every_client_has_the_log),
	};
	return cmocka_run_group_tests_name("observer_random", tests, NULL, NULL);
}
