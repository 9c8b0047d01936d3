/*
 * One run of the comparing load tool: sessions with their observers, to Holdfast or to a peer. Each
 * delivery is compared, byte for byte, with what was published under its number.
 */
#ifndef BENCH_RELAY_H
#define BENCH_RELAY_H

#include "histogram.h"
#include "wire.h"

#include <stdatomic.h>
#include <stddef.h>
#include <sys/types.h>

struct relay_options {
	enum wire_peer peer;
	unsigned port;
	pid_t pid; /* of the server; 0: do not look at it */
	const char *name; /* sessions are name-0, name-1, … */
	size_t sessions; /* each with a producer of its own */
	size_t observers; /* of each session; 0: what is acknowledged is read back at the end */
	size_t window; /* events in all that not everybody has yet, at most */
	uint64_t rate; /* events a second; 0: as fast as the window lets */
	bool is_http; /* producers send requests */
	_Atomic uint64_t *measure_from; /* now_ns() from which it is measured */
	_Atomic uint64_t *until; /* … and when it ends */
	/** Everybody is live. May be NULL. */
	void (*live)(void *owner);
	void *owner;
};

struct relay_result {
	double seconds;
	uint64_t events; /* delivered to all, and acknowledged where that exists */
	uint64_t cpu_ns; /* of the server, in that time */
	struct histogram latency; /* from publishing to receipt */
	struct histogram ack; /* from publishing to the acknowledgement */
};

/**
 * Runs until `until`, waits for the last events, and dies unless every observer has every event
 * once, in order and byte for byte.
 */
void relay_run(const struct relay_options *options, struct relay_result *ret);

/** A number that only event n of a session has; it is part of what the event says. */
uint64_t relay_sum(const char *session, uint64_t n);

/* --- the bystander --- */

/** 200 events a second to one observer of a session of its own, from a process of its own. */
struct bystander;

/** Returns when it is live. */
struct bystander *bystander_start(enum wire_peer peer, unsigned port);
/** What it sees from now on counts, until a time of now_ns() or (UINT64_MAX) it is ended. */
void bystander_measure(struct bystander *bystander, uint64_t until);
/** Ends it, and prints " by_p50=… by_p99=… by_p999=… by_max=… by_count=…", in us. */
void bystander_print(struct bystander *bystander);

/** Prints " NAME_p50=…" and so on, in us. */
void relay_print_times(const char *name, const struct histogram *h);

#endif
