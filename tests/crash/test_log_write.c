/*
 * What the journal's thread does to logs when a call fails in the middle of it: the journal has the
 * events, they are shown, and the files get them with the next ones, in order.
 */
#include "fault_disk.h"
#include "rig.h"

#include "holdfast/diag.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

static int setup(void **state)
{
	struct rig *rig = xcalloc(1, sizeof(*rig));
	rig_init(rig);
	assert_int_equal(rig_open(rig), 0);
	*state = rig;
	return 0;
}

static int teardown(void **state)
{
	rig_finish(*state);
	free(*state);
	return 0;
}

static uint64_t put(struct rig *rig)
{
	uint64_t seq = rig_put(rig_session(rig, "s"), "x-note", "{}");
	rig_settle(rig);
	return seq;
}

static uint64_t shown(struct rig *rig)
{
	return session_channel(rig_session(rig, "s"))->max_seq;
}

/** How many lines the file has; -1: there is none. Each has the seq that its place tells. */
static int count_lines(const struct rig *rig, const char *id)
{
	struct buffer path = {0};
	char line[512];
	int count = 0;
	buffer_printf(&path, "%s/sessions/%s/events.jsonl", rig->dir, id);
	FILE *file = fopen(buffer_cstr(&path), "re");
	while (file && fgets(line, sizeof(line), file)) {
		char want[32];
		snprintf(want, sizeof(want), "{\"seq\":%d,", ++count);
		assert_memory_equal(line, want, strlen(want));
		assert_int_equal(line[strlen(line) - 1], '\n');
	}
	if (file) {
		fclose(file);
	}
	buffer_finish(&path);
	return file ? count : -1;
}

/** How long a file of the session `s` is. */
static size_t size_of(const struct rig *rig, const char *name)
{
	struct buffer path = {0};
	struct stat st;
	buffer_printf(&path, "%s/sessions/s/%s", rig->dir, name);
	assert_int_equal(stat(buffer_cstr(&path), &st), 0);
	buffer_finish(&path);
	return (size_t)st.st_size;
}

/** As after kill -9: what is on disk now is what the next start finds. */
static void restart(struct rig *rig)
{
	char *dir = rig_copy_dir(rig->dir);
	rig_close(rig);
	rig_remove_dir(rig->dir);
	assert_int_equal(rename(dir, rig->dir), 0);
	free(dir);
	assert_int_equal(rig_open(rig), 0);
}

static void a_folder_is_made_later(void **state)
{
	struct rig *rig = *state;
	fault_disk_put(&(struct fault){.kind = CALL_MKDIRAT, .error = ENOSPC, .lasts = true});
	assert_int_equal(put(rig), 1);
	assert_int_equal(shown(rig), 1);
	assert_int_equal(count_lines(rig, "s"), -1);
	fault_disk_mend();
	assert_int_equal(put(rig), 2);
	assert_int_equal(count_lines(rig, "s"), 2);
	fault_disk_take_away();
	restart(rig);
	assert_int_equal(shown(rig), 2);
}

static void a_folder_that_was_never_made_is_made_by_the_next_start(void **state)
{
	struct rig *rig = *state;
	fault_disk_put(&(struct fault){.kind = CALL_MKDIRAT, .error = ENOSPC, .lasts = true});
	assert_int_equal(put(rig), 1);
	assert_int_equal(count_lines(rig, "s"), -1);
	fault_disk_take_away();
	restart(rig);
	assert_int_equal(shown(rig), 1);
	assert_int_equal(put(rig), 2);
	assert_int_equal(count_lines(rig, "s"), 2);
}

/** The write behind the journal's fails. */
static void lines_come_later(struct rig *rig, bool tears)
{
	assert_int_equal(put(rig), 1);
	fault_disk_put(
		&(struct fault){.kind = CALL_WRITE, .nth = 1, .error = ENOSPC, .tears = tears});
	assert_int_equal(put(rig), 2);
	assert_int_equal(fault_disk_hits(), 1);
	assert_int_equal(shown(rig), 2);
	assert_int_equal(count_lines(rig, "s"), 1);
	assert_int_equal(put(rig), 3);
	assert_int_equal(count_lines(rig, "s"), 3);
	fault_disk_take_away();
	restart(rig);
	assert_int_equal(shown(rig), 3);
}

static void lines_that_the_file_does_not_take(void **state)
{
	lines_come_later(*state, false);
}

static void lines_that_the_file_takes_in_part(void **state)
{
	lines_come_later(*state, true);
}

/** A turn of two events. A checkpoint follows, which writes all that the files lack. */
static void take_turn(struct rig *rig)
{
	rig_say(rig_session(rig, "s"), "text");
	rig_put(rig_session(rig, "s"), "turn_end", "{}");
	rig_settle(rig);
}

/** No checkpoint says that lines are certain which the file has refused. */
static void no_checkpoint_is_ahead_of_the_file(void **state)
{
	struct rig *rig = *state;
	take_turn(rig);
	rig->limits.segment_size = 1; /* each batch is one: the older ones go if they may */
	fault_disk_put(&(struct fault){
		.kind = CALL_WRITE, .file = "events.jsonl", .error = ENOSPC, .lasts = true});
	for (int i = 0; i < 3; i++) {
		take_turn(rig);
	}
	assert_true(fault_disk_hits() >= 3);
	assert_int_equal(count_lines(rig, "s"), 2);
	fault_disk_take_away();
	restart(rig);
	assert_int_equal(shown(rig), 8);
	assert_int_equal(count_lines(rig, "s"), 8);
}

/** Entries that the index has refused are written with the next ones. */
static void the_index_comes_later(void **state)
{
	struct rig *rig = *state;
	take_turn(rig);
	size_t size = size_of(rig, "events.index");
	fault_disk_put(&(struct fault){
		.kind = CALL_WRITE, .file = "events.index", .error = ENOSPC, .lasts = true});
	take_turn(rig);
	assert_true(fault_disk_hits() >= 1);
	assert_int_equal(size_of(rig, "events.index"), size);
	fault_disk_take_away();
	take_turn(rig);
	assert_int_equal(size_of(rig, "events.index"), size + 4 * sizeof(uint64_t));
}

static void a_failed_sync_writes_no_lines(void **state)
{
	struct rig *rig = *state;
	rig->limits.journal_retry_ms = 10;
	assert_int_equal(put(rig), 1);
	fault_disk_put(&(struct fault){.kind = CALL_FDATASYNC, .error = EIO});
	assert_int_equal(put(rig), 2);
	assert_int_equal(count_lines(rig, "s"), 1);
	rig_wait_for_store(rig);
	assert_int_equal(shown(rig), 1);
	assert_int_equal(put(rig), 2);
	assert_int_equal(count_lines(rig, "s"), 2);
	fault_disk_take_away();
}

/** A folder that cannot be moved away is moved when another session needs its name. */
static void a_deleted_sessions_folder_is_in_the_way(void **state)
{
	struct rig *rig = *state;
	assert_int_equal(put(rig), 1);
	assert_int_equal(put(rig), 2);
	fault_disk_put(&(struct fault){.kind = CALL_RENAMEAT, .error = EIO, .lasts = true});
	assert_int_equal(session_delete(rig_session(rig, "s")), 0);
	rig_settle(rig);
	assert_int_equal(count_lines(rig, "s"), 2);
	fault_disk_mend();
	assert_int_equal(put(rig), 1);
	assert_int_equal(count_lines(rig, "s"), 1);
	fault_disk_take_away();
	restart(rig);
	assert_int_equal(shown(rig), 1);
}

static struct {
	const struct disk_ops *below;
	struct disk_ops ops;
	atomic_int folders;
} slow;

static int slow_mkdirat(int dir_fd, const char *path, mode_t mode)
{
	usleep(5000); /* more than a run takes for folders */
	atomic_fetch_add(&slow.folders, 1);
	return slow.below->mkdirat(dir_fd, path, mode);
}

/** When many sessions begin at once, nobody's news wait for all of their folders. */
static void folders_of_many_are_made_behind_the_news(void **state)
{
	enum { COUNT = 20 };
	struct rig *rig = *state;
	char id[16];
	slow.below = disk;
	slow.ops = *disk;
	slow.ops.mkdirat = slow_mkdirat;
	slow.folders = 0;
	disk = &slow.ops;
	for (int i = 0; i < COUNT; i++) {
		snprintf(id, sizeof(id), "s%d", i);
		rig_put(rig_session(rig, id), "x-note", "{}");
	}
	session_table_end_tick(rig->table);
	rig_wait_for_seq(rig, rig_session(rig, id), 1);
	assert_in_range(atomic_load(&slow.folders), 1, COUNT / 2);
	rig_settle(rig);
	assert_int_equal(atomic_load(&slow.folders), COUNT);
	for (int i = 0; i < COUNT; i++) {
		snprintf(id, sizeof(id), "s%d", i);
		assert_int_equal(count_lines(rig, id), 1);
	}
	disk = slow.below;
	restart(rig);
	assert_int_equal(session_channel(rig_session(rig, id))->max_seq, 1);
}

/** They are tried again with the next batch, and not over and over until the disk works. */
static void names_that_the_file_refuses_wait_for_the_next_batch(void **state)
{
	struct rig *rig = *state;
	put(rig);
	fault_disk_put(&(struct fault){
		.kind = CALL_WRITE, .file = "keys.jsonl", .error = ENOSPC, .lasts = true});
	for (int i = 0; i < 200; i++) { /* more than are gathered in memory */
		char call[160];
		snprintf(call, sizeof(call), "{\"tool_call_id\":\"t%0100d\",\"title\":\"x\"}", i);
		rig_put(rig_session(rig, "s"), "tool_call", call);
	}
	rig_settle(rig);
	assert_in_range(fault_disk_hits(), 1, 2);
	fault_disk_mend();
	put(rig);
	fault_disk_take_away();
	assert_true(size_of(rig, "keys.jsonl") > 20000);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(a_folder_is_made_later),
		CASE(a_folder_that_was_never_made_is_made_by_the_next_start),
		CASE(lines_that_the_file_does_not_take),
		CASE(lines_that_the_file_takes_in_part),
		CASE(names_that_the_file_refuses_wait_for_the_next_batch),
		CASE(no_checkpoint_is_ahead_of_the_file),
		CASE(the_index_comes_later),
		CASE(a_failed_sync_writes_no_lines),
		CASE(a_deleted_sessions_folder_is_in_the_way),
		CASE(folders_of_many_are_made_behind_the_news),
	};
	diag_set_level(DIAG_SILENT);
	return cmocka_run_group_tests_name("log write", tests, NULL, NULL);
}
