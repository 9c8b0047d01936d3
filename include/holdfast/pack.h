/*
 * Little-endian fixed-width fields in a buffer, for the journal and the snapshots in it. Reading is
 * bounded: `struct unpack` remembers that it ran out, and gives zeros from then on.
 */
#ifndef HOLDFAST_PACK_H
#define HOLDFAST_PACK_H

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct unpack {
	const char *bytes;
	size_t len;
	bool failed; /* a read went past the end: the input is damaged */
};

static inline void pack_le(struct buffer *out, uint64_t value, size_t width)
{
	char bytes[8];
	for (size_t i = 0; i < width; i++) {
		bytes[i] = (char)(value >> (8 * i));
	}
	buffer_append(out, bytes, width);
}

/** A 32-bit length and the bytes. */
static inline void pack_bytes(struct buffer *out, const void *bytes, size_t len)
{
	pack_le(out, len, 4);
	buffer_append(out, bytes, len);
}

static inline uint64_t unpack_le(struct unpack *in, size_t width)
{
	if (in->failed || in->len < width) {
		in->failed = true;
		return 0;
	}
	uint64_t value = 0;
	for (size_t i = 0; i < width; i++) {
		value |= (uint64_t)(unsigned char)in->bytes[i] << (8 * i);
	}
	in->bytes += width;
	in->len -= width;
	return value;
}

/** The bytes stay the input's; *ret_len is 0 and the result "" when the input is damaged. */
static inline const char *unpack_bytes(struct unpack *in, size_t *ret_len)
{
	size_t len = (size_t)unpack_le(in, 4);
	if (in->failed || in->len < len) {
		in->failed = true;
		*ret_len = 0;
		return "";
	}
	const char *bytes = in->bytes;
	in->bytes += len;
	in->len -= len;
	*ret_len = len;
	return bytes;
}

#endif
