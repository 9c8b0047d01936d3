/* Random numbers for tests: from a seed, so that every run is the same run. */
#ifndef HOLDFAST_TESTS_RANDOM_H
#define HOLDFAST_TESTS_RANDOM_H

#include <stdint.h>

struct random {
	uint64_t state; /* not 0 */
};

static inline uint32_t random_next(struct random *r)
{
	r->state ^= r->state << 13;
	r->state ^= r->state >> 7;
	r->state ^= r->state << 17;
	return (uint32_t)(r->state >> 20);
}

/** From 0 to `count` - 1. */
static inline uint32_t random_below(struct random *r, uint32_t count)
{
	return random_next(r) % count;
}

#endif
