/*
 * Crashes: a data directory is copied as kill -9 would leave it, and opened again: what follows is
 * as if nothing had been. And what else may stand in such a directory.
 */
#include "look.h"
#include "point.h"

#include "holdfast/diag.h"
#include "holdfast/intake.h"
#include "holdfast/json_span.h"
#include "core/store/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

/* --- going on --- */

/**
 * The lines of a log without what differs from run to run: the times, and the checksum over them.
 */
static void append_without_times(struct buffer *out, const struct buffer *log)
{
	const char *end = log->data + log->len;
	const char *newline;
	for (const char *at = log->data; at < end; at = newline + 1) {
		struct event_view view;
		newline = memchr(at, '\n', (size_t)(end - at));
		assert_non_null(newline);
		assert_int_equal(event_parse_line(at, (size_t)(newline - at), &view), 0);
		buffer_printf(out, "%llu %.*s %llu %.*s %.*s\n", (unsigned long long)view.seq,
			(int)view.type_len, view.type_name, (unsigned long long)view.turn,
			(int)view.message_id_len, view.message_id ? view.message_id : "",
			(int)view.data_len, view.data);
	}
}

static void final_logs(const char *dir, struct buffer *out)
{
	struct buffer path = {0};
	struct buffer log = {0};
	for (size_t i = 0; i < WORKLOAD_SESSIONS; i++) {
		log_path(&path, dir, workload_ids[i], "events.jsonl");
		assert_true(file_read(path.data, &log));
		buffer_printf(out, "session %s\n", workload_ids[i]);
		append_without_times(out, &log);
	}
	buffer_finish(&path);
	buffer_finish(&log);
}

/**
 * After each step the server is killed, once, and what comes after it is as if nothing had been.
 */
static void a_crash_changes_nothing_of_what_follows(void **state)
{
	struct buffer straight = {0};
	for (size_t step = WORKLOAD_STEPS; step > 0; step--) {
		struct rig rig;
		struct buffer crashed = {0};
		rig_init(&rig);
		rig.limits.segment_size = step % 3 == 0 ? 1 : step % 3 == 1 ? 1500 : 64 << 20;
		assert_int_equal(rig_open(&rig), 0);
		workload_run(&rig, 0, step, NULL);
		char *dir = rig_copy_dir(rig.dir);
		rig_finish(&rig);
		rig_init_on(&rig, dir);
		rig.limits.segment_size = 2500;
		assert_int_equal(rig_open(&rig), 0);
		workload_run(&rig, step, WORKLOAD_STEPS, NULL);
		rig_finish(&rig);
		final_logs(dir, step == WORKLOAD_STEPS ? &straight : &crashed);
		if (step < WORKLOAD_STEPS) {
			assert_string_equal(buffer_cstr(&crashed), buffer_cstr(&straight));
		}
		rig_remove_dir(dir);
		free(dir);
		buffer_finish(&crashed);
	}
	buffer_finish(&straight);
	(void)state;
}

/* --- folders that the power brought back --- */

/**
 * Renaming a folder away is not synced: after a power cut the old one may stand there again, with
 * its metadata or without.
 */
static void a_deleted_session_stays_deleted(void **state)
{
	struct buffer from = {0};
	struct buffer to = {0};
	struct point before;
	point_take(&before, 15, 64 << 20); /* c is there, and is about to be deleted */
	for (size_t i = 0; i < 4; i++) {
		size_t step = i < 2 ? 16 : 18;
		struct rig rig;
		struct session_mark mark;
		rig_init_on(&rig, before.dir);
		assert_int_equal(rig_open(&rig), 0);
		buffer_printf(&from, "%s/sessions/c", before.dir);
		char *old = rig_copy_dir(buffer_cstr(&from));
		workload_run(&rig, 15, step, NULL);
		char *dir = rig_copy_dir(before.dir);
		rig_finish(&rig);
		buffer_printf(&to, "%s/sessions/c", dir);
		rig_remove_dir(buffer_cstr(&to));
		assert_int_equal(rename(old, buffer_cstr(&to)), 0);
		buffer_append_str(&to, "/metadata.json");
		assert_true(i % 2 == 0 || unlink(buffer_cstr(&to)) == 0);
		assert_no_problem(dir);
		rig_init_on(&rig, dir);
		assert_int_equal(rig_open(&rig), 0);
		workload_mark_session(&rig, "c", &mark);
		assert_int_equal(mark.exists, step == 18);
		assert_int_equal(mark.max_seq, step == 18);
		assert_true(mark.epoch != before.marks[15].sessions[2].epoch);
		log_path(&to, dir, "c", "events.jsonl");
		buffer_clear(&from);
		assert_int_equal(file_read(to.data, &from), step == 18);
		assert_true(step == 16 || strstr(buffer_cstr(&from), "x-again"));
		rig_finish(&rig);
		rig_remove_dir(dir);
		free(dir);
		free(old);
		buffer_clear(&from);
		buffer_clear(&to);
		point_free(&before);
		point_take(&before, 15, 64 << 20);
	}
	point_free(&before);
	buffer_finish(&from);
	buffer_finish(&to);
	(void)state;
}

static void the_trash_is_emptied(void **state)
{
	struct rig rig;
	struct buffer path = {0};
	rig_init(&rig);
	assert_int_equal(rig_open(&rig), 0);
	rig_close(&rig);
	buffer_printf(&path, "%s/trash/c.0123456789abcdef", rig.dir);
	assert_int_equal(mkdir(buffer_cstr(&path), 0700), 0);
	buffer_append_str(&path, "/events.jsonl");
	close(open(buffer_cstr(&path), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	assert_int_equal(rig_open(&rig), 0);
	path.len -= strlen("/events.jsonl");
	assert_int_equal(access(buffer_cstr(&path), F_OK), -1);
	rig_finish(&rig);
	buffer_finish(&path);
	(void)state;
}

/** Moves what was set aside away, or back: a program that knew nothing of it made its id anew. */
static void hide_aside(const struct rig *rig, bool is_hidden)
{
	char *aside = xprintf("%s/set-aside/a.1", rig->dir);
	char *hidden = xprintf("%s.hidden", rig->dir);
	assert_int_equal(rename(is_hidden ? aside : hidden, is_hidden ? hidden : aside), 0);
	free(aside);
	free(hidden);
}

/** What is set aside stands beside what was set aside before. */
static void a_session_is_set_aside_twice(void **state)
{
	struct rig rig;
	struct buffer path = {0};
	struct buffer bytes = {0};
	rig_init(&rig);
	for (size_t i = 0; i < 2; i++) {
		if (i) {
			assert_int_equal(rig_open(&rig), 0);
			assert_null(session_table_get(rig.table, "a", 1));
			rig_close(&rig);
			hide_aside(&rig, true);
		}
		assert_int_equal(rig_open(&rig), 0);
		assert_null(session_table_get(rig.table, "a", 1));
		rig_put(rig_session(&rig, "a"), "x-note", i ? "\"second\"" : "\"first\"");
		rig_close(&rig);
		if (i) {
			hide_aside(&rig, false);
		}
		/* Another start, and the journal has nothing of it any more. */
		assert_int_equal(rig_open(&rig), 0);
		rig_close(&rig);
		log_path(&path, rig.dir, "a", "metadata.json");
		file_spoil(path.data, FLIP, 20);
	}
	assert_int_equal(rig_open(&rig), 0);
	assert_null(session_table_get(rig.table, "a", 1));
	rig_close(&rig);
	for (size_t i = 0; i < 2; i++) {
		buffer_clear(&path);
		buffer_clear(&bytes);
		buffer_printf(&path, "%s/set-aside/a.%zu/events.jsonl", rig.dir, i + 1);
		assert_true(file_read(buffer_cstr(&path), &bytes));
		assert_non_null(strstr(buffer_cstr(&bytes), i ? "second" : "first"));
	}
	buffer_finish(&path);
	buffer_finish(&bytes);
	rig_finish(&rig);
	(void)state;
}

/** Files are opened and closed again as they are needed, also by the checkpoint of all of them. */
static void more_sessions_than_open_files(void **state)
{
	struct rig rig;
	struct rlimit was;
	char id[32];
	getrlimit(RLIMIT_NOFILE, &was);
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){.rlim_cur = 800, .rlim_max = was.rlim_max});
	rig_init(&rig);
	rig.limits.segment_size = 1000;
	assert_int_equal(rig_open(&rig), 0);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 700; i++) {
			snprintf(id, sizeof(id), "many-%d", i);
			rig_put(rig_session(&rig, id), "x-note", "{}");
		}
		rig_settle(&rig);
	}
	uint64_t number;
	size_t size;
	workload_newest_segment(rig.dir, &number, &size, NULL);
	assert_true(number > 1);
	rig_close(&rig);
	assert_int_equal(rig_open(&rig), 0);
	assert_int_equal(session_table_count(rig.table), 700);
	for (int i = 0; i < 700; i++) {
		snprintf(id, sizeof(id), "many-%d", i);
		assert_int_equal(session_channel(rig_session(&rig, id))->max_seq, 3);
	}
	rig_finish(&rig);
	setrlimit(RLIMIT_NOFILE, &was);
	(void)state;
}

/* --- what no crash can do --- */

/** Appends an event with this key. Returns 0, or an error and the code of the refusal. */
static int append_key(
	struct session *session, const char *key, struct append_ack *ret, enum error_code *ret_code)
{
	struct refusal refusal = {0};
	struct json_spans spans;
	size_t bad;
	char *events = xprintf("[{\"type\":\"x-note\",\"key\":\"%s\",\"data\":{}}]", key);
	assert_int_equal(json_spans_read(events, strlen(events), &spans), 0);
	int r = intake_append(session, spans.all + 1, 1, limits_default(), ret, &bad, &refusal);
	*ret_code = refusal.code;
	json_spans_finish(&spans);
	free(events);
	return r;
}

/**
 * The last batch is damaged as a crash may leave one, but the log has its event, and so it was
 * complete: whether its input had a key is unknown, and a retry must not be taken twice.
 */
static void a_key_is_in_doubt_if_only_the_log_has_its_event(void **state)
{
	struct rig rig;
	struct buffer segment = {0};
	struct append_ack ack;
	enum error_code code;
	uint64_t number;
	size_t size;
	rig_init(&rig);
	assert_int_equal(rig_open(&rig), 0);
	for (int i = 1; i <= 2; i++) {
		const char *key = i == 1 ? "first" : "last";
		assert_int_equal(append_key(rig_session(&rig, "s"), key, &ack, &code), 0);
		rig_settle(&rig);
	}
	char *dir = rig_copy_dir(rig.dir);
	rig_finish(&rig);
	workload_newest_segment(dir, &number, &size, &segment);
	file_spoil(segment.data, FLIP, size - 1);
	for (int starts = 0; starts < 2; starts++) {
		rig_init_on(&rig, dir);
		assert_int_equal(rig_open(&rig), 0);
		struct session *session = rig_session(&rig, "s");
		assert_int_equal(session_channel(session)->max_seq, starts ? 3 : 2);
		assert_int_equal(append_key(session, "first", &ack, &code), 0);
		assert_true(ack.duplicate);
		assert_int_not_equal(append_key(session, "last", &ack, &code), 0);
		assert_int_equal(code, ERROR_keys_damaged);
		if (!starts) {
			rig_put(session, "x-note", "{}"); /* what has no key is taken */
		}
		rig_settle(&rig);
		rig_finish(&rig);
	}
	rig_remove_dir(dir);
	free(dir);
	buffer_finish(&segment);
	(void)state;
}

/** Where the second batch of a segment begins. */
static size_t second_batch(const char *path)
{
	struct buffer bytes = {0};
	assert_true(file_read(path, &bytes));
	const char *first = memmem(bytes.data, bytes.len, "HFBT", 4);
	assert_non_null(first);
	const char *second =
		memmem(first + 4, bytes.len - (size_t)(first + 4 - bytes.data), "HFBT", 4);
	assert_non_null(second);
	size_t at = (size_t)(second - bytes.data);
	buffer_finish(&bytes);
	return at;
}

/** The header and the trailer of a batch are hit: nothing tells whose records it holds. */
static void damage_that_hides_whose_it_is_is_refused(void **state)
{
	struct point p;
	struct buffer segment = {0};
	struct rig rig;
	uint64_t number;
	size_t size;
	point_take(&p, 20, 64 << 20);
	workload_newest_segment(p.dir, &number, &size, &segment);
	size_t second = second_batch(segment.data);
	file_spoil(segment.data, FLIP, 48 + 9);
	file_spoil(segment.data, FLIP, second - 1);
	for (int round = 0; round < 2; round++) {
		rig_init_on(&rig, p.dir);
		assert_int_equal(rig_open(&rig), -EBADMSG);
		assert_non_null(rig.why);
		assert_non_null(strstr(rig.why, "0000000000000001.journal"));
		rig_finish(&rig);
	}
	file_spoil(segment.data, FLIP, 48 + 9);
	file_spoil(segment.data, FLIP, second - 1);
	rig_init_on(&rig, p.dir);
	assert_int_equal(rig_open(&rig), 0);
	rig_finish(&rig);
	buffer_finish(&segment);
	point_free(&p);
	(void)state;
}

/** A segment that no later one names holds what was refused, or was to be deleted. */
static void a_segment_off_the_chain_counts_for_nothing(void **state)
{
	struct point p;
	struct point other;
	struct buffer first = {0};
	struct buffer stray = {0};
	struct rig rig;
	uint64_t number;
	size_t size;
	point_take(&p, WORKLOAD_STEPS, 1500);
	point_take(&other, 30, 64 << 20);
	workload_newest_segment(p.dir, &number, &size, NULL);
	assert_true(number > 2);
	workload_newest_segment(other.dir, &number, &size, &first);
	buffer_printf(&stray, "%s/journal%s", p.dir, strrchr(first.data, '/'));
	assert_int_equal(rename(first.data, buffer_cstr(&stray)), 0);
	point_open(&rig, p.dir);
	for (size_t i = 0; i < WORKLOAD_SESSIONS; i++) {
		struct session_mark got;
		workload_mark_session(&rig, workload_ids[i], &got);
		workload_assert_same(&got, &p.marks[p.step].sessions[i]);
	}
	rig_finish(&rig);
	buffer_finish(&first);
	buffer_finish(&stray);
	point_free(&p);
	point_free(&other);
	(void)state;
}

/* --- a new data directory --- */

static struct stat parent;
static bool is_parent_synced;

static int watched_fsync(int fd)
{
	struct stat st;
	if (fstat(fd, &st) == 0 && st.st_dev == parent.st_dev && st.st_ino == parent.st_ino) {
		is_parent_synced = true;
	}
	return disk_kernel.fsync(fd);
}

/** Its name is on disk before anything in it is acknowledged. */
static void a_new_data_directory_has_a_name_for_good(void **state)
{
	struct rig outer;
	struct rig rig;
	struct disk_ops ops = disk_kernel;
	char dir[300];
	rig_init(&outer);
	assert_int_equal(stat(outer.dir, &parent), 0);
	ops.fsync = watched_fsync;
	disk = &ops;
	for (int i = 0; i < 2; i++) {
		snprintf(dir, sizeof(dir), "%s/data-%d%s", outer.dir, i, i ? "/" : "");
		is_parent_synced = false;
		rig_init_on(&rig, dir);
		assert_int_equal(rig_open(&rig), 0);
		assert_true(is_parent_synced);
		rig_finish(&rig);
	}
	disk = &disk_kernel;
	rig_finish(&outer);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_crash_changes_nothing_of_what_follows),
		cmocka_unit_test(a_deleted_session_stays_deleted),
		cmocka_unit_test(the_trash_is_emptied),
		cmocka_unit_test(a_session_is_set_aside_twice),
		cmocka_unit_test(more_sessions_than_open_files),
		cmocka_unit_test(a_key_is_in_doubt_if_only_the_log_has_its_event),
		cmocka_unit_test(damage_that_hides_whose_it_is_is_refused),
		cmocka_unit_test(a_segment_off_the_chain_counts_for_nothing),
		cmocka_unit_test(a_new_data_directory_has_a_name_for_good),
	};
	point_use_memory();
	diag_set_level(DIAG_SILENT);
	return cmocka_run_group_tests_name("recovery", tests, NULL, NULL);
}
