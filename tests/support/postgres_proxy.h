/*
 * Stands between a server and the PostgreSQL of postgres.h, on a thread of its own, and counts what
 * goes through: a round trip is whatever the server sends up to where it waits for an answer, a
 * connection's beginning too. What a fault is put for does not come to its end. One proxy at a time.
 */
#ifndef HOLDFAST_TESTS_POSTGRES_PROXY_H
#define HOLDFAST_TESTS_POSTGRES_PROXY_H

#include <stdbool.h>
#include <stddef.h>

enum proxy_fault {
	PROXY_CUT_BEFORE, /* the database never hears of it */
	PROXY_CUT_DURING, /* the connection is gone, and the database is still at work */
	PROXY_CUT_IN_ANSWER, /* it has done it, and of its answer comes the beginning */
	PROXY_CUT_AFTER, /* it has done it, and nothing of its answer comes */
	PROXY_IS_LATE, /* the connection is gone, and the database hears of it later */
	PROXY_REFUSES, /* it says an error, and has done nothing */
};

struct proxy_plan {
	enum proxy_fault fault;
	const char *sqlstate; /* of PROXY_REFUSES; of class 57P it closes the connection */
	size_t nth; /* the round trip that it comes in, from 0 on */
	/* In so many, one after the other; how many others are between them if it is late. */
	size_t count;
};

/** Starts it; returns the address for the server, good until proxy_stop(). */
const char *proxy_start(void);
void proxy_stop(void);
/** What happens from now on; NULL: nothing. Round trips are counted from 0 again. */
void proxy_plan(const struct proxy_plan *plan);
/** Round trips since then, and those of them in which the fault came. */
size_t proxy_count(void);
size_t proxy_hits(void);

#endif
