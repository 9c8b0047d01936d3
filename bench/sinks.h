/*
 * Observers of a run that only count what comes. A thread of their own reads them now and then, so that
 * whoever publishes does not wait for it, and the kernel throws away what has come: much with one call.
 */
#ifndef BENCH_SINKS_H
#define BENCH_SINKS_H

#include "crowd.h"

struct sinks;

/** The members must stay, and nobody else may wait for them or read them. NULL if `count` is 0. */
struct sinks *sinks_create(struct member *members, size_t count);
/** What they have got so far, together. Accepts NULL. */
uint64_t sinks_bytes(struct sinks *sinks);
/** Ends the thread, and reads each until it has `wanted` bytes; dies if that takes longer than `deadline`. Accepts NULL. */
void sinks_destroy(struct sinks *sinks, uint64_t wanted, uint64_t deadline);

#endif
