#include "cli/attach_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define WAITS_MAX 1000

static const char hello[] =
	"{\"jsonrpc\":\"2.0\",\"id\":\"h\",\"method\":\"initialize\",\"params\":{}}";

static void from_editor(struct attach *attach, const char *line)
{
	attach_take_line(attach, line, strlen(line));
}

static void from_server(struct attach *attach, const char *text)
{
	attach_take_message(attach, text, strlen(text));
}

/** Takes the oldest message to the server (caller frees); NULL: there is none. */
static char *next(struct attach *attach)
{
	list_for_each_safe(link, tmp, &attach->to_server) {
		struct attach_message *message = list_entry(link, struct attach_message, link);
		char *text = xstrndup(message->text.data, message->text.len);
		list_remove(&message->link);
		buffer_finish(&message->text);
		free(message);
		return text;
	}
	return NULL;
}

static void assert_next(struct attach *attach, const char *wanted)
{
	char *text = next(attach);
	assert_non_null(text);
	assert_string_equal(text, wanted);
	free(text);
}

static void assert_told(struct attach *attach, const char *wanted)
{
	assert_string_equal(buffer_cstr(&attach->to_editor), wanted);
	buffer_clear(&attach->to_editor);
}

static void greet(struct attach *attach)
{
	attach_connected(attach);
	from_editor(attach, hello);
	free(next(attach));
	from_server(attach, "{\"jsonrpc\":\"2.0\",\"id\":\"h\",\"result\":{}}");
	buffer_clear(&attach->to_editor);
}

static void a_server_that_says_nonsense_is_survived(void **state)
{
	static const char *const nonsense[] = {"{}", "[]", "[1]", "1", "", "{", "null", "\"x\"",
		"{\"result\":{}}", "{\"id\":null}", "{\"id\":{},\"error\":1}", "{\"method\":1}",
		"{\"method\":\"session/update\"}", "{\"method\":\"$/cancel_request\"}",
		"{\"id\":\"attach-resume-\",\"error\":{}}", "{\"id\":\"attach-hello\"}"};
	struct attach attach = {0};
	attach_init(&attach);
	greet(&attach);
	from_editor(&attach, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/list\"}");
	for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
		from_server(&attach, nonsense[i]);
	}
	buffer_clear(&attach.to_editor);
	from_server(&attach, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
	assert_told(&attach, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
	attach_finish(&attach);
	(void)state;
}

static void numbers_of_any_size_pass_as_they_are(void **state)
{
	static const char list[] =
		"{\"jsonrpc\":\"2.0\",\"id\":12345678901234567890,\"method\":\"session/list\",\"params\":{\"a\":1.50,\"b\":1e400}}";
	static const char update[] =
		"{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"n\":12345678901234567890}}";
	struct attach attach = {0};
	attach_init(&attach);
	greet(&attach);
	from_editor(&attach, list);
	assert_told(&attach, "");
	assert_next(&attach, list);
	from_server(&attach, update);
	buffer_append_char(&attach.to_editor, '|');
	from_server(&attach,
		"{\"jsonrpc\":\"2.0\",\"id\":12345678901234567890,\"result\":{\"n\":1e400}}");
	char *wanted = xprintf(
		"%s\n|{\"jsonrpc\":\"2.0\",\"id\":12345678901234567890,\"result\":{\"n\":1e400}}\n",
		update);
	assert_told(&attach, wanted);
	free(wanted);
	attach_finish(&attach);
	(void)state;
}

static void ask(struct attach *attach, int id)
{
	char *line = xprintf("{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"session/list\"}", id);
	from_editor(attach, line);
	free(line);
}

static void requests_beyond_a_bound_are_refused_while_there_is_no_connection(void **state)
{
	struct attach attach = {0};
	attach_init(&attach);
	greet(&attach);
	attach_lost(&attach);
	for (int i = 0; i < WAITS_MAX; i++) {
		ask(&attach, i);
	}
	assert_told(&attach, "");
	ask(&attach, WAITS_MAX);
	json_t *answer = json_loadb(attach.to_editor.data, attach.to_editor.len, 0, NULL);
	assert_int_equal(json_integer_value(json_object_get(answer, "id")), WAITS_MAX);
	assert_non_null(json_object_get(json_object_get(answer, "error"), "message"));
	json_decref(answer);
	buffer_clear(&attach.to_editor);
	attach_connected(&attach);
	free(next(&attach));
	from_server(&attach, "{\"jsonrpc\":\"2.0\",\"id\":\"attach-hello\",\"result\":{}}");
	for (int i = 0; i < WAITS_MAX; i++) {
		char *wanted =
			xprintf("{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"session/list\"}", i);
		assert_next(&attach, wanted);
		free(wanted);
	}
	ask(&attach, WAITS_MAX); /* with a connection there is no bound */
	assert_told(&attach, "");
	assert_int_equal(attach.wait_count, WAITS_MAX + 1);
	attach_finish(&attach);
	assert_int_equal(attach.wait_count, 0);
	assert_int_equal(attach.wait_size, 0);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_that_says_nonsense_is_survived),
		cmocka_unit_test(numbers_of_any_size_pass_as_they_are),
		cmocka_unit_test(requests_beyond_a_bound_are_refused_while_there_is_no_connection),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
