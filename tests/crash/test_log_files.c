/*
 * The files beside a log: events.index and keys.jsonl, cut and spoilt at every byte, missing and
 * too long. Whatever they say, a read gives the right events and a name is found.
 */
#include "part.h"
#include "point.h"
#include "reading.h"

#include "holdfast/diag.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define EVENTS 40

/** A session of many events, prompts and answers among them, as a stopped server leaves it. */
struct shelf {
	char *dir;
	struct buffer log;
	struct buffer index;
	struct buffer keys;
};

static void prompt(struct session *session, const char *prompt_id)
{
	uint64_t seq;
	bool duplicate;
	assert_int_equal(
		session_prompt(session, "please", 6, prompt_id, AUTHOR("client"), &seq, &duplicate),
		0);
}

static void fill(struct rig *rig)
{
	struct session *session = rig_session(rig, "s");
	prompt(session, "p1");
	rig_put(session, "permission_request", "{\"request_id\":\"q1\",\"options\":[]}");
	rig_put(session, "permission_resolved",
		"{\"request_id\":\"q1\",\"outcome\":\"selected\",\"by\":\"somebody\"}");
	rig_put(session, "usage", "{\"mode\":\"cumulative\",\"used\":7}");
	rig_put(session, "turn_end", "{}");
	rig_settle(rig);
	for (int i = 0; i < EVENTS - 6; i++) {
		char data[80];
		snprintf(data, sizeof(data), "{\"n\":%d,\"pad\":\"%.*s\"}", i, i,
			"........................................");
		rig_put(session, "x-note", data);
	}
	rig_settle(rig);
	prompt(session, "p \"2\"");
	rig_settle(rig);
	assert_int_equal(session_channel(session)->max_seq, EVENTS);
}

static void read_of(const struct shelf *shelf, const char *file, struct buffer *out)
{
	struct buffer path = {0};
	log_path(&path, shelf->dir, "s", file);
	assert_true(file_read(path.data, out));
	buffer_finish(&path);
}

static void shelf_make(struct shelf *shelf)
{
	struct rig rig;
	*shelf = (struct shelf){0};
	rig_init(&rig);
	assert_int_equal(rig_open(&rig), 0);
	fill(&rig);
	rig_close(&rig);
	shelf->dir = rig_copy_dir(rig.dir);
	rig_finish(&rig);
	read_of(shelf, "events.jsonl", &shelf->log);
	read_of(shelf, "events.index", &shelf->index);
	read_of(shelf, "keys.jsonl", &shelf->keys);
	assert_int_equal(shelf->index.len, 32 + 8 * EVENTS);
}

static void shelf_free(struct shelf *shelf)
{
	rig_remove_dir(shelf->dir);
	free(shelf->dir);
	buffer_finish(&shelf->log);
	buffer_finish(&shelf->index);
	buffer_finish(&shelf->keys);
}

static void assert_finds(struct rig *rig)
{
	struct session *session = rig_session(rig, "s");
	uint64_t seq;
	bool duplicate;
	assert_int_equal(
		session_prompt(session, "x", 1, "p1", AUTHOR("other"), &seq, &duplicate), 0);
	assert_true(duplicate);
	assert_int_equal(seq, 1);
	assert_int_equal(
		session_prompt(session, "x", 1, "p \"2\"", AUTHOR("other"), &seq, &duplicate), 0);
	assert_true(duplicate);
	assert_int_equal(seq, EVENTS);
	struct permission_view view = session_permission(session, "q1");
	assert_int_equal(view.state, PERMISSION_RESOLVED);
	assert_int_equal(view.seq, 3);
	assert_string_equal(view.by, "somebody");
	assert_int_equal(session_permission(session, "p1").state, PERMISSION_UNKNOWN);
}

/** The file is as it was, with `more` bytes behind that. */
static void assert_same_file(
	const char *dir, const char *file, const struct buffer *want, size_t more)
{
	struct buffer path = {0};
	struct buffer got = {0};
	log_path(&path, dir, "s", file);
	assert_true(file_read(path.data, &got));
	assert_int_equal(got.len, want->len + more);
	assert_memory_equal(got.data, want->data, want->len);
	buffer_finish(&path);
	buffer_finish(&got);
}

/** The lines of names that events tell. */
static void take_told(const struct buffer *keys, struct buffer *out)
{
	static const char given[] = "{\"kind\":\"message\"";
	const char *end = keys->data + keys->len;
	const char *newline;
	for (const char *at = keys->data; at < end; at = newline + 1) {
		newline = memchr(at, '\n', (size_t)(end - at));
		assert_non_null(newline);
		if (strncmp(at, given, sizeof(given) - 1) != 0) {
			buffer_append(out, at, (size_t)(newline + 1 - at));
		}
	}
}

/**
 * What events tell is as it was, and in their order; of what only inputs gave, in front or between,
 * a damaged line may be lost.
 */
static void assert_same_names(const char *dir, const struct buffer *want)
{
	struct buffer path = {0};
	struct buffer got = {0};
	struct buffer told = {0};
	struct buffer told_before = {0};
	log_path(&path, dir, "s", "keys.jsonl");
	assert_true(file_read(path.data, &got));
	take_told(&got, &told);
	take_told(want, &told_before);
	assert_int_equal(told.len, told_before.len);
	assert_memory_equal(told.data, told_before.data, told.len);
	assert_true(got.len <= want->len);
	buffer_finish(&path);
	buffer_finish(&got);
	buffer_finish(&told);
	buffer_finish(&told_before);
}

/** Opens a copy of the shelf with one of its files spoilt, and reads everything. */
static void check_spoilt(const struct shelf *shelf, const char *file,
	void (*spoil)(const char *path, size_t at), size_t at)
{
	struct rig rig;
	struct buffer path = {0};
	char *dir = rig_copy_dir(shelf->dir);
	log_path(&path, dir, "s", file);
	spoil(path.data, at);
	rig_init_on(&rig, dir);
	rig.durability = DURABILITY_WRITE;
	assert_int_equal(rig_open(&rig), 0);
	struct session *session = rig_session(&rig, "s");
	assert_int_equal(session_channel(session)->max_seq, EVENTS);
	reading_check(&rig, session, &shelf->log, UNSPOILT);
	assert_finds(&rig);
	/* It goes on, and what is read then is right, too. */
	rig_put(session, "x-after", "{}");
	rig_settle(&rig);
	rig_close(&rig);
	assert_same_file(dir, "events.index", &shelf->index, 8);
	assert_same_names(dir, &shelf->keys);
	assert_int_equal(rig_open(&rig), 0);
	session = rig_session(&rig, "s");
	struct buffer text = {0};
	assert_int_equal(reading_page(&rig, session, 1, EVENTS + 1, &text), EVENTS + 1);
	assert_memory_equal(text.data, shelf->log.data, shelf->log.len);
	buffer_finish(&text);
	rig_finish(&rig);
	rig_remove_dir(dir);
	free(dir);
	buffer_finish(&path);
}

/** The same for a case of many. */
static void check_one_of_many(const struct shelf *shelf, const char *file,
	void (*spoil)(const char *path, size_t at), size_t at)
{
	if (part_has_next()) {
		check_spoilt(shelf, file, spoil, at);
	}
}

static void cut(const char *path, size_t at)
{
	file_spoil(path, CUT, at);
}

static void flip(const char *path, size_t at)
{
	file_spoil(path, FLIP, at);
}

static void take_away(const char *path, size_t at)
{
	assert_int_equal(unlink(path), 0);
}

static void lengthen(const char *path, size_t at)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	assert_int_equal(write(fd, "{\"kind\":\"pro", at), at);
	close(fd);
}

/** Every entry becomes that of the event behind it: a place where a good line starts. */
static void shift(const char *path, size_t at)
{
	struct buffer bytes = {0};
	assert_true(file_read(path, &bytes));
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	size_t len = bytes.len - 32 - at;
	assert_int_equal(pwrite(fd, bytes.data + 32 + at, len, 32), len);
	close(fd);
	buffer_finish(&bytes);
}

static void no_index_is_trusted(void **state)
{
	struct shelf shelf;
	shelf_make(&shelf);
	for (size_t at = 0; at < shelf.index.len; at++) {
		check_one_of_many(&shelf, "events.index", flip, at);
		check_one_of_many(&shelf, "events.index", cut, at);
	}
	check_spoilt(&shelf, "events.index", take_away, 0);
	check_spoilt(&shelf, "events.index", shift, 8);
	check_spoilt(&shelf, "events.index", lengthen, 3);
	check_spoilt(&shelf, "events.index", lengthen, 8);
	shelf_free(&shelf);
	(void)state;
}

static void no_keys_are_lost(void **state)
{
	struct shelf shelf;
	shelf_make(&shelf);
	for (size_t at = 0; at < shelf.keys.len; at++) {
		check_one_of_many(&shelf, "keys.jsonl", flip, at);
		check_one_of_many(&shelf, "keys.jsonl", cut, at);
	}
	check_spoilt(&shelf, "keys.jsonl", take_away, 0);
	check_spoilt(&shelf, "keys.jsonl", lengthen, 3);
	shelf_free(&shelf);
	(void)state;
}

/** As long as the journal knows how the session was made, metadata is made again. */
static void metadata_is_made_again_from_the_journal(void **state)
{
	struct shelf shelf;
	struct buffer json = {0};
	shelf_make(&shelf);
	read_of(&shelf, "metadata.json", &json);
	for (size_t at = 0; at < json.len; at++) {
		check_one_of_many(&shelf, "metadata.json", at % 2 ? cut : flip, at);
	}
	check_spoilt(&shelf, "metadata.json", take_away, 0);
	buffer_finish(&json);
	shelf_free(&shelf);
	(void)state;
}

/** Without that, nobody can say what is certain. */
static void spoilt_metadata_is_set_aside(void **state)
{
	struct shelf shelf;
	struct rig journal;
	struct buffer path = {0};
	struct buffer json = {0};
	shelf_make(&shelf);
	rig_init_on(&journal, shelf.dir);
	assert_int_equal(rig_open(&journal), 0);
	rig_finish(&journal);
	read_of(&shelf, "metadata.json", &json);
	for (size_t at = 0; at < json.len; at++) {
		if (!part_has_next()) {
			continue;
		}
		struct rig rig;
		char *dir = rig_copy_dir(shelf.dir);
		log_path(&path, dir, "s", "metadata.json");
		file_spoil(path.data, at % 2 ? CUT : FLIP, at);
		rig_init_on(&rig, dir);
		assert_int_equal(rig_open(&rig), 0);
		assert_null(session_table_get(rig.table, "s", 1));
		rig_finish(&rig);
		rig_remove_dir(dir);
		free(dir);
	}
	buffer_finish(&path);
	buffer_finish(&json);
	shelf_free(&shelf);
	(void)state;
}

/** What the log alone would have told comes back without it being read. */
static void metadata_tells_the_state(void **state)
{
	struct shelf shelf;
	struct rig rig;
	shelf_make(&shelf);
	/* Every line but the last is spoilt: whoever reads them finds out. */
	struct buffer path = {0};
	log_path(&path, shelf.dir, "s", "events.jsonl");
	const char *last = memrchr(shelf.log.data, '\n', shelf.log.len - 1);
	int fd = open(path.data, O_WRONLY | O_CLOEXEC);
	char *blanks = xcalloc(1, shelf.log.len);
	size_t len = (size_t)(last - shelf.log.data);
	assert_int_equal(write(fd, blanks, len), len);
	close(fd);
	free(blanks);
	rig_init_on(&rig, shelf.dir);
	assert_int_equal(rig_open(&rig), 0);
	const struct channel *channel = session_channel(rig_session(&rig, "s"));
	assert_int_equal(channel->max_seq, EVENTS);
	assert_string_equal(channel->last_prompt_id, "p \"2\"");
	assert_int_equal(channel->last_prompt_seq, EVENTS);
	assert_string_equal(channel->status.usage, "{\"used\":7}");
	assert_true(channel->status.is_prompting);
	struct buffer text = {0};
	assert_int_equal(reading_page(&rig, rig_session(&rig, "s"), EVENTS, EVENTS, &text), 1);
	assert_int_equal(reading_page(&rig, rig_session(&rig, "s"), 1, EVENTS, &text), -EBADMSG);
	buffer_finish(&text);
	rig_finish(&rig);
	buffer_finish(&path);
	shelf_free(&shelf);
	(void)state;
}

static void take_count(void *arg, int status, struct event **events, size_t count)
{
	int *got = arg;
	*got = status < 0 ? status : (int)count;
	for (size_t i = 0; i < count; i++) {
		event_unref(events[i]);
	}
}

/** Two lines in a row are spoilt, and a page in HTML ends before them. */
static void a_page_ends_before_spoilt_lines(void **state)
{
	struct shelf shelf;
	struct rig rig;
	struct buffer text = {0};
	shelf_make(&shelf);
	log_path(&text, shelf.dir, "s", "events.jsonl");
	const char *line = shelf.log.data;
	for (int seq = 1; seq <= 31; seq++, line = strchr(line, '\n') + 1) {
		if (seq >= 30) {
			flip(text.data, (size_t)(line - shelf.log.data));
		}
	}
	rig_init_on(&rig, shelf.dir);
	assert_int_equal(rig_open(&rig), 0);
	struct session *session = rig_session(&rig, "s");
	/* The index is made again, and does not fit either. */
	assert_int_equal(reading_page(&rig, session, 30, 31, &text), -EBADMSG);
	const struct log_page page = {
		.from = 1, .to = EVENTS, .max_bytes = 300, .format = FORMAT_HTML};
	int got = 0;
	assert_non_null(session_log_read(session_channel(session)->log, &page, take_count, &got));
	while (!got) {
		uv_run(&rig.loop, UV_RUN_ONCE);
	}
	assert_in_range(got, 1, 5);
	buffer_finish(&text);
	rig_finish(&rig);
	shelf_free(&shelf);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_index_is_trusted),
		cmocka_unit_test(no_keys_are_lost),
		cmocka_unit_test(metadata_is_made_again_from_the_journal),
		cmocka_unit_test(spoilt_metadata_is_set_aside),
		cmocka_unit_test(metadata_tells_the_state),
		cmocka_unit_test(a_page_ends_before_spoilt_lines),
	};
	point_use_memory();
	diag_set_level(getenv("HOLDFAST_CRASH_CASE") ? DIAG_WARN : DIAG_SILENT);
	return cmocka_run_group_tests_name("log files", tests, NULL, NULL);
}
