#include "cli/view.h"

#include "holdfast/buffer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define OPTIONS_MAX 10000

static void ask(struct terminal_view *view, int number)
{
	json_t *data = json_pack("{s:o, s:[{s:s, s:s}]}", "request_id", json_sprintf("r%d", number),
		"options", "option_id", "yes-id", "name", "Certainly");
	terminal_view_event(view, "permission_request", data);
	json_decref(data);
}

/** Shows the answer to a question. Returns what is shown (caller frees). */
static char *answer(struct terminal_view *view, int number)
{
	struct buffer shown = {0};
	FILE *file = tmpfile();
	int old = dup(STDOUT_FILENO);
	json_t *data = json_pack(
		"{s:o, s:s}", "request_id", json_sprintf("r%d", number), "option_id", "yes-id");
	fflush(stdout);
	dup2(fileno(file), STDOUT_FILENO);
	terminal_view_event(view, "permission_resolved", data);
	fflush(stdout);
	dup2(old, STDOUT_FILENO);
	close(old);
	rewind(file);
	for (int c; (c = fgetc(file)) != EOF;) {
		buffer_append_char(&shown, (char)c);
	}
	fclose(file);
	json_decref(data);
	buffer_cstr(&shown);
	return shown.data;
}

static void assert_answer(struct terminal_view *view, int number, const char *wanted)
{
	char *shown = answer(view, number);
	assert_non_null(strstr(shown, wanted));
	free(shown);
}

static void the_names_of_old_answers_are_forgotten(void **state)
{
	FILE *null = fopen("/dev/null", "w");
	int old = dup(STDOUT_FILENO);
	struct terminal_view *view = terminal_view_create();
	assert_non_null(null);
	fflush(stdout);
	dup2(fileno(null), STDOUT_FILENO);
	for (int i = 0; i <= OPTIONS_MAX; i++) {
		ask(view, i);
	}
	fflush(stdout);
	dup2(old, STDOUT_FILENO);
	close(old);
	fclose(null);
	assert_answer(view, OPTIONS_MAX, "Certainly");
	assert_answer(view, 0, "yes-id");
	terminal_view_destroy(view);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_names_of_old_answers_are_forgotten),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
