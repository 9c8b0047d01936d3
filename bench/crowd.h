/* The observers of a run. Each checks that it gets every event once, in order, byte for byte. */
#ifndef BENCH_CROWD_H
#define BENCH_CROWD_H

#include "client.h"
#include "histogram.h"

/** How observers come in: by WebSocket, by server-sent events, or by each of the two in turn. */
enum door { DOOR_WEBSOCKET, DOOR_SSE, DOOR_BOTH };

/* Ports of other nodes, at most. */
#define CROWD_ELSEWHERE_MAX 8

struct member {
	struct client client; /* first */
	bool is_elsewhere; /* at another node than the session's owner */
	uint64_t last; /* n of the newest event it has */
	bool is_live;
};

struct crowd {
	int epoll;
	unsigned port;
	/* Observers come in by all ports in turn. */
	const unsigned *elsewhere;
	size_t elsewhere_count;
	enum door door;
	const char *session;
	size_t pad;
	struct member *members;
	size_t size; /* how many may be opened */
	size_t opened;
	size_t live;
	uint64_t measure_from; /* events published before this are checked and not measured */
	struct histogram latency; /* from publishing to receipt, in ns, at `port` */
	struct histogram latency_elsewhere;
	/** A member has an event; may be NULL. */
	void (*delivered)(void *owner, uint64_t n);
	void *owner;
};

/** The session exists; `size` is how many observers there will be at most. */
void crowd_init(struct crowd *crowd, int epoll, unsigned port, const char *session, size_t pad,
	size_t size);
void crowd_finish(struct crowd *crowd);
/** Connects until `count` are live, a few at a time. */
void crowd_gather(struct crowd *crowd, size_t count);

#endif
