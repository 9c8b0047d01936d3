/*
 * The socket of an observer, and a client behind it that is as strict as the contract: it reads
 * every frame as it is written and fails the test when an event is missing, doubled, out of order,
 * sent before the load has reached the end, or written while the socket does not take anything.
 */
#ifndef HOLDFAST_TESTS_FAKE_SOCKET_H
#define HOLDFAST_TESTS_FAKE_SOCKET_H

#include "holdfast/observer.h"

#include <jansson.h>

struct fake_socket {
	struct observer *observer; /* NULL once it was closed */
	struct channel *channel;
	enum deltas deltas;
	size_t budget; /* frames that it takes before it is full; not writable at 0 */
	bool wanted; /* want_writable() was called since */
	unsigned closed; /* close code, 0: open */

	json_t *frames; /* everything received, an array */
	struct buffer log; /* the types, `connected; events_loaded 1-3; events 4-5` */

	/* The client. */
	uint64_t last; /* the newest event it has */
	bool has_page; /* it has got a page: what follows must fit */
	bool live;
	bool was_live; /* activity and state may still come after it has asked for another load */
	bool loading_forward; /* its load leads to the end */
	uint64_t open_seq; /* the event that it knows the text so far of */
	size_t open_len;
	bool prompting; /* as the newest frame says */
};

void fake_socket_open(struct fake_socket *s, struct channel *channel, enum deltas deltas);
void fake_socket_finish(struct fake_socket *s);
void fake_socket_load(struct fake_socket *s, const struct load_request *load);
/** As when the kernel takes bytes again: `frames` of them. */
void fake_socket_drain(struct fake_socket *s, size_t frames);
/** What was received since the last call must be this. */
void fake_socket_expect(struct fake_socket *s, const char *what);
/** The newest frame of a type, its data; NULL if there was none. */
json_t *fake_socket_newest(const struct fake_socket *s, const char *type);
/** How many frames of a type have come. */
size_t fake_socket_count(const struct fake_socket *s, const char *type);

#endif
