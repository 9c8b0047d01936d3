/* What an editor that waits is told, and when. */
#include "doors/acp/editor_view.h"

#include "output.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define EVENT(seq, type, data) "{\"seq\":" seq ",\"type\":\"" type "\",\"ts\":1,\"data\":" data "}"
#define PAGE(list) \
	"{\"type\":\"events_loaded\",\"data\":{\"has_more\":false,\"events\":[" list "]}}"
#define EVENTS(list) "{\"type\":\"events\",\"data\":{\"events\":[" list "]}}"

static void take(struct editor_view *view, const char *frame, struct buffer *out)
{
	struct frame *messages = output_encode(&output_editor_lines, view, frame, strlen(frame));
	buffer_clear(out);
	if (messages) {
		buffer_append(out, frame_text(messages), frame_len(messages));
		frame_unref(messages);
	}
	buffer_cstr(out);
}

/** Waits for `name`, while an update does not say what is current, until one does. */
static void wait_for(enum editor_setting kind, const char *name, const char *begin,
	const char *says_nothing, const char *says_it)
{
	struct buffer out = {0};
	struct editor_view *view = editor_view_create(
		&(struct editor_view_config){.session_id = "s", .client_id = "c", .epoch = 1});
	take(view, begin, &out);
	buffer_clear(&out);
	assert_true(editor_view_add_setting(view, "7", kind, name, "", true, &out));
	assert_int_equal(out.len, 0);
	take(view, says_nothing, &out);
	assert_null(strstr(out.data, "\"id\":7"));
	take(view, says_it, &out);
	assert_non_null(strstr(out.data, "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n"));
	buffer_finish(&out);
	editor_view_destroy(view);
}

static void an_update_without_its_id_settles_nothing(void **state)
{
	wait_for(EDITOR_MODE, "code",
		PAGE(EVENT("1", "x-acp-modes", "{\"current_mode_id\":\"ask\"}")),
		EVENTS(EVENT("2", "x-acp-current_mode_update", "{}")),
		EVENTS(EVENT("3", "x-acp-current_mode_update", "{\"current_mode_id\":\"code\"}")));
	wait_for(EDITOR_MODE, "code",
		PAGE(EVENT("1", "x-acp-modes", "{\"current_mode_id\":\"ask\"}")),
		EVENTS(EVENT("2", "x-acp-modes", "{\"current_mode_id\":7}")),
		EVENTS(EVENT("3", "x-acp-modes", "{\"current_mode_id\":\"code\"}")));
	wait_for(EDITOR_MODEL, "big",
		PAGE(EVENT("1", "x-acp-models", "{\"current_model_id\":\"small\"}")),
		EVENTS(EVENT("2", "x-acp-models", "{}")),
		EVENTS(EVENT("3", "x-acp-models", "{\"current_model_id\":\"big\"}")));
}

/** What an editor that had all up to `had` hears of the answer to a question it does not read. */
static void hear_resolved(uint64_t had, bool is_taken_back)
{
	struct buffer out = {0};
	struct editor_view *view = editor_view_create(&(struct editor_view_config){
		.session_id = "s", .client_id = "c", .epoch = 1, .told_seq = had, .asks = true});
	take(view, PAGE(EVENT("5", "permission_resolved", "{\"request_id\":\"q\"}")), &out);
	assert_int_equal(strstr(out.data, "$/cancel_request") != NULL, is_taken_back);
	buffer_finish(&out);
	editor_view_destroy(view);
}

static void a_question_is_taken_back_from_those_who_may_have_been_asked(void **state)
{
	hear_resolved(4, true);
	hear_resolved(0, false); /* the log begins behind the request */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_update_without_its_id_settles_nothing),
		cmocka_unit_test(a_question_is_taken_back_from_those_who_may_have_been_asked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
