/* The store as a client sees it: pages, catching up, appends. */
#ifndef BENCH_STORE_LOAD_H
#define BENCH_STORE_LOAD_H

#include <stddef.h>
#include <stdint.h>

/** How one load went. */
struct load_result {
	uint64_t open_ns; /* from connecting to the answer */
	uint64_t load_ns; /* from the request to the answer */
	uint64_t events;
};

/**
 * Loads what follows after_seq, up to the end (events counted; seqs checked), in the format
 * markdown.
 */
void store_load(unsigned port, const char *session, uint64_t after_seq, uint64_t last_seq,
	struct load_result *ret);

struct append_result {
	uint64_t events; /* acknowledged as durable */
	double seconds;
};

/** Each producer has a session and one append of `batch` events in flight. */
void store_append_run(unsigned port, size_t producers, size_t batch, uint64_t duration_ns,
	struct append_result *ret);

#endif
