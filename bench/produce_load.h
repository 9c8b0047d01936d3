/*
 * Producers as the server sees them: sockets with a window, requests over HTTP, a stream of lines.
 */
#ifndef BENCH_PRODUCE_LOAD_H
#define BENCH_PRODUCE_LOAD_H

#include "histogram.h"

#include <stddef.h>
#include <stdint.h>

struct produce_options {
	unsigned port;
	size_t sockets; /* each with a session of its own */
	size_t window; /* appends that a socket has in flight; HTTP: 1 */
	size_t batch; /* events of an append over a socket */
	uint64_t events; /* of a stream of lines */
	uint64_t duration_ns;
};

struct produce_result {
	uint64_t inputs; /* acknowledged as durable */
	uint64_t took_ns;
	struct histogram acks; /* ns from sending to the acknowledgement; empty for lines */
};

/** Half a second of warming up comes first, in these two. */
void produce_over_sockets(const struct produce_options *options, struct produce_result *ret);
void produce_over_http(const struct produce_options *options, struct produce_result *ret);
/** One request whose body is `events` lines. */
void produce_lines(const struct produce_options *options, struct produce_result *ret);

#endif
