/*
 * Crashes: a data directory is copied as kill -9 would leave it, cut or spoilt at every byte, and
 * opened again. HOLDFAST_CRASH_CASE, with the words that a failure prints, runs that case alone.
 */
#include "point.h"
#include "reading.h"

#include "holdfast/diag.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

/* Of the sanitizers, where the test is built with them. */
__attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)(void));

/**
 * The last thing that was durable before byte `size` of the newest segment; `exact`: and nothing
 * after it.
 */
static const struct mark *mark_before(const struct point *p, size_t size, bool *ret_exact)
{
	const struct mark *mark = &p->marks[0];
	for (size_t i = 1; i <= p->step; i++) {
		if (p->marks[i].segment < p->segment || p->marks[i].size <= size) {
			mark = &p->marks[i];
		}
	}
	*ret_exact = mark->segment == p->segment && mark->size == size;
	return mark;
}

/* --- checks --- */

static void assert_same_session(const struct session_mark *got, const struct session_mark *want)
{
	assert_int_equal(got->exists, want->exists);
	assert_true(got->epoch == want->epoch);
	assert_int_equal(got->max_seq, want->max_seq);
	assert_int_equal(got->open_seq, want->open_seq);
	assert_true(got->open_hash == want->open_hash);
	assert_int_equal(got->queue_length, want->queue_length);
	assert_int_equal(got->is_prompting, want->is_prompting);
	assert_string_equal(got->status, want->status);
}

/**
 * The log on disk is the original's, or a part of it from its beginning, in whole lines; gives how
 * many.
 */
static uint64_t check_log(const char *dir, const char *id, const struct buffer *original)
{
	struct buffer path = {0};
	struct buffer log = {0};
	uint64_t lines = 0;
	log_path(&path, dir, id, "events.jsonl");
	file_read(path.data, &log);
	assert_true(log.len <= original->len);
	assert_true(log.len == 0 || memcmp(log.data, original->data, log.len) == 0);
	assert_true(log.len == 0 || log.data[log.len - 1] == '\n');
	for (size_t i = 0; i < log.len; i++) {
		lines += log.data[i] == '\n';
	}
	buffer_finish(&path);
	buffer_finish(&log);
	return lines;
}

/** The recovered table goes on: every session takes an event, with the next seq. */
static void check_goes_on(struct rig *rig)
{
	for (size_t i = 0; i < WORKLOAD_SESSIONS; i++) {
		struct session *session =
			session_table_get(rig->table, workload_ids[i], strlen(workload_ids[i]));
		if (session) {
			rig_put(session, "turn_end", "{}");
			rig_put(session, "x-after", "{}");
			rig_put(session, "permission_request",
				"{\"request_id\":\"qx\",\"options\":[]}");
		}
	}
	rig_settle(rig);
	for (size_t i = 0; i < WORKLOAD_SESSIONS; i++) {
		struct session *session =
			session_table_get(rig->table, workload_ids[i], strlen(workload_ids[i]));
		assert_true(!session || session_channel(session)->max_seq >= 2);
	}
}

static void open_again(struct rig *rig, const char *dir)
{
	rig_init_on(rig, dir);
	rig->durability = DURABILITY_WRITE;
	assert_int_equal(rig_open(rig), 0);
	session_table_end_turn(rig->table);
}

static void mark_all(struct rig *rig, struct session_mark marks[WORKLOAD_SESSIONS])
{
	for (size_t i = 0; i < WORKLOAD_SESSIONS; i++) {
		workload_mark_session(rig, workload_ids[i], &marks[i]);
	}
}

/**
 * Ends a case: every other time the table goes on, else it is opened once more and must be the
 * same.
 */
static void end_case(struct rig *rig, size_t at, const struct session_mark marks[WORKLOAD_SESSIONS])
{
	struct session_mark again[WORKLOAD_SESSIONS];
	char *dir = xstrdup(rig->dir);
	if (at % 2) {
		check_goes_on(rig);
	} else {
		rig_finish(rig);
		open_again(rig, dir);
		mark_all(rig, again);
		for (size_t i = 0; i < WORKLOAD_SESSIONS; i++) {
			assert_same_session(&again[i], &marks[i]);
		}
	}
	rig_finish(rig);
	rig_remove_dir(dir);
	free(dir);
}

/* Sessions that were set aside, of all cases. */
static size_t set_aside_count;

/* --- the journal is damaged --- */

/**
 * The journal alone, without any session's folder: everything that was durable at the cut comes
 * back from it. With the folders: what stands in a log is kept, too.
 */
static void check_journal_damage(const struct point *p, enum damage damage, size_t at, bool alone)
{
	char *dir = rig_copy_dir(p->dir);
	struct rig rig;
	struct buffer path = {0};
	struct session_mark got[WORKLOAD_SESSIONS];
	uint64_t number;
	size_t size;
	bool exact;
	const struct mark *mark = mark_before(p, at, &exact);
	workload_newest_segment(dir, &number, &size, &path);
	file_spoil(path.data, damage, at);
	if (alone) {
		path.len = 0;
		buffer_printf(&path, "%s/sessions", dir);
		rig_remove_dir(buffer_cstr(&path));
	}
	open_again(&rig, dir);
	mark_all(&rig, got);
	for (size_t i = 0; i < WORKLOAD_SESSIONS; i++) {
		const struct session_mark *want = &mark->sessions[i];
		const struct session_mark *last = &p->marks[p->step].sessions[i];
		if (damage == FLIP && !got[i].exists && last->exists) {
			set_aside_count++; /* a batch before the last one was hit */
			continue;
		}
		if (alone && exact && damage != FLIP) {
			assert_same_session(&got[i], want);
		} else if (alone && want->exists && got[i].exists && got[i].epoch == want->epoch) {
			assert_true(got[i].max_seq >= want->max_seq);
		} else if (!alone && last->exists) {
			assert_true(got[i].exists);
			assert_int_equal(got[i].max_seq, last->max_seq);
		}
		if (got[i].exists && got[i].epoch == last->epoch) {
			assert_int_equal(
				check_log(dir, workload_ids[i], &p->logs[i]), got[i].max_seq);
		}
	}
	end_case(&rig, at, got);
	free(dir);
	buffer_finish(&path);
}

static void journal_alone(const struct point *p, enum damage damage, size_t at)
{
	check_journal_damage(p, damage, at, true);
}

static void journal_with_logs(const struct point *p, enum damage damage, size_t at)
{
	check_journal_damage(p, damage, at, false);
}

/* --- a log is damaged --- */

static uint64_t whole_lines(const struct buffer *log, size_t len)
{
	uint64_t lines = 0;
	for (size_t i = 0; i < len; i++) {
		lines += log->data[i] == '\n';
	}
	return lines;
}

/** The damaged log was set aside as it is, nothing of it cut off. */
static void assert_set_aside(const char *dir, const char *id, const struct buffer *damaged)
{
	struct buffer path = {0};
	struct buffer log = {0};
	buffer_printf(&path, "%s/set-aside/%s.1/events.jsonl", dir, id);
	assert_true(file_read(buffer_cstr(&path), &log));
	assert_int_equal(log.len, damaged->len);
	assert_memory_equal(log.data, damaged->data, damaged->len);
	buffer_finish(&path);
	buffer_finish(&log);
}

static void check_log_damage(const struct point *p, size_t session, enum damage damage, size_t at)
{
	char *dir = rig_copy_dir(p->dir);
	struct rig rig;
	struct buffer path = {0};
	struct buffer damaged = {0};
	struct session_mark got[WORKLOAD_SESSIONS];
	log_path(&path, dir, workload_ids[session], "events.jsonl");
	file_spoil(path.data, damage, at);
	file_read(path.data, &damaged);
	open_again(&rig, dir);
	mark_all(&rig, got);
	for (size_t i = 0; i < WORKLOAD_SESSIONS; i++) {
		const struct session_mark *want = &p->marks[p->step].sessions[i];
		if (i == session && !got[i].exists) {
			assert_true(whole_lines(&p->logs[i], at) < p->certain[i]);
			set_aside_count++;
			assert_set_aside(dir, workload_ids[i], &damaged);
			continue;
		}
		assert_same_session(&got[i], want);
		bool is_read_later = i == session && damage == FLIP &&
				     whole_lines(&p->logs[i], at) < p->certain[i];
		if (want->exists) {
			reading_check(&rig, rig_session(&rig, workload_ids[i]), &p->logs[i],
				is_read_later ? at : UNSPOILT);
		}
		uint64_t lines =
			check_log(dir, workload_ids[i], is_read_later ? &damaged : &p->logs[i]);
		assert_true(is_read_later || lines == want->max_seq);
	}
	end_case(&rig, at, got);
	free(dir);
	buffer_finish(&path);
	buffer_finish(&damaged);
}

static void log_of_a(const struct point *p, enum damage damage, size_t at)
{
	check_log_damage(p, 0, damage, at);
}

static void log_of_b(const struct point *p, enum damage damage, size_t at)
{
	check_log_damage(p, 1, damage, at);
}

static void log_of_c(const struct point *p, enum damage damage, size_t at)
{
	check_log_damage(p, 2, damage, at);
}

/* --- every byte --- */

/* The case under way, "" if none: what a failure prints. */
static char now[128];

static void print_case(void)
{
	if (now[0]) {
		fprintf(stderr, "HOLDFAST_CRASH_CASE=\"%s\" fails\n", now);
	}
}

static void handle_abort(int number)
{
	print_case();
	signal(number, SIG_DFL);
	raise(number);
}

static int teardown(void **state)
{
	print_case();
	now[0] = '\0';
	return 0;
}

static void every_byte(const struct point *p, const char *name, size_t size,
	void (*check)(const struct point *p, enum damage damage, size_t at))
{
	const char *only = getenv("HOLDFAST_CRASH_CASE");
	for (enum damage damage = CUT; damage <= FLIP; damage++) {
		for (size_t at = 0; at < size; at++) {
			snprintf(now, sizeof(now), "%s at step %zu %s %zu", name, p->step,
				damage == CUT     ? "cut"
				: damage == BLANK ? "blank"
						  : "flip",
				at);
			if (!only || strcmp(only, now) == 0) {
				check(p, damage, at);
			}
		}
	}
	now[0] = '\0';
}

static void the_journal_alone_tells_everything(void **state)
{
	struct point p;
	point_take(&p, WORKLOAD_STEPS, 1 << 20);
	every_byte(&p, "journal alone", p.segment_size, journal_alone);
	point_free(&p);
	(void)state;
}

static void a_damaged_journal_loses_nothing_of_the_logs(void **state)
{
	static const size_t at[] = {14, WORKLOAD_STEPS};
	for (size_t i = 0; i < 2; i++) {
		struct point p;
		point_take(&p, at[i], 3000);
		assert_true(i == 0 || p.segment > 1);
		every_byte(&p, "journal", p.segment_size, journal_with_logs);
		point_free(&p);
	}
	assert_true(set_aside_count > 0 || getenv("HOLDFAST_CRASH_CASE"));
	(void)state;
}

static void a_damaged_log_is_mended_or_set_aside(void **state)
{
	static const size_t at[] = {14, 31};
	for (size_t i = 0; i < 2; i++) {
		struct point p;
		point_take(&p, at[i], 3000);
		every_byte(&p, "log a", p.logs[0].len, log_of_a);
		every_byte(&p, "log b", p.logs[1].len, log_of_b);
		every_byte(&p, "log c", p.logs[2].len, log_of_c);
		point_free(&p);
	}
	assert_true(set_aside_count > 0 || getenv("HOLDFAST_CRASH_CASE"));
	(void)state;
}

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

/** What is set aside stands beside what was set aside before. */
static void a_session_is_set_aside_twice(void **state)
{
	struct rig rig;
	struct buffer path = {0};
	struct buffer bytes = {0};
	rig_init(&rig);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(rig_open(&rig), 0);
		assert_null(session_table_get(rig.table, "a", 1));
		rig_put(rig_session(&rig, "a"), "x-note", i ? "\"second\"" : "\"first\"");
		rig_close(&rig);
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
	open_again(&rig, p.dir);
	for (size_t i = 0; i < WORKLOAD_SESSIONS; i++) {
		struct session_mark got;
		workload_mark_session(&rig, workload_ids[i], &got);
		assert_same_session(&got, &p.marks[p.step].sessions[i]);
	}
	rig_finish(&rig);
	buffer_finish(&first);
	buffer_finish(&stray);
	point_free(&p);
	point_free(&other);
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
		cmocka_unit_test(damage_that_hides_whose_it_is_is_refused),
		cmocka_unit_test(a_segment_off_the_chain_counts_for_nothing),
		cmocka_unit_test_teardown(the_journal_alone_tells_everything, teardown),
		cmocka_unit_test_teardown(a_damaged_journal_loses_nothing_of_the_logs, teardown),
		cmocka_unit_test_teardown(a_damaged_log_is_mended_or_set_aside, teardown),
	};
	signal(SIGABRT, handle_abort);
	if (__sanitizer_set_death_callback) {
		__sanitizer_set_death_callback(print_case);
	}
	/* Thousands of directories are made, and none of them has to outlive the machine. */
	if (access("/dev/shm", W_OK) == 0) {
		setenv("TMPDIR", "/dev/shm", 0);
	}
	diag_set_level(getenv("HOLDFAST_CRASH_CASE") ? DIAG_WARN : DIAG_SILENT);
	return cmocka_run_group_tests_name("recovery", tests, NULL, NULL);
}
