#include "holdfast/address.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

static const unsigned char v4_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

static bool is_v4(const struct address *address)
{
	return memcmp(address->bytes, v4_prefix, sizeof(v4_prefix)) == 0;
}

/** Parses an address without brackets or a port. */
static bool parse_bare(const char *text, size_t len, struct address *ret)
{
	char copy[INET6_ADDRSTRLEN];
	if (!len || len >= sizeof(copy) || memchr(text, '\0', len)) {
		return false;
	}
	memcpy(copy, text, len);
	copy[len] = '\0';
	memcpy(ret->bytes, v4_prefix, sizeof(v4_prefix));
	return inet_pton(AF_INET, copy, ret->bytes + sizeof(v4_prefix)) == 1 ||
	       inet_pton(AF_INET6, copy, ret->bytes) == 1;
}

static bool is_port(const char *text, size_t len)
{
	if (!len || len > 5) {
		return false;
	}
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9') {
			return false;
		}
	}
	return true;
}

bool address_parse(const char *text, size_t len, struct address *ret)
{
	const char *end = text + len;
	const char *colon = memchr(text, ':', len);
	if (len && *text == '[') {
		const char *bracket = memchr(text, ']', len);
		bool is_whole = bracket &&
				(bracket + 1 == end ||
					(bracket[1] == ':' &&
						is_port(bracket + 2, (size_t)(end - bracket - 2))));
		return is_whole && memchr(text, ':', (size_t)(bracket - text)) &&
		       parse_bare(text + 1, (size_t)(bracket - text - 1), ret);
	}
	bool has_port = colon && !memchr(colon + 1, ':', (size_t)(end - colon - 1));
	if (has_port && !is_port(colon + 1, (size_t)(end - colon - 1))) {
		return false;
	}
	return parse_bare(text, has_port ? (size_t)(colon - text) : len, ret);
}

bool address_range_parse(const char *text, struct address_range *ret)
{
	size_t len = strcspn(text, "/");
	if (!parse_bare(text, len, &ret->address)) {
		return false;
	}
	unsigned most = is_v4(&ret->address) && !memchr(text, ':', len) ? 32 : 128;
	unsigned bits = most;
	if (text[len]) {
		size_t digits = strspn(text + len + 1, "0123456789");
		if (!digits || digits > 3 || text[len + 1 + digits]) {
			return false;
		}
		bits = (unsigned)atoi(text + len + 1);
	}
	ret->bits = bits + 128 - most;
	return bits <= most;
}

bool address_is_in(const struct address *address, const struct address_range *range)
{
	unsigned whole = range->bits / 8;
	unsigned rest = range->bits % 8;
	unsigned char differs = rest ? address->bytes[whole] ^ range->address.bytes[whole] : 0;
	return memcmp(address->bytes, range->address.bytes, whole) == 0 && !(differs >> (8 - rest));
}

struct address address_household(const struct address *address)
{
	struct address household = *address;
	if (!is_v4(address)) {
		memset(household.bytes + 8, 0, 8);
	}
	return household;
}
