/* Frames, requests and events: against proto/golden, and against what no client should send. */
#include "corpus.h"
#include "random.h"

#include "holdfast/frames.h"
#include "holdfast/requests.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define EPOCH 0x9f2c41d07ab3e865u

/* --- golden requests --- */

/** A refusal has a code and words, and both can be sent. */
static void check_refusal(const struct refusal *refusal)
{
	assert_int_not_equal(refusal->code, ERROR_NONE);
	assert_true(refusal->message[0]);
	struct frame *frame = frame_error(refusal->code, refusal->message, refusal->request, NULL);
	json_t *json = json_loadb(frame_text(frame), frame_len(frame), 0, NULL);
	if (!json) {
		print_error("not JSON: %.*s\n", (int)frame_len(frame), frame_text(frame));
	}
	assert_non_null(json);
	json_decref(json);
	frame_unref(frame);
}

static int parse_input(const struct json_span *json, struct refusal *refusal)
{
	struct input_event event;
	*refusal = (struct refusal){0};
	int r = input_event_parse(json, limits_default(), &event, refusal);
	if (r == 0) {
		input_event_finish(&event);
	}
	return r;
}

/** A frame with everything in it: of an append, the events too. */
static int parse_frame(
	enum request_side side, const char *text, size_t len, struct refusal *refusal)
{
	struct request request;
	int r = request_parse(text, len, limits_default(), side, NULL, &request, refusal);
	if (r < 0) {
		return r;
	}
	if (request.type == REQUEST_APPEND) {
		const struct json_span *event = request.append.events;
		for (size_t i = 0; i < request.append.count; i++, event = json_span_next(event)) {
			r = r < 0 ? r : parse_input(event, refusal);
		}
	}
	request_finish(&request);
	return r;
}

struct expectation {
	enum request_side side;
	bool is_input; /* an input event and no frame */
	bool good;
};

static void visit_request(void *arg, const char *name, const char *text, size_t len)
{
	const struct expectation *want = arg;
	struct refusal refusal = {0};
	int r;
	if (want->is_input) {
		struct json_spans spans = {0};
		r = json_spans_parse(text, len, &spans, &refusal);
		r = r < 0 ? r : parse_input(spans.all, &refusal);
		json_spans_finish(&spans);
	} else {
		r = parse_frame(want->side, text, len, &refusal);
	}
	if ((r == 0) != want->good) {
		fail_msg("%s: %s", name, r == 0 ? "is taken" : refusal.message);
	}
	if (!want->good) {
		check_refusal(&refusal);
	}
}

static void golden_requests_are_taken_and_invalid_ones_refused(void **state)
{
	static const struct {
		const char *folder;
		struct expectation want;
	} cases[] = {
		{"client", {.side = SIDE_OBSERVER, .good = true}},
		{"from-producer", {.side = SIDE_PRODUCER, .good = true}},
		{"input", {.is_input = true, .good = true}},
		{"invalid/client", {.side = SIDE_OBSERVER}},
		{"invalid/from-producer", {.side = SIDE_PRODUCER}},
		{"invalid/input", {.is_input = true}},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct expectation want = cases[i].want;
		assert_true(golden_each(cases[i].folder, visit_request, &want) > 2);
	}
	(void)state;
}

static void what_a_request_says_arrives(void **state)
{
	static const char load[] = "{\"type\":\"load_events\",\"data\":{\"after_seq\":41,"
				   "\"epoch\":\"9f2c41d07ab3e865\",\"limit\":500,\"follow\":true}}";
	static const char alive[] =
		"{\"type\":\"keepalive\",\"data\":{\"client_time\":1763620001234.5}}";
	struct request request;
	struct refusal refusal;
	assert_int_equal(request_parse(load, sizeof(load) - 1, limits_default(), SIDE_OBSERVER,
				 NULL, &request, &refusal),
		0);
	assert_int_equal(request.load.from, LOAD_AFTER);
	assert_int_equal(request.load.seq, 41);
	assert_int_equal(request.load.limit, 500);
	assert_true(request.load.follow && request.load.has_epoch && request.load.epoch == EPOCH);
	request_finish(&request);
	assert_int_equal(request_parse(alive, sizeof(alive) - 1, limits_default(), SIDE_OBSERVER,
				 NULL, &request, &refusal),
		0);
	assert_string_equal(request.keepalive.client_time, "1763620001234.5");
	request_finish(&request);
	(void)state;
}

/* --- golden frames --- */

struct written {
	const char *name;
	struct frame *frame;
	bool found;
};

static void visit_golden_frame(void *arg, const char *name, const char *text, size_t len)
{
	for (struct written *written = arg; written->name; written++) {
		if (strcmp(written->name, name) != 0) {
			continue;
		}
		json_t *want = json_loadb(text, len, 0, NULL);
		json_t *got = json_loadb(frame_text(written->frame), frame_len(written->frame),
			JSON_REJECT_DUPLICATES, NULL);
		if (!json_equal(want, got)) {
			fail_msg("%s: %.*s", name, (int)frame_len(written->frame),
				frame_text(written->frame));
		}
		json_decref(want);
		json_decref(got);
		written->found = true;
	}
}

/** The frames of a NULL-terminated list must be what the folder's files say. */
static void compare(const char *folder, struct written *list)
{
	assert_true(golden_each(folder, visit_golden_frame, list) > 0);
	for (; list->name; list++) {
		if (!list->found) {
			fail_msg("there is no %s/%s", folder, list->name);
		}
		frame_unref(list->frame);
	}
}

static const struct session_status running = {
	.is_prompting = true, .is_running = true, .status = "running"};
static const struct session_status idle = {.status = "idle"};

static struct event *make_event(
	uint64_t seq, enum event_type type, int64_t ts, const char *message_id, const char *data)
{
	return event_create(&(struct event_view){.seq = seq,
		.type = type,
		.ts = ts,
		.turn = 1,
		.message_id = message_id,
		.message_id_len = message_id ? strlen(message_id) : 0,
		.data = data,
		.data_len = strlen(data)});
}

static void make_three(struct event *events[3])
{
	events[0] = make_event(1, EVENT_USER_PROMPT, 1763620000040, NULL,
		"{\"message\":\"Show me the tour\",\"prompt_id\":\"p-1\",\"client_id\":\"a1b2c3d4e5f60718\"}");
	events[1] = make_event(2, EVENT_AGENT_THOUGHT, 1763620000080, "m-1",
		"{\"text\":\"The user wants to see everything.\"}");
	events[2] = make_event(3, EVENT_AGENT_MESSAGE, 1763620000120, "m-1",
		"{\"markdown\":\"Here is the **tour**.\"}");
}

static struct frame *loaded(struct event **events, size_t count, const struct loaded_frame *more)
{
	struct loaded_frame in = *more;
	in.events = events;
	in.count = count;
	in.max_seq = count ? 3 : 0;
	in.first_kept_seq = 1;
	in.format = FORMAT_HTML;
	in.epoch = EPOCH;
	in.is_prompting = count > 0;
	return frame_events_loaded(&in);
}

static void pages_are_as_the_golden_ones(void **state)
{
	struct event *e[3];
	make_three(e);
	struct written list[] = {
		{"events_loaded.json", loaded(e, 3, &(struct loaded_frame){0}), false},
		{"events_loaded.empty.json", loaded(NULL, 0, &(struct loaded_frame){0}), false},
		{"events_loaded.more.json", loaded(e, 2, &(struct loaded_frame){.has_more = true}),
			false},
		{"events_loaded.prepend.json",
			loaded(e, 2, &(struct loaded_frame){.prepend = true}), false},
		{"events_loaded.reset_ahead.json",
			loaded(e, 3, &(struct loaded_frame){.reset = "ahead"}), false},
		{"events_loaded.open_text.json",
			loaded(e, 3,
				&(struct loaded_frame){.open = {.seq = 4,
							       .type = EVENT_AGENT_MESSAGE,
							       .text = "- one\n- tw",
							       .len = 10}}),
			false},
		{NULL, NULL, false},
	};
	compare("server", list);
	for (size_t i = 0; i < 3; i++) {
		event_unref(e[i]);
	}
	(void)state;
}

static struct prompt_queue *queue_of(const char *first, const char *second)
{
	struct prompt_queue *one =
		prompt_queue_with(NULL, 0, queued_prompt_create(first, strlen(first)));
	if (!second) {
		return one;
	}
	struct prompt_queue *two =
		prompt_queue_with(one, 1, queued_prompt_create(second, strlen(second)));
	prompt_queue_unref(one);
	return two;
}

static struct frame *activity(uint64_t seq, const char *type, const char *data)
{
	struct buffer shown = {0};
	frames_append_activity(&shown, seq, type, strlen(type), data, data ? strlen(data) : 0);
	struct frame *frame = frame_make("activity", shown.data, shown.len);
	buffer_finish(&shown);
	return frame;
}

static void frames_are_as_the_golden_ones(void **state)
{
	static const char tests[] = "{\"message\":\"Then the tests\",\"prompt_id\":\"p-2\","
				    "\"client_id\":\"a1b2c3d4e5f60718\"}";
	static const char picture[] = "{\"message\":\"And a picture\",\"prompt_id\":\"p-3\","
				      "\"client_id\":\"f00dfeed\",\"edited\":true}";
	struct buffer lengthy = {0};
	buffer_append_str(&lengthy, "{\"message\":\"");
	for (int i = 0; i < 301; i++) {
		buffer_append_char(&lengthy, 'x');
	}
	buffer_append_str(&lengthy, "\",\"prompt_id\":\"p-4\",\"client_id\":\"f00dfeed\"}");
	struct prompt_queue *one = queue_of(tests, NULL);
	struct prompt_queue *two = queue_of(tests, picture);
	struct prompt_queue *cut = queue_of(picture, buffer_cstr(&lengthy));
	struct session_status busy = running;
	busy.queue_length = 2;
	busy.queue = cut;
	struct session_status waiting = {.is_prompting = true,
		.is_running = true,
		.queue_length = 1,
		.queue = one,
		.status = "waiting",
		.usage = "{\"used\":1834,\"size\":200000}"};
	struct connected_frame connected = {.session_id = "demo-1",
		.labels = {.title = "A demo"},
		.client_id = "a1b2c3d4e5f60718",
		.role = "controller",
		.epoch = EPOCH,
		.max_seq = 3,
		.status = running,
		.last_prompt_id = "p-1",
		.last_prompt_seq = 1,
		.agent_state = {.seqs = {2}}};
	struct connected_frame hiding = connected;
	hiding.role = "observer";
	hiding.hide = HIDE_ALL;
	struct connected_frame fresh = {.session_id = "demo-1",
		.labels = {.title = "A demo"},
		.client_id = "a1b2c3d4e5f60718",
		.role = "controller",
		.epoch = EPOCH,
		.status = idle};
	static const char path[] = "{\"path\":\"README.md\"}";
	static const char html[] = "<ul>\n<li>one</li>\n<li>two</li>\n</ul>\n";
	struct written list[] = {
		{"connected.json", frame_connected(&connected), false},
		{"connected.new_session.json", frame_connected(&fresh), false},
		{"delta.json", frame_delta(4, EVENT_AGENT_MESSAGE, 10, "o\n- thr", 7), false},
		{"preview.json", frame_preview(4, EVENT_AGENT_MESSAGE, html, strlen(html)), false},
		{"activity.file.json", activity(6, "file_read", path), false},
		{"activity.redacted.json", activity(5, "tool_call", NULL), false},
		{"connected.hide.json", frame_connected(&hiding), false},
		{"state.hide.json", frame_state(&waiting, HIDE_TOOLS), false},
		{"state.json", frame_state(&waiting, HIDE_NOTHING), false},
		{"state.idle.json", frame_state(&idle, HIDE_NOTHING), false},
		{"keepalive_ack.json",
			frame_keepalive_ack(
				"1763620001234.5", 1763620001250, 5, EPOCH, &running, HIDE_NOTHING),
			false},
		{"keepalive_ack.no_time.json",
			frame_keepalive_ack(NULL, 1763620001250, 0, EPOCH, &idle, HIDE_NOTHING),
			false},
		{"prompt_received.json", frame_prompt_received("p-1", 1, false), false},
		{"prompt_received.duplicate.json", frame_prompt_received("p-1", 1, true), false},
		{"prompt_received.queued.json", frame_prompt_received("p-2", 0, false), false},
		{"prompt_received.removed.json", frame_prompt_was_removed("p-2"), false},
		{"state.queue.json", frame_state(&busy, HIDE_NOTHING), false},
		{"prompts.json", frame_prompts(two, 2, 1000), false},
		{"prompts.none.json", frame_prompts(NULL, 0, 1000), false},
		{"prompt_edited.json", frame_prompt_edited("p-2"), false},
		{"prompt_removed.json", frame_prompt_removed("p-2", false), false},
		{"prompt_removed.duplicate.json", frame_prompt_removed("p-2", true), false},
		{"session_gone.deleted.json", frame_session_gone("demo-1", "deleted"), false},
		{NULL, NULL, false},
	};
	compare("server", list);
	prompt_queue_unref(one);
	prompt_queue_unref(two);
	prompt_queue_unref(cut);
	buffer_finish(&lengthy);
	(void)state;
}

static void acks_are_as_the_golden_ones(void **state)
{
	struct append_ack three[] = {{4, false}, {4, false}, {5, false}};
	struct append_ack none[] = {{0, false}};
	struct append_ack two[] = {{4, false}, {5, false}};
	const struct snapshot_counts some = {.known = 2, .added = 1};
	const struct snapshot_counts all = {.known = 3};
	struct written list[] = {
		{"appended.json", frame_appended("\"r-1\"", three, 3, NULL, EPOCH, 5), false},
		{"appended.no_ref.json", frame_appended(NULL, none, 1, NULL, EPOCH, 5), false},
		{"appended.snapshot.json", frame_appended("\"s-1\"", two, 2, &some, EPOCH, 5),
			false},
		{"appended.nothing_new.json", frame_appended(NULL, none, 0, &all, EPOCH, 5), false},
		{NULL, NULL, false},
	};
	compare("to-producer", list);
	(void)state;
}

/* --- hostile texts --- */

static void bad_utf8_is_refused(void **state)
{
	static const char *const bad[] = {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc2",
		"\xc2\x41", "\xe0\x80\x80", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xed\xbf\xbf",
		"\xe2\x82", "\xf0\x80\x80\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80",
		"\xf5\x80\x80\x80", "\xff", "\xfe", "\xf0\x9f\x98", "\xc3\xa9\xa9"};
	static const char *const good[] = {"a", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80",
		"\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80",
		"\xf4\x8f\xbf\xbf"};
	char text[64];
	struct refusal refusal;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "{\"a\":\"%s\"}", bad[i]);
		assert_null(json_parse(text, strlen(text), NULL, &refusal));
		assert_int_equal(refusal.code, ERROR_bad_utf8);
	}
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		snprintf(text, sizeof(text), "{\"a\":\"%s\"}", good[i]);
		json_t *json = json_parse(text, strlen(text), NULL, &refusal);
		assert_non_null(json);
		json_decref(json);
	}
	(void)state;
}

static void bad_json_is_refused(void **state)
{
	static const char *const bad[] = {"", " ", "{", "}", "{\"a\":1,}", "{\"a\":1}x",
		"{\"a\":1,\"a\":2}", "{\"a\":\"\\u0000\"}", "{\"a\":01}", "[1,]",
		"{\"a\":\"\\ud800\"}", "{'a':1}", "nul", "{\"a\":\"\n\"}"};
	struct refusal refusal = {0};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_null(json_parse(bad[i], strlen(bad[i]), NULL, &refusal));
		assert_int_equal(refusal.code, ERROR_bad_json);
		check_refusal(&refusal);
	}
	assert_null(json_parse("{\"a\":\"x\0y\"}", 11, NULL, &refusal));
	(void)state;
}

static void json_may_nest_64_levels(void **state)
{
	struct refusal refusal;
	for (int depth = 63; depth <= 66; depth++) {
		struct buffer text = {0};
		for (int i = 0; i < depth; i++) {
			buffer_append_char(&text, '[');
		}
		for (int i = 0; i < depth; i++) {
			buffer_append_char(&text, ']');
		}
		json_t *json = json_parse(text.data, text.len, NULL, &refusal);
		assert_int_equal(json != NULL, depth <= 64);
		json_decref(json);
		buffer_finish(&text);
	}
	/* Brackets in a string do not count. */
	json_t *json = json_parse("[\"[[[[\\\"[[[\"]", 13, NULL, &refusal);
	assert_non_null(json);
	json_decref(json);
	(void)state;
}

/** Whatever a client calls things, the refusal that repeats it is whole characters. */
static void refusals_repeat_whole_characters(void **state)
{
	static const char *const frames[] = {"{\"type\":\"%s\",\"data\":{}}",
		"{\"type\":\"prompt\",\"data\":{\"%s\":1}}",
		"{\"type\":\"keepalive\",\"data\":{},\"%s\":1}",
		"{\"type\":\"append\",\"data\":{\"events\":[{\"type\":\"%s\",\"data\":{}}]}}",
		"{\"type\":\"append\",\"data\":{\"events\":[{\"type\":\"plan\",\"%s\":{}}]}}",
		"{\"%s"};
	for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
		for (size_t shift = 0; shift < 4; shift++) {
			struct buffer name = {0};
			struct buffer text = {0};
			struct refusal refusal;
			buffer_append(&name, "xyz", shift);
			for (int n = 0; n < 60; n++) {
				buffer_append_str(&name, n % 2 ? "😀" : "€");
			}
			buffer_append_str(&text, frames[i]);
			char *at = strstr(buffer_cstr(&text), "%s");
			struct buffer whole = {0};
			buffer_append(&whole, text.data, (size_t)(at - text.data));
			buffer_append(&whole, name.data, name.len);
			buffer_append_str(&whole, at + 2);
			assert_true(parse_frame(i == 1 || i == 0 ? SIDE_OBSERVER : SIDE_PRODUCER,
					    whole.data, whole.len, &refusal) < 0);
			check_refusal(&refusal);
			buffer_finish(&name);
			buffer_finish(&text);
			buffer_finish(&whole);
		}
	}
	(void)state;
}

struct mutation {
	struct random r;
	enum request_side side;
};

/** Golden frames with bytes changed: taken or refused, never anything else. */
static void visit_mutate(void *arg, const char *name, const char *text, size_t len)
{
	struct mutation *m = arg;
	static const char marks[] = "{}[]\",:\\0-9eE.tfn \x80\xff\xc3";
	for (int round = 0; round < 300; round++) {
		struct refusal refusal = {0};
		struct buffer copy = {0};
		buffer_append(&copy, text, len);
		for (uint32_t n = 1 + random_below(&m->r, 3); n; n--) {
			size_t at = random_below(&m->r, (uint32_t)len);
			copy.data[at] = marks[random_below(&m->r, sizeof(marks) - 1)];
		}
		copy.len -= random_below(&m->r, 4) ? 0 : random_below(&m->r, (uint32_t)len);
		if (parse_frame(m->side, copy.data, copy.len, &refusal) < 0) {
			check_refusal(&refusal);
		}
		buffer_finish(&copy);
	}
}

static void spoilt_frames_do_no_harm(void **state)
{
	struct mutation m = {.r = {5}, .side = SIDE_OBSERVER};
	golden_each("client", visit_mutate, &m);
	m.side = SIDE_PRODUCER;
	golden_each("from-producer", visit_mutate, &m);
	m.side = SIDE_FEED;
	golden_each("client", visit_mutate, &m);
	(void)state;
}

/* --- queries --- */

static void queries_are_checked(void **state)
{
	struct load_request load;
	struct refusal refusal;
	const struct limits *limits = limits_default();
	static const char *const bad[] = {"", "-1", "+1", "1.5", "1e3", "x", " 1",
		"9007199254740992", "99999999999999999999", "0x10"};
	assert_int_equal(
		load_request_from_query(NULL, NULL, NULL, NULL, NULL, limits, &load, &refusal), 0);
	assert_int_equal(load.from, LOAD_NEWEST);
	assert_int_equal(load.limit, 50);
	assert_int_equal(load_request_from_query("9007199254740991", NULL, "5000", NULL, NULL,
				 limits, &load, &refusal),
		0);
	assert_true(load.seq == 9007199254740991);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_true(load_request_from_query(
				    bad[i], NULL, NULL, NULL, NULL, limits, &load, &refusal) < 0);
		assert_true(load_request_from_query(
				    NULL, bad[i], NULL, NULL, NULL, limits, &load, &refusal) < 0);
		assert_true(load_request_from_query(
				    NULL, NULL, bad[i], NULL, NULL, limits, &load, &refusal) < 0);
	}
	assert_true(
		load_request_from_query("1", "2", NULL, NULL, NULL, limits, &load, &refusal) < 0);
	assert_true(
		load_request_from_query(NULL, "0", NULL, NULL, NULL, limits, &load, &refusal) < 0);
	assert_true(
		load_request_from_query(NULL, NULL, "0", NULL, NULL, limits, &load, &refusal) < 0);
	assert_true(load_request_from_query(
			    NULL, NULL, "5001", NULL, NULL, limits, &load, &refusal) < 0);
	/* An epoch that cannot be one of ours is another one, and no mistake. */
	assert_int_equal(
		load_request_from_query("1", NULL, NULL, "zz", NULL, limits, &load, &refusal), 0);
	assert_true(load.has_epoch && load.epoch == 0);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden_requests_are_taken_and_invalid_ones_refused),
		cmocka_unit_test(what_a_request_says_arrives),
		cmocka_unit_test(pages_are_as_the_golden_ones),
		cmocka_unit_test(frames_are_as_the_golden_ones),
		cmocka_unit_test(acks_are_as_the_golden_ones),
		cmocka_unit_test(bad_utf8_is_refused),
		cmocka_unit_test(bad_json_is_refused),
		cmocka_unit_test(json_may_nest_64_levels),
		cmocka_unit_test(refusals_repeat_whole_characters),
		cmocka_unit_test(spoilt_frames_do_no_harm),
		cmocka_unit_test(queries_are_checked),
	};
	return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
