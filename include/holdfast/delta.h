/*
 * Bytes as their difference from other bytes that they follow in the main: HTML from the markdown
 * that it was made of. Made for speed: one pass forward, nothing is sorted or hashed.
 */
#ifndef HOLDFAST_DELTA_H
#define HOLDFAST_DELTA_H

#include "holdfast/buffer.h"

#include <stddef.h>

/** Appends what makes `bytes` of `base`. Never much longer than `bytes`. */
void delta_make(
	const char *base, size_t base_len, const char *bytes, size_t len, struct buffer *out);
/**
 * Writes to `out` what the delta makes of `base`, and how long that is: no more than both are long,
 * whatever is in the delta, and `out` has room for so much. -EBADMSG if that cannot be.
 */
int delta_apply(const char *base, size_t base_len, const char *delta, size_t len, char *out,
	size_t *ret_len);

#endif
