/*
 * What the bench of the stream buffer reads: markdown as agents write it, mixed from pieces by a
 * seed, and hostile texts, each of one shape and of any size.
 */
#ifndef BENCH_STREAM_TEXT_H
#define BENCH_STREAM_TEXT_H

#include "holdfast/buffer.h"

/**
 * Appends whole blocks until there are at least `size` bytes. The same seed gives the same text.
 */
void ordinary_text(struct buffer *out, uint64_t seed, size_t size);

struct hostile_shape {
	const char *name;
	const char *start;
	const char *unit; /* again and again; NULL: `write` does it */
	void (*write)(struct buffer *out, size_t size);
};

extern const struct hostile_shape hostile_shapes[];
extern const size_t hostile_shape_count;

/** Exactly `size` bytes. */
void hostile_text(struct buffer *out, const struct hostile_shape *shape, size_t size);

#endif
