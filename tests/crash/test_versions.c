/*
 * What a later program wrote: it is refused by name, and nothing is changed, whatever else the data
 * directory holds that a start would put in order.
 */
#include "core/store/embedded/embedded.h"
#include "point.h"
#include "core/session/session_internal.h"

#include "holdfast/diag.h"
#include "holdfast/pack.h"
#include "holdfast/sealed_line.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define STEPS 30

static struct point start;

/* --- a whole directory --- */

/** All names below a directory, and what the files hold. */
static void read_tree(const char *dir, struct buffer *out)
{
	struct dirent **entries;
	struct buffer bytes = {0};
	int count = scandir(dir, &entries, NULL, alphasort);
	assert_true(count >= 0);
	for (int i = 0; i < count; i++) {
		char path[512];
		struct stat st;
		snprintf(path, sizeof(path), "%s/%s", dir, entries[i]->d_name);
		assert_int_equal(lstat(path, &st), 0);
		if (entries[i]->d_name[0] != '.' && S_ISDIR(st.st_mode)) {
			pack_bytes(out, path, strlen(path));
			read_tree(path, out);
		} else if (S_ISREG(st.st_mode)) {
			assert_true(file_read(path, &bytes));
			pack_bytes(out, path, strlen(path));
			pack_bytes(out, bytes.data, bytes.len);
		}
		free(entries[i]);
	}
	free(entries);
	buffer_finish(&bytes);
}

/** What a start would take away, cut or move. */
static void leave_things_to_do(const char *dir)
{
	struct buffer path = {0};
	struct buffer half = {0};
	uint64_t number;
	size_t size;
	char text[256];
	snprintf(text, sizeof(text), "%s/trash/x", dir);
	assert_int_equal(mkdir(text, 0700), 0);
	snprintf(text, sizeof(text), "%s/sessions/half-made", dir);
	assert_int_equal(mkdir(text, 0700), 0);
	workload_newest_segment(dir, &number, &size, &path);
	assert_true(file_read(path.data, &half));
	half.len = size;
	buffer_append_str(&half, "HFBT of which no more came");
	file_write(path.data, &half);
	log_path(&path, dir, "a", "events.jsonl");
	file_append(path.data, "{\"seq\":", 7);
	buffer_finish(&path);
	buffer_finish(&half);
}

/** The directory is not opened, for a reason that has these words in it, and stays as it is. */
static void assert_refused(const char *dir, const char *place, const char *what)
{
	struct rig rig;
	struct buffer before = {0};
	struct buffer after = {0};
	leave_things_to_do(dir);
	read_tree(dir, &before);
	rig_init_on(&rig, dir);
	assert_int_equal(rig_open(&rig), -ENOTSUP);
	if (!strstr(rig.why, place) || !strstr(rig.why, what) || !strstr(rig.why, "install a")) {
		fail_msg("%s", rig.why);
	}
	rig_finish(&rig);
	read_tree(dir, &after);
	assert_int_equal(after.len, before.len);
	assert_memory_equal(after.data, before.data, before.len);
	buffer_finish(&before);
	buffer_finish(&after);
	rig_remove_dir(dir);
}

static void assert_taken(const char *dir)
{
	struct rig rig;
	point_open(&rig, dir);
	for (size_t i = 0; i < WORKLOAD_SESSIONS; i++) {
		struct session_mark mark;
		workload_mark_session(&rig, workload_ids[i], &mark);
		workload_assert_same(&mark, &start.marks[STEPS].sessions[i]);
	}
	rig_finish(&rig);
	rig_remove_dir(dir);
}

/* --- segments --- */

struct header {
	const char *magic;
	uint64_t flags;
};

/** Gives a segment another header, with a right checksum. */
static void put_header(const char *path, const struct header *header)
{
	struct buffer bytes = {0};
	struct buffer flags = {0};
	assert_true(file_read(path, &bytes));
	if (header->magic) {
		memcpy(bytes.data, header->magic, 8);
	}
	pack_le(&flags, header->flags, 8);
	memcpy(bytes.data + 32, flags.data, 8);
	buffer_clear(&flags);
	pack_le(&flags, journal_checksum(bytes.data, 40), 8);
	memcpy(bytes.data + 40, flags.data, 8);
	file_write(path, &bytes);
	buffer_finish(&bytes);
	buffer_finish(&flags);
}

static char *with_header(const struct header *header, char name[32])
{
	char *dir = rig_copy_dir(start.dir);
	struct buffer path = {0};
	size_t size;
	uint64_t number;
	workload_newest_segment(dir, &number, &size, &path);
	snprintf(name, 32, "%016llx.journal", (unsigned long long)number);
	put_header(path.data, header);
	buffer_finish(&path);
	return dir;
}

static void a_segment_of_another_format_is_refused(void **state)
{
	static const struct {
		struct header header;
		const char *what;
	} cases[] = {
		{{"HFJRNL4\n", 0}, "its format is 4, and this program (holdfast "},
		{{"HFJRNL9\n", 7}, "reads 2 to 3: install a newer"},
		{{"HFJRNL1\n", 0}, "an older"},
		{{"HFLOGS1\n", 0}, ") does not know its format"},
		{{NULL, 1}, "the flags 0x1,"},
		{{NULL, 0x100000004u}, "the flags 0x4,"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char name[32];
		char *dir = with_header(&cases[i].header, name);
		assert_refused(dir, name, cases[i].what);
		free(dir);
	}
	(void)state;
}

/** A segment that does not count would be deleted. */
static void so_is_one_that_does_not_count(void **state)
{
	char *dir = rig_copy_dir(start.dir);
	struct buffer bytes = {0};
	struct buffer path = {0};
	buffer_printf(&path, "%s/journal/0000000000000000.journal", dir);
	FILE *file = fopen(buffer_cstr(&path), "wx");
	assert_non_null(file);
	assert_int_equal(fclose(file), 0);
	buffer_reserve(&bytes, 48);
	memset(bytes.data, 0, 48);
	bytes.len = 48;
	file_write(path.data, &bytes);
	put_header(path.data, &(struct header){"HFJRNL5\n", 0});
	assert_refused(dir, "0000000000000000.journal", "its format is 5");
	buffer_finish(&path);
	buffer_finish(&bytes);
	free(dir);
	(void)state;
}

static void flags_that_may_be_left_out_are(void **state)
{
	char name[32];
	char *dir = with_header(&(struct header){NULL, 0x300000000u}, name);
	assert_taken(dir);
	free(dir);
	(void)state;
}

/* --- records --- */

/** Puts a record behind those that are there, as a later program would. */
static char *with_record(const struct record *record)
{
	struct rig rig;
	char *dir = rig_copy_dir(start.dir);
	rig_init_on(&rig, dir);
	assert_int_equal(rig_open(&rig), 0);
	session_table_end_tick(rig.table);
	assert_true(journal_append(&embedded_of(rig.table->store)->journal, record) > 0);
	rig_finish(&rig);
	return dir;
}

static void a_record_of_another_kind_is_refused(void **state)
{
	const struct record record = {
		.kind = (enum record_kind)0x7001, .id = "a", .id_len = 1, .epoch = 1};
	char *dir = with_record(&record);
	assert_refused(dir, ".journal", "a record of kind 28673,");
	free(dir);
	(void)state;
}

/** Also one that is of no session. */
static void one_that_may_be_left_out_is(void **state)
{
	const struct record of_session = {.kind = (enum record_kind)0xf001,
		.id = "a",
		.id_len = 1,
		.epoch = start.marks[STEPS].sessions[0].epoch,
		.data = "?",
		.data_len = 1};
	const struct record of_none = {
		.kind = (enum record_kind)0xf002, .id = "", .data = "?", .data_len = 1};
	char *dir = with_record(&of_session);
	assert_taken(dir);
	free(dir);
	dir = with_record(&of_none);
	assert_taken(dir);
	free(dir);
	(void)state;
}

static void a_snapshot_of_another_version_is_refused(void **state)
{
	const struct record record = {.kind = RECORD_SNAPSHOT,
		.id = "a",
		.id_len = 1,
		.epoch = start.marks[STEPS].sessions[0].epoch,
		.data = "\x63",
		.data_len = 1};
	char *dir = with_record(&record);
	assert_refused(dir, ".journal", "its snapshot of session a has version 99");
	free(dir);
	(void)state;
}

/* --- folders --- */

static void a_folder_of_another_format_is_refused(void **state)
{
	char *dir = rig_copy_dir(start.dir);
	struct buffer path = {0};
	struct buffer line = {0};
	struct buffer other = {0};
	const char front[] = "{\"format\":2,";
	log_path(&path, dir, "b", "metadata.json");
	assert_true(file_read(path.data, &line));
	assert_memory_equal(line.data, front, strlen(front));
	buffer_append_str(&other, "{\"format\":3,\"other\":[],");
	buffer_append(&other, line.data + strlen(front), line.len - strlen(front) - SEAL_LEN - 1);
	sealed_line_end(&other, 0);
	file_write(path.data, &other);
	assert_refused(dir, "sessions/b/metadata.json", "its format is 3");
	buffer_finish(&path);
	buffer_finish(&line);
	buffer_finish(&other);
	free(dir);
	(void)state;
}

static int take_start(void **state)
{
	point_take(&start, STEPS, 64 << 20);
	(void)state;
	return 0;
}

static int free_start(void **state)
{
	point_free(&start);
	(void)state;
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_segment_of_another_format_is_refused),
		cmocka_unit_test(so_is_one_that_does_not_count),
		cmocka_unit_test(flags_that_may_be_left_out_are),
		cmocka_unit_test(a_record_of_another_kind_is_refused),
		cmocka_unit_test(one_that_may_be_left_out_is),
		cmocka_unit_test(a_snapshot_of_another_version_is_refused),
		cmocka_unit_test(a_folder_of_another_format_is_refused),
	};
	point_use_memory();
	diag_set_level(DIAG_SILENT);
	return cmocka_run_group_tests_name("versions", tests, take_start, free_start);
}
