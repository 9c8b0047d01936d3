/* The diff of a write: applied to the old text it gives the new one, and people can read it. */
#include "agents/workspace/workspace_internal.h"

#include "random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NO_NEWLINE "\\ No newline at end of file\n"

static void put(struct buffer *b, const char *text)
{
	buffer_clear(b);
	buffer_append_str(b, text);
}

static void expect_diff(const char *before, const char *after, const char *expected)
{
	struct buffer old = {0};
	struct buffer new = {0};
	struct buffer out = {0};
	put(&old, before);
	put(&new, after);
	assert_true(diff_append(&out, &old, &new, 10000));
	assert_string_equal(buffer_cstr(&out), expected);
	buffer_finish(&old);
	buffer_finish(&new);
	buffer_finish(&out);
}

static void test_hunks(void **state)
{
	expect_diff("", "", "");
	expect_diff("a\n", "a\n", "");
	expect_diff("", "a\n", "@@ -0,0 +1,1 @@\n+a\n");
	expect_diff("a\n", "", "@@ -1,1 +0,0 @@\n-a\n");
	expect_diff("a", "a\n", "@@ -1,1 +1,1 @@\n-a\n" NO_NEWLINE "+a\n");
	expect_diff("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n",
		"@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
	/* Two changes share a hunk when what lies between them is all context. */
	expect_diff("a\n1\n2\n3\n4\n5\n6\nb\n", "1\n2\n3\n4\n5\n6\n",
		"@@ -1,8 +1,6 @@\n-a\n 1\n 2\n 3\n 4\n 5\n 6\n-b\n");
	expect_diff("a\n1\n2\n3\n4\n5\n6\n7\nb\n", "1\n2\n3\n4\n5\n6\n7\n",
		"@@ -1,4 +1,3 @@\n-a\n 1\n 2\n 3\n@@ -6,4 +5,3 @@\n 5\n 6\n 7\n-b\n");
	/* The shortest way. */
	expect_diff("a\nb\nc\na\nb\nb\na\n", "c\nb\na\nb\na\nc\n",
		"@@ -1,7 +1,6 @@\n-a\n-b\n c\n+b\n a\n b\n-b\n a\n+c\n");
}

/** Applies hunks as patch(1) does; fails if what they say of the old text is not so. */
static void apply(struct buffer *out, struct buffer *old, struct buffer *diff)
{
	const char *at = buffer_cstr(old);
	const char *line = buffer_cstr(diff);
	size_t old_line = 0;
	while (*line) {
		size_t len = strcspn(line, "\n") + 1;
		if (line[0] == '@') {
			size_t from = strtoul(line + 4, NULL, 10);
			bool empty = strncmp(strchr(line, ',') + 1, "0 ", 2) == 0;
			for (; old_line + 1 < from + empty; old_line++) {
				size_t n = strcspn(at, "\n") + 1;
				buffer_append(out, at, n);
				at += n;
			}
			line += len;
			continue;
		}
		bool bare = line[len] == '\\';
		size_t n = len - 1 - bare;
		if (line[0] != '+') {
			assert_memory_equal(at, line + 1, n);
			at += n;
			old_line++;
		}
		if (line[0] != '-') {
			buffer_append(out, line + 1, n);
		}
		line += len;
		line += bare ? strlen(NO_NEWLINE) : 0;
	}
	buffer_append_str(out, at);
}

static void random_text(struct buffer *out, struct random *seed, unsigned lines, unsigned words)
{
	buffer_clear(out);
	for (unsigned i = random_below(seed, lines); i > 0; i--) {
		buffer_printf(out, "%u\n", (unsigned)random_below(seed, words));
	}
	if (out->len && random_below(seed, 4) == 0) {
		out->len--;
	}
}

static void test_random(void **state)
{
	struct random seed = {7};
	struct buffer old = {0};
	struct buffer new = {0};
	struct buffer diff = {0};
	struct buffer back = {0};
	for (int round = 0; round < 3000; round++) {
		/* The last rounds have more changes than are looked for. */
		unsigned lines = round < 2900 ? 30 : 500;
		random_text(&old, &seed, lines, 2 + round % 7);
		random_text(&new, &seed, lines, 2 + round % 7);
		buffer_clear(&diff);
		buffer_clear(&back);
		assert_true(diff_append(&diff, &old, &new, 1000000));
		apply(&back, &old, &diff);
		assert_string_equal(buffer_cstr(&back), buffer_cstr(&new));
	}
	buffer_finish(&old);
	buffer_finish(&new);
	buffer_finish(&diff);
	buffer_finish(&back);
}

static void test_limits(void **state)
{
	struct buffer old = {0};
	struct buffer new = {0};
	struct buffer out = {0};
	for (int i = 0; i < 1000; i++) {
		buffer_printf(&new, "line %d\n", i);
	}
	assert_false(diff_append(&out, &old, &new, 200));
	assert_true(out.len <= 200 && out.len > 150);
	assert_int_equal(out.data[out.len - 1], '\n');
	/* One line that is too long is left out whole. */
	buffer_clear(&new);
	buffer_clear(&out);
	for (int i = 0; i < 300; i++) {
		buffer_append_char(&new, 'x');
	}
	assert_false(diff_append(&out, &old, &new, 200));
	assert_string_equal(buffer_cstr(&out), "@@ -0,0 +1,1 @@\n");
	/* Too many lines are not even looked at. */
	buffer_clear(&new);
	buffer_clear(&out);
	for (int i = 0; i < 100001; i++) {
		buffer_append_char(&new, '\n');
	}
	assert_false(diff_append(&out, &old, &new, 10000));
	assert_int_equal(out.len, 0);
	buffer_finish(&new);
	buffer_finish(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hunks),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_limits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
