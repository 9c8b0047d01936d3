/*
 * A connection to another node: its name is looked up, it is connected, and bytes go both ways. Its
 * owner is told what becomes of it, always from the loop.
 */
#ifndef HOLDFAST_NODE_LINK_H
#define HOLDFAST_NODE_LINK_H

#include <stdbool.h>
#include <stddef.h>

struct node_link;
struct server;

struct node_link_ops {
	/** It can be written to from here on. */
	void (*connected)(void *owner);
	/** Bytes, lent for the call; they may be changed in place. */
	void (*received)(void *owner, char *bytes, size_t len);
	/** It was choked, and is not any more. */
	void (*writable)(void *owner);
	/** It is over, and gone after the call; `why`: words for the log. */
	void (*ended)(void *owner, const char *why);
};

/** NULL: there are as many as there may be. `address` is HOST:PORT. None of `ops` is called inside. */
struct node_link *node_link_open(
	struct server *server, const char *address, const struct node_link_ops *ops, void *owner);
/** Sends what the other side takes, and keeps the rest: see node_link_is_choked(). */
void node_link_write(struct node_link *link, const void *bytes, size_t len);
/** Whether something is kept; then writable() follows. */
bool node_link_is_choked(struct node_link *link);
/** Reads no more, or again. */
void node_link_pause(struct node_link *link, bool paused);
/** Its owner is done with it: nothing is told any more, and it is closed at the end of the tick. Accepts NULL. */
void node_link_leave(struct node_link *link);

/** Looks for those that cannot be connected, or whose other side has gone without a word; once a second. */
void node_links_sweep(struct server *server);
/** Closes what is over, and tells. */
void node_links_end_tick(struct server *server);
/** The server goes; nobody is told. */
void node_links_close(struct server *server);

#endif
