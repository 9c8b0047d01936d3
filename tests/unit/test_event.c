/* Events: their line in events.jsonl, which must be told from every other, and their formats. */
#include "holdfast/event.h"

#include "random.h"

#include <errno.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

static struct event *make(
	enum event_type type, const char *type_name, const char *message_id, const char *data)
{
	return event_create(&(struct event_view){.seq = 7,
		.type = type,
		.type_name = type_name,
		.type_len = type_name ? strlen(type_name) : 0,
		.ts = 1763620000040,
		.turn = 3,
		.message_id = message_id,
		.message_id_len = message_id ? strlen(message_id) : 0,
		.data = data,
		.data_len = strlen(data)});
}

static void a_line_comes_back(void **state)
{
	static const struct {
		enum event_type type;
		const char *name;
		const char *message_id;
		const char *data;
	} cases[] = {
		{EVENT_PLAN, NULL, NULL, "{\"entries\":[]}"},
		{EVENT_AGENT_MESSAGE, NULL, "m \"1\" \\ é",
			"{\"markdown\":\"a\\n\\\"data\\\":{\"}"},
		{EVENT_CUSTOM, "x-build:1.2", NULL, "{}"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct event *event =
			make(cases[i].type, cases[i].name, cases[i].message_id, cases[i].data);
		struct event *again;
		struct event_view view;
		struct buffer line = {0};
		event_append_line(event, &line);
		assert_int_equal(line.data[line.len - 1], '\n');
		assert_int_equal(event_parse_line(line.data, line.len - 1, &view), 0);
		assert_int_equal(view.seq, 7);
		assert_int_equal(view.type, cases[i].type);
		assert_int_equal(view.ts, 1763620000040);
		assert_int_equal(view.turn, 3);
		assert_int_equal(view.message_id != NULL, cases[i].message_id != NULL);
		assert_int_equal(view.data_len, strlen(cases[i].data));
		assert_memory_equal(view.data, cases[i].data, view.data_len);
		assert_int_equal(event_from_line(line.data, line.len - 1, &again), 0);
		assert_int_equal(
			again->json_len[FORMAT_MARKDOWN], event->json_len[FORMAT_MARKDOWN]);
		assert_memory_equal(again->json[FORMAT_MARKDOWN], event->json[FORMAT_MARKDOWN],
			event->json_len[FORMAT_MARKDOWN]);
		event_unref(event);
		event_unref(again);
		buffer_finish(&line);
	}
	(void)state;
}

static void a_spoilt_line_is_refused(void **state)
{
	struct event *event =
		make(EVENT_TOOL_CALL, NULL, "m", "{\"tool_call_id\":\"t\",\"title\":\"T\"}");
	struct event_view view;
	struct buffer line = {0};
	event_append_line(event, &line);
	size_t len = line.len - 1;
	for (size_t at = 0; at < len; at++) {
		assert_int_equal(event_parse_line(line.data, at, &view), -EBADMSG);
		for (int bit = 0; bit < 8; bit++) {
			line.data[at] = (char)(line.data[at] ^ (1 << bit));
			assert_int_equal(event_parse_line(line.data, len, &view), -EBADMSG);
			line.data[at] = (char)(line.data[at] ^ (1 << bit));
		}
	}
	assert_int_equal(event_parse_line(line.data, len, &view), 0);
	event_unref(event);
	buffer_finish(&line);
	(void)state;
}

/** A good checksum over a bad shape: the parser reads no further than the line. */
static void odd_shapes_do_no_harm(void **state)
{
	struct random r = {11};
	static const char *const parts[] = {"{\"seq\":", "1", ",\"type\":", "\"plan\"", "\"",
		",\"ts\":", "2", ",\"turn\":", ",\"message_id\":", "\"m\\", ",\"data\":", "{}",
		"99999999999999999999999"};
	for (int round = 0; round < 20000; round++) {
		struct event odd = {.refs = 1};
		struct buffer json = {0};
		struct buffer line = {0};
		struct event_view view;
		for (uint32_t n = random_below(&r, 14); n; n--) {
			buffer_append_str(&json, parts[random_below(&r, 13)]);
		}
		buffer_append_char(&json, '}');
		odd.json[FORMAT_MARKDOWN] = json.data;
		odd.json_len[FORMAT_MARKDOWN] = json.len;
		event_append_line(&odd, &line);
		char *exact = xmalloc(line.len - 1);
		memcpy(exact, line.data, line.len - 1);
		int r2 = event_parse_line(exact, line.len - 1, &view);
		assert_true(r2 == 0 || r2 == -EBADMSG);
		free(exact);
		buffer_finish(&json);
		buffer_finish(&line);
	}
	(void)state;
}

static void assert_format(struct event *event, enum event_format format, const char *want)
{
	size_t len;
	const char *json = event_json(event, format, &len);
	json_t *root = json_loadb(json, len, 0, NULL);
	json_t *data = json_loads(want, 0, NULL);
	assert_non_null(data);
	if (!json_equal(json_object_get(root, "data"), data)) {
		fail_msg("%.*s", (int)len, json);
	}
	assert_ptr_equal(event_json(event, format, &len), json); /* made once */
	json_decref(root);
	json_decref(data);
}

static void messages_have_three_formats(void **state)
{
	struct event *event =
		make(EVENT_AGENT_MESSAGE, NULL, NULL, "{\"markdown\":\"a **b**\\n\"}");
	assert_format(event, FORMAT_MARKDOWN, "{\"markdown\":\"a **b**\\n\"}");
	assert_format(event, FORMAT_HTML, "{\"html\":\"<p>a <strong>b</strong></p>\\n\"}");
	assert_format(event, FORMAT_BOTH,
		"{\"markdown\":\"a **b**\\n\",\"html\":\"<p>a <strong>b</strong></p>\\n\"}");
	event_unref(event);
	event = make(EVENT_AGENT_MESSAGE, NULL, NULL,
		"{\"markdown\":\"x < y\\n```\\n\",\"continues\":4,\"context\":\"```\\n\"}");
	assert_format(event, FORMAT_HTML,
		"{\"html\":\"<pre><code>x &lt; y\\n</code></pre>\\n\",\"continues\":4}");
	event_unref(event);
	event = make(EVENT_TOOL_CALL, NULL, NULL, "{\"markdown\":\"not text\"}");
	assert_format(event, FORMAT_HTML, "{\"markdown\":\"not text\"}");
	event_unref(event);
	(void)state;
}

static void names_and_types_fit(void **state)
{
	for (enum event_type type = 0; type < EVENT_UNKNOWN; type++) {
		const char *name = event_type_name(type);
		assert_true(type == EVENT_CUSTOM || event_type_of(name, strlen(name)) == type);
	}
	assert_int_equal(event_type_of("x-a", 3), EVENT_CUSTOM);
	assert_int_equal(event_type_of("x-", 2), EVENT_UNKNOWN);
	assert_int_equal(event_type_of("", 0), EVENT_UNKNOWN);
	assert_int_equal(event_type_of("plans", 5), EVENT_UNKNOWN);
	assert_int_equal(event_type_of("plans", 4), EVENT_PLAN);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_comes_back),
		cmocka_unit_test(a_spoilt_line_is_refused),
		cmocka_unit_test(odd_shapes_do_no_harm),
		cmocka_unit_test(messages_have_three_formats),
		cmocka_unit_test(names_and_types_fit),
	};
	return cmocka_run_group_tests_name("event", tests, NULL, NULL);
}
