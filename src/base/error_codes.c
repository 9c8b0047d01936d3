#include "holdfast/error_codes.h"

#include <assert.h>
#include <string.h>

static const struct {
	const char *code;
	unsigned status;
} rows[] = {
#define CODE(code, status) {code, status},
	ERROR_CODES(CODE)
#undef CODE
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

const char *error_code_at(size_t index)
{
	return index < ROWS ? rows[index].code : NULL;
}

unsigned error_code_status(const char *code)
{
	for (size_t i = 0; i < ROWS; i++) {
		if (strcmp(rows[i].code, code) == 0) {
			return rows[i].status;
		}
	}
	assert(!"a code that is not in the table");
	return 500;
}
