/*
 * What servers on one store have in common beside sessions: secrets by their names, and the lines of
 * text that access.jsonl has in a data directory (access.h). The store's engine provides it.
 */
#ifndef HOLDFAST_SHELF_H
#define HOLDFAST_SHELF_H

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHELF_OWNER_SIZE 20

/** Lent by the store, for its life. */
struct shelf {
	void *arg;
	/** On the loop: work on another thread is about to call what follows; false: it is over. */
	void (*hold)(void *arg, bool is_held);

	/* On any thread that holds it, or while the server starts. All of it blocks. 0, or a negative errno: the store cannot be used. */
	/** The secret of a name comes in place of `text`, which becomes it if there is none. */
	int (*secret)(void *arg, const char *name, struct buffer *text);
	/** Appends lines, each with its '\n', durably; `once`: but those that are there. */
	int (*append)(void *arg, const char *lines, size_t len, bool once);
	/**
	 * Appends to *ret the lines behind number *at, in the order in which they were appended,
	 * each with a '=' in front if this server has appended it, else a '+'. Moves *at to the last.
	 */
	int (*read)(void *arg, uint64_t *at, struct buffer *ret);
	/** Takes away such lines that are older than a day. */
	int (*forget)(void *arg, const char *lines, size_t len);

	/* If several servers use the store at once: what they list of each other's sessions. */
	/** On the loop: who this server is, as the owner of sessions; lent until it loses them. */
	const char *(*owner)(void *arg);
	/** Shows sessions of that owner: lines of "ID OBJECT", the object being JSON in one line. */
	int (*show)(void *arg, const char *owner, const char *lines, size_t len);
	/**
	 * Lines of "ID NUMBER OBJECT" behind *at, as read() does, of all servers; NUMBER names the session's log (store.h). Of
	 * a deleted session "ID" alone.
	 */
	int (*read_shown)(void *arg, uint64_t *at, struct buffer *ret);
};

#endif
