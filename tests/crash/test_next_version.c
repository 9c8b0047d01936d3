/*
 * A later program: this is built with another version of snapshots. It reads what those before
 * wrote, after kill -9 and after a stop in good order, and sets nothing aside. What it leaves is in
 * tests/fixtures/data-later, which this program refuses (tests/e2e).
 */
#include "rig.h"
#include "core/session/session_internal.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

static struct session *get(struct rig *rig, const char *id)
{
	struct session *session = session_table_get(rig->table, id, strlen(id));
	assert_non_null(session);
	return session;
}

static void assert_nothing_set_aside(const char *dir)
{
	char path[300];
	struct dirent *entry;
	snprintf(path, sizeof(path), "%s/set-aside", dir);
	DIR *aside = opendir(path);
	assert_non_null(aside);
	while ((entry = readdir(aside))) {
		assert_true(entry->d_name[0] == '.');
	}
	closedir(aside);
}

static void open_fixture(struct rig *rig, size_t sessions, const char *open_text, size_t queue)
{
	assert_int_equal(rig_open(rig), 0);
	session_table_end_tick(rig->table);
	assert_int_equal(store_count_sessions(rig->table->store), sessions);
	assert_nothing_set_aside(rig->dir);
	const struct channel *open = session_channel(get(rig, "open"));
	assert_int_equal(open->open_seq, 3);
	assert_int_equal(open->open_text.len, strlen(open_text));
	assert_memory_equal(open->open_text.data, open_text, strlen(open_text));
	assert_string_equal(session_channel(get(rig, "asking"))->status.status, "waiting");
	assert_string_equal(session_run(get(rig, "running")), "r-1");
	assert_int_equal(session_channel(get(rig, "queue"))->status.queue_length, queue);
	assert_int_equal(session_channel(get(rig, "idle"))->max_seq, 7);
	rig_close(rig);
}

static void check_fixture(const char *name, size_t sessions, const char *open_text, size_t queue)
{
	struct rig rig;
	char command[600];
	rig_init(&rig);
	snprintf(command, sizeof(command), "cp -r '%s/%s/.' '%s'", FIXTURES, name, rig.dir);
	assert_int_equal(system(command), 0);
	open_fixture(&rig, sessions, open_text, queue);
	open_fixture(&rig, sessions, open_text, queue); /* what it has written itself now */
	rig_finish(&rig);
}

static void versions_before_are_read(void **state)
{
	check_fixture("data-v1/killed", 12, "- one\n- **two and a half**\n", 2);
	check_fixture("data-v1/stopped", 12, "- one\n- **two and a half**\n- three\n", 1);
	check_fixture("data-v2/killed", 12, "- one\n- **two and a half**\n", 2);
	check_fixture("data-v2/stopped", 12, "- one\n- **two and a half**\n- three\n", 1);
	check_fixture("data-v3/killed", 13, "- one\n- **two and a half**\n", 2);
	check_fixture("data-v3/stopped", 13, "- one\n- **two and a half**\n- three\n", 1);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(versions_before_are_read),
	};
	return cmocka_run_group_tests_name("next version", tests, NULL, NULL);
}
