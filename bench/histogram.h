/*
 * Counts durations in buckets that are at most 1/64 wide, so that millions of samples cost no
 * memory.
 */
#ifndef BENCH_HISTOGRAM_H
#define BENCH_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_SUB     64 /* buckets for each power of two; what is below it is counted exactly */
#define HISTOGRAM_BUCKETS (HISTOGRAM_SUB * 59)

/** Zeroed, it is empty. */
struct histogram {
	uint64_t count;
	uint64_t max;
	uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *h, uint64_t value);
/**
 * The value that a fraction of the samples (0 to 1) does not exceed, rounded up to its bucket; 0
 * if empty.
 */
uint64_t histogram_quantile(const struct histogram *h, double fraction);

#endif
