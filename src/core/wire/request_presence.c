/* Parses the `presence` frame, and checks the names of people. */
#include "requests_internal.h"

#include "holdfast/utf8.h"

#include <errno.h>
#include <string.h>

/* Longest name, in bytes. */
#define NAME_SIZE 64

static bool is_blank(uint32_t c)
{
	return c == ' ' || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
	       c == 0x200c || c == 0x200d || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool person_name_is_valid(const char *text, size_t len)
{
	uint32_t last = ' ';
	for (size_t i = 0; i < len;) {
		size_t n = utf8_length(text + i, len - i);
		uint32_t c = n ? utf8_decode(text + i, n) : 0;
		if (utf8_is_hidden(c) || (i == 0 && is_blank(c))) {
			return false;
		}
		last = c;
		i += n;
	}
	return len <= NAME_SIZE && !is_blank(last);
}

int request_parse_presence(const json_t *data, struct request *ret, struct refusal *refusal)
{
	const json_t *name = json_object_get(data, "name");
	const json_t *watch = json_object_get(data, "watch");
	if (name && !json_is_null(name) &&
		!(json_is_string(name) &&
			person_name_is_valid(json_string_value(name), json_string_length(name)))) {
		return refuse(refusal, ERROR_bad_request,
			"a person's name must have 1 to %d bytes, no invisible characters, and no leading or trailing space; or be null",
			NAME_SIZE);
	}
	if (watch && !json_is_boolean(watch)) {
		return refuse(refusal, ERROR_bad_request, "watch must be true or false");
	}
	ret->presence.has_name = name != NULL;
	ret->presence.name = json_string_value(name);
	ret->presence.has_watch = watch != NULL;
	ret->presence.watch = json_is_true(watch);
	return 0;
}
