/*
 * Names that inputs give (keys, message ids, runs): refused with their input, found again after
 * crashes, each once, and as far as can be when their file is damaged.
 */
#include "core/store/embedded/embedded.h"
#include "fault_disk.h"
#include "point.h"
#include "core/session/session_internal.h"

#include "holdfast/intake.h"

#include <errno.h>
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

#define MANY  100000
#define BATCH 10000

static int setup(void **state)
{
	struct rig *rig = xcalloc(1, sizeof(*rig));
	rig_init(rig);
	rig->limits.segment_size = 3000;
	rig->limits.journal_retry_ms = 1;
	*state = rig;
	return 0;
}

static int teardown(void **state)
{
	rig_finish(*state);
	free(*state);
	return 0;
}

/** Appends a JSON array of events; the last ack. */
static struct append_ack append(struct session *session, const char *events)
{
	struct refusal refusal = {0};
	struct append_ack acks[16];
	size_t bad;
	struct json_spans spans;
	assert_int_equal(json_spans_read(events, strlen(events), &spans), 0);
	size_t count = json_span_array_size(spans.all);
	assert_in_range(count, 1, 16);
	if (intake_append(session, spans.all + 1, count, limits_default(), acks, &bad, &refusal) <
		0) {
		fail_msg("%s: %s", error_code_text(refusal.code), refusal.message);
	}
	json_spans_finish(&spans);
	return acks[count - 1];
}

/** An event with the key `k<n>`. */
static struct append_ack append_key(struct session *session, int n)
{
	char text[160];
	snprintf(text, sizeof(text), "[{\"type\":\"x-note\",\"key\":\"k%d\",\"data\":{\"n\":%d}}]",
		n, n);
	return append(session, text);
}

static void expect_new(struct append_ack ack, uint64_t seq)
{
	assert_false(ack.duplicate);
	assert_int_equal(ack.seq, seq);
}

static void expect_known(struct append_ack ack, uint64_t seq)
{
	assert_true(ack.duplicate);
	assert_int_equal(ack.seq, seq);
}

static int find(struct session *session, enum log_key_kind kind, const char *name)
{
	struct log_key key;
	return session_find_name(session, kind, name, &key);
}

/** How many lines of keys.jsonl hold this. */
static size_t count_lines(const char *dir, const char *id, const char *text)
{
	struct buffer path = {0};
	struct buffer file = {0};
	size_t count = 0;
	log_path(&path, dir, id, "keys.jsonl");
	assert_true(file_read(path.data, &file));
	buffer_append_char(&file, '\0');
	for (const char *at = file.data; (at = strstr(at, text)); at++) {
		count++;
	}
	buffer_finish(&path);
	buffer_finish(&file);
	return count;
}

struct ack_wait {
	struct durable_wait wait;
	bool is_done;
	int status;
};

static void handle_done(struct durable_wait *wait, int status)
{
	struct ack_wait *ack = (struct ack_wait *)wait;
	ack->is_done = true;
	ack->status = status;
}

/* --- the disk --- */

/** A journal that cannot be written takes the names back; the retry is an input like any other. */
static void a_refused_input_gives_no_name(void **state)
{
	static const char refused[] = "[{\"type\":\"run_start\",\"data\":{\"run_id\":\"a\"}},"
				      "{\"type\":\"x-note\",\"key\":\"k1\",\"message_id\":\"m\","
				      "\"run_id\":\"a\",\"data\":{\"n\":1}}]";
	struct rig *rig = *state;
	assert_int_equal(rig_open(rig), 0);
	for (int round = 0; round < 2; round++) {
		char id[4] = {'s', (char)('0' + round), '\0'};
		struct session *session = rig_session(rig, id);
		if (round) {
			append_key(session, 0); /* what comes before it is there */
		}
		rig_settle(rig);
		struct ack_wait ack = {.wait = {.done = handle_done}};
		fault_disk_put(&(struct fault){.kind = CALL_FDATASYNC, .error = EIO});
		append(session, refused);
		session_wait_durable(session, &ack.wait);
		assert_int_equal(find(session, LOG_KEY_INPUT, "k1"), 1);
		rig_settle(rig);
		fault_disk_take_away();
		rig_wait_for_store(rig);
		assert_true(ack.is_done);
		assert_int_equal(ack.status, -EIO);
		session = rig_session(rig, id);
		assert_null(session_run(session));
		assert_int_equal(find(session, LOG_KEY_INPUT, "k1"), 0);
		assert_int_equal(find(session, LOG_KEY_MESSAGE, "m"), 0);
		assert_int_equal(find(session, LOG_KEY_RUN, "a"), 0);
		expect_new(append(session, refused), (uint64_t)round + 1);
		expect_known(append(session, refused), (uint64_t)round + 1);
		assert_int_equal(session->state.facts.input_names, 3 + round);
		rig_settle(rig);
		expect_known(append(session, refused), (uint64_t)round + 1);
	}
	rig_close(rig);
	assert_int_equal(rig_open(rig), 0);
	assert_string_equal(session_run(rig_session(rig, "s1")), "a");
	expect_known(append(rig_session(rig, "s1"), refused), 2);
	assert_int_equal(count_lines(rig->dir, "s1", "\"key\":\"k1\""), 1);
}

/** While the first is on its way, its retry is a duplicate, and waits for the disk as it does. */
static void a_retry_waits_for_the_first(void **state)
{
	struct rig *rig = *state;
	assert_int_equal(rig_open(rig), 0);
	struct session *session = rig_session(rig, "s");
	rig_settle(rig);
	struct ack_wait ack = {.wait = {.done = handle_done}};
	expect_new(append_key(session, 1), 1);
	expect_known(append_key(session, 1), 1);
	session_table_end_tick(rig->table); /* it is in flight now */
	expect_known(append_key(session, 1), 1);
	session_wait_durable(session, &ack.wait);
	assert_false(ack.is_done);
	assert_int_equal(session_channel(session)->max_seq, 0);
	rig_settle(rig);
	assert_true(ack.is_done);
	assert_int_equal(ack.status, 0);
	assert_int_equal(session_channel(session)->max_seq, 1);
	assert_int_equal(session->state.facts.input_names, 1);
}

/* --- crashes --- */

/** Opens a copy of the directory, as kill -9 would leave it, and looks for the first `count` keys.
 */
static void check_copy(struct rig *live, int count)
{
	char *dir = rig_copy_dir(live->dir);
	struct rig rig;
	rig_init_on(&rig, dir);
	rig.limits.segment_size = 3000;
	for (int starts = 0; starts < 2; starts++) {
		assert_int_equal(rig_open(&rig), 0);
		struct session *session = rig_session(&rig, "s");
		assert_int_equal(session->state.facts.input_names, count);
		for (int i = 1; i <= count; i++) {
			expect_known(append_key(session, i), (uint64_t)i);
		}
		assert_int_equal(session->state.facts.input_names, count);
		rig_close(&rig);
	}
	for (int i = 1; i <= count; i++) {
		char text[32];
		snprintf(text, sizeof(text), "\"key\":\"k%d\",", i);
		assert_int_equal(count_lines(dir, "s", text), 1);
	}
	rig_finish(&rig);
	rig_remove_dir(dir);
	free(dir);
}

static void no_crash_loses_or_doubles_a_name(void **state)
{
	struct rig *rig = *state;
	assert_int_equal(rig_open(rig), 0);
	struct session *session = rig_session(rig, "s");
	session_hold(session);
	for (int i = 1; i <= 60; i++) {
		expect_new(append_key(session, i), (uint64_t)i);
		rig_settle(rig);
		if (i % 7 == 0) {
			session_log_save(session->log);
			rig_settle(rig);
		}
		if (i % 3 == 0) {
			check_copy(rig, i);
		}
	}
	assert_true(embedded_of(rig->table->store)->journal.segment > 2); /* by snapshots */
	session_drop(session);
}

/** Names that their file has refused are written with the next checkpoint. */
static void names_that_the_file_refuses_come_later(void **state)
{
	struct rig *rig = *state;
	assert_int_equal(rig_open(rig), 0);
	struct session *session = rig_session(rig, "s");
	session_hold(session);
	for (int i = 1; i <= 9; i++) {
		bool refuses = i % 3 == 2;
		if (refuses) {
			fault_disk_put(&(struct fault){.kind = CALL_WRITE,
				.file = "keys.jsonl",
				.error = ENOSPC,
				.lasts = true});
		}
		expect_new(append_key(session, i), (uint64_t)i);
		rig_settle(rig);
		session_log_save(session->log);
		rig_settle(rig);
		if (refuses) {
			assert_true(fault_disk_hits() > 0);
			fault_disk_take_away();
		}
		check_copy(rig, i);
	}
	session_drop(session);
}

/** Without fdatasync the power may take the journal's end and leave the names. */
static void names_go_on_behind_those_of_the_log(void **state)
{
	struct rig *rig = *state;
	struct buffer path = {0};
	uint64_t segment;
	size_t size;
	rig->limits.segment_size = 1 << 20;
	assert_int_equal(rig_open(rig), 0);
	struct session *session = rig_session(rig, "s");
	expect_new(append_key(session, 1), 1);
	rig_settle(rig);
	workload_newest_segment(rig->dir, &segment, &size, NULL);
	append(session, "[{\"type\":\"agent_message_chunk\",\"key\":\"k2\","
			"\"data\":{\"text\":\"open\"}}]");
	rig_settle(rig);
	session_log_save(session->log);
	rig_settle(rig);
	char *dir = rig_copy_dir(rig->dir);
	struct rig copy;
	rig_init_on(&copy, dir);
	workload_newest_segment(dir, &segment, &(size_t){0}, &path);
	file_spoil(path.data, CUT, size);
	assert_int_equal(rig_open(&copy), 0);
	expect_new(append_key(rig_session(&copy, "s"), 3), 2);
	rig_settle(&copy);
	expect_known(append_key(rig_session(&copy, "s"), 3), 2);
	rig_close(&copy);
	assert_int_equal(rig_open(&copy), 0);
	expect_known(append_key(rig_session(&copy, "s"), 3), 2);
	assert_int_equal(rig_session(&copy, "s")->state.facts.input_names, 3);
	rig_finish(&copy);
	rig_remove_dir(dir);
	free(dir);
	buffer_finish(&path);
}

/* --- damage --- */

/** All keys but one are known, and so is what the log tells. */
static void expect_all_but(struct session *session, int lost)
{
	uint64_t seq;
	bool duplicate;
	for (int i = 2; i <= 9; i++) {
		char name[16];
		snprintf(name, sizeof(name), "k%d", i);
		assert_int_equal(find(session, LOG_KEY_INPUT, name), i == lost ? -ENODATA : 1);
	}
	assert_int_equal(find(session, LOG_KEY_MESSAGE, "p1"), 1);
	session_prompt(session, "again", 5, "p1", AUTHOR("me"), &seq, &duplicate);
	assert_true(duplicate);
	assert_int_equal(session->state.facts.input_names, 9);
}

/** One flipped bit costs the name of its line, if only an input gave it, and nothing else. */
static void a_damaged_line_costs_its_own_name(void **state)
{
	struct rig *rig = *state;
	struct buffer path = {0};
	struct buffer file = {0};
	uint64_t seq;
	bool duplicate;
	assert_int_equal(rig_open(rig), 0);
	struct session *session = rig_session(rig, "s");
	session_prompt(session, "hello", 5, "p1", AUTHOR("me"), &seq, &duplicate);
	for (int i = 2; i <= 9; i++) {
		expect_new(append_key(session, i), (uint64_t)i);
	}
	append(session, "[{\"type\":\"turn_end\",\"data\":{}}]");
	rig_settle(rig);
	rig_close(rig);
	assert_int_equal(rig_open(rig), 0);
	rig_close(rig); /* now the journal has none of the names */
	for (int i = 2; i <= 9; i++) {
		char text[32];
		char *dir = rig_copy_dir(rig->dir);
		struct rig copy;
		rig_init_on(&copy, dir);
		log_path(&path, dir, "s", "keys.jsonl");
		assert_true(file_read(path.data, &file));
		snprintf(text, sizeof(text), "\"key\":\"k%d\",", i);
		const char *at = memmem(file.data, file.len, text, strlen(text));
		assert_non_null(at);
		file_spoil(path.data, FLIP, (size_t)(at - file.data) + 10);
		for (int starts = 0; starts < 3; starts++) {
			assert_int_equal(rig_open(&copy), 0);
			expect_all_but(rig_session(&copy, "s"), i);
			rig_close(&copy);
		}
		rig_finish(&copy);
		rig_remove_dir(dir);
		free(dir);
	}
	buffer_finish(&path);
	buffer_finish(&file);
}

/** What stands escaped in the log is the same name when it is read from there. */
static void names_with_escapes_are_made_again(void **state)
{
	static const char *const names[] = {
		"say \"hi\"", "C:\\dir\\", "\\", "a\nb\x01", "caf\u00e9/\u2028", "plain"};
	const size_t count = sizeof(names) / sizeof(names[0]);
	struct rig *rig = *state;
	struct buffer path = {0};
	struct session *session = (rig_open(rig), rig_session(rig, "s"));
	for (size_t i = 0; i < count; i++) {
		json_t *events = json_pack("[{s:s,s:s,s:{s:i}},{s:s,s:{s:s,s:s,s:s}}]", "type",
			"x-note", "message_id", names[i], "data", "n", (int)i, "type", "tool_call",
			"data", "tool_call_id", names[i], "title", "t", "status", "completed");
		char *text = json_dumps(events, 0);
		append(session, text);
		free(text);
		json_decref(events);
	}
	rig_settle(rig);
	rig_close(rig);
	log_path(&path, rig->dir, "s", "keys.jsonl");
	assert_int_equal(truncate(path.data, 0), 0);
	for (int starts = 0; starts < 2; starts++) {
		assert_int_equal(rig_open(rig), 0);
		session = rig_session(rig, "s");
		for (size_t i = 0; i < count; i++) {
			assert_int_equal(find(session, LOG_KEY_MESSAGE, names[i]), 1);
			assert_int_equal(find(session, LOG_KEY_TOOL_CALL, names[i]), 1);
			assert_int_equal(find(session, LOG_KEY_TOOL_RESULT, names[i]), 1);
		}
		rig_settle(rig);
		rig_close(rig);
		assert_int_equal(count_lines(rig->dir, "s", "\"kind\":\"message\""), count);
	}
	buffer_finish(&path);
}

/** The server dies while it makes a damaged file again: the good lines are still there. */
static void a_crash_while_it_is_made_again_loses_no_more(void **state)
{
	struct rig *rig = *state;
	struct buffer path = {0};
	assert_int_equal(rig_open(rig), 0);
	for (int i = 1; i <= 9; i++) {
		append_key(rig_session(rig, "s"), i);
	}
	rig_settle(rig);
	rig_close(rig);
	assert_int_equal(rig_open(rig), 0);
	rig_close(rig); /* now the journal has none of the names */
	log_path(&path, rig->dir, "s", "keys.jsonl");
	file_spoil(path.data, FLIP, 30);
	assert_int_equal(rig_open(rig), 0);
	assert_int_equal(find(rig_session(rig, "s"), LOG_KEY_INPUT, "k1"), -ENODATA);
	char *copy = rig_copy_dir(rig->dir);
	struct rig other;
	rig_init_on(&other, copy);
	assert_int_equal(rig_open(&other), 0);
	for (int i = 2; i <= 9; i++) {
		expect_known(append_key(rig_session(&other, "s"), i), (uint64_t)i);
	}
	rig_finish(&other);
	rig_remove_dir(copy);
	free(copy);
	buffer_finish(&path);
}

/** A name is found under its own kind and key only, whatever seed the store has drawn. */
static void short_names_are_told_apart(void **state)
{
	static const char *const keys[] = {
		"a", "b", "p1", "p2", "p-1", "p-2", "p-3", "q-10", "q-11"};
	const size_t count = sizeof(keys) / sizeof(keys[0]);
	for (uint64_t seed = 0; seed < 1000; seed++) {
		struct name_table table;
		name_table_begin(&table, session_name_kinds, seed * 0x9e3779b97f4a7c15u);
		for (size_t i = 0; i < count; i++) {
			struct raw_name name = {.kind = LOG_KEY_MESSAGE,
				.key = keys[i],
				.key_len = strlen(keys[i]),
				.by = ""};
			name_table_put(&table, &name);
		}
		for (enum log_key_kind kind = LOG_KEY_PROMPT; kind <= LOG_KEY_REMOVED; kind++) {
			for (size_t i = 0; i < count; i++) {
				bool found = name_table_get(&table, kind, keys[i], strlen(keys[i]));
				assert_int_equal(found, kind == LOG_KEY_MESSAGE);
			}
		}
		assert_int_equal(table.used, count);
		name_table_finish(&table);
	}
	(void)state;
}

/* --- many --- */

static void append_many(struct rig *rig, struct session *session, int from)
{
	struct append_ack *acks = xcalloc(BATCH, sizeof(*acks));
	struct refusal refusal;
	size_t bad;
	struct buffer events = {0};
	struct json_spans spans;
	for (int i = from; i < from + BATCH; i++) {
		buffer_printf(&events, "%c{\"type\":\"x-n\",\"key\":\"cp%d:e%d\",\"data\":{}}",
			i == from ? '[' : ',', i / 100, i % 100);
	}
	buffer_append_char(&events, ']');
	assert_int_equal(json_spans_read(events.data, events.len, &spans), 0);
	assert_int_equal(
		intake_append(session, spans.all + 1, BATCH, &rig->limits, acks, &bad, &refusal),
		0);
	for (int i = 0; i < BATCH; i++) {
		assert_int_equal(acks[i].seq, from + i + 1);
	}
	json_spans_finish(&spans);
	buffer_finish(&events);
	free(acks);
	rig_settle(rig);
}

/**
 * A folder that is made later, when the journal has inputs already, says nothing of files that it
 * lacks: whoever kills the server then finds all in the journal.
 */
static void a_late_folder_says_nothing_of_its_files(void **state)
{
	static const char *const files[] = {"events.jsonl", "keys.jsonl"};
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct rig rig;
		struct rig copy;
		rig_init(&rig);
		assert_int_equal(rig_open(&rig), 0);
		fault_disk_put(&(struct fault){.kind = CALL_MKDIRAT, .error = ENOSPC});
		expect_new(append_key(rig_session(&rig, "s"), 1), 1);
		rig_settle(&rig);
		assert_int_equal(fault_disk_hits(), 1);
		fault_disk_take_away();
		fault_disk_put(&(struct fault){
			.kind = CALL_WRITE, .file = files[i], .error = ENOSPC, .lasts = true});
		expect_new(append_key(rig_session(&rig, "s"), 2), 2);
		rig_settle(&rig);
		char *dir = rig_copy_dir(rig.dir);
		fault_disk_take_away();
		rig_finish(&rig);
		rig_init_on(&copy, dir);
		assert_int_equal(rig_open(&copy), 0);
		expect_known(append_key(rig_session(&copy, "s"), 1), 1);
		expect_known(append_key(rig_session(&copy, "s"), 2), 2);
		expect_new(append_key(rig_session(&copy, "s"), 3), 3);
		rig_settle(&copy);
		rig_finish(&copy);
		rig_remove_dir(dir);
		free(dir);
	}
	(void)state;
}

static void a_hundred_thousand_keys_are_small(void **state)
{
	struct rig *rig = *state;
	rig->limits.segment_size = 64 << 20;
	rig->limits.evict_ms = 1;
	assert_int_equal(rig_open(rig), 0);
	struct session *session = rig_session(rig, "s");
	session_hold(session);
	for (int i = 0; i < MANY; i += BATCH) {
		append_many(rig, session, i);
	}
	for (int i = 0; i < MANY; i += 997) {
		char key[32];
		snprintf(key, sizeof(key), "cp%d:e%d", i / 100, i % 100);
		assert_int_equal(find(session, LOG_KEY_INPUT, key), 1);
	}
	assert_int_equal(find(session, LOG_KEY_INPUT, "cp1000:e0"), 0);
	struct log_keys *keys = &session->log->keys;
	assert_int_equal(session->state.facts.input_names, MANY);
	assert_int_equal(keys->names.used, MANY);
	assert_in_range(keys->names.slot_count, MANY, (size_t)43 * MANY / 16);
	assert_int_equal(sizeof(*keys->names.slots), 24);
	assert_true(keys->unwritten.cap < (size_t)1 << 20);
	session_drop(session);
	uv_timer_again(&rig->guard);
	while (session_table_count_live(rig->table)) {
		uv_run(&rig->loop, UV_RUN_ONCE);
		session_table_end_tick(rig->table);
	}
	assert_null(keys->names.slots);
	assert_int_equal(keys->unwritten.cap, 0);
	assert_int_equal(keys->found.cap, 0);
	assert_int_equal(find(rig_session(rig, "s"), LOG_KEY_INPUT, "cp999:e99"), 1);
}

/** A session that never leaves memory keeps no prompt and no answer that its log has. */
static void what_the_log_has_is_not_kept_twice(void **state)
{
	struct rig *rig = *state;
	uint64_t seq;
	bool is_known;
	assert_int_equal(rig_open(rig), 0);
	struct session *session = rig_session(rig, "s");
	session_prompt(session, "Hello", 5, "p1", AUTHOR("me"), &seq, &is_known);
	session_prompt(session, "Later", 5, "p2", AUTHOR("me"), &seq, &is_known);
	rig_put(session, "permission_request", "{\"request_id\":\"q1\",\"options\":[]}");
	rig_put(session, "permission_resolved",
		"{\"request_id\":\"q1\",\"outcome\":\"selected\",\"by\":\"me\"}");
	rig_settle(rig);
	assert_int_equal(hash_count(session->prompt_ids), 1); /* p2 waits, and is in no event */
	assert_int_equal(hash_count(session->resolved), 0);
	assert_int_equal(session_prompt(session, "?", 1, "p1", AUTHOR("me"), &seq, &is_known), 0);
	assert_true(is_known && seq == 1);
	assert_string_equal(session_permission(session, "q1").by, "me");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_refused_input_gives_no_name, setup, teardown),
		cmocka_unit_test_setup_teardown(a_retry_waits_for_the_first, setup, teardown),
		cmocka_unit_test_setup_teardown(no_crash_loses_or_doubles_a_name, setup, teardown),
		cmocka_unit_test_setup_teardown(
			names_that_the_file_refuses_come_later, setup, teardown),
		cmocka_unit_test_setup_teardown(
			names_go_on_behind_those_of_the_log, setup, teardown),
		cmocka_unit_test_setup_teardown(a_damaged_line_costs_its_own_name, setup, teardown),
		cmocka_unit_test_setup_teardown(names_with_escapes_are_made_again, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_crash_while_it_is_made_again_loses_no_more, setup, teardown),
		cmocka_unit_test(a_late_folder_says_nothing_of_its_files),
		cmocka_unit_test(short_names_are_told_apart),
		cmocka_unit_test_setup_teardown(a_hundred_thousand_keys_are_small, setup, teardown),
		cmocka_unit_test_setup_teardown(
			what_the_log_has_is_not_kept_twice, setup, teardown),
	};
	return cmocka_run_group_tests_name("names", tests, NULL, NULL);
}
