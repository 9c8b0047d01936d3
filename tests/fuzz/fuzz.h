/*
 * What the fuzz targets share. A target checks properties, not only that nothing crashes; one that
 * does not hold aborts, which is a finding to libFuzzer and a failure to the plain run over the
 * seeds (seed_main.c).
 */
#ifndef HOLDFAST_TESTS_FUZZ_H
#define HOLDFAST_TESTS_FUZZ_H

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** The target: every one defines it, libFuzzer or seed_main.c calls it. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void fuzz_check(bool holds, const char *what)
{
	if (!holds) {
		fprintf(stderr, "this does not hold: %s\n", what);
		abort();
	}
}

/**
 * An input of a target that reads text: the text itself, so that any markdown file is a seed, and
 * behind the last byte 0xff (which no UTF-8 has) a plan: numbers that say where to cut, and so on.
 * A plan that has run out gives zeros.
 */
struct fuzz_input {
	const char *text;
	size_t len;
	const uint8_t *plan;
	size_t plan_len;
};

static inline struct fuzz_input fuzz_split(const uint8_t *data, size_t size)
{
	const uint8_t *mark = size ? memrchr(data, 0xff, size) : NULL;
	size_t len = mark ? (size_t)(mark - data) : size;
	return (struct fuzz_input){
		.text = size ? (const char *)data : "",
		.len = len,
		.plan = mark ? mark + 1 : NULL,
		.plan_len = mark ? size - len - 1 : 0,
	};
}

static inline unsigned fuzz_take(struct fuzz_input *in)
{
	if (!in->plan_len) {
		return 0;
	}
	in->plan_len--;
	return *in->plan++;
}

/** From 0 to `max`, from two bytes of the plan. */
static inline size_t fuzz_take_up_to(struct fuzz_input *in, size_t max)
{
	unsigned high = fuzz_take(in);
	return (high << 8 | fuzz_take(in)) % (max + 1);
}

/**
 * What takes more than linear time shows with much text: a plan of one byte asks for its text to be
 * repeated, behind a head that long. Returns whether it does; the bytes are the caller's.
 */
bool fuzz_repeat(const struct fuzz_input *in, size_t size, struct buffer *ret);

/**
 * The length of the whole, valid UTF-8 character at the beginning of the bytes; 0 if there is none.
 */
size_t fuzz_utf8_length(const char *bytes, size_t len);

#endif
