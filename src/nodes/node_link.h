/*
 * A TCP connection to another node: resolves its name, connects, and carries bytes both ways.
 * Callbacks to the owner always come from the loop.
 */
#ifndef HOLDFAST_NODE_LINK_H
#define HOLDFAST_NODE_LINK_H

#include <stdbool.h>
#include <stddef.h>

struct node_link;
struct nodes;
struct server;

struct node_link_ops {
	/** The link can be written to from now on. */
	void (*connected)(void *owner);
	/** Bytes, valid during the call; the callee may change them in place. */
	void (*received)(void *owner, char *bytes, size_t len);
	/** The link is no longer choked. */
	void (*writable)(void *owner);
	/** The link has ended, and is freed after the call. `why` is for the log. */
	void (*ended)(void *owner, const char *why);
};

/**
 * Opens a link to `address`, HOST:PORT. Returns NULL if the limit is reached. Calls none of `ops`
 * before it returns.
 */
struct node_link *node_link_open(
	struct server *server, const char *address, const struct node_link_ops *ops, void *owner);
/** Sends bytes, and keeps those that the other side does not take: see node_link_is_choked(). */
void node_link_write(struct node_link *link, const void *bytes, size_t len);
/** Whether bytes are kept; writable() follows then. */
bool node_link_is_choked(struct node_link *link);
/** Pauses or resumes reading. */
void node_link_pause(struct node_link *link, bool paused);
/** Releases the link: no more callbacks; it is closed at the end of the tick. Accepts NULL. */
void node_link_leave(struct node_link *link);

/** Ends links that do not connect in time or whose peer no longer answers; called once a second. */
void node_links_sweep(struct nodes *nodes);
/** Calls ended() for links that have ended, and frees them. */
void node_links_end_tick(struct nodes *nodes);
/** Closes all links without callbacks. */
void node_links_close(struct nodes *nodes);

#endif
