#include "core/base/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define COUNT 5000

/** Every object is its own, aligned and zeroed, also when it had another life before. */
static void objects_do_not_overlap(void **state)
{
	static unsigned char *objects[COUNT];
	struct pool pool;
	pool_init(&pool, 77);
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < COUNT; i++) {
			objects[i] = pool_take(&pool);
			assert_int_equal((uintptr_t)objects[i] % _Alignof(max_align_t), 0);
			for (size_t k = 0; k < 77; k++) {
				assert_int_equal(objects[i][k], 0);
			}
			memset(objects[i], (int)(i % 251), 77);
		}
		for (size_t i = 0; i < COUNT; i++) {
			for (size_t k = 0; k < 77; k++) {
				assert_int_equal(objects[i][k], i % 251);
			}
			pool_give(&pool, objects[i]);
		}
	}
	pool_finish(&pool);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(objects_do_not_overlap)};
	return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
