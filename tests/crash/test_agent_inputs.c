/*
 * What an agent says is stored once, whichever of the batches it is in fails: an agent cannot be
 * told, so what is lost is given again, and what is not lost must not be.
 */
#include "agents/host/agent_inputs.h"
#include "fault_disk.h"
#include "stage.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

struct talk {
	struct rig rig;
	struct agent_inputs inputs;
};

static struct session *session_of(struct talk *talk)
{
	return rig_session(&talk->rig, "s");
}

static int setup(void **state)
{
	struct talk *talk = xcalloc(1, sizeof(*talk));
	rig_init(&talk->rig);
	talk->rig.limits.journal_retry_ms = 1;
	assert_int_equal(rig_open(&talk->rig), 0);
	session_of(talk);
	rig_settle(&talk->rig);
	agent_inputs_init(&talk->inputs, session_of(talk));
	*state = talk;
	return 0;
}

static int teardown(void **state)
{
	struct talk *talk = *state;
	agent_inputs_finish(&talk->inputs);
	rig_finish(&talk->rig);
	free(talk);
	return 0;
}

static void say(struct talk *talk, const char *text)
{
	json_t *data = json_pack("{s:s}", "text", text);
	assert_int_equal(agent_inputs_event(&talk->inputs, "x-said", data), 0);
	json_decref(data);
}

static void end_turn(struct talk *talk)
{
	json_t *data = json_pack("{s:s}", "stop_reason", "end_turn");
	assert_int_equal(agent_inputs_event(&talk->inputs, "turn_end", data), 0);
	json_decref(data);
}

/** The syncs from the nth on fail. */
static void break_disk(size_t nth)
{
	fault_disk_put(
		&(struct fault){.kind = CALL_FDATASYNC, .nth = nth, .error = EIO, .lasts = true});
}

static void fail_and_mend(struct talk *talk)
{
	while (!talk->rig.is_failing) {
		uv_run(&talk->rig.loop, UV_RUN_ONCE);
	}
	assert_true(fault_disk_hits() > 0);
	fault_disk_take_away();
	rig_wait_for_store(&talk->rig);
	agent_inputs_retry(&talk->inputs);
	rig_settle(&talk->rig);
	assert_true(list_empty(&talk->inputs.kept));
}

/** The log, as `user_prompt x-said:a turn_end`. */
static void expect_log(struct talk *talk, const char *what)
{
	struct buffer seen = {0};
	struct session_log *log = session_channel(session_of(talk))->log;
	uint64_t last = session_log_last_seq(log);
	struct event **events = xcalloc(last, sizeof(*events));
	struct log_page page = {.from = 1, .to = last, .max_bytes = 1 << 20};
	size_t count = session_log_get_hot(log, &page, events);
	assert_int_equal(count, last);
	for (size_t i = 0; i < count; i++) {
		struct event_view view;
		event_get_view(events[i], &view);
		buffer_printf(&seen, "%s%.*s", i ? " " : "", (int)view.type_len, view.type_name);
		json_t *data = json_loadb(view.data, view.data_len, 0, NULL);
		const char *text = json_string_value(json_object_get(data, "text"));
		buffer_printf(&seen, "%s%s", text ? ":" : "", text ? text : "");
		json_decref(data);
		event_unref(events[i]);
	}
	free(events);
	assert_string_equal(buffer_cstr(&seen), what);
	buffer_finish(&seen);
}

/** Two are in a batch that lands, and the one behind it is lost: only that is given again. */
static void what_has_landed_is_not_given_again(void **state)
{
	struct talk *talk = *state;
	break_disk(1);
	say(talk, "a");
	say(talk, "b");
	session_table_end_tick(talk->rig.table); /* a and b are on their way */
	say(talk, "c");
	fail_and_mend(talk);
	expect_log(talk, "x-said:a x-said:b x-said:c");
}

/** The turn that the second one would end is another one. */
static void a_turn_is_ended_once(void **state)
{
	struct talk *talk = *state;
	uint64_t seq;
	bool duplicate;
	session_prompt(session_of(talk), "one", 3, "p1", AUTHOR("me"), &seq, &duplicate);
	session_prompt(session_of(talk), "two", 3, "p2", AUTHOR("me"), &seq, &duplicate);
	rig_settle(&talk->rig);
	break_disk(1);
	say(talk, "a");
	end_turn(talk);
	session_table_end_tick(talk->rig.table);
	say(talk, "b");
	fail_and_mend(talk);
	expect_log(talk, "user_prompt x-said:a turn_end user_prompt x-said:b");
	assert_true(session_is_prompting(session_of(talk)));
}

/** Every batch may be the one that fails; of those behind it nothing is there either. */
static void whichever_batch_fails(void **state)
{
	struct talk *talk = *state;
	struct buffer all = {0};
	for (size_t nth = 0; nth < 5; nth++) {
		break_disk(nth);
		for (int batch = 0; batch < 6 && !talk->rig.is_failing; batch++) {
			for (int i = 0; i < 3; i++) {
				char text[32];
				snprintf(text, sizeof(text), "%zu.%d.%d", nth, batch, i);
				buffer_printf(&all, "%sx-said:%s", all.len ? " " : "", text);
				say(talk, text);
				session_table_end_tick(talk->rig.table);
				uv_run(&talk->rig.loop, i ? UV_RUN_NOWAIT : UV_RUN_ONCE);
			}
		}
		say(talk, "!"); /* also while nothing is taken */
		buffer_append_str(&all, " x-said:!");
		fail_and_mend(talk);
	}
	expect_log(talk, buffer_cstr(&all));
	buffer_finish(&all);
}

/** A deletion that fails takes nothing along of what was said while it was under way. */
static void a_deletion_that_fails_takes_nothing_along(void **state)
{
	struct talk *talk = *state;
	break_disk(1);
	say(talk, "a");
	session_table_end_tick(talk->rig.table);
	say(talk, "b");
	assert_int_equal(session_delete(session_of(talk)), 0);
	say(talk, "c");
	fail_and_mend(talk);
	expect_log(talk, "x-said:a x-said:b x-said:c");
	rig_expect_told(&talk->rig, "store failed: Input/output error; store revived");
}

/** What is in the batch in front of the deletion's is stored, though nobody waits for more. */
static void what_landed_before_such_a_deletion_is_not_given_again(void **state)
{
	struct talk *talk = *state;
	break_disk(2);
	say(talk, "a");
	session_table_end_tick(talk->rig.table);
	say(talk, "b");
	uint64_t had = session_channel(session_of(talk))->max_seq;
	while (session_channel(session_of(talk))->max_seq == had) {
		uv_run(&talk->rig.loop, UV_RUN_ONCE);
	}
	assert_int_equal(session_delete(session_of(talk)), 0); /* b is on its way */
	say(talk, "c");
	fail_and_mend(talk);
	expect_log(talk, "x-said:a x-said:b x-said:c");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(what_has_landed_is_not_given_again),
		TEST(a_turn_is_ended_once),
		TEST(whichever_batch_fails),
		TEST(a_deletion_that_fails_takes_nothing_along),
		TEST(what_landed_before_such_a_deletion_is_not_given_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
