#include "holdfast/buffer.h"
#include "holdfast/diag.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void one_line_in_ten_seconds(void **state)
{
	struct diag_limit limit = {0};
	uint64_t left_out = 7;
	assert_true(diag_limit_take(&limit, 5, &left_out));
	assert_int_equal(left_out, 0);
	for (int64_t now_ms = 5; now_ms < 10005; now_ms += 100) {
		assert_false(diag_limit_take(&limit, now_ms, &left_out));
	}
	assert_true(diag_limit_take(&limit, 10005, &left_out));
	assert_int_equal(left_out, 100);
	assert_false(diag_limit_take(&limit, 20004, &left_out));
	assert_true(diag_limit_take(&limit, 90000, &left_out));
	assert_int_equal(left_out, 1);
}

/** Sends what is printed to a file, until end_catch(). */
static int begin_catch(int *ret_kept)
{
	char path[] = "/tmp/holdfast-diag-XXXXXX";
	int fd = mkstemp(path);
	*ret_kept = dup(STDERR_FILENO);
	assert_true(*ret_kept >= 0 && fd >= 0);
	unlink(path);
	dup2(fd, STDERR_FILENO);
	return fd;
}

static void end_catch(int fd, int kept, char *ret, size_t size)
{
	dup2(kept, STDERR_FILENO);
	close(kept);
	memset(ret, 0, size);
	assert_true(pread(fd, ret, size - 1, 0) > 0);
	close(fd);
}

static void what_is_left_out_is_counted(void **state)
{
	char text[512];
	struct diag_limit limit = {0};
	int kept;
	int fd = begin_catch(&kept);
	for (int i = 0; i < 3; i++) {
		diag_limited(&limit, DIAG_WARN, "number %d", i);
	}
	/* What the level keeps back is not counted, it would not have been printed. */
	diag_limited(&limit, DIAG_DEBUG, "never");
	limit.next_ms = 0;
	diag_limited(&limit, DIAG_WARN, "the last");
	end_catch(fd, kept, text, sizeof(text));
	assert_string_equal(text, "holdfast: warning: number 0\n"
				  "holdfast: warning: the last (and 2 more like this before it)\n");
}

static void text_from_outside_makes_no_line_and_no_colour(void **state)
{
	char text[1024];
	struct diag_limit limit = {0};
	const char *dirty = "a\nholdfast: error: b\x1b[2J\x1b]0;title\ac\xc2\x9b"
			    "31md\xff\r";
	int kept;
	int fd = begin_catch(&kept);
	diag(DIAG_WARN, "got %s", dirty);
	diag_limited(&limit, DIAG_WARN, "got %s", dirty);
	diag_say("got %s", dirty);
	end_catch(fd, kept, text, sizeof(text));
	assert_string_equal(text, "holdfast: warning: got a holdfast: error: bc31md? \n"
				  "holdfast: warning: got a holdfast: error: bc31md? \n"
				  "holdfast: got a holdfast: error: bc31md? \n");
}

/** What is invisible, or changes the order of what is around it, in a line of the log and in JSON. */
static void hidden_characters_are_left_out(void **state)
{
	static const char dirty[] = "a\u202e\u2066\u200f\u061c\u200b\u2028\U000e0041b\u200d\u00e9";
	static const char json[] = "{\"a\xc2\x9b\":\"\u202e\x7f\U000e0041\u00e9\u200d\\n\"}";
	struct buffer out = {0};
	char text[512];
	int kept;
	diag_clean(&out, dirty, sizeof(dirty) - 1);
	assert_string_equal(buffer_cstr(&out), "ab\u200d\u00e9");
	buffer_clear(&out);
	diag_clean(&out, "a\x1b]0; is ours", 13);
	diag_clean(&out, "\x1b[1; 2", 6);
	assert_string_equal(buffer_cstr(&out), "a]0; is ours[1; 2");
	buffer_clear(&out);
	diag_clean_json(&out, json, sizeof(json) - 1);
	assert_string_equal(buffer_cstr(&out),
		"{\"a\\u009b\":\"\\u202e\\u007f\\udb40\\udc41\u00e9\u200d\\n\"}");
	buffer_clear(&out);
	diag_clean_json(&out, "[\n\x9b]", 4);
	assert_string_equal(buffer_cstr(&out), "[ \\ufffd]");
	buffer_finish(&out);
	int fd = begin_catch(&kept);
	diag_set_json(true);
	diag(DIAG_WARN, "got %s", dirty);
	diag_set_json(false);
	end_catch(fd, kept, text, sizeof(text));
	assert_non_null(strstr(text, "\"msg\":\"got ab\u200d\u00e9\"}\n"));
}

static void long_lines_are_cut(void **state)
{
	char text[4096];
	char expected[4096];
	char many[3000];
	int kept;
	memset(many, 'x', sizeof(many) - 1);
	many[sizeof(many) - 1] = '\0';
	int fd = begin_catch(&kept);
	diag_say("%s", many);
	end_catch(fd, kept, text, sizeof(text));
	snprintf(expected, sizeof(expected), "holdfast: %.2047s\n", many);
	assert_string_equal(text, expected);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_line_in_ten_seconds),
		cmocka_unit_test(what_is_left_out_is_counted),
		cmocka_unit_test(text_from_outside_makes_no_line_and_no_colour),
		cmocka_unit_test(hidden_characters_are_left_out),
		cmocka_unit_test(long_lines_are_cut),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
