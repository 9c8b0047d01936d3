#include "histogram.h"

/* log2(HISTOGRAM_SUB) */
#define SUB_BITS 6

static unsigned bucket_of(uint64_t value)
{
	if (value < HISTOGRAM_SUB) {
		return (unsigned)value;
	}
	unsigned shift = 63 - (unsigned)__builtin_clzll(value) - SUB_BITS;
	return (shift + 1) * HISTOGRAM_SUB + (unsigned)(value >> shift) - HISTOGRAM_SUB;
}

/** The largest value that is counted in a bucket. */
static uint64_t bucket_top(unsigned bucket)
{
	if (bucket < HISTOGRAM_SUB) {
		return bucket;
	}
	unsigned shift = bucket / HISTOGRAM_SUB - 1;
	uint64_t base = bucket % HISTOGRAM_SUB + HISTOGRAM_SUB;
	return (base << shift) + ((UINT64_C(1) << shift) - 1);
}

void histogram_add(struct histogram *h, uint64_t value)
{
	h->buckets[bucket_of(value)]++;
	h->count++;
	if (value > h->max) {
		h->max = value;
	}
}

uint64_t histogram_quantile(const struct histogram *h, double fraction)
{
	double exact = (double)h->count * fraction;
	uint64_t rank = (uint64_t)exact;
	if ((double)rank < exact) {
		rank++;
	}
	uint64_t seen = 0;
	for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
		seen += h->buckets[bucket];
		if (seen && seen >= rank) {
			uint64_t top = bucket_top(bucket);
			return top < h->max ? top : h->max;
		}
	}
	return h->max;
}
