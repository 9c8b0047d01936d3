/* Events: their line in events.jsonl, which must be told from every other, and their formats. */
#include "holdfast/event.h"

#include "holdfast/event_search.h"
#include "holdfast/markdown_html.h"
#include "holdfast/utf8.h"

#include "corpus.h"
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
	event = make(EVENT_AGENT_MESSAGE, NULL, NULL,
		"{\"markdown\":\"1. b\\n\",\"continues\":4,\"start\":12}");
	assert_format(event, FORMAT_HTML,
		"{\"html\":\"<ol start=\\\"12\\\">\\n<li>b</li>\\n</ol>\\n\",\"continues\":4}");
	event_unref(event);
	event = make(EVENT_AGENT_MESSAGE, NULL, NULL,
		"{\"markdown\":\"1. b\\n\",\"continues\":4,\"start\":\"12\"}");
	assert_format(
		event, FORMAT_HTML, "{\"html\":\"<ol>\\n<li>b</li>\\n</ol>\\n\",\"continues\":4}");
	event_unref(event);
	event = make(EVENT_TOOL_CALL, NULL, NULL, "{\"markdown\":\"not text\"}");
	assert_format(event, FORMAT_HTML, "{\"markdown\":\"not text\"}");
	event_unref(event);
	(void)state;
}

/* --- the formats are made from bytes: the same as from a tree --- */

static char *from_tree(struct event *event, enum event_format format)
{
	size_t len;
	const char *json = event_json(event, FORMAT_MARKDOWN, &len);
	json_t *root = json_loadb(json, len, 0, NULL);
	json_t *data = json_object_get(root, "data");
	const json_t *markdown = json_object_get(data, "markdown");
	const json_t *context = json_object_get(data, "context");
	struct buffer html = {0};
	markdown_to_html(
		&(struct markdown){.context = context ? json_string_value(context) : "",
			.context_len = json_string_length(context),
			.text = json_string_value(markdown),
			.len = json_string_length(markdown),
			.start = (uint32_t)json_integer_value(json_object_get(data, "start"))},
		&html);
	json_object_set_new(data, "html", json_stringn(html.data ? html.data : "", html.len));
	if (format == FORMAT_HTML) {
		json_object_del(data, "markdown");
		json_object_del(data, "context");
		json_object_del(data, "start");
	}
	char *text = json_dumps(root, JSON_COMPACT);
	buffer_finish(&html);
	json_decref(root);
	return text;
}

/** jansson writes some control characters in another way: \\b for \\u0008, 7f as it is. */
static bool has_controls(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (((unsigned char)text[i] < 0x20 && !strchr("\n\r\t", text[i])) ||
			text[i] == 0x7f) {
			return true;
		}
	}
	return false;
}

static void compare_formats(const char *text, size_t len, const char *context, const char *more)
{
	struct buffer data = {0};
	buffer_append_str(&data, "{\"markdown\":");
	buffer_append_json(&data, text, len);
	if (context) {
		buffer_append_str(&data, ",\"continues\":4,\"context\":");
		buffer_append_json(&data, context, strlen(context));
	}
	buffer_append_str(&data, more);
	struct event *event =
		make(EVENT_AGENT_MESSAGE, NULL, "m \"1\" \\ \xc3\xa9", buffer_cstr(&data));
	for (enum event_format format = FORMAT_HTML; format <= FORMAT_BOTH; format++) {
		size_t json_len;
		const char *json = event_json(event, format, &json_len);
		char *want = from_tree(event, format);
		if (has_controls(text, len)) {
			json_t *a = json_loadb(json, json_len, 0, NULL);
			json_t *b = json_loads(want, 0, NULL);
			assert_true(a && json_equal(a, b));
			json_decref(a);
			json_decref(b);
		} else {
			assert_int_equal(json_len, strlen(want));
			assert_memory_equal(json, want, json_len);
		}
		free(want);
	}
	event_unref(event);
	buffer_finish(&data);
}

/** Whole, and in pieces of every kind that may be cut out of it. */
static void compare_text(void *arg, const char *name, const char *text, size_t len)
{
	size_t *pieces = arg;
	(void)name;
	if (!utf8_is_valid(text, len) || memchr(text, 0, len)) {
		return;
	}
	compare_formats(text, len < 65536 ? utf8_floor(text, len, len) : 0, NULL, "}");
	for (size_t at = 0; at < len && *pieces < 20000; (*pieces)++) {
		const char *blank = memmem(text + at, len - at, "\n\n", 2);
		size_t end = blank ? (size_t)(blank - text) + 1 : len;
		size_t n = end - at < 8192 ? end - at : utf8_floor(text + at, len - at, 8192);
		compare_formats(text + at, n, *pieces % 3 ? NULL : "```c\n",
			*pieces % 2 ? "}" : ",\"recovered\":true}");
		at += n;
	}
}

static void formats_of_the_corpus_are_those_of_a_tree(void **state)
{
	size_t pieces = 0;
	assert_true(corpus_each("markdown", compare_text, &pieces) > 0);
	assert_true(corpus_each("streams", compare_text, &pieces) > 0);
	assert_true(corpus_each("acp", compare_text, &pieces) > 0);
	assert_true(pieces > 100);
	(void)state;
}

static void formats_of_hostile_text_are_those_of_a_tree(void **state)
{
	static const char *const parts[] = {"\"", "\\", "\\u0041", "\b", "\f", "\x01", "\x1f",
		"\x7f", "\r\n", "\n\n", "\t", "/", "</script>", "**", "`", "\xe2\x80\xa8",
		"\xf0\x9f\x98\x80", "\",\"context\":\"", "{", "}}", "[", "a", " ", "<b>", "&amp;"};
	struct random r = {23};
	for (int round = 0; round < 5000; round++) {
		struct buffer text = {0};
		for (uint32_t n = random_below(&r, 12); n; n--) {
			buffer_append_str(
				&text, parts[random_below(&r, sizeof(parts) / sizeof(parts[0]))]);
		}
		const char *context = round % 2 ? NULL : round % 3 ? "" : "~~~ \"x\\\n";
		compare_formats(buffer_cstr(&text), text.len, context, "}");
		buffer_finish(&text);
	}
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

/** A type of a newer program: nobody knows what it shows. */
static void an_unknown_type_is_hidden(void **state)
{
	struct buffer line = {0};
	struct event *made = make(EVENT_CUSTOM, "new_type", NULL, "{\"a\":1}");
	event_append_line(made, &line);
	struct event *read;
	assert_int_equal(event_from_line(line.data, line.len - 1, &read), 0);
	assert_int_equal(read->type, EVENT_UNKNOWN);
	assert_int_equal(event_hides(read, HIDE_TOOLS), HIDE_TOOLS);
	assert_int_equal(event_hides(read, HIDE_THOUGHTS), HIDE_THOUGHTS);
	size_t len;
	const char *shown = event_json_for(read, FORMAT_MARKDOWN, HIDE_TOOLS, &len);
	assert_non_null(memmem(shown, len, "\"data\":{}", 9));
	assert_non_null(memmem(shown, len, "\"type\":\"new_type\"", 17));
	event_unref(read);
	event_unref(made);
	buffer_finish(&line);
	(void)state;
}

static void assert_found(const char *data, bool is_found)
{
	struct buffer snippet = {0};
	struct needle *needle = needle_create("wanted", 6);
	struct event_view view = {
		.type = EVENT_TOOL_CALL_UPDATE, .data = data, .data_len = strlen(data)};
	assert_int_equal(event_search(&view, needle, &snippet), is_found);
	needle_destroy(needle);
	buffer_finish(&snippet);
}

/** What tools have printed and changed is found by the names that events have. */
static void a_tools_output_is_found(void **state)
{
	assert_found("{\"tool_call_id\":\"1\",\"raw_output\":\"it was wanted\"}", true);
	assert_found("{\"raw_output\":{\"stdout\":\"wanted\"}}", true);
	assert_found("{\"content\":[{\"type\":\"diff\",\"path\":\"/a\",\"new_text\":\"wanted\"}]}",
		true);
	assert_found("{\"content\":[{\"type\":\"diff\",\"path\":\"/a\",\"old_text\":\"wanted\"}]}",
		true);
	assert_found("{\"tool_call_id\":\"wanted\",\"status\":\"wanted\"}", false);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_comes_back),
		cmocka_unit_test(a_spoilt_line_is_refused),
		cmocka_unit_test(odd_shapes_do_no_harm),
		cmocka_unit_test(messages_have_three_formats),
		cmocka_unit_test(formats_of_the_corpus_are_those_of_a_tree),
		cmocka_unit_test(formats_of_hostile_text_are_those_of_a_tree),
		cmocka_unit_test(names_and_types_fit),
		cmocka_unit_test(an_unknown_type_is_hidden),
		cmocka_unit_test(a_tools_output_is_found),
	};
	return cmocka_run_group_tests_name("event", tests, NULL, NULL);
}
