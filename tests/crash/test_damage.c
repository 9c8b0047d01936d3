/*
 * Damage: a data directory is copied as kill -9 would leave it, cut or spoilt at every byte, and
 * opened again. HOLDFAST_CRASH_CASE, with the words that a failure prints, runs that case alone.
 */
#include "part.h"
#include "point.h"
#include "reading.h"

#include "holdfast/diag.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
		point_open(rig, dir);
		mark_all(rig, again);
		for (size_t i = 0; i < WORKLOAD_SESSIONS; i++) {
			workload_assert_same(&again[i], &marks[i]);
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
	point_open(&rig, dir);
	mark_all(&rig, got);
	for (size_t i = 0; i < WORKLOAD_SESSIONS; i++) {
		const struct session_mark *want = &mark->sessions[i];
		const struct session_mark *last = &p->marks[p->step].sessions[i];
		if (damage == FLIP && !got[i].exists && last->exists) {
			set_aside_count++; /* a batch before the last one was hit */
			continue;
		}
		if (alone && exact && damage != FLIP) {
			workload_assert_same(&got[i], want);
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
	point_open(&rig, dir);
	mark_all(&rig, got);
	for (size_t i = 0; i < WORKLOAD_SESSIONS; i++) {
		const struct session_mark *want = &p->marks[p->step].sessions[i];
		if (i == session && !got[i].exists) {
			assert_true(whole_lines(&p->logs[i], at) < p->certain[i]);
			set_aside_count++;
			assert_set_aside(dir, workload_ids[i], &damaged);
			continue;
		}
		workload_assert_same(&got[i], want);
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
			if (only ? strcmp(only, now) == 0 : part_has_next()) {
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(the_journal_alone_tells_everything, teardown),
		cmocka_unit_test_teardown(a_damaged_journal_loses_nothing_of_the_logs, teardown),
		cmocka_unit_test_teardown(a_damaged_log_is_mended_or_set_aside, teardown),
	};
	signal(SIGABRT, handle_abort);
	if (__sanitizer_set_death_callback) {
		__sanitizer_set_death_callback(print_case);
	}
	point_use_memory();
	diag_set_level(getenv("HOLDFAST_CRASH_CASE") ? DIAG_WARN : DIAG_SILENT);
	return cmocka_run_group_tests_name("damage", tests, NULL, NULL);
}
