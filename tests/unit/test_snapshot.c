/* What of a producer's whole state is new. */
#include "holdfast/snapshot.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

/* --- a log that remembers ids --- */

struct log {
	json_t *messages; /* ids, in their order */
	json_t *calls;
	json_t *results;
	json_t *events;
	struct limits limits;
};

static bool has(const json_t *ids, const char *id)
{
	size_t i;
	json_t *held;
	json_array_foreach(ids, i, held) {
		if (strcmp(json_string_value(held), id) == 0) {
			return true;
		}
	}
	return false;
}

static bool known(void *ctx, enum snapshot_id kind, const char *id)
{
	const struct log *log = ctx;
	return has(kind == SNAPSHOT_MESSAGE     ? log->messages
		   : kind == SNAPSHOT_TOOL_CALL ? log->calls
						: log->results,
		id);
}

static const char *nth(void *ctx, size_t n)
{
	return json_string_value(json_array_get(((struct log *)ctx)->messages, n));
}

static void hold(json_t *ids, const char *id)
{
	if (id && !has(ids, id)) {
		json_array_append_new(ids, json_string(id));
	}
}

/** As the session would: it takes the events, and knows their ids from then on. */
static void take(struct log *log, const json_t *events)
{
	size_t i;
	json_t *event;
	json_array_foreach(events, i, event) {
		const char *type = json_string_value(json_object_get(event, "type"));
		const char *id = json_string_value(
			json_object_get(json_object_get(event, "data"), "tool_call_id"));
		hold(log->messages, json_string_value(json_object_get(event, "message_id")));
		hold(strcmp(type, "tool_call") == 0 ? log->calls : log->results, id);
		json_array_append(log->events, event);
	}
}

static int setup(void **state)
{
	struct log *log = calloc(1, sizeof(*log));
	log->messages = json_array();
	log->calls = json_array();
	log->results = json_array();
	log->events = json_array();
	log->limits = *limits_default();
	*state = log;
	return 0;
}

static int teardown(void **state)
{
	struct log *log = *state;
	json_decref(log->messages);
	json_decref(log->calls);
	json_decref(log->results);
	json_decref(log->events);
	free(log);
	return 0;
}

static json_t *json_of(const char *text)
{
	json_error_t error;
	json_t *json = json_loads(text, JSON_DECODE_ANY, &error);
	if (!json) {
		fail_msg("%s: %s", text, error.text);
	}
	return json;
}

static int match(struct log *log, const json_t *data, struct snapshot_match *ret, size_t *ret_bad,
	struct refusal *refusal)
{
	*refusal = (struct refusal){0};
	return snapshot_match(data, &log->limits,
		&(struct snapshot_log){.ctx = log, .known = known, .nth = nth}, ret, ret_bad,
		refusal);
}

/** Hands a snapshot over; gives the events that were new, which the log has taken. */
static json_t *hand_over(struct log *log, json_t *data)
{
	struct snapshot_match found;
	struct refusal refusal;
	size_t bad;
	if (match(log, data, &found, &bad, &refusal) < 0) {
		fail_msg(
			"message %zu: %s: %s", bad, error_code_text(refusal.code), refusal.message);
	}
	/* All that comes out is good to come in. */
	char *text = json_text(found.events, NULL);
	struct json_spans spans;
	assert_int_equal(json_spans_read(text, strlen(text), &spans), 0);
	json_span_each(event, spans.all) {
		struct input_event in;
		if (input_event_parse(event, &log->limits, &in, &refusal) < 0) {
			fail_msg("%s", refusal.message);
		}
		input_event_finish(&in);
	}
	json_spans_finish(&spans);
	free(text);
	take(log, found.events);
	json_decref(data);
	return found.events;
}

static void assert_added(struct log *log, const char *messages, const char *want)
{
	json_t *data = json_pack("{s:o}", "messages", json_of(messages));
	json_t *expected = json_of(want);
	json_t *events = hand_over(log, data);
	if (!json_equal(events, expected)) {
		fail_msg("want %s\n     got  %s", want, json_dumps(events, JSON_COMPACT));
	}
	json_decref(events);
	json_decref(expected);
}

/* --- what messages become --- */

static void blocks_become_events(void **state)
{
	assert_added(*state,
		"[{\"message_id\":\"u1\",\"role\":\"user\",\"content\":\"Look\"},"
		"{\"message_id\":\"a1\",\"role\":\"assistant\",\"model\":\"big\",\"stop_reason\":"
		"\"tool_use\","
		"\"usage\":{\"input_tokens\":9,\"mode\":\"x\",\"service_tier\":\"y\"},\"content\":["
		"{\"type\":\"thinking\",\"thinking\":\"Hm.\",\"signature\":\"s\"},"
		"{\"type\":\"redacted_thinking\",\"data\":\"x\"},"
		"{\"type\":\"text\",\"text\":\"Looking\"},{\"type\":\"text\",\"text\":\" at this\"},{\"type\":\"text\",\"text\":\"\"},"
		"{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"read\",\"input\":{\"path\":\"x\"}}"
		","
		"{\"type\":\"tool_use\",\"id\":\"t2\",\"name\":\"list\"},"
		"{\"type\":\"citation\"}]},"
		"{\"message_id\":\"u2\",\"role\":\"user\",\"content\":["
		"{\"type\":\"text\",\"text\":\"And\"},{\"type\":\"image\",\"n\":1},"
		"{\"type\":\"tool_result\",\"tool_use_id\":\"t1\",\"content\":\"text\"},"
		"{\"type\":\"tool_result\",\"tool_use_id\":\"t2\",\"is_error\":true,\"content\":[{"
		"\"type\":\"text\",\"text\":\"no\"}]},"
		"{\"type\":\"text\",\"text\":\"now?\"}]},"
		"{\"message_id\":\"a2\",\"role\":\"assistant\",\"stop_reason\":\"max_tokens\","
		"\"usage\":null,\"content\":\"So\"}]",
		"[{\"type\":\"user_prompt\",\"message_id\":\"u1\",\"data\":{\"message\":\"Look\"}},"
		"{\"type\":\"agent_thought_chunk\",\"message_id\":\"a1\",\"data\":{\"text\":\"Hm."
		"\"}},"
		"{\"type\":\"agent_message_chunk\",\"message_id\":\"a1\",\"data\":{\"text\":"
		"\"Looking\"}},"
		"{\"type\":\"agent_message_chunk\",\"message_id\":\"a1\",\"data\":{\"text\":\" at this\"}},"
		"{\"type\":\"tool_call\",\"message_id\":\"a1\",\"data\":{\"tool_call_id\":\"t1\","
		"\"title\":\"read\",\"name\":\"read\","
		"\"status\":\"pending\",\"raw_input\":{\"path\":\"x\"}}},"
		"{\"type\":\"tool_call\",\"message_id\":\"a1\",\"data\":{\"tool_call_id\":\"t2\","
		"\"title\":\"list\",\"name\":\"list\","
		"\"status\":\"pending\"}},"
		"{\"type\":\"x-content\",\"message_id\":\"a1\",\"data\":{\"role\":\"assistant\","
		"\"content\":{\"type\":\"citation\"}}},"
		"{\"type\":\"usage\",\"message_id\":\"a1\",\"data\":{\"input_tokens\":9,\"mode\":"
		"\"cumulative_in_message\","
		"\"service_tier\":\"y\",\"message_id\":\"a1\",\"model\":\"big\"}},"
		"{\"type\":\"tool_call_update\",\"message_id\":\"u2\",\"data\":{\"tool_call_id\":"
		"\"t1\",\"status\":\"completed\","
		"\"content\":[{\"type\":\"content\",\"content\":{\"type\":\"text\",\"text\":"
		"\"text\"}}]}},"
		"{\"type\":\"tool_call_update\",\"message_id\":\"u2\",\"data\":{\"tool_call_id\":"
		"\"t2\",\"status\":\"failed\","
		"\"content\":[{\"type\":\"content\",\"content\":{\"type\":\"text\",\"text\":\"no\"}"
		"}]}},"
		"{\"type\":\"user_prompt\",\"message_id\":\"u2\",\"data\":{\"message\":\"And\\nnow?"
		"\"}},"
		"{\"type\":\"x-content\",\"message_id\":\"u2\",\"data\":{\"role\":\"user\","
		"\"content\":{\"type\":\"image\",\"n\":1}}},"
		"{\"type\":\"agent_message_chunk\",\"message_id\":\"a2\",\"data\":{\"text\":\"So\"}"
		"},"
		"{\"type\":\"turn_end\",\"message_id\":\"a2\",\"data\":{\"stop_reason\":\"max_"
		"tokens\"}}]");
}

/* --- what is known --- */

static void what_was_streamed_live_is_known(void **state)
{
	json_t *live = json_of(
		"[{\"type\":\"agent_message_chunk\",\"message_id\":\"a1\",\"data\":{\"text\":"
		"\"Loo\"}},"
		"{\"type\":\"tool_call\",\"data\":{\"tool_call_id\":\"t1\",\"title\":\"x\"}}]");
	take(*state, live);
	json_decref(live);
	/* a1 and t1 are; t2 came since, and the result has not been told. */
	assert_added(*state,
		"[{\"message_id\":\"a1\",\"role\":\"assistant\",\"stop_reason\":\"end_turn\","
		"\"usage\":{\"t\":1},\"content\":["
		"{\"type\":\"thinking\",\"thinking\":\"Hm.\"},{\"type\":\"text\",\"text\":"
		"\"Looking\"},{\"type\":\"image\"},"
		"{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"x\"},{\"type\":\"tool_use\","
		"\"id\":\"t2\",\"name\":\"y\"}]},"
		"{\"message_id\":\"u1\",\"role\":\"user\",\"content\":[{\"type\":\"tool_result\","
		"\"tool_use_id\":\"t1\"}]}]",
		"[{\"type\":\"tool_call\",\"message_id\":\"a1\",\"data\":{\"tool_call_id\":\"t2\","
		"\"title\":\"y\",\"name\":\"y\","
		"\"status\":\"pending\"}},"
		"{\"type\":\"tool_call_update\",\"message_id\":\"u1\",\"data\":{\"tool_call_id\":"
		"\"t1\",\"status\":\"completed\",\"content\":[]}}]");
}

/** The `i`-th message of an agent at work: asked, thinks, talks, calls a tool, gets its result. */
static json_t *message(int i)
{
	char id[16];
	char call[16];
	snprintf(id, sizeof(id), "m%d", i);
	snprintf(call, sizeof(call), "t%d", i % 5 == 4 ? i - 1 : i);
	switch (i % 5) {
	case 0:
		return json_pack(
			"{s:s, s:s, s:s}", "message_id", id, "role", "user", "content", "Go on");
	case 1:
		return json_pack("{s:s, s:s, s:[{s:s, s:s}]}", "message_id", id, "role",
			"assistant", "content", "type", "thinking", "thinking", "Hm.");
	case 2:
		return json_pack("{s:s, s:s, s:[{s:s, s:s}]}", "message_id", id, "role",
			"assistant", "content", "type", "text", "text", "I look.\n");
	case 3:
		return json_pack("{s:s, s:s, s:[{s:s, s:s, s:s, s:{}}]}", "message_id", id, "role",
			"assistant", "content", "type", "tool_use", "id", call, "name", "read",
			"input");
	default:
		return json_pack("{s:s, s:s, s:[{s:s, s:s, s:s}]}", "message_id", id, "role",
			"user", "content", "type", "tool_result", "tool_use_id", call, "content",
			"It is so.");
	}
}

static json_t *first_messages(int count, int skip_first)
{
	json_t *messages = json_array();
	for (int i = 0; i < count; i++) {
		json_array_append_new(messages, message(i));
	}
	return skip_first < 0
		       ? json_pack("{s:o}", "messages", messages)
		       : json_pack("{s:o, s:i}", "messages", messages, "skip_first", skip_first);
}

/** Turn 1 appends 35 messages; turn 2 hands over all 69. */
static void a_second_turn_adds_its_own(void **state)
{
	struct log *log = *state;
	json_decref(hand_over(log, first_messages(35, -1)));
	assert_int_equal(json_array_size(log->events), 35);
	struct snapshot_match found;
	struct refusal refusal;
	size_t bad;
	json_t *all = first_messages(69, -1);
	assert_int_equal(match(log, all, &found, &bad, &refusal), 0);
	assert_int_equal(found.known, 35);
	assert_int_equal(found.added, 34);
	assert_int_equal(json_array_size(found.events), 34);
	take(log, found.events);
	json_decref(found.events);
	json_decref(all);
	for (int i = 0; i < 69; i++) {
		char id[16];
		snprintf(id, sizeof(id), "m%d", i);
		const json_t *event = json_array_get(log->events, (size_t)i);
		assert_string_equal(json_string_value(json_object_get(event, "message_id")), id);
	}
	assert_int_equal(json_array_size(log->calls), 14);
	/* And once more, as a retry would; with skip_first it is the same. */
	json_decref(hand_over(log, first_messages(69, -1)));
	json_decref(hand_over(log, first_messages(69, 69)));
	json_decref(hand_over(log, first_messages(69, 0)));
	assert_int_equal(json_array_size(log->events), 69);
}

/* --- skip_first --- */

static void skip_first_must_be_the_first(void **state)
{
	struct log *log = *state;
	json_decref(hand_over(log, first_messages(5, -1)));
	json_decref(hand_over(log, first_messages(7, 5)));
	assert_int_equal(json_array_size(log->events), 7);
	struct snapshot_match found;
	struct refusal refusal;
	size_t bad;
	/* More than the log has. */
	json_t *data = first_messages(9, 8);
	assert_int_equal(match(log, data, &found, &bad, &refusal), -EINVAL);
	assert_int_equal(refusal.code, ERROR_history_mismatch);
	assert_int_equal(bad, 7);
	assert_non_null(strstr(refusal.message, "no message"));
	/* One is missing in between. */
	json_array_remove(json_object_get(data, "messages"), 2);
	json_object_set_new(data, "skip_first", json_integer(4));
	assert_int_equal(match(log, data, &found, &bad, &refusal), -EINVAL);
	assert_int_equal(refusal.code, ERROR_history_mismatch);
	assert_int_equal(bad, 2);
	assert_non_null(strstr(refusal.message, "\"m2\""));
	assert_non_null(strstr(refusal.message, "\"m3\""));
	json_decref(data);
}

/** What they hold is not looked at: ids are enough. One that left no event may stand anywhere. */
static void skipped_messages_need_no_content(void **state)
{
	struct log *log = *state;
	json_decref(hand_over(log, first_messages(2, -1)));
	json_t *data = json_of(
		"{\"messages\":[{\"message_id\":\"m0\"},"
		"{\"message_id\":\"e\",\"role\":\"assistant\",\"content\":[]},"
		"{\"message_id\":\"m1\"},"
		"{\"message_id\":\"m2\",\"role\":\"user\",\"content\":\"x\"}],\"skip_first\":3}");
	json_t *events = hand_over(log, data);
	assert_int_equal(json_array_size(events), 1);
	json_decref(events);
}

/* --- hostile input --- */

#define M(id, rest)    "{\"message_id\":\"" id "\"," rest "}"
#define A(id, content) M(id, "\"role\":\"assistant\",\"content\":" content)

static void bad_snapshots_are_refused(void **state)
{
	static const struct {
		const char *data;
		enum error_code code;
		const char *words;
		size_t index;
	} table[] = {
		{"[]", ERROR_bad_request, "needs \"messages\"", SNAPSHOT_NO_INDEX},
		{"{}", ERROR_bad_request, "needs \"messages\"", SNAPSHOT_NO_INDEX},
		{"{\"messages\":{}}", ERROR_bad_request, "needs \"messages\"", SNAPSHOT_NO_INDEX},
		{"{\"messages\":[],\"skip_first\":1}", ERROR_bad_request, "skip_first must",
			SNAPSHOT_NO_INDEX},
		{"{\"messages\":[],\"skip_first\":-1}", ERROR_bad_request, "skip_first must",
			SNAPSHOT_NO_INDEX},
		{"{\"messages\":[],\"skip_first\":0.5}", ERROR_bad_request, "skip_first must",
			SNAPSHOT_NO_INDEX},
		{"{\"messages\":[],\"skip_first\":null}", ERROR_bad_request, "skip_first must",
			SNAPSHOT_NO_INDEX},
		{"{\"messages\":[7]}", ERROR_bad_request, "is an object", 0},
		{"{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", ERROR_missing_message_id,
			"stays the same", 0},
		{"{\"messages\":[" M("", "\"role\":\"user\"") "]}", ERROR_missing_message_id,
			"1 to 256", 0},
		{"{\"messages\":[{\"message_id\":7}]}", ERROR_missing_message_id, "a string", 0},
		{"{\"messages\":[" A("a", "\"x\"") "," A("b", "7") "," A("a", "\"x\"") "]}",
			ERROR_duplicate_message_id, "\"a\"", 2},
		{"{\"messages\":[" M("a", "\"role\":\"system\",\"content\":\"x\"") "]}",
			ERROR_unknown_role, "leave system", 0},
		{"{\"messages\":[" M("a", "\"content\":\"x\"") "]}", ERROR_unknown_role,
			"\"assistant\"", 0},
		{"{\"messages\":[" M("a", "\"role\":[],\"content\":\"x\"") "]}", ERROR_unknown_role,
			"\"assistant\"", 0},
		{"{\"messages\":[" M("a", "\"role\":\"user\"") "]}", ERROR_bad_request,
			"needs \"content\"", 0},
		{"{\"messages\":[" A("a", "\"x\"") "," A("b", "7") "]}", ERROR_bad_request,
			"needs \"content\"", 1},
		{"{\"messages\":[" A("a", "[7]") "]}", ERROR_bad_request, "each block", 0},
		{"{\"messages\":[" A("a", "[{\"type\":7}]") "]}", ERROR_bad_request, "each block",
			0},
		{"{\"messages\":[" A("a", "[{\"type\":\"text\"}]") "]}", ERROR_bad_request,
			"needs \"text\"", 0},
		{"{\"messages\":[" A("a", "[{\"type\":\"thinking\",\"thinking\":7}]") "]}",
			ERROR_bad_request, "needs \"thinking\"", 0},
		{"{\"messages\":[" A("a", "[{\"type\":\"tool_use\",\"name\":\"x\"}]") "]}",
			ERROR_bad_request, "needs \"id\"", 0},
		{"{\"messages\":[" A(
			 "a", "[{\"type\":\"tool_use\",\"id\":\"\",\"name\":\"x\"}]") "]}",
			ERROR_bad_request, "needs \"id\"", 0},
		{"{\"messages\":[" A("a", "[{\"type\":\"tool_use\",\"id\":\"t\"}]") "]}",
			ERROR_bad_request, "needs \"name\"", 0},
		{"{\"messages\":[" A("a", "[{\"type\":\"tool_result\"}]") "]}", ERROR_bad_request,
			"needs \"tool_use_id\"", 0},
		{"{\"messages\":[" A(
			 "a", "[{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"x\"}]") "," A("b",
			 "[{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"x\"}]") "]}",
			ERROR_duplicate_tool_use_id, "\"t\"", 1},
		{"{\"messages\":[" A("a", "[{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"x\"},{"
					  "\"type\":\"tool_result\","
					  "\"tool_use_id\":\"t\"},{\"type\":\"tool_result\",\"tool_"
					  "use_id\":\"t\"}]") "]}",
			ERROR_duplicate_tool_use_id, "two results", 0},
		{"{\"messages\":[" A(
			 "a", "[{\"type\":\"tool_result\",\"tool_use_id\":\"t\"}]") "]}",
			ERROR_unknown_tool_use, "\"t\"", 0},
		{"{\"messages\":[" A("a", "[{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"x\"},{"
					  "\"type\":\"tool_result\","
					  "\"tool_use_id\":\"t\",\"content\":7}]") "]}",
			ERROR_bad_request, "the content of a tool_result", 0},
		{"{\"messages\":[" A("a", "[{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"x\"},{"
					  "\"type\":\"tool_result\","
					  "\"tool_use_id\":\"t\",\"content\":[[]]}]") "]}",
			ERROR_bad_request, "the content of a tool_result", 0},
		{"{\"messages\":[" M(
			 "a", "\"role\":\"assistant\",\"content\":\"x\",\"stop_reason\":7") "]}",
			ERROR_bad_request, "stop_reason", 0},
		{"{\"messages\":[" M(
			 "a", "\"role\":\"assistant\",\"content\":\"x\",\"usage\":7") "]}",
			ERROR_bad_request, "an object", 0},
		{"{\"messages\":[" M(
			 "a", "\"role\":\"assistant\",\"content\":\"x\",\"usage\":{\"t\":-1}") "]}",
			ERROR_bad_request, "from 0", 0},
		{"{\"messages\":[" M("a",
			 "\"role\":\"assistant\",\"content\":\"x\",\"usage\":{},\"model\":7") "]}",
			ERROR_bad_request, "\"model\"", 0},
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		json_t *data = json_of(table[i].data);
		struct snapshot_match found;
		struct refusal refusal;
		size_t bad = 77;
		assert_int_equal(match(*state, data, &found, &bad, &refusal), -EINVAL);
		if (refusal.code != table[i].code || bad != table[i].index ||
			!strstr(refusal.message, table[i].words)) {
			fail_msg("%s: %zu: %s: %s", table[i].data, bad,
				error_code_text(refusal.code), refusal.message);
		}
		json_decref(data);
	}
}

static void a_snapshot_is_bounded(void **state)
{
	struct log *log = *state;
	struct snapshot_match found;
	struct refusal refusal;
	size_t bad;
	log->limits.batch_events = 10;
	json_t *many = first_messages(11, -1);
	assert_int_equal(match(log, many, &found, &bad, &refusal), -EINVAL);
	assert_int_equal(refusal.code, ERROR_too_large);
	json_decref(many);
	json_decref(hand_over(log, first_messages(10, -1)));
	/* Few messages with much in them; and an id as long as an id may be, and longer. */
	json_t *data = json_of("{\"messages\":[" A("a", "[]") "]}");
	json_t *first = json_array_get(json_object_get(data, "messages"), 0);
	json_t *content = json_object_get(first, "content");
	for (int i = 0; i < 11; i++) {
		json_array_append_new(
			content, json_pack("{s:s, s:s}", "type", "text", "text", "x"));
	}
	assert_int_equal(match(log, data, &found, &bad, &refusal), -EINVAL);
	assert_int_equal(refusal.code, ERROR_too_large);
	assert_int_equal(bad, 0);
	json_array_remove(content, 0);
	char id[MESSAGE_ID_MAX + 2] = {0};
	memset(id, 'i', MESSAGE_ID_MAX + 1);
	json_object_set_new(first, "message_id", json_string(id));
	assert_int_equal(match(log, data, &found, &bad, &refusal), -EINVAL);
	assert_int_equal(refusal.code, ERROR_missing_message_id);
	json_object_set_new(first, "message_id", json_string(id + 1));
	json_decref(hand_over(log, data));
	assert_int_equal(json_array_size(log->events), 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(blocks_become_events, setup, teardown),
		cmocka_unit_test_setup_teardown(what_was_streamed_live_is_known, setup, teardown),
		cmocka_unit_test_setup_teardown(a_second_turn_adds_its_own, setup, teardown),
		cmocka_unit_test_setup_teardown(skip_first_must_be_the_first, setup, teardown),
		cmocka_unit_test_setup_teardown(skipped_messages_need_no_content, setup, teardown),
		cmocka_unit_test_setup_teardown(bad_snapshots_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(a_snapshot_is_bounded, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
