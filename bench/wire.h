/*
 * A connection of the comparing load tool, in the words of Holdfast or of one of its peers: one
 * that observes a session (a subject, a channel), or one that produces into it.
 */
#ifndef BENCH_WIRE_H
#define BENCH_WIRE_H

#include "client.h"
#include "payload.h"

enum wire_peer { WIRE_HOLDFAST, WIRE_EPOLL, WIRE_NATS, WIRE_JETSTREAM, WIRE_NCHAN, WIRE_PEERS };

#define WIRE_SESSION_MAX 40

struct wire {
	struct client client; /* first */
	enum wire_peer peer;
	char session[WIRE_SESSION_MAX];
	const char *query; /* Holdfast, observers: "format=markdown" and so on */
	uint64_t after; /* observers: what comes after this event is loaded first */
	unsigned index; /* no other connection of this process has it */
	bool is_http; /* Holdfast, producers: requests and no WebSocket */
	bool is_ready; /* live, or may produce */
	size_t room; /* its owner's */
	uint64_t taken; /* events or acknowledgements so far */
	/**
	 * An event. Its data are in front of the scan: takes them. `seq` is the number that the
	 * server gave, 0 if it gives none.
	 */
	void (*event)(struct wire *wire, uint64_t seq, struct scan *scan, uint64_t when);
	/** What was published first of all that is not acknowledged yet is; seq as above. */
	void (*acked)(struct wire *wire, uint64_t seq, uint64_t when);
	/** Holdfast: text that is still growing; its data are in front of the scan. May be NULL. */
	void (*delta)(struct wire *wire, struct scan *scan, uint64_t when);
	void *owner;
};

/** Dies if there is no such peer. */
enum wire_peer wire_parse_peer(const char *name);
/** NATS without JetStream acknowledges nothing: then acked() is not called. */
bool wire_has_acks(enum wire_peer peer);

/** The members above are set. A producer makes what it produces into, and comes first. */
void wire_observe(struct wire *wire, int epoll, unsigned port);
void wire_produce(struct wire *wire, int epoll, unsigned port);
/** Publishes an event, {"type":…,"data":…}. */
void wire_publish(struct wire *wire, const char *event, size_t len);

#endif
