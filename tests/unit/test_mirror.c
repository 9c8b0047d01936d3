/* What nodes say to each other of a session: what is written is read, and nothing else is. */
#include "nodes/mirror.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

static const struct connected_frame session = {
	.labels = {.title = "a \"title\"\n", .pinned = true},
	.epoch = 0xfedcba9876543210,
	.first_seq = 3,
	.max_seq = 9,
	.status = {.is_prompting = true,
		.queue_length = 2,
		.status = "waiting",
		.usage = "{\"cost\":1}",
		.queue_text = "[{},{}]"},
	.last_prompt_id = "p\xc3\xa4",
	.last_prompt_seq = 4,
	.agent_state = {{1, 2, 3, 4, 5, 6}},
};

static struct mirror_message must_read(const struct frame *frame)
{
	struct mirror_message message;
	assert_int_equal(mirror_read(frame_text(frame), frame_len(frame), &message), 0);
	return message;
}

static void assert_part(const struct mirror_message *message, size_t i, const char *text)
{
	assert_true(i < message->part_count);
	assert_int_equal(message->parts[i].len, strlen(text));
	assert_memory_equal(message->parts[i].text, text, strlen(text));
}

static void assert_session(const struct mirror_message *message)
{
	const struct connected_frame *about = &message->about;
	assert_string_equal(about->labels.title, session.labels.title);
	assert_true(about->labels.pinned);
	assert_false(about->labels.archived);
	assert_true(about->epoch == session.epoch);
	assert_int_equal(about->first_seq, 3);
	assert_int_equal(about->max_seq, 9);
	assert_true(about->status.is_prompting);
	assert_false(about->status.is_running);
	assert_int_equal(about->status.queue_length, 2);
	assert_string_equal(about->status.status, "waiting");
	assert_string_equal(about->last_prompt_id, session.last_prompt_id);
	assert_int_equal(about->last_prompt_seq, 4);
	assert_memory_equal(&about->agent_state, &session.agent_state, sizeof(about->agent_state));
}

static void the_session_is_told_whole(void **state)
{
	struct connected_frame now = session;
	now.log = 77;
	now.text = (struct open_part){
		.seq = 10, .type = EVENT_AGENT_THOUGHT, .text = "a\n\"b\"", .len = 5};
	now.html = (struct open_part){.text = "<p>", .len = 3};
	struct frame *frame = mirror_encoder.connected(NULL, &now);
	struct mirror_message message = must_read(frame);
	assert_int_equal(message.type, MIRROR_WELCOME);
	assert_session(&message);
	assert_int_equal(message.log, 77);
	assert_int_equal(message.seq, 10);
	assert_int_equal(message.event, EVENT_AGENT_THOUGHT);
	assert_part(&message, 0, session.status.usage);
	assert_part(&message, 1, session.status.queue_text);
	assert_part(&message, 2, "a\n\"b\"");
	assert_part(&message, 3, "<p>");
	mirror_finish(&message);
	frame_unref(frame);

	frame = mirror_encoder.about(NULL, &session);
	message = must_read(frame);
	assert_int_equal(message.type, MIRROR_ABOUT);
	assert_session(&message);
	assert_int_equal(message.part_count, 0);
	mirror_finish(&message);
	frame_unref(frame);
}

static void what_is_not_there_is_not_told(void **state)
{
	const struct connected_frame bare = {
		.labels.title = "", .epoch = 1, .first_seq = 1, .status.status = "idle"};
	struct frame *frame = mirror_encoder.state(NULL, &bare, HIDE_NOTHING);
	struct mirror_message message = must_read(frame);
	assert_int_equal(message.type, MIRROR_STATE);
	assert_null(message.about.last_prompt_id);
	assert_int_equal(message.about.max_seq, 0);
	assert_part(&message, 0, "");
	assert_part(&message, 1, "[]");
	mirror_finish(&message);
	frame_unref(frame);

	frame = mirror_encoder.connected(NULL, &bare);
	message = must_read(frame);
	assert_int_equal(message.seq, 0);
	assert_part(&message, 2, "");
	mirror_finish(&message);
	frame_unref(frame);
}

static struct event *note(uint64_t seq)
{
	return event_create(&(struct event_view){.seq = seq,
		.type = EVENT_CUSTOM,
		.type_name = "x-note",
		.type_len = 6,
		.ts = 5,
		.data = "{\"a\":\"\xe2\x82\xac\"}",
		.data_len = 11});
}

static struct frame *told(struct event **events, size_t count)
{
	return mirror_encoder.events(NULL,
		&(struct live_events){events, count, FORMAT_MARKDOWN, HIDE_NOTHING, &session});
}

static void events_come_as_they_are(void **state)
{
	struct event *events[] = {note(8), note(9)};
	struct frame *frame = told(events, 2);
	struct mirror_message message = must_read(frame);
	assert_int_equal(message.type, MIRROR_EVENTS);
	assert_session(&message);
	for (size_t i = 0; i < 2; i++) {
		struct event *event;
		assert_int_equal(mirror_next_event(&message, &event), 1);
		assert_int_equal(event->seq, events[i]->seq);
		assert_int_equal(
			event->json_len[FORMAT_MARKDOWN], events[i]->json_len[FORMAT_MARKDOWN]);
		assert_memory_equal(event->json[FORMAT_MARKDOWN], events[i]->json[FORMAT_MARKDOWN],
			event->json_len[FORMAT_MARKDOWN]);
		event_unref(event);
		event_unref(events[i]);
	}
	struct event *event;
	assert_int_equal(mirror_next_event(&message, &event), 0);
	mirror_finish(&message);
	frame_unref(frame);
}

/** Takes all events; the last answer. */
static int take_all(const struct frame *frame)
{
	struct mirror_message message;
	struct event *event;
	int r = mirror_read(frame_text(frame), frame_len(frame), &message);
	if (r < 0) {
		return r;
	}
	while ((r = mirror_next_event(&message, &event)) > 0) {
		event_unref(event);
	}
	mirror_finish(&message);
	return r;
}

static void a_byte_that_is_wrong_in_an_event_is_seen(void **state)
{
	struct event *events[] = {note(9)};
	struct frame *frame = told(events, 1);
	assert_int_equal(take_all(frame), 0);
	char *line = memchr(frame_text(frame), '\n', frame_len(frame));
	size_t len = frame_len(frame) - (size_t)(line + 1 - frame_text(frame));
	for (size_t i = 1; i <= len; i++) {
		line[i] ^= 1;
		assert_int_equal(take_all(frame), -EBADMSG);
		line[i] ^= 1;
	}
	/* One that is missing, and one too many. */
	static const struct {
		const char *said;
		const char *wrong;
	} counts[] = {{"\"events\":1", "\"events\":2"}, {"\"events\":1", "\"events\":0"}};
	for (size_t i = 0; i < 2; i++) {
		char *at = memmem(frame_text(frame), frame_len(frame), counts[i].said, 10);
		assert_non_null(at);
		memcpy(at, counts[i].wrong, 10);
		assert_int_equal(take_all(frame), -EBADMSG);
		memcpy(at, counts[i].said, 10);
	}
	frame_unref(frame);
	event_unref(events[0]);
}

static void what_grows_is_told_as_text(void **state)
{
	struct frame *frame = mirror_encoder.delta(NULL, &(struct open_part){.seq = 10,
								 .type = EVENT_AGENT_MESSAGE,
								 .offset = 7,
								 .text = "{\n}",
								 .len = 3});
	struct mirror_message message = must_read(frame);
	assert_int_equal(message.type, MIRROR_DELTA);
	assert_int_equal(message.offset, 7);
	assert_part(&message, 0, "{\n}");
	mirror_finish(&message);
	frame_unref(frame);

	frame = mirror_encoder.preview(
		NULL, &(struct open_part){
			      .seq = 10, .type = EVENT_AGENT_MESSAGE, .text = "", .is_html = true});
	message = must_read(frame);
	assert_int_equal(message.type, MIRROR_PREVIEW);
	assert_part(&message, 0, "");
	mirror_finish(&message);
	frame_unref(frame);

	struct activity activity = {
		.seq = 11, .hides = HIDE_TOOLS, .shown = "{\"a\":1}", .shown_len = 7};
	frame = mirror_encoder.activity(NULL, &activity, HIDE_NOTHING);
	message = must_read(frame);
	assert_int_equal(message.type, MIRROR_ACTIVITY);
	assert_int_equal(message.hides, HIDE_TOOLS);
	assert_part(&message, 0, "{\"type\":\"activity\",\"data\":{\"a\":1}}");
	assert_int_equal(message.parts[1].len, 0);
	mirror_finish(&message);
	frame_unref(frame);
	activity.redacted = "{}";
	activity.redacted_len = 2;
	frame = mirror_encoder.activity(NULL, &activity, HIDE_NOTHING);
	message = must_read(frame);
	assert_part(&message, 1, "{\"type\":\"activity\",\"data\":{}}");
	mirror_finish(&message);
	frame_unref(frame);
}

static struct mirror_message must_read_text(const struct buffer *text)
{
	struct mirror_message message;
	assert_int_equal(mirror_read(text->data, text->len, &message), 0);
	return message;
}

static void viewers_are_named_by_numbers(void **state)
{
	struct buffer text = {0};
	mirror_append_viewer(&text, 5, "me", "abc.def");
	struct mirror_message message = must_read_text(&text);
	assert_int_equal(message.type, MIRROR_VIEWER);
	assert_int_equal(message.viewer, 5);
	assert_string_equal(message.client_id, "me");
	assert_string_equal(message.identity, "abc.def");
	mirror_finish(&message);
	buffer_clear(&text);

	mirror_append_request(&text, 6, "{\"type\":\n\"x\"}", 13);
	message = must_read_text(&text);
	assert_int_equal(message.type, MIRROR_REQUEST);
	assert_int_equal(message.viewer, 6);
	assert_part(&message, 0, "{\"type\":\n\"x\"}");
	mirror_finish(&message);
	buffer_clear(&text);

	mirror_append_leave(&text, 7);
	message = must_read_text(&text);
	assert_int_equal(message.type, MIRROR_LEAVE);
	assert_int_equal(message.viewer, 7);
	mirror_finish(&message);
	buffer_clear(&text);

	mirror_append_previews(&text, true);
	message = must_read_text(&text);
	assert_int_equal(message.type, MIRROR_PREVIEWS);
	assert_true(message.wanted);
	mirror_finish(&message);
	buffer_clear(&text);

	mirror_append_reach(&text, 8);
	message = must_read_text(&text);
	assert_int_equal(message.type, MIRROR_REACH);
	assert_int_equal(message.viewer, 8);
	mirror_finish(&message);
	buffer_finish(&text);

	struct frame *frame = mirror_reached(8, 77);
	message = must_read(frame);
	assert_int_equal(message.type, MIRROR_REACHED);
	assert_int_equal(message.viewer, 8);
	assert_int_equal(message.seq, 77);
	mirror_finish(&message);
	frame_unref(frame);
	frame = mirror_dismiss(8, 4404, "deleted");
	message = must_read(frame);
	assert_int_equal(message.type, MIRROR_DISMISS);
	assert_int_equal(message.code, 4404);
	assert_string_equal(message.reason, "deleted");
	mirror_finish(&message);
	frame_unref(frame);
	struct frame *answer = frame_make("x", "{}", 2);
	frame = mirror_answer(9, answer);
	message = must_read(frame);
	assert_int_equal(message.type, MIRROR_ANSWER);
	assert_part(&message, 0, "{\"type\":\"x\",\"data\":{}}");
	mirror_finish(&message);
	frame_unref(frame);
	frame_unref(answer);
}

#define ABOUT                                                                              \
	"\"epoch\":\"0000000000000001\",\"first_seq\":1,\"max_seq\":0,\"title\":\"\","     \
	"\"archived\":false,\"pinned\":false,\"is_prompting\":false,\"is_running\":false," \
	"\"queue_length\":0,\"status\":\"idle\",\"agent_state\":[0,0,0,0,0,0]"

static bool reads(const char *text)
{
	struct mirror_message message;
	int r = mirror_read(text, strlen(text), &message);
	if (r == 0) {
		mirror_finish(&message);
	}
	return r == 0;
}

static void all_else_is_refused(void **state)
{
	assert_true(reads("{\"type\":\"about\"," ABOUT "}"));
	assert_true(reads("{\"type\":\"leave\",\"viewer\":1}"));
	static const char *const wrong[] = {"", "\n", "x", "[]", "{}", "{\"type\":\"x\"}",
		"{\"type\":1}", "{\"type\":\"leave\"}", "{\"type\":\"leave\",\"viewer\":-1}",
		"{\"type\":\"leave\",\"viewer\":\"1\"}", "{\"type\":\"leave\",\"viewer\":1.5}",
		"{\"type\":\"leave\",\"viewer\":1}\nx",
		"{\"type\":\"leave\",\"type\":\"leave\",\"viewer\":1}",
		"{\"type\":\"leave\",\"viewer\":1,\"parts\":[0]}\n",
		"{\"type\":\"request\",\"viewer\":1}", "{\"type\":\"request\",\"viewer\":1}\nx",
		"{\"type\":\"request\",\"viewer\":1,\"parts\":[2]}\nx",
		"{\"type\":\"request\",\"viewer\":1,\"parts\":[1]}\nxx",
		"{\"type\":\"request\",\"viewer\":1,\"parts\":[-1]}\n",
		"{\"type\":\"request\",\"viewer\":1,\"parts\":[1,1]}\nxx",
		"{\"type\":\"request\",\"viewer\":1,\"parts\":[18446744073709551615]}\nx",
		"{\"type\":\"request\",\"viewer\":1,\"parts\":[1]}\n\xff",
		"{\"type\":\"viewer\",\"viewer\":1,\"client_id\":\"a\"}",
		"{\"type\":\"viewer\",\"viewer\":1,\"client_id\":\"a\\u0000\",\"identity\":\"\"}",
		"{\"type\":\"previews\",\"wanted\":1}",
		"{\"type\":\"dismiss\",\"viewer\":1,\"code\":999,\"reason\":\"\"}",
		"{\"type\":\"dismiss\",\"viewer\":1,\"code\":70000,\"reason\":\"\"}",
		"{\"type\":\"delta\",\"seq\":1,\"event\":\"tool_call\",\"offset\":0,\"parts\":[0]}\n",
		"{\"type\":\"activity\",\"seq\":1,\"hides\":4,\"parts\":[1,0]}\nx",
		"{\"type\":\"activity\",\"seq\":1,\"hides\":0,\"parts\":[0,0]}\n",
		"{\"type\":\"state\"," ABOUT "}"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_false(reads(wrong[i]));
	}
}

/** Each member of what is told of a session is needed, and is looked at. */
static void a_session_without_a_member_is_none(void **state)
{
	static const char *const members[] = {"epoch", "first_seq", "max_seq", "title", "archived",
		"pinned", "is_prompting", "is_running", "queue_length", "status", "agent_state"};
	static const char good[] = "{\"type\":\"about\"," ABOUT "}";
	static const char *const values[][2] = {{"\"idle\"", "\"busy\""}, {"0001\"", "000G\""},
		{"\"first_seq\":1", "\"first_seq\":0"}, {"\"first_seq\":1", "\"first_seq\":2"},
		{"[0,0,0,0,0,0]", "[0,0,0,0,0,-"}, {"false", "\"no\" "}};
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		char *text = strdup(good);
		*strstr(text, members[i]) = 'X';
		assert_false(reads(text));
		free(text);
	}
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		char *text = strdup(good);
		memcpy(strstr(text, values[i][0]), values[i][1], strlen(values[i][1]));
		assert_false(reads(text));
		free(text);
	}
}

static void a_head_has_an_end(void **state)
{
	struct buffer text = {0};
	buffer_append_str(&text, "{\"type\":\"leave\",\"viewer\":1,\"x\":\"");
	while (text.len < MIRROR_HEAD_MAX) {
		buffer_append_char(&text, 'x');
	}
	buffer_append_str(&text, "\"}");
	assert_false(reads(buffer_cstr(&text)));
	buffer_finish(&text);
}

/** As --limit title_size allows it, with the longest escapes. */
static void the_longest_title_is_told(void **state)
{
	char title[64 * 1024 + 1];
	struct connected_frame about = session;
	memset(title, 1, sizeof(title) - 1);
	title[sizeof(title) - 1] = '\0';
	about.labels.title = title;
	struct frame *frame = mirror_encoder.about(NULL, &about);
	struct mirror_message message = must_read(frame);
	assert_string_equal(message.about.labels.title, title);
	mirror_finish(&message);
	frame_unref(frame);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_longest_title_is_told),
		cmocka_unit_test(the_session_is_told_whole),
		cmocka_unit_test(what_is_not_there_is_not_told),
		cmocka_unit_test(events_come_as_they_are),
		cmocka_unit_test(a_byte_that_is_wrong_in_an_event_is_seen),
		cmocka_unit_test(what_grows_is_told_as_text),
		cmocka_unit_test(viewers_are_named_by_numbers),
		cmocka_unit_test(all_else_is_refused),
		cmocka_unit_test(a_session_without_a_member_is_none),
		cmocka_unit_test(a_head_has_an_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
