/*
 * Encodes bytes as a delta against a similar base: HTML against the markdown it was rendered from.
 * Built for speed: one forward pass, no sorting or hashing.
 */
#ifndef HOLDFAST_DELTA_H
#define HOLDFAST_DELTA_H

#include "holdfast/buffer.h"

#include <stddef.h>

/** Appends a delta that turns `base` into `bytes`. It is never much longer than `bytes`. */
void delta_make(
	const char *base, size_t base_len, const char *bytes, size_t len, struct buffer *out);
/**
 * Applies a delta to `base` and writes the result to `out`, its length to *ret_len. Whatever the
 * delta contains, the result is at most `base_len` + `len` bytes; `out` must have that much room.
 * Returns -EBADMSG if the delta is malformed.
 */
int delta_apply(const char *base, size_t base_len, const char *delta, size_t len, char *out,
	size_t *ret_len);

#endif
