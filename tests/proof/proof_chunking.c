/* However a text is cut into chunks, the events are the same (timers held still). */
#include "chunks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

static void events_do_not_depend_on_the_chunks(void **state)
{
	const struct texts *texts = *state;
	struct chunks_count count = {0};
	for (size_t i = 0; i < texts->count; i++) {
		chunks_check_buffer(&texts->items[i], limits_default(), &count);
	}
	print_message("%zu texts cut in %zu ways: each time the same %zu events\n", count.texts,
		count.cuts, count.events);
	assert_true(count.texts == texts->count);
}

static void blocks_do_not_depend_on_the_bytes_of_a_call(void **state)
{
	const struct texts *texts = *state;
	struct chunks_count count = {0};
	for (size_t i = 0; i < texts->count; i++) {
		chunks_check_scanner(&texts->items[i], &count);
	}
	print_message(
		"the scanner alone, %zu texts cut in %zu ways: each time the same %zu blocks\n",
		count.texts, count.cuts, count.events);
	assert_true(count.texts == texts->count);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_do_not_depend_on_the_chunks),
		cmocka_unit_test(blocks_do_not_depend_on_the_bytes_of_a_call),
	};
	return cmocka_run_group_tests_name(
		"proof_chunking", tests, texts_setup_part, texts_teardown);
}
