#include "holdfast/error_codes.h"

#include <assert.h>
#include <string.h>

static const struct {
	const char *code;
	unsigned status;
	bool may_pass;
} rows[] = {
#define CODE(code, status)    {code, status, false},
#define PASSING(code, status) {code, status, true},
	ERROR_CODES(CODE, PASSING)
#undef CODE
#undef PASSING
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

const char *error_code_at(size_t index)
{
	return index < ROWS ? rows[index].code : NULL;
}

/** Returns the place of a code in the table, or ROWS. */
static size_t find(const char *code)
{
	size_t i = 0;
	while (i < ROWS && strcmp(rows[i].code, code) != 0) {
		i++;
	}
	return i;
}

unsigned error_code_status(const char *code)
{
	size_t at = find(code);
	assert(at < ROWS && "a code that is not in the table");
	return at < ROWS ? rows[at].status : 500;
}

bool error_code_may_pass(const char *code)
{
	size_t at = find(code);
	return at < ROWS && rows[at].may_pass;
}
