/*
 * Pages of HTML that have to be read from disk: rendered when they are given out, in small parts,
 * and in turn with other pages.
 */
#include "rig.h"

#include "holdfast/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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

static void handle_read(void *arg, int status, struct event **events, size_t count)
{
	struct reader *reader = arg;
	assert_int_equal(status, 0);
	reader->came = true;
	reader->count = count;
	for (size_t i = 0; i < count; i++) {
		reader->rendered += events[i]->json[reader->format] != NULL;
		event_unref(events[i]);
	}
}

static struct session *fill(struct rig *rig)
{
	rig_init(rig);
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
	struct session *session = fill(&rig);
	struct reader reader;
	for (enum event_format format = FORMAT_HTML; format <= FORMAT_BOTH; format++) {
		begin(&reader, session, 1, 500, format);
		while (!reader.came) {
			turn(&rig, &reader, 1);
		}
		assert_int_equal(reader.count, 500);
		assert_int_equal(reader.rendered, 500);
		assert_true(reader.turns >= 500 / TURN_MOST);
	}
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
	struct session *session = fill(&rig);
	struct reader readers[4];
	for (size_t i = 0; i < 3; i++) {
		begin(&readers[i], session, 1, 500, FORMAT_HTML);
	}
	begin(&readers[3], session, 1, 10, FORMAT_HTML);
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
	struct session *session = fill(&rig);
	for (int after = 0; after < 30; after++) {
		struct reader readers[2];
		begin(&readers[0], session, 1, 500, FORMAT_HTML);
		begin(&readers[1], session, 1, 100, FORMAT_HTML);
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
	struct session *session = fill(&rig);
	struct reader readers[2];
	begin(&readers[0], session, 1, 500, FORMAT_HTML);
	begin(&readers[1], session, 1, 500, FORMAT_HTML);
	log_read_cancel(readers[0].read);
	rig_close(&rig);
	assert_false(readers[0].came);
	assert_true(readers[1].came);
	rig_finish(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_page_is_rendered_in_many_turns),
		cmocka_unit_test(a_short_page_does_not_wait_for_long_ones),
		cmocka_unit_test(a_page_that_nobody_wants_any_more),
		cmocka_unit_test(a_stop_waits_for_pages),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
