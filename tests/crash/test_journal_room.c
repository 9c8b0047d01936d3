/*
 * The room that the journal takes ahead: while a server runs, when it is stopped, and at a start.
 */
#include "point.h"

#include "holdfast/diag.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

/** The newest segment's size, and where its batches end. */
static void measure_segment(const char *dir, size_t *ret_size, size_t *ret_end)
{
	struct buffer path = {0};
	struct stat st;
	uint64_t number;
	workload_newest_segment(dir, &number, ret_end, &path);
	assert_int_equal(stat(path.data, &st), 0);
	*ret_size = (size_t)st.st_size;
	buffer_finish(&path);
}

static void a_stopped_server_leaves_no_room(void **state)
{
	struct rig rig;
	size_t size;
	size_t end;
	rig_init(&rig);
	assert_int_equal(rig_open(&rig), 0);
	rig_put(rig_session(&rig, "s"), "x-note", "{}");
	rig_settle(&rig);
	measure_segment(rig.dir, &size, &end);
	assert_true(size > end && size <= end + rig.limits.journal_ahead);
	size_t before = end;
	rig_close(&rig);
	measure_segment(rig.dir, &size, &end);
	assert_true(end >= before);
	assert_int_equal(size, end);
	rig.durability = DURABILITY_WRITE; /* nothing is synced that could be cheaper */
	assert_int_equal(rig_open(&rig), 0);
	rig_put(rig_session(&rig, "s"), "x-note", "{}");
	rig_settle(&rig);
	measure_segment(rig.dir, &size, &end);
	assert_int_equal(size, end);
	rig_finish(&rig);
	(void)state;
}

/** Only a beginning: no batch of it was ever on disk. */
static void a_segment_of_room_alone_is_taken_away(void **state)
{
	struct rig rig;
	struct buffer path = {0};
	rig_init(&rig);
	assert_int_equal(rig_open(&rig), 0);
	rig_put(rig_session(&rig, "s"), "x-note", "{}");
	rig_settle(&rig);
	char *dir = rig_copy_dir(rig.dir);
	rig_finish(&rig);
	buffer_printf(&path, "%s/journal/00000000000000ff.journal", dir);
	int fd = open(buffer_cstr(&path), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(ftruncate(fd, 4096), 0);
	close(fd);
	rig_init_on(&rig, dir);
	assert_int_equal(rig_open(&rig), 0);
	assert_int_equal(session_channel(rig_session(&rig, "s"))->max_seq, 1);
	rig_finish(&rig);
	assert_int_equal(access(path.data, F_OK), -1);
	path.len = 0;
	buffer_printf(&path, "%s/set-aside/00000000000000ff.journal", dir);
	assert_int_equal(access(buffer_cstr(&path), F_OK), -1);
	buffer_finish(&path);
	rig_remove_dir(dir);
	free(dir);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stopped_server_leaves_no_room),
		cmocka_unit_test(a_segment_of_room_alone_is_taken_away),
	};
	diag_set_level(DIAG_SILENT);
	return cmocka_run_group_tests_name("journal room", tests, NULL, NULL);
}
