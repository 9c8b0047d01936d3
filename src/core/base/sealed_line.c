#include "holdfast/sealed_line.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define PREFIX     ",\"xxh\":\""
#define PREFIX_LEN (sizeof(PREFIX) - 1)

static void write_seal(char seal[SEAL_LEN], const char *body, size_t len)
{
	static const char digits[] = "0123456789abcdef";
	uint64_t sum = XXH3_64bits(body, len);
	memcpy(seal, PREFIX, PREFIX_LEN);
	for (size_t i = 0; i < 16; i++) {
		seal[PREFIX_LEN + i] = digits[(sum >> (60 - 4 * i)) & 15];
	}
	memcpy(seal + PREFIX_LEN + 16, "\"}", 2);
}

void sealed_line_end(struct buffer *out, size_t start)
{
	char seal[SEAL_LEN];
	write_seal(seal, out->data + start, out->len - start);
	buffer_append(out, seal, sizeof(seal));
	buffer_append_char(out, '\n');
}

bool sealed_line_check(const char *line, size_t len, size_t *ret_body)
{
	char seal[SEAL_LEN];
	if (len <= SEAL_LEN || memcmp(line + len - 2, "\"}", 2) != 0) {
		return false;
	}
	*ret_body = len - SEAL_LEN;
	write_seal(seal, line, *ret_body);
	return memcmp(line + *ret_body, seal, sizeof(seal)) == 0;
}
