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

static void what_is_left_out_is_counted(void **state)
{
	char path[] = "/tmp/holdfast-diag-XXXXXX";
	char text[512] = "";
	struct diag_limit limit = {0};
	int kept = dup(STDERR_FILENO);
	int fd = mkstemp(path);
	assert_true(kept >= 0 && fd >= 0);
	dup2(fd, STDERR_FILENO);
	for (int i = 0; i < 3; i++) {
		diag_limited(&limit, DIAG_WARN, "number %d", i);
	}
	/* What the level keeps back is not counted, it would not have been printed. */
	diag_limited(&limit, DIAG_DEBUG, "never");
	limit.next_ms = 0;
	diag_limited(&limit, DIAG_WARN, "the last");
	dup2(kept, STDERR_FILENO);
	close(kept);
	assert_true(pread(fd, text, sizeof(text) - 1, 0) > 0);
	close(fd);
	unlink(path);
	assert_string_equal(text, "holdfast: warning: number 0\n"
				  "holdfast: warning: the last (and 2 more like this before it)\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_line_in_ten_seconds),
		cmocka_unit_test(what_is_left_out_is_counted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
