/* Parses the `presence` frame, and checks the names of people. */
#include "requests_internal.h"

#include "holdfast/utf8.h"

#include <errno.h>
#include <string.h>

/* Longest name, in bytes. */
#define NAME_SIZE 64

struct range {
	uint32_t from;
	uint32_t to;
};

static bool is_among(uint32_t c, const struct range *ranges, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (c >= ranges[i].from && c <= ranges[i].to) {
			return true;
		}
	}
	return false;
}

/**
 * Characters that are invisible or affect the display of the text around them. Joiners are allowed:
 * some languages and emoji need them.
 */
static bool is_hidden(uint32_t c)
{
	static const struct range ranges[] = {{0, 0x1f}, {0x7f, 0x9f}, {0xad, 0xad}, {0x34f, 0x34f},
		{0x61c, 0x61c}, {0x115f, 0x1160}, {0x17b4, 0x17b5}, {0x180e, 0x180e},
		{0x200b, 0x200b}, {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},
		{0x3164, 0x3164}, {0xfeff, 0xfeff}, {0xffa0, 0xffa0}, {0xfff0, 0xfffb},
		{0xe0000, 0xe0fff}};
	return is_among(c, ranges, sizeof(ranges) / sizeof(ranges[0]));
}

static bool is_blank(uint32_t c)
{
	static const struct range ranges[] = {{' ', ' '}, {0xa0, 0xa0}, {0x1680, 0x1680},
		{0x2000, 0x200a}, {0x200c, 0x200d}, {0x202f, 0x202f}, {0x205f, 0x205f},
		{0x3000, 0x3000}};
	return is_among(c, ranges, sizeof(ranges) / sizeof(ranges[0]));
}

/** Decodes the character at `text`, which is valid UTF-8. */
static uint32_t decode(const char *text, size_t len)
{
	static const unsigned char first[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	uint32_t c = (unsigned char)text[0] & first[len];
	for (size_t i = 1; i < len; i++) {
		c = c << 6 | ((unsigned char)text[i] & 0x3f);
	}
	return c;
}

bool person_name_is_valid(const char *text, size_t len)
{
	uint32_t last = ' ';
	for (size_t i = 0; i < len;) {
		size_t n = utf8_length(text + i, len - i);
		uint32_t c = n ? decode(text + i, n) : 0;
		if (is_hidden(c) || (i == 0 && is_blank(c))) {
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
		return refuse(refusal, "bad_request",
			"a person's name must have 1 to %d bytes, no invisible characters, and no leading or trailing space; or be null",
			NAME_SIZE);
	}
	if (watch && !json_is_boolean(watch)) {
		return refuse(refusal, "bad_request", "watch must be true or false");
	}
	ret->presence.has_name = name != NULL;
	ret->presence.name = json_string_value(name);
	ret->presence.has_watch = watch != NULL;
	ret->presence.watch = json_is_true(watch);
	return 0;
}
