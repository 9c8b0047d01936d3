#include "holdfast/server_life.h"

#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

static void a_server_never_goes_back(void **state)
{
	struct server_life life = {0};
	assert_true(server_has_reached(&life, SERVER_STARTING));
	assert_false(server_has_reached(&life, SERVER_SERVING));
	server_reach(&life, SERVER_CLOSING);
	server_reach(&life, SERVER_SERVING);
	assert_true(server_has_reached(&life, SERVER_CLOSING));
	assert_false(server_has_reached(&life, SERVER_CLOSED));
	assert_true(server_may(&life, MAY_TELL));
	assert_false(server_may(&life, MAY_SERVE));
	(void)state;
}

/** While it drains, what is there ends in order; nothing new begins. */
static void a_store_follows_the_life_of_its_server(void **state)
{
	struct rig rig;
	struct session *made;
	rig_init_in_memory(&rig);
	assert_int_equal(rig_open(&rig), 0);
	struct session *session = rig_session(&rig, "s");
	rig_put(session, "user_prompt", "{\"message\":\"m\"}");
	rig_settle(&rig);
	server_reach(&rig.life, SERVER_DRAINING);
	rig_put(session, "x-note", "{}");
	assert_int_equal(session_create(rig.table, "new", &(struct session_wish){0}, &made), -EIO);
	server_reach(&rig.life, SERVER_CLOSING);
	rig_settle(&rig);
	assert_int_equal(session_channel(session)->max_seq, 2);
	struct input_event in = {.type = EVENT_TURN_END};
	uint64_t seq;
	bool duplicate;
	assert_true(session_input(session, &in, &seq, &duplicate) < 0);
	assert_true(session_delete(session) < 0);
	rig_close(&rig);
	assert_int_equal(rig_open(&rig), 0);
	assert_int_equal(session_channel(rig_session(&rig, "s"))->max_seq, 2);
	rig_finish(&rig);
	(void)state;
}

static int hosts_lost;

static void handle_host_lost(void *owner, struct session *session)
{
	hosts_lost++;
	session_set_host(session, NULL);
}

static void ignore_session(void *owner, struct session *session)
{
}

static void ignore_revived(void *owner)
{
}

/** Whoever has a session for an agent is told before it is freed, in the last state, too. */
static void a_host_learns_that_its_session_is_freed(void **state)
{
	static const struct session_ops ops = {.changed = ignore_session,
		.deleted = ignore_session,
		.store_revived = ignore_revived,
		.host_lost = handle_host_lost};
	struct rig rig;
	rig_init_in_memory(&rig);
	assert_int_equal(rig_open_for(&rig, &ops, NULL), 0);
	session_set_host(rig_session(&rig, "a"), &rig);
	session_set_host(rig_session(&rig, "b"), &rig);
	rig_settle(&rig);
	session_delete(rig_session(&rig, "b"));
	rig_settle(&rig);
	assert_int_equal(hosts_lost, 1);
	rig_close(&rig);
	assert_int_equal(hosts_lost, 2);
	rig_finish(&rig);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_never_goes_back),
		cmocka_unit_test(a_store_follows_the_life_of_its_server),
		cmocka_unit_test(a_host_learns_that_its_session_is_freed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
