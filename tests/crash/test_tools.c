/*
 * The commands that look after a data directory: every changed bit and every cut is found by
 * `holdfast verify`, and `holdfast new-epoch` may be killed before any of its system calls.
 */
#include "core/store/embedded/embedded.h"
#include "look.h"
#include "part.h"
#include "point.h"

#include "holdfast/diag.h"
#include "core/store/disk.h"
#include "holdfast/store_check.h"
#include "holdfast/tools.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define KILLED 77

/* --- damage --- */

/** Whether a file that is cut there is one that was whole earlier. */
static bool is_border(const struct buffer *bytes, size_t at, bool journal)
{
	if (!journal) {
		return at == 0 || bytes->data[at - 1] == '\n';
	}
	size_t zeros = at; /* room behind the last batch */
	while (zeros < bytes->len && !bytes->data[zeros]) {
		zeros++;
	}
	return zeros == bytes->len ||
	       (at + 4 <= bytes->len && memcmp(bytes->data + at, "HFBT", 4) == 0);
}

/** Up to byte `end`. `certain`: a cut before this byte is a problem wherever it is. */
static size_t spoil_everywhere(
	const char *dir, const char *path, bool journal, size_t certain, size_t end)
{
	struct buffer bytes = {0};
	assert_true(file_read(path, &bytes));
	for (size_t at = 0; at < bytes.len && at < end; at++) {
		if (!part_has_next()) {
			continue;
		}
		file_spoil(path, FLIP, at);
		struct found found = look(dir);
		if (!found.problems && !found.notes) {
			fail_msg("%s: bit %zu of byte %zu was not found", path, at % 8, at);
		}
		file_write(path, &bytes);
		file_spoil(path, CUT, at);
		found = look(dir);
		bool must = at < certain ? !found.problems
					 : !is_border(&bytes, at, journal) && !found.problems &&
						   !found.notes;
		if (must) {
			fail_msg("%s: the cut at byte %zu was not found", path, at);
		}
		file_write(path, &bytes);
	}
	size_t len = bytes.len;
	buffer_finish(&bytes);
	assert_clean(dir);
	return len;
}

static void spoil_logs(const struct point *p)
{
	struct buffer path = {0};
	for (size_t i = 0; i < WORKLOAD_SESSIONS; i++) {
		const struct buffer *log = &p->logs[i];
		size_t certain = 0;
		uint64_t lines = 0;
		for (size_t at = 0; at < log->len && lines < p->certain[i]; at++) {
			lines += log->data[at] == '\n';
			certain = at + 1;
		}
		log_path(&path, p->dir, workload_ids[i], "events.jsonl");
		if (p->marks[p->step].sessions[i].exists) {
			spoil_everywhere(p->dir, path.data, false, certain, SIZE_MAX);
		}
	}
	buffer_finish(&path);
}

/** Every segment but the newest is whole, or it is a problem. */
static void spoil_journal(const struct point *p, size_t least)
{
	struct store_files files;
	uint64_t *segments;
	size_t count;
	char *why;
	assert_int_equal(store_files_open(p->dir, &files, &why), 0);
	assert_int_equal(store_files_list_segments(&files, &segments, &count), 0);
	store_files_close(&files);
	assert_true(count >= least);
	for (size_t i = 0; i < count; i++) {
		struct buffer path = {0};
		buffer_printf(&path, "%s/journal/%016llx.journal", p->dir,
			(unsigned long long)segments[i]);
		/* Room behind the batches of a segment that is followed by another is nobody's. */
		bool is_newest = i + 1 == count;
		size_t end = is_newest ? SIZE_MAX : workload_segment_end(buffer_cstr(&path));
		spoil_everywhere(p->dir, buffer_cstr(&path), true, is_newest ? 0 : SIZE_MAX, end);
		buffer_finish(&path);
	}
	free(segments);
}

static void all_damage_is_found(void **state)
{
	struct point p;
	point_take(&p, WORKLOAD_STEPS, 64 << 20);
	assert_clean(p.dir);
	spoil_logs(&p);
	spoil_journal(&p, 1);
	point_free(&p);
	(void)state;
}

static int keep_file(int dir_fd, const char *path, int flags)
{
	return 0;
}

/** A directory as a server leaves it that was killed before it could drop any old segment. */
static void take_old_segments(struct point *p)
{
	struct rig rig;
	struct disk_ops keeping = disk_kernel;
	uint64_t number = 0;
	size_t size;
	keeping.unlinkat = keep_file;
	disk = &keeping;
	*p = (struct point){.step = 0};
	rig_init(&rig);
	rig.limits.segment_size = 800;
	assert_int_equal(rig_open(&rig), 0);
	struct session *session = rig_session(&rig, "one");
	while (number < 3) {
		rig_put(session, "x-note", "{\"text\":\"some text to fill the segment with\"}");
		rig_settle(&rig);
		workload_newest_segment(rig.dir, &number, &size, NULL);
	}
	p->dir = rig_copy_dir(rig.dir);
	rig_finish(&rig);
	disk = &disk_kernel;
}

static void damage_of_older_segments_is_found(void **state)
{
	struct point p;
	take_old_segments(&p);
	assert_clean(p.dir);
	spoil_journal(&p, 3);
	point_free(&p);
	(void)state;
}

/** The batches behind a damaged header are good, and so are the segments in front of it. */
static void a_damaged_header_hides_no_older_segment(void **state)
{
	struct point p;
	struct buffer newest = {0};
	uint64_t number;
	size_t size;
	take_old_segments(&p);
	workload_newest_segment(p.dir, &number, &size, &newest);
	char *oldest = xprintf("%s/journal/%016x.journal", p.dir, 1);
	file_spoil(newest.data, FLIP, 20);
	assert_int_equal(look(p.dir).problems, 1);
	file_spoil(oldest, FLIP, workload_segment_end(oldest) - 1);
	assert_int_equal(look(p.dir).problems, 2);
	free(oldest);
	buffer_finish(&newest);
	point_free(&p);
	(void)state;
}

/* --- beside a server --- */

static const char *vanishing; /* a path ends so; what is taken away when it is opened */
static const char *vanishing_dir;

static int openat_vanishing(int dir_fd, const char *path, int flags, mode_t mode)
{
	const char *at = vanishing ? strstr(path, vanishing) : NULL;
	if (at && !at[strlen(vanishing)]) {
		vanishing = NULL;
		rig_remove_dir(vanishing_dir);
	}
	return disk_kernel.openat(dir_fd, path, flags, mode);
}

/** Looks while a file goes as it is opened, with a server at work or without one. */
static struct found look_at_vanishing(
	const char *good, const char *file, const char *goes, bool in_use)
{
	struct disk_ops vanishing_ops = disk_kernel;
	struct store_files files;
	struct buffer path = {0};
	char *why;
	char *dir = rig_copy_dir(good);
	buffer_printf(&path, "%s/%s", dir, goes);
	vanishing = file;
	vanishing_dir = buffer_cstr(&path);
	vanishing_ops.openat = openat_vanishing;
	assert_int_equal(store_files_open(dir, &files, &why), 0);
	files.in_use = in_use;
	disk = &vanishing_ops;
	struct found found = look_in(&files);
	disk = &disk_kernel;
	assert_null(vanishing);
	store_files_close(&files);
	buffer_finish(&path);
	rig_remove_dir(dir);
	free(dir);
	return found;
}

static void what_a_server_takes_away_is_no_problem(void **state)
{
	struct point p;
	point_take(&p, WORKLOAD_STEPS, 64 << 20);
	const char *id = NULL;
	for (size_t i = 0; i < WORKLOAD_SESSIONS; i++) {
		id = p.certain[i] ? workload_ids[i] : id;
	}
	assert_non_null(id);
	static const char *const files[] = {"events.jsonl", "events.index", "keys.jsonl"};
	struct buffer folder = {0};
	char segment[64];
	buffer_printf(&folder, "sessions/%s", id);
	snprintf(
		segment, sizeof(segment), "journal/%016llx.journal", (unsigned long long)p.segment);
	for (int in_use = 0; in_use < 2; in_use++) {
		struct found found;
		for (size_t i = 0; i < 3; i++) {
			char file[64];
			snprintf(file, sizeof(file), "%s/%s", id, files[i]);
			found = look_at_vanishing(p.dir, file, buffer_cstr(&folder), in_use);
			assert_int_equal(found.problems > 0, !in_use);
			assert_true(!in_use || !found.notes);
		}
		found = look_at_vanishing(p.dir, strchr(segment, '/') + 1, segment, in_use);
		assert_int_equal(found.problems > 0, !in_use);
		assert_true(!in_use || !found.notes);
	}
	buffer_finish(&folder);
	point_free(&p);
	(void)state;
}

static size_t hole_from; /* bytes of a file that its first reader sees as zeros */
static size_t hole_to;
static bool hole_is_open;

/** The server writes while we read: what was room when we came by is full when we look again. */
static ssize_t read_hole(int fd, void *bytes, size_t len)
{
	size_t at = (size_t)lseek(fd, 0, SEEK_CUR);
	ssize_t n = disk_kernel.read(fd, bytes, len);
	for (size_t i = 0; hole_is_open && n > 0 && i < (size_t)n; i++) {
		if (at + i >= hole_from && at + i < hole_to) {
			((char *)bytes)[i] = '\0';
		}
	}
	hole_is_open = hole_is_open && n != 0;
	return n;
}

static void what_a_server_writes_meanwhile_is_no_problem(void **state)
{
	struct point p;
	struct disk_ops hole_ops = disk_kernel;
	struct store_files files;
	char *why;
	point_take(&p, WORKLOAD_STEPS, 64 << 20);
	hole_ops.read = read_hole;
	assert_int_equal(store_files_open(p.dir, &files, &why), 0);
	for (int in_use = 0; in_use < 2; in_use++) {
		files.in_use = in_use;
		size_t told = 0;
		for (hole_from = 48; hole_from + 8 < p.segment_size; hole_from += 40) {
			hole_to = hole_from + 200;
			hole_is_open = true;
			disk = &hole_ops;
			struct found found = look_in(&files);
			disk = &disk_kernel;
			told += found.problems + found.notes;
		}
		assert_int_equal(told > 0, !in_use);
	}
	store_files_close(&files);
	point_free(&p);
	(void)state;
}

/* --- records that do not stand --- */

static void handle_lsn(void *owner, uint64_t lsn)
{
}

static void handle_error(void *owner, int error, uint64_t in_doubt_lsn)
{
}

static void handle_owner(void *owner)
{
}

static const struct clock *handle_clock(void *owner)
{
	static const struct clock clock;
	return &clock;
}

static void handle_progress(void *owner, uint64_t bytes)
{
}

static void handle_all(void *owner, const char *place, const char *what)
{
	buffer_printf(owner, "%s\n", what);
}

/** Puts records into a journal of its own; gives what is told of them. */
static void tell_records(const struct record *records, size_t count, struct buffer *told)
{
	static const struct store_ops ops = {.synced = handle_lsn,
		.failed = handle_error,
		.recovered = handle_owner,
		.clock = handle_clock};
	static const struct store_check_ops check_ops = {
		handle_all, handle_all, handle_progress, NULL, NULL};
	struct rig rig;
	struct store *store;
	struct store_files files;
	struct store_check_counts counts;
	char *why;
	rig_init(&rig);
	assert_int_equal(
		store_open(&rig.loop, &(struct store_place){.life = &rig.life, .dir = rig.dir},
			&rig.limits, &ops, NULL, &store, &why),
		0);
	for (size_t i = 0; i < count; i++) {
		assert_true(journal_append(&embedded_of(store)->journal, &records[i]) > 0);
	}
	store_close(store);
	assert_int_equal(store_files_open(rig.dir, &files, &why), 0);
	assert_int_equal(store_check(&files, NULL, &check_ops, told, &counts), 0);
	assert_int_equal(counts.records, count);
	store_files_close(&files);
	buffer_cstr(told);
	rig_finish(&rig);
}

static void records_that_do_not_stand_are_told(void **state)
{
	struct buffer told = {0};
	const struct record good[] = {
		{.kind = RECORD_CREATE, .id = "a", .id_len = 1, .epoch = 1},
		{.kind = RECORD_INPUT, .id = "a", .id_len = 1, .epoch = 1},
		{.kind = RECORD_DELETE, .id = "a", .id_len = 1, .epoch = 1},
		{.kind = RECORD_DELETE, .id = "b", .id_len = 1, .epoch = 1},
	};
	tell_records(good, 4, &told);
	assert_string_equal(told.data, "");
	const struct record bad[] = {
		{.kind = RECORD_INPUT, .id = "ghost", .id_len = 5, .epoch = 1},
		{.kind = RECORD_SNAPSHOT, .id = "../x", .id_len = 4, .epoch = 1},
		{.kind = (enum record_kind)200, .id = "c", .id_len = 1, .epoch = 1},
		{.kind = RECORD_DELETE, .id = "c", .id_len = 1, .epoch = 1},
	};
	tell_records(bad, 4, &told);
	assert_string_equal(told.data,
		"the first record of session ghost in this segment is not a snapshot\n"
		"a record has an invalid session id\n"
		"it has a record of kind 200, which this program (holdfast " HOLDFAST_VERSION
		") does not know: install a newer holdfast\n"
		"the first record of session c in this segment is not a snapshot\n"
		"the record is of session ghost, which does not exist\n");
	buffer_finish(&told);
	(void)state;
}

/* --- new-epoch, killed --- */

static size_t calls_left;

/** Ends the process as kill -9 does, in front of the call after so many. */
static void count_call(void)
{
	if (calls_left-- == 0) {
		_exit(KILLED);
	}
}

static int killed_openat(int dir_fd, const char *path, int flags, mode_t mode)
{
	if (flags & O_CREAT) {
		count_call();
	}
	return disk_kernel.openat(dir_fd, path, flags, mode);
}

static ssize_t killed_write(int fd, const void *bytes, size_t len)
{
	count_call();
	return disk_kernel.write(fd, bytes, len);
}

static int killed_fdatasync(int fd)
{
	count_call();
	return disk_kernel.fdatasync(fd);
}

static int killed_ftruncate(int fd, off_t len)
{
	count_call();
	return disk_kernel.ftruncate(fd, len);
}

static int killed_fallocate(int fd, int mode, off_t offset, off_t len)
{
	count_call();
	return disk_kernel.fallocate(fd, mode, offset, len);
}

static int killed_renameat(int from_fd, const char *from, int to_fd, const char *to)
{
	count_call();
	return disk_kernel.renameat(from_fd, from, to_fd, to);
}

static int killed_unlinkat(int dir_fd, const char *path, int flags)
{
	count_call();
	return disk_kernel.unlinkat(dir_fd, path, flags);
}

/** Runs the command in a process of its own, up to so many calls. Gives its exit code. */
static int run_new_epoch(char *dir, size_t calls)
{
	struct disk_ops killing = disk_kernel;
	killing.openat = killed_openat;
	killing.write = killed_write;
	killing.fdatasync = killed_fdatasync;
	killing.ftruncate = killed_ftruncate;
	killing.fallocate = killed_fallocate;
	killing.renameat = killed_renameat;
	killing.unlinkat = killed_unlinkat;
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		calls_left = calls;
		disk = &killing;
		_exit(freopen("/dev/null", "w", stdout) ? tool_new_epoch(1, &dir) : 1);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/** Every session is as it was, but for its epoch; gives those. */
static void check_sessions(const struct point *p, const char *dir, uint64_t epochs[])
{
	struct rig rig;
	rig_init_on(&rig, dir);
	assert_int_equal(rig_open(&rig), 0);
	session_table_end_tick(rig.table);
	for (size_t i = 0; i < WORKLOAD_SESSIONS; i++) {
		const struct session_mark *want = &p->marks[p->step].sessions[i];
		struct session_mark got;
		workload_mark_session(&rig, workload_ids[i], &got);
		assert_int_equal(got.exists, want->exists);
		assert_int_equal(got.max_seq, want->max_seq);
		assert_int_equal(got.open_seq, want->open_seq);
		assert_true(got.open_hash == want->open_hash);
		assert_int_equal(got.queue_length, want->queue_length);
		assert_int_equal(got.is_prompting, want->is_prompting);
		assert_string_equal(got.status, want->status);
		epochs[i] = got.epoch;
	}
	rig_finish(&rig);
}

/**
 * A step of the workload at which a session has an open block, and another prompts in its queue.
 */
static size_t busiest_step(const struct point *p)
{
	size_t best = 0;
	for (size_t step = 1; step <= p->step; step++) {
		const struct session_mark *marks = p->marks[step].sessions;
		bool opens = false;
		bool queues = false;
		for (size_t i = 0; i < WORKLOAD_SESSIONS; i++) {
			opens = opens || marks[i].open_seq;
			queues = queues || marks[i].queue_length;
		}
		best = opens && queues ? step : best;
	}
	return best;
}

static void new_epoch_may_be_killed_anywhere(void **state)
{
	struct point p;
	uint64_t killed[WORKLOAD_SESSIONS];
	uint64_t again[WORKLOAD_SESSIONS];
	point_take(&p, WORKLOAD_STEPS, 64 << 20);
	size_t step = busiest_step(&p);
	assert_true(step > 0);
	point_free(&p);
	point_take(&p, step, 64 << 20);
	int code = KILLED;
	size_t calls = 0;
	size_t changed = 0;
	for (; code == KILLED; calls++) {
		char *dir = rig_copy_dir(p.dir);
		code = run_new_epoch(dir, calls);
		assert_true(code == KILLED || code == 0);
		struct found found = look(dir);
		if (found.problems) {
			fail_msg("killed in front of call %zu: %s", calls, found.first);
		}
		check_sessions(&p, dir, killed);
		assert_int_equal(run_new_epoch(dir, SIZE_MAX), 0);
		assert_no_problem(dir); /* an index of the old epoch is noted */
		check_sessions(&p, dir, again);
		for (size_t i = 0; i < WORKLOAD_SESSIONS; i++) {
			uint64_t old = p.marks[step].sessions[i].epoch;
			changed += killed[i] != old;
			assert_true(!old || (again[i] != old && again[i] != killed[i]));
			assert_true(code == KILLED || !old || killed[i] != old);
		}
		rig_remove_dir(dir);
		free(dir);
	}
	assert_true(calls > 30);
	assert_true(changed > WORKLOAD_SESSIONS); /* it was also killed between two sessions */
	point_free(&p);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_damage_is_found),
		cmocka_unit_test(damage_of_older_segments_is_found),
		cmocka_unit_test(a_damaged_header_hides_no_older_segment),
		cmocka_unit_test(what_a_server_takes_away_is_no_problem),
		cmocka_unit_test(what_a_server_writes_meanwhile_is_no_problem),
		cmocka_unit_test(records_that_do_not_stand_are_told),
		cmocka_unit_test(new_epoch_may_be_killed_anywhere),
	};
	point_use_memory();
	diag_set_level(DIAG_SILENT);
	return cmocka_run_group_tests_name("tools", tests, NULL, NULL);
}
