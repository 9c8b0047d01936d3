/*
 * Pages of HTML that have to be read from disk: rendered when they are given out, in small parts,
 * and in turn with other pages; and what events.html has of them.
 */
#include "rig.h"

#include "holdfast/metrics.h"
#include "holdfast/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define EVENTS 600
/* No more of them are rendered in a turn. */
#define TURN_MOST 64

struct reader {
	struct log_read *read;
	bool came;
	size_t count;
	size_t rendered; /* when they were given out */
	enum event_format format;
	int turns; /* of the loop until then */
};

/** Wherever it is from, it is what the renderer makes of the event. */
static void check_html(const struct event *event)
{
	struct buffer made = {0};
	if (event->json[FORMAT_HTML] && event->type == EVENT_AGENT_MESSAGE) {
		event_render(event, FORMAT_HTML, &made);
		assert_int_equal(event->json_len[FORMAT_HTML], made.len);
		assert_memory_equal(event->json[FORMAT_HTML], made.data, made.len);
	}
	buffer_finish(&made);
}

static void handle_read(void *arg, int status, struct event **events, size_t count)
{
	struct reader *reader = arg;
	assert_int_equal(status, 0);
	reader->came = true;
	reader->count = count;
	for (size_t i = 0; i < count; i++) {
		check_html(events[i]);
		reader->rendered += events[i]->json[reader->format] != NULL;
		event_unref(events[i]);
	}
}

static struct session *fill(struct rig *rig, struct metrics *metrics)
{
	rig_init(rig);
	rig->metrics = metrics;
	rig->limits.hot_tail_size = 1024;
	assert_int_equal(rig_open(rig), 0);
	struct session *session = rig_session(rig, "s");
	for (int i = 0; i < EVENTS; i++) {
		rig_say(session, "# A **heading**\n\n");
	}
	rig_put(session, "turn_end", "{}");
	rig_settle(rig);
	assert_true(session_channel(session)->max_seq >= EVENTS);
	return session;
}

static void begin(struct reader *reader, struct session *session, uint64_t from, uint64_t to,
	enum event_format format)
{
	struct log_page page = {.from = from, .to = to, .max_bytes = 1 << 30, .format = format};
	*reader = (struct reader){.format = format};
	reader->read = session_log_read(session_channel(session)->log, &page, handle_read, reader);
	assert_non_null(reader->read);
}

static void turn(struct rig *rig, struct reader *readers, size_t count)
{
	uv_run(&rig->loop, UV_RUN_ONCE);
	for (size_t i = 0; i < count; i++) {
		readers[i].turns += !readers[i].came;
	}
}

static void a_page_is_rendered_in_many_turns(void **state)
{
	struct rig rig;
	struct session *session = fill(&rig, NULL);
	struct reader reader;
	/* In this format nothing is kept. */
	begin(&reader, session, 1, 500, FORMAT_BOTH);
	while (!reader.came) {
		turn(&rig, &reader, 1);
	}
	assert_int_equal(reader.count, 500);
	assert_int_equal(reader.rendered, 500);
	assert_true(reader.turns >= 500 / TURN_MOST);
	begin(&reader, session, 1, 500, FORMAT_MARKDOWN);
	while (!reader.came) {
		turn(&rig, &reader, 1);
	}
	assert_int_equal(reader.count, 500);
	rig_close(&rig);
	rig_finish(&rig);
}

static void a_short_page_does_not_wait_for_long_ones(void **state)
{
	struct rig rig;
	struct session *session = fill(&rig, NULL);
	struct reader readers[4];
	for (size_t i = 0; i < 3; i++) {
		begin(&readers[i], session, 1, 500, FORMAT_BOTH);
	}
	begin(&readers[3], session, 1, 10, FORMAT_BOTH);
	while (!readers[3].came) {
		turn(&rig, readers, 4);
	}
	assert_false(readers[0].came && readers[1].came && readers[2].came);
	while (!readers[0].came || !readers[1].came || !readers[2].came) {
		turn(&rig, readers, 4);
	}
	rig_close(&rig);
	rig_finish(&rig);
}

/* Nothing is told, nothing leaks, and the others go on. */
static void a_page_that_nobody_wants_any_more(void **state)
{
	struct rig rig;
	struct session *session = fill(&rig, NULL);
	for (int after = 0; after < 30; after++) {
		struct reader readers[2];
		begin(&readers[0], session, 1, 500, FORMAT_BOTH);
		begin(&readers[1], session, 1, 100, FORMAT_BOTH);
		for (int i = 0; i < after && !readers[0].came; i++) {
			turn(&rig, readers, 2);
		}
		bool had_come = readers[0].came;
		if (!had_come) {
			log_read_cancel(readers[0].read);
		}
		while (!readers[1].came) {
			turn(&rig, readers, 2);
		}
		rig_settle(&rig);
		assert_int_equal(readers[0].came, had_come);
		assert_int_equal(readers[1].rendered, 100);
	}
	rig_close(&rig);
	rig_finish(&rig);
}

static void a_stop_waits_for_pages(void **state)
{
	struct rig rig;
	struct session *session = fill(&rig, NULL);
	struct reader readers[2];
	begin(&readers[0], session, 1, 500, FORMAT_BOTH);
	begin(&readers[1], session, 1, 500, FORMAT_BOTH);
	log_read_cancel(readers[0].read);
	rig_close(&rig);
	assert_false(readers[0].came);
	assert_true(readers[1].came);
	rig_finish(&rig);
}

/* --- events.html --- */

static uint64_t count_rendered(const struct rig *rig)
{
	static const char name[] = "\nholdfast_events_rendered_total ";
	struct buffer text = {0};
	metrics_write(rig->metrics, &text);
	const char *at = strstr(buffer_cstr(&text), name);
	assert_non_null(at);
	uint64_t count = strtoull(at + sizeof(name) - 1, NULL, 10);
	buffer_finish(&text);
	return count;
}

static int open_file(const struct rig *rig, const char *name, int flags)
{
	char path[512];
	snprintf(path, sizeof(path), "%s/sessions/s/%s", rig->dir, name);
	return open(path, flags);
}

static void read_file(const struct rig *rig, const char *name, struct buffer *out)
{
	char bytes[4096];
	ssize_t n = 0;
	int fd = open_file(rig, name, O_RDONLY);
	buffer_clear(out);
	while (fd >= 0 && (n = read(fd, bytes, sizeof(bytes))) > 0) {
		buffer_append(out, bytes, (size_t)n);
	}
	close(fd);
}

static bool is_same(const struct rig *rig, const char *name, const struct buffer *want)
{
	struct buffer found = {0};
	read_file(rig, name, &found);
	bool same = found.len == want->len && memcmp(found.data, want->data, want->len) == 0;
	buffer_finish(&found);
	return same;
}

static struct session *fill_counted(struct rig *rig, struct metrics *metrics)
{
	struct session *session = fill(rig, metrics);
	while (count_rendered(rig) < EVENTS) {
		rig_turn(rig);
		usleep(1000);
	}
	return session;
}

static void read_page(struct rig *rig, struct session *session)
{
	struct reader reader;
	begin(&reader, session, 1, 500, FORMAT_HTML);
	while (!reader.came) {
		turn(rig, &reader, 1);
	}
	assert_int_equal(reader.rendered, 500);
	rig_settle(rig);
}

static void what_the_file_has_is_not_rendered(void **state)
{
	struct rig rig;
	struct metrics *metrics = metrics_create();
	struct session *session = fill_counted(&rig, metrics);
	assert_int_equal(count_rendered(&rig), EVENTS);
	read_page(&rig, session);
	read_page(&rig, session);
	assert_int_equal(count_rendered(&rig), EVENTS);
	rig_close(&rig);
	assert_int_equal(rig_open(&rig), 0);
	uint64_t before = count_rendered(&rig);
	read_page(&rig, rig_session(&rig, "s"));
	assert_int_equal(count_rendered(&rig), before);
	rig_close(&rig);
	rig_finish(&rig);
	metrics_destroy(metrics);
}

static void spoil(const struct rig *rig, const char *name, off_t at)
{
	char byte;
	int fd = open_file(rig, name, O_RDWR);
	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= 0x20;
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

static void what_is_damaged_is_made_anew(void **state)
{
	static const struct {
		const char *name;
		off_t at;
	} places[] = {{"events.html", 3}, {"events.html", 100}, {"events.html.index", 3},
		{"events.html.index", 12}, {"events.html.index", 30}, {"events.html.index", 40},
		{"events.html.index", 46}, {"events.html.index", 40 + 16 * 50}};
	struct rig rig;
	struct metrics *metrics = metrics_create();
	struct session *session = fill_counted(&rig, metrics);
	struct buffer html = {0};
	struct buffer index = {0};
	read_file(&rig, "events.html", &html);
	read_file(&rig, "events.html.index", &index);
	assert_int_equal(index.len, 40 + 16 * (EVENTS + 1)); /* a header, and each event */
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		spoil(&rig, places[i].name, places[i].at);
		read_page(&rig, session);
		while (!is_same(&rig, "events.html", &html) ||
			!is_same(&rig, "events.html.index", &index)) {
			rig_turn(&rig);
			usleep(1000);
		}
	}
	buffer_finish(&html);
	buffer_finish(&index);
	rig_close(&rig);
	rig_finish(&rig);
	metrics_destroy(metrics);
}

/* FORMAT_BOTH is not kept: all of it would have to be rendered. */
static void nothing_is_rendered_for_who_has_left(void **state)
{
	struct rig rig;
	struct reader readers[10];
	struct metrics *metrics = metrics_create();
	struct session *session = fill_counted(&rig, metrics);
	uint64_t before = count_rendered(&rig);
	for (size_t i = 0; i < 10; i++) {
		begin(&readers[i], session, 1, 500, FORMAT_BOTH);
	}
	while (count_rendered(&rig) == before) {
		turn(&rig, readers, 10);
	}
	for (size_t i = 0; i < 10; i++) {
		assert_false(readers[i].came);
		log_read_cancel(readers[i].read);
	}
	rig_settle(&rig);
	assert_true(count_rendered(&rig) - before <= 2 * TURN_MOST);
	rig_close(&rig);
	rig_finish(&rig);
	metrics_destroy(metrics);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_page_is_rendered_in_many_turns),
		cmocka_unit_test(a_short_page_does_not_wait_for_long_ones),
		cmocka_unit_test(a_page_that_nobody_wants_any_more),
		cmocka_unit_test(a_stop_waits_for_pages),
		cmocka_unit_test(what_the_file_has_is_not_rendered),
		cmocka_unit_test(what_is_damaged_is_made_anew),
		cmocka_unit_test(nothing_is_rendered_for_who_has_left),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
