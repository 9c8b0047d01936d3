/*
 * holdfast repair on directories that are damaged at every place, and with the power cut after every
 * change that it makes: run again, it leaves a directory without a problem, every event that could
 * be read, and gaps under a new epoch only.
 */
#include "look.h"
#include "part.h"
#include "point.h"
#include "power_disk.h"

#include "holdfast/event.h"
#include "holdfast/session.h"
#include "holdfast/tools.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define SESSIONS WORKLOAD_SESSIONS

static int repair(const char *dir)
{
	return run_quietly(tool_repair, dir, NULL);
}

/** The line with this number, from 0. */
static bool find_line(const struct buffer *log, size_t number, const char **ret, size_t *ret_len)
{
	const char *at = log->data;
	const char *end = log->data + log->len;
	for (;; number--) {
		const char *newline = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
		if (!newline) {
			return false;
		}
		if (!number) {
			*ret = at;
			*ret_len = (size_t)(newline - at);
			return true;
		}
		at = newline + 1;
	}
}

static uint64_t epoch_of(const char *dir, const char *id)
{
	struct store_files files;
	struct store_metadata meta;
	const char *why;
	char *none;
	assert_int_equal(store_files_open(dir, &files, &none), 0);
	int r = store_files_read_metadata(&files, id, NULL, &meta, &why);
	store_metadata_finish(&meta);
	store_files_close(&files);
	return r < 0 ? 0 : meta.epoch;
}

/**
 * Every event of the log as it was is there with its number, or, if its line was spoilt, a gap is;
 * returns how many gaps there are.
 */
static size_t assert_kept(const struct buffer *was, const struct buffer *spoilt,
	const struct buffer *now, const char *what)
{
	const char *line;
	const char *found;
	size_t len;
	size_t found_len;
	size_t gaps = 0;
	for (size_t n = 0; find_line(was, n, &line, &len); n++) {
		struct event_view view;
		if (!find_line(now, n, &found, &found_len) ||
			event_parse_line(found, found_len, &view) < 0) {
			fail_msg("%s: line %zu is gone", what, n + 1);
		}
		assert_int_equal(view.seq, n + 1);
		bool is_gap = event_is_gap(&view);
		const char *at = memmem(spoilt->data, spoilt->len, line, len + 1);
		bool was_whole = at && (at == spoilt->data || at[-1] == '\n');
		if (is_gap ? was_whole : len != found_len || memcmp(line, found, len) != 0) {
			fail_msg("%s: line %zu is %.*s", what, n + 1, (int)found_len, found);
		}
		gaps += is_gap;
	}
	return gaps;
}

/** Of one session of the point, whose log was damaged so. */
static size_t assert_repaired(const struct point *p, const char *dir, size_t i,
	const struct buffer *spoilt, const char *what)
{
	struct buffer path = {0};
	struct buffer now = {0};
	log_path(&path, dir, workload_ids[i], "events.jsonl");
	file_read(path.data, &now);
	size_t gaps = assert_kept(&p->logs[i], spoilt, &now, what);
	if (gaps && epoch_of(dir, workload_ids[i]) == p->marks[p->step].sessions[i].epoch) {
		fail_msg("%s: gaps under the epoch that clients know", what);
	}
	buffer_finish(&path);
	buffer_finish(&now);
	return gaps;
}

static void assert_all_repaired(const struct point *p, const char *dir,
	const struct buffer spoilt[SESSIONS], const char *what)
{
	struct found found = look(dir);
	if (found.problems) {
		fail_msg("%s: %s", what, found.first);
	}
	for (size_t i = 0; i < SESSIONS; i++) {
		if (p->marks[p->step].sessions[i].exists) {
			assert_repaired(p, dir, i, &spoilt[i], what);
		}
	}
}

/* --- every place --- */

static void spoil_log(const struct point *p, size_t i, size_t at, enum damage damage)
{
	struct buffer path = {0};
	struct buffer spoilt = {0};
	char what[96];
	char *dir = rig_copy_dir(p->dir);
	log_path(&path, dir, workload_ids[i], "events.jsonl");
	file_spoil(path.data, damage, at);
	assert_true(file_read(path.data, &spoilt));
	snprintf(what, sizeof(what), "%s, damage %d at byte %zu", workload_ids[i], damage, at);
	int code = repair(dir);
	if (code > 1) {
		fail_msg("%s: repair ends with %d", what, code);
	}
	size_t gaps = assert_repaired(p, dir, i, &spoilt, what);
	assert_int_equal(code, gaps > 0);
	assert_no_problem(dir);
	assert_int_equal(repair(dir), 0); /* it is done */
	rig_remove_dir(dir);
	free(dir);
	buffer_finish(&path);
	buffer_finish(&spoilt);
}

static void damage_anywhere_in_a_log_is_repaired(void **state)
{
	struct point p;
	size_t cases = 0;
	point_take(&p, WORKLOAD_STEPS - 1, 600);
	for (size_t i = 0; i < SESSIONS; i++) {
		if (!p.marks[p.step].sessions[i].exists) {
			continue;
		}
		for (size_t at = 0; at < p.logs[i].len; at += 7) {
			for (enum damage damage = CUT; damage <= FLIP; damage++) {
				if (part_has_next()) {
					spoil_log(&p, i, at, damage);
					cases++;
				}
			}
		}
	}
	print_message("%zu cases\n", cases);
	point_free(&p);
	(void)state;
}

/* --- other files --- */

static void spoil_file(const struct point *p, const char *path, size_t at, enum damage damage)
{
	char what[400];
	char full[400];
	char *dir = rig_copy_dir(p->dir);
	snprintf(full, sizeof(full), "%s/%s", dir, path);
	file_spoil(full, damage, at);
	snprintf(what, sizeof(what), "%s, damage %d at byte %zu", path, damage, at);
	int code = repair(dir);
	if (code == 1 && strncmp(path, "journal/", 8) == 0) {
		/* Records are gone; if the log has their events, keys of theirs may be gone, too. */
		assert_true(run_quietly(tool_repair, dir, "--forget-keys") <= 1);
		code = repair(dir);
	}
	if (code != 0) {
		fail_msg("%s: repair ends with %d", what, code);
	}
	assert_all_repaired(p, dir, p->logs, what);
	rig_remove_dir(dir);
	free(dir);
}

static void spoil_file_everywhere(const struct point *p, const char *path, size_t len, size_t step)
{
	for (size_t at = 0; at < len; at += step) {
		for (enum damage damage = CUT; damage <= FLIP; damage++) {
			if (part_has_next()) {
				spoil_file(p, path, at, damage);
			}
		}
	}
}

static void damage_in_metadata_and_journal_loses_no_event(void **state)
{
	struct point p;
	char path[128];
	point_take(&p, WORKLOAD_STEPS - 1, 64 << 20);
	for (size_t i = 0; i < SESSIONS; i++) {
		struct buffer bytes = {0};
		snprintf(path, sizeof(path), "sessions/%s/metadata.json", workload_ids[i]);
		char full[400];
		snprintf(full, sizeof(full), "%s/%s", p.dir, path);
		if (p.marks[p.step].sessions[i].exists && file_read(full, &bytes)) {
			spoil_file_everywhere(&p, path, bytes.len, 37);
		}
		buffer_finish(&bytes);
	}
	snprintf(path, sizeof(path), "journal/%016llx.journal", (unsigned long long)p.segment);
	spoil_file_everywhere(&p, path, p.segment_size, 53);
	point_free(&p);
	(void)state;
}

/* --- power cuts --- */

static void cut(const struct point *p, struct power_disk *power, size_t at, enum survival survival,
	const struct buffer spoilt[SESSIONS])
{
	struct buffer image = {0};
	struct buffer told = {0};
	char *dir = rig_copy_dir(p->dir); /* for its name */
	rig_remove_dir(dir);
	if (at) {
		power_disk_tell(power, at - 1, &told);
	}
	buffer_printf(&told, " (change %zu), %s", at, power_disk_survival_name(survival));
	power_disk_image(power, survival, at, &image);
	power_disk_write_image(&image, dir);
	int code = repair(dir);
	if (code > 1) {
		fail_msg("cut after %s: repair ends with %d", buffer_cstr(&told), code);
	}
	assert_all_repaired(p, dir, spoilt, buffer_cstr(&told));
	rig_remove_dir(dir);
	free(dir);
	buffer_finish(&image);
	buffer_finish(&told);
}

/** Two sessions are damaged; of one of them the journal has what is lost. */
static void a_repair_may_lose_power_at_any_time(void **state)
{
	struct point p;
	struct buffer spoilt[SESSIONS] = {0};
	struct buffer path = {0};
	point_take(&p, WORKLOAD_STEPS - 1, 600);
	char *dir = rig_copy_dir(p.dir);
	for (size_t i = 0; i < SESSIONS; i++) {
		log_path(&path, dir, workload_ids[i], "events.jsonl");
		if (p.certain[i] > 2) {
			file_spoil(path.data, FLIP, 150);
		}
		file_read(path.data, &spoilt[i]);
	}
	struct power_disk *power = power_disk_begin(dir);
	int code = repair(dir);
	power_disk_end(power);
	assert_true(code <= 1);
	assert_all_repaired(&p, dir, spoilt, "without a cut");
	size_t count = power_disk_count(power);
	assert_true(count > 10);
	for (size_t at = 0; at <= count; at++) {
		power_disk_seek(power, at);
		for (enum survival survival = 0; survival < SURVIVE_COUNT; survival++) {
			if (part_has_next()) {
				cut(&p, power, at, survival, spoilt);
			}
		}
	}
	print_message("%zu changes\n", count);
	power_disk_destroy(power);
	rig_remove_dir(dir);
	free(dir);
	for (size_t i = 0; i < SESSIONS; i++) {
		buffer_finish(&spoilt[i]);
	}
	buffer_finish(&path);
	point_free(&p);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(damage_anywhere_in_a_log_is_repaired),
		cmocka_unit_test(damage_in_metadata_and_journal_loses_no_event),
		cmocka_unit_test(a_repair_may_lose_power_at_any_time),
	};
	point_use_memory();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
