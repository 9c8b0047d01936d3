#include "holdfast/error_codes.h"

#include <assert.h>
#include <string.h>

static const struct {
	const char *text;
	unsigned status;
	unsigned close;
	bool may_pass;
} rows[] = {
#define CODE(code, status, close)    [ERROR_##code] = {#code, status, close, false},
#define PASSING(code, status, close) [ERROR_##code] = {#code, status, close, true},
	ERROR_CODES(CODE, PASSING)
#undef CODE
#undef PASSING
};

const char *error_code_text(enum error_code code)
{
	return code == ERROR_NONE ? "" : rows[code].text;
}

enum error_code error_code_parse(const char *text)
{
	enum error_code code = ERROR_COUNT - 1;
	while (code != ERROR_NONE && strcmp(rows[code].text, text) != 0) {
		code--;
	}
	return code;
}

unsigned error_code_status(enum error_code code)
{
	assert(code != ERROR_NONE && "nothing was refused");
	return rows[code].status;
}

unsigned error_code_close(enum error_code code)
{
	assert(rows[code].close && "no socket is closed with this code");
	return rows[code].close;
}

bool error_code_may_pass(enum error_code code)
{
	return rows[code].may_pass;
}
