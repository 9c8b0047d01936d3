/* What is moved out of events, and what is no base64. */
#include "holdfast/content_blobs.h"

#include "holdfast/buffer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define SIZE 6000

/** Moves base64 with `end` as its last characters. Returns the size of the blob; 0: dropped. */
static size_t move(const char *end)
{
	char *text = xmalloc(SIZE + 1);
	struct list blobs;
	size_t size = 0;
	list_init(&blobs);
	memset(text, 'A', SIZE);
	text[SIZE] = '\0';
	memcpy(text + SIZE - strlen(end), end, strlen(end));
	json_t *data = json_pack("{s:{s:s, s:s}}", "content", "type", "image", "data", text);
	json_t *moved = content_move("x-acp-content", data, &blobs);
	const json_t *block = json_object_get(moved, "content");
	const char *why = json_string_value(json_object_get(block, "omitted"));
	assert_null(json_object_get(block, "data"));
	if (why) {
		assert_string_equal(why, "bad_base64");
		assert_true(list_empty(&blobs));
	} else {
		struct content_blob *blob = list_entry(blobs.next, struct content_blob, link);
		size = blob->len;
		content_blob_free(blob);
	}
	json_decref(moved);
	json_decref(data);
	free(text);
	return size;
}

static void padding_is_at_the_end(void **state)
{
	assert_int_equal(move(""), SIZE / 4 * 3);
	assert_int_equal(move("A="), SIZE / 4 * 3 - 1);
	assert_int_equal(move("A=="), SIZE / 4 * 3 - 2);
	static const char *const bad[] = {
		"===", "====", "=A", "A=A=", "=AAA", "A=AAAA==", "==AAAA", "A AA", "AAA\n"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(move(bad[i]), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(padding_is_at_the_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
