/*
 * One run: a producer, its observers, and what was measured between the end of the warm-up and the
 * end.
 */
#ifndef BENCH_FANOUT_H
#define BENCH_FANOUT_H

#include "crowd.h"
#include "histogram.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct fanout_options {
	unsigned port;
	unsigned elsewhere
		[CROWD_ELSEWHERE_MAX]; /* ports of other nodes, by which observers come in as well */
	size_t elsewhere_count;
	pid_t pid; /* of the server; 0: do not look at it */
	pid_t pids_elsewhere[CROWD_ELSEWHERE_MAX]; /* of the other nodes that are looked at */
	size_t pids_elsewhere_count;
	enum door door;
	size_t observers;
	size_t checkers; /* so many of them look at what comes, and the others only count bytes; 0: all do */
	uint64_t batch; /* events in one append */
	uint64_t window; /* appends that not everybody has yet, at most */
	uint64_t rate; /* appends a second; 0: as fast as the window lets */
	size_t pad; /* bytes added to each event */
	uint64_t warm_up; /* ns */
	uint64_t duration; /* ns */
};

struct fanout_result {
	double seconds;
	uint64_t events; /* published, acknowledged and delivered to all */
	uint64_t published; /* from the first on, with those of the warm-up */
	uint64_t deliveries;
	uint64_t cpu_ns; /* of the server */
	uint64_t own_cpu_ns;
	uint64_t elsewhere_cpu_ns; /* of the other nodes, together */
	uint64_t other_cpu_ns; /* of neither the servers nor us: what disturbed the run */
	struct histogram latency; /* from publishing to receipt, at `port` */
	struct histogram latency_elsewhere;
	struct histogram ack; /* from publishing to `appended` */
};

/**
 * Runs, and checks that at the end every observer has every event. In flight means: not
 * acknowledged, or not at every observer yet. So a slow observer slows the producer, and what is
 * measured can go on forever. With `checkers` that holds for them; the deliveries of the others are
 * what they got in the time, by its size, and at the end they must have as many bytes, too.
 */
void fanout_run(const struct fanout_options *options, struct fanout_result *ret_result);

#endif
