/* What a migration reads of the journal of a directory, and what a server has to recover first. */
#include "core/store/embedded/migrate_files.h"
#include "journal_fixture.h"

#include "holdfast/session.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

struct rig {
	char dir[64];
	int dir_fd;
	int sessions_fd;
	struct journal_maker maker;
	struct buffer records; /* a word for each that the migration has given */
};

static int make_dir(int dir_fd, const char *name)
{
	assert_int_equal(mkdirat(dir_fd, name, 0700), 0);
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY);
	assert_true(fd >= 0);
	return fd;
}

static void rig_begin(struct rig *rig)
{
	*rig = (struct rig){.dir = "/tmp/holdfast-moving-XXXXXX"};
	assert_non_null(mkdtemp(rig->dir));
	rig->dir_fd = open(rig->dir, O_RDONLY | O_DIRECTORY);
	rig->sessions_fd = make_dir(rig->dir_fd, "sessions");
	rig->maker.dir_fd = make_dir(rig->dir_fd, "journal");
	close(openat(rig->dir_fd, "lock", O_WRONLY | O_CREAT, 0600));
}

static void rig_finish(struct rig *rig)
{
	journal_maker_finish(&rig->maker);
	close(rig->maker.dir_fd);
	unlinkat(rig->sessions_fd, "a/metadata.json", 0);
	unlinkat(rig->sessions_fd, "a", AT_REMOVEDIR);
	close(rig->sessions_fd);
	unlinkat(rig->dir_fd, "lock", 0);
	unlinkat(rig->dir_fd, "sessions", AT_REMOVEDIR);
	unlinkat(rig->dir_fd, "journal", AT_REMOVEDIR);
	close(rig->dir_fd);
	rmdir(rig->dir);
	buffer_finish(&rig->records);
}

/** The folder of session `a`, without events. */
static void make_session(struct rig *rig, uint64_t epoch)
{
	struct buffer json = {0};
	struct metadata meta = {.epoch = epoch,
		.first_seq = 1,
		.base_seq = 1,
		.facts_ops = &session_facts_ops,
		.facts = session_facts_ops.create("{}", 2)};
	meta.facts_ops->write(meta.facts, &meta.facts_text);
	metadata_append("a", &meta, &json);
	int dir_fd = make_dir(rig->sessions_fd, "a");
	assert_int_equal(disk_replace(dir_fd, "metadata.json", &json, false), 0);
	close(dir_fd);
	metadata_finish(&meta);
	buffer_finish(&json);
}

static int see_record(void *arg, const struct record *record)
{
	buffer_printf(arg, "%d:%.*s ", (int)record->kind, (int)record->data_len, record->data);
	return 0;
}

/** Reads the records of session `a` as a migration does. Returns what it is told, or 0. */
static int read_records(struct rig *rig)
{
	char *why = NULL;
	struct moving_side side;
	const struct moving_sink sink = {.record = see_record, .arg = &rig->records};
	buffer_clear(&rig->records);
	int r = moving_files_open(rig->dir, &session_facts_ops, &side, &why);
	if (r == 0) {
		r = side.read_records(side.side, "a", &sink);
	}
	side.close(side.side);
	free(why);
	buffer_cstr(&rig->records);
	return r;
}

static void records_count_from_the_newest_snapshot_on(void **state)
{
	struct rig rig;
	rig_begin(&rig);
	make_session(&rig, 1);
	begin_segment(&rig.maker, 1, 0, 0);
	put_record(&rig.maker, RECORD_CREATE, "a", 1, "{}");
	put_record(&rig.maker, RECORD_SNAPSHOT, "a", 1, "old");
	put_record(&rig.maker, RECORD_INPUT, "a", 1, "before");
	size_t len = end_segment(&rig.maker);
	begin_segment(&rig.maker, 2, 1, len);
	put_record(&rig.maker, RECORD_SNAPSHOT, "a", 1, "new");
	put_record(&rig.maker, RECORD_INPUT, "a", 1, "after");
	end_segment(&rig.maker);
	assert_int_equal(read_records(&rig), 0);
	assert_string_equal(rig.records.data, "6:new 3:after ");
	rig_finish(&rig);
	(void)state;
}

static void records_of_another_epoch_are_no_state(void **state)
{
	struct rig rig;
	rig_begin(&rig);
	make_session(&rig, 2);
	begin_segment(&rig.maker, 1, 0, 0);
	put_record(&rig.maker, RECORD_SNAPSHOT, "a", 1, "deleted");
	put_record(&rig.maker, RECORD_DELETE, "a", 1, "");
	put_record(&rig.maker, RECORD_CREATE, "a", 2, "{}");
	put_record(&rig.maker, RECORD_SNAPSHOT, "a", 2, "again");
	end_segment(&rig.maker);
	assert_int_equal(read_records(&rig), 0);
	assert_string_equal(rig.records.data, "6:again ");
	rig_finish(&rig);
	(void)state;
}

static void a_deleted_session_leaves_nothing_to_be_done(void **state)
{
	struct rig rig;
	rig_begin(&rig);
	begin_segment(&rig.maker, 1, 0, 0);
	put_record(&rig.maker, RECORD_CREATE, "a", 1, "{}");
	put_record(&rig.maker, RECORD_DELETE, "a", 1, "");
	end_segment(&rig.maker);
	assert_int_equal(read_records(&rig), -ENOENT); /* the session, not the journal */
	make_session(&rig, 1);
	assert_int_equal(read_records(&rig), -EAGAIN); /* its folder is still there */
	rig_finish(&rig);
	(void)state;
}

static void a_session_without_a_folder_is_recovered_first(void **state)
{
	struct rig rig;
	rig_begin(&rig);
	begin_segment(&rig.maker, 1, 0, 0);
	put_record(&rig.maker, RECORD_CREATE, "a", 1, "{}");
	end_segment(&rig.maker);
	assert_int_equal(read_records(&rig), -EAGAIN);
	rig_finish(&rig);
	(void)state;
}

static void a_state_that_begins_with_a_creation_is_recovered_first(void **state)
{
	struct rig rig;
	rig_begin(&rig);
	make_session(&rig, 1);
	begin_segment(&rig.maker, 1, 0, 0);
	put_record(&rig.maker, RECORD_CREATE, "a", 1, "{}");
	put_record(&rig.maker, RECORD_INPUT, "a", 1, "input");
	end_segment(&rig.maker);
	assert_int_equal(read_records(&rig), -EAGAIN);
	rig_finish(&rig);
	(void)state;
}

static void no_segment_is_left_out_behind_a_damaged_header(void **state)
{
	struct rig rig;
	rig_begin(&rig);
	make_session(&rig, 1);
	begin_segment(&rig.maker, 1, 0, 0);
	put_record(&rig.maker, RECORD_SNAPSHOT, "a", 1, "state");
	size_t len = end_segment(&rig.maker);
	make_segment(&rig.maker, 2, 1, len, "b");
	flip(&rig.maker, 2, 20);
	assert_int_equal(read_records(&rig), -EBADMSG);
	rig_finish(&rig);
	(void)state;
}

static void a_torn_end_is_recovered_first(void **state)
{
	struct rig rig;
	rig_begin(&rig);
	make_session(&rig, 1);
	begin_segment(&rig.maker, 1, 0, 0);
	end_segment(&rig.maker);
	flip(&rig.maker, 1, 20); /* a segment that was just begun */
	assert_int_equal(read_records(&rig), -EAGAIN);
	begin_segment(&rig.maker, 1, 0, 0);
	put_record(&rig.maker, RECORD_SNAPSHOT, "a", 1, "state");
	put_record(&rig.maker, RECORD_INPUT, "a", 1, "input");
	rig.maker.segment.len--;
	end_segment(&rig.maker);
	assert_int_equal(read_records(&rig), -EAGAIN);
	rig_finish(&rig);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_count_from_the_newest_snapshot_on),
		cmocka_unit_test(records_of_another_epoch_are_no_state),
		cmocka_unit_test(a_deleted_session_leaves_nothing_to_be_done),
		cmocka_unit_test(a_session_without_a_folder_is_recovered_first),
		cmocka_unit_test(a_state_that_begins_with_a_creation_is_recovered_first),
		cmocka_unit_test(no_segment_is_left_out_behind_a_damaged_header),
		cmocka_unit_test(a_torn_end_is_recovered_first),
	};
	return cmocka_run_group_tests_name("migrate files", tests, NULL, NULL);
}
