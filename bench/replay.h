/* What is already there, and comes to many at once: catching up, reconnecting, idle observers. */
#ifndef BENCH_REPLAY_H
#define BENCH_REPLAY_H

#include "wire.h"

#include <stddef.h>
#include <sys/types.h>

struct replay_options {
	enum wire_peer peer;
	unsigned port;
	pid_t pid; /* of the server */
	size_t clients;
	uint64_t events;
	bool is_html;
	uint64_t limit; /* ns that catching up may take */
};

/**
 * Puts `events` paragraphs into a session. Then `clients` load all of them, and each is compared
 * with what was put in. Prints name=value. What takes longer than the limit ends with complete=0.
 */
void replay_catch_up(const struct replay_options *options);
/** `clients` connect at once, of whom each lacks the last 100 events. */
void replay_reconnect(const struct replay_options *options);
/** What an observer that waits costs the server, of memory. */
void replay_idle(const struct replay_options *options);

#endif
