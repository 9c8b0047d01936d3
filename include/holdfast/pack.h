/*
 * Fixed-width little-endian fields in a buffer, for the journal and its snapshots. Reading is
 * bounded: `struct unpack` remembers that the input ended early, and returns zeros from then on.
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

/** Appends a 32-bit length and the bytes. */
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

/**
 * Reads a length and bytes, which stay in the input. If the input is damaged, *ret_len is 0 and the
 * result is "".
 */
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

/*
 * Writes fields to `out`, or reads them from `in` if `out` is NULL, so that one list of fields
 * serves both.
 */
struct codec {
	struct buffer *out;
	struct unpack in;
};

/** Codes a number of `width` bytes; `field` is an lvalue, assigned only when reading. */
#define CODE(codec, field, width)                                         \
	((codec)->out ? pack_le((codec)->out, (uint64_t)(field), (width)) \
		      : (void)((field) = (__typeof__(field))unpack_le(&(codec)->in, (width))))

/** Codes the contents of a buffer, as pack_bytes() does. */
static inline void code_buffer(struct codec *c, struct buffer *bytes)
{
	if (c->out) {
		pack_bytes(c->out, bytes->data, bytes->len);
		return;
	}
	size_t len;
	const char *text = unpack_bytes(&c->in, &len);
	bytes->len = 0;
	buffer_append(bytes, text, len);
}

#endif
