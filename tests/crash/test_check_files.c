/*
 * The files beside a log, as `holdfast verify` sees them: every changed bit and every cut of the
 * certain part of events.index and keys.jsonl is found, and so are places and names that are in
 * good order by themselves and do not fit the log.
 */
#include "look.h"
#include "point.h"

#include "holdfast/diag.h"
#include "holdfast/sealed_line.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

/* --- every byte --- */

static void spoil_certain(const char *dir, const char *path, size_t certain, bool cut_is_problem)
{
	struct buffer bytes = {0};
	assert_true(file_read(path, &bytes));
	assert_true(bytes.len >= certain);
	for (size_t at = 0; at < certain; at++) {
		file_spoil(path, FLIP, at);
		if (!look(dir).problems) {
			fail_msg("%s: bit %zu of byte %zu was not found", path, at % 8, at);
		}
		file_write(path, &bytes);
		file_spoil(path, CUT, at);
		struct found found = look(dir);
		if (cut_is_problem ? !found.problems : found.problems || found.notes != 1) {
			fail_msg("%s: the cut at byte %zu was not found", path, at);
		}
		file_write(path, &bytes);
	}
	for (size_t at = certain; at < bytes.len; at++) {
		file_spoil(path, FLIP, at);
		assert_clean(dir);
		file_write(path, &bytes);
	}
	buffer_finish(&bytes);
}

static struct store_metadata read_metadata(const char *dir, const char *id)
{
	struct store_metadata meta;
	struct store_files files;
	const char *why;
	char *text;
	assert_int_equal(store_files_open(dir, &files, &text), 0);
	assert_int_equal(store_files_read_metadata(&files, id, NULL, &meta, &why), 0);
	store_files_close(&files);
	store_metadata_finish(&meta);
	return meta;
}

static void spoil_beside_logs(const struct point *p)
{
	struct buffer path = {0};
	size_t names = 0;
	size_t entries = 0;
	for (size_t i = 0; i < WORKLOAD_SESSIONS; i++) {
		if (!p->certain[i]) {
			continue;
		}
		struct store_metadata meta = read_metadata(p->dir, workload_ids[i]);
		log_path(&path, p->dir, workload_ids[i], "events.index");
		spoil_certain(p->dir, path.data, 32 + 8 * (size_t)p->certain[i], false);
		entries += (size_t)p->certain[i];
		if (meta.keys_size) {
			log_path(&path, p->dir, workload_ids[i], "keys.jsonl");
			spoil_certain(p->dir, path.data, (size_t)meta.keys_size, true);
			names++;
		}
	}
	assert_true(entries > 20);
	assert_true(names > 0);
	buffer_finish(&path);
}

static void all_damage_is_found(void **state)
{
	struct point p;
	point_take(&p, WORKLOAD_STEPS, 64 << 20);
	assert_clean(p.dir);
	spoil_beside_logs(&p);
	assert_clean(p.dir);
	point_free(&p);
	(void)state;
}

/* --- what does not fit --- */

/** Six events, each other one with a name. As a server leaves them that was started once more. */
static char *make_session(void)
{
	static const char *const prompts[] = {"p1", "p2", "p3"};
	struct rig rig;
	uint64_t seq;
	bool duplicate;
	rig_init(&rig);
	assert_int_equal(rig_open(&rig), 0);
	struct session *session = rig_session(&rig, "s");
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(session_prompt(session, "please", 6, prompts[i], AUTHOR("client"),
					 &seq, &duplicate),
			0);
		rig_put(session, "turn_end", "{}");
		rig_settle(&rig);
	}
	assert_int_equal(session_channel(session)->max_seq, 6);
	rig_close(&rig);
	assert_int_equal(rig_open(&rig), 0);
	rig_close(&rig);
	char *dir = rig_copy_dir(rig.dir);
	rig_finish(&rig);
	return dir;
}

/** Changes a member of metadata.json, whose checksum is good afterwards. */
static void set_metadata(const char *dir, const char *id, const char *name, json_t *value)
{
	struct buffer path = {0};
	struct buffer line = {0};
	log_path(&path, dir, id, "metadata.json");
	json_t *json = json_load_file(path.data, 0, NULL);
	assert_int_equal(json_object_set_new(json, name, value), 0);
	json_object_del(json, "xxh");
	char *text = json_dumps(json, JSON_COMPACT);
	buffer_append(&line, text, strlen(text) - 1);
	sealed_line_end(&line, 0);
	file_write(path.data, &line);
	free(text);
	json_decref(json);
	buffer_finish(&line);
	buffer_finish(&path);
}

static void set_number(const char *dir, const char *name, uint64_t value)
{
	set_metadata(dir, "s", name, json_integer((json_int_t)value));
}

/** Puts these names (each an object without its brace) in place of those that are there. */
static void put_names(const char *dir, const char *const *names)
{
	struct buffer path = {0};
	struct buffer lines = {0};
	for (; *names; names++) {
		size_t start = lines.len;
		buffer_append_str(&lines, *names);
		sealed_line_end(&lines, start);
	}
	log_path(&path, dir, "s", "keys.jsonl");
	file_write(path.data, &lines);
	set_number(dir, "keys_size", lines.len);
	set_number(dir, "input_names", 0); /* what is missing of those is told by another test */
	buffer_finish(&lines);
	buffer_finish(&path);
}

static void assert_told(const char *dir, const char *want)
{
	struct found found = look(dir);
	assert_int_equal(found.problems, want != NULL);
	assert_int_equal(found.notes, 0);
	assert_string_equal(found.first, want ? want : "");
}

#define PROMPT(seq, id) "{\"kind\":\"prompt\",\"seq\":" #seq ",\"key\":\"" id "\""
#define KEYS            "sessions/s/keys.jsonl: "

static void names_that_do_not_fit_are_told(void **state)
{
	static const struct {
		const char *names[6];
		const char *told;
	} cases[] = {
		{{PROMPT(1, "p1"), PROMPT(3, "p2"), PROMPT(5, "p3")}, NULL},
		{{PROMPT(1, "p1"), "{\"kind\":\"of later days\"", PROMPT(3, "p2"), PROMPT(5, "p3")},
			NULL},
		{{PROMPT(1, "p1"), PROMPT(5, "p3")}, KEYS "the name of event 3 is missing"},
		{{NULL}, KEYS "the name of event 1 is missing; wrong names in total: 3"},
		{{PROMPT(1, "p1"), PROMPT(3, "p2"), PROMPT(3, "p2"), PROMPT(5, "p3")}, KEYS
			"line 3 names event 3, which has no name of its own, or had it before"},
		{{PROMPT(1, "p1"), PROMPT(3, "p2"), PROMPT(4, "p9"), PROMPT(5, "p3")}, KEYS
			"line 3 names event 4, which has no name of its own, or had it before"},
		{{PROMPT(1, "p1"), PROMPT(3, "p2"), PROMPT(5, "p3"), PROMPT(7, "p4")}, KEYS
			"line 4 names event 7, which has no name of its own, or had it before"},
		{{PROMPT(3, "p2"), PROMPT(1, "p1"), PROMPT(5, "p3")},
			KEYS "the name of event 1 is missing; wrong names in total: 2"},
		{{PROMPT(1, "p1"), PROMPT(3, "p3"), PROMPT(5, "p3")},
			KEYS "line 2 is not the name of event 3"},
		{{PROMPT(1, "p1"), PROMPT(3, "p2") ",\"by\":\"x\"", PROMPT(5, "p3")},
			KEYS "line 2 is not the name of event 3"},
		{{PROMPT(1, "p1"), "{\"kind\":\"answer\",\"seq\":3,\"key\":\"p2\"",
			 PROMPT(5, "p3")},
			KEYS "line 2 is not the name of event 3"},
	};
	char *dir = make_session();
	assert_clean(dir);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		put_names(dir, cases[i].names);
		assert_told(dir, cases[i].told);
	}
	const char *const none[] = {PROMPT(1, "p1"), "{\"kind\":\"prompt\",\"seq\":0", NULL};
	put_names(dir, none);
	assert_int_equal(look(dir).problems, 1);
	rig_remove_dir(dir);
	free(dir);
	(void)state;
}

static void cut_front(const char *path, size_t len)
{
	struct buffer bytes = {0};
	assert_true(file_read(path, &bytes));
	buffer_consume(&bytes, len);
	file_write(path, &bytes);
	buffer_finish(&bytes);
}

/** Old history is gone: its names are not asked for, and not missed. */
static void names_of_old_events_are_left_alone(void **state)
{
	char *dir = make_session();
	struct buffer path = {0};
	struct buffer log = {0};
	log_path(&path, dir, "s", "events.jsonl");
	assert_true(file_read(path.data, &log));
	size_t old = (size_t)((char *)memchr(log.data, '\n', log.len) + 1 - log.data);
	cut_front(path.data, old);
	set_number(dir, "log_size", log.len - old);
	set_number(dir, "base_seq", 2);
	set_number(dir, "first_seq", 2);
	struct found found = look(dir);
	assert_int_equal(found.problems, 0);
	assert_int_equal(found.notes, 1); /* the index begins with the old event */
	log_path(&path, dir, "s", "keys.jsonl");
	cut_front(path.data, strlen(PROMPT(1, "p1")) + SEAL_LEN + 1);
	set_number(dir, "keys_size",
		read_metadata(dir, "s").keys_size - strlen(PROMPT(1, "p1")) - SEAL_LEN - 1);
	found = look(dir);
	assert_int_equal(found.problems, 0);
	buffer_finish(&log);
	buffer_finish(&path);
	rig_remove_dir(dir);
	free(dir);
	(void)state;
}

/** Where the log itself is damaged, what follows from that in the other files is not told. */
static void only_the_log_is_told(void **state)
{
	char *dir = make_session();
	struct buffer path = {0};
	log_path(&path, dir, "s", "events.jsonl");
	file_spoil(path.data, FLIP, 100);
	assert_int_equal(look(dir).problems, 1);
	buffer_finish(&path);
	rig_remove_dir(dir);
	free(dir);
	(void)state;
}

static void assert_first(const char *dir, const char *want)
{
	struct found found = look(dir);
	assert_int_equal(found.problems, 1);
	if (!strstr(found.first, want)) {
		fail_msg("not as it should be: %s", found.first);
	}
}

static void metadata_that_does_not_fit_is_told(void **state)
{
	char *dir = make_session();
	uint64_t log_size = read_metadata(dir, "s").log_size;
	set_number(dir, "log_size", 7);
	assert_first(dir, "sessions/s/events.jsonl: seq 6 ends at byte ");
	set_number(dir, "log_size", log_size);
	assert_clean(dir);
	set_number(dir, "max_seq", 9);
	struct buffer path = {0};
	log_path(&path, dir, "s", "events.index");
	file_append(path.data, "three entries more, up to 9", 24);
	assert_first(dir,
		"sessions/s/events.jsonl: it ends with seq 6; metadata.json says that 9 is certain");
	set_metadata(dir, "s", "agent_state", json_pack("{s:i}", "modes", 10));
	assert_first(dir,
		"sessions/s/metadata.json: agent_state names an event that the log does not have");
	set_metadata(dir, "s", "agent_state", json_object());
	set_metadata(dir, "s", "epoch", json_string("x"));
	assert_first(dir, "sessions/s/metadata.json: the epoch is not 16 hex digits");
	buffer_finish(&path);
	rig_remove_dir(dir);
	free(dir);
	(void)state;
}

/** The server would not start with it: it is no file that a crash has left out. */
static void metadata_that_cannot_be_read_is_a_problem(void **state)
{
	struct point p;
	struct buffer path = {0};
	point_take(&p, 14, 1 << 20);
	log_path(&path, p.dir, workload_ids[0], "metadata.json");
	assert_int_equal(unlink(path.data), 0);
	assert_int_equal(look(p.dir).problems, 0); /* the journal has it */
	assert_int_equal(mkdir(path.data, 0700), 0);
	assert_true(look(p.dir).problems > 0);
	buffer_finish(&path);
	point_free(&p);
	(void)state;
}

static void another_epoch_than_the_journal_is_told(void **state)
{
	struct point p;
	point_take(&p, WORKLOAD_STEPS, 64 << 20);
	set_metadata(p.dir, "a", "epoch", json_string("0123456789abcdef"));
	struct found found = look(p.dir);
	assert_true(found.problems > 0);
	assert_non_null(
		strstr(found.first, "of session a, whose metadata.json says 0123456789abcdef"));
	point_free(&p);
	(void)state;
}

static void an_index_that_is_missing_is_noted(void **state)
{
	char *dir = make_session();
	struct buffer path = {0};
	log_path(&path, dir, "s", "events.index");
	assert_int_equal(unlink(path.data), 0);
	struct found found = look(dir);
	assert_int_equal(found.problems, 0);
	assert_int_equal(found.notes, 1);
	assert_string_equal(found.first,
		"sessions/s/events.index: it is missing; it is rebuilt from the log when needed");
	struct store_files files;
	char *why;
	assert_int_equal(store_files_open(dir, &files, &why), 0);
	files.in_use = true;
	assert_int_equal(look_in(&files).notes, 0);
	store_files_close(&files);
	buffer_finish(&path);
	rig_remove_dir(dir);
	free(dir);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_damage_is_found),
		cmocka_unit_test(names_that_do_not_fit_are_told),
		cmocka_unit_test(names_of_old_events_are_left_alone),
		cmocka_unit_test(only_the_log_is_told),
		cmocka_unit_test(metadata_that_does_not_fit_is_told),
		cmocka_unit_test(metadata_that_cannot_be_read_is_a_problem),
		cmocka_unit_test(another_epoch_than_the_journal_is_told),
		cmocka_unit_test(an_index_that_is_missing_is_noted),
	};
	point_use_memory();
	diag_set_level(DIAG_SILENT);
	return cmocka_run_group_tests_name("check-files", tests, NULL, NULL);
}
