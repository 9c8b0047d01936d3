/*
 * The shelf: what the servers on one store share beside sessions. That is secrets by name, the
 * lines that are in access.jsonl in a data directory (access.h), and the listed state of each
 * other's sessions. The store's engine provides it.
 */
#ifndef HOLDFAST_SHELF_H
#define HOLDFAST_SHELF_H

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHELF_OWNER_SIZE 20

/** Borrowed from the store; valid until the store is closed. */
struct shelf {
	void *arg;
	/**
	 * On the loop: true before work on another thread calls the functions below, false after it
	 * has ended. The store is not closed in between.
	 */
	void (*hold)(void *arg, bool is_held);

	/*
	 * The functions from here on block, unless noted. They may be called on any thread between
	 * hold(true) and hold(false), or while the server starts. They return 0, or a negative
	 * errno if the store cannot be used.
	 */
	/**
	 * Replaces `text` by the secret of this name. If the secret does not exist, `text` becomes
	 * it.
	 */
	int (*secret)(void *arg, const char *name, struct buffer *text);
	/**
	 * Appends lines, each with its '\n', durably; with `once`, only lines not there already.
	 */
	int (*append)(void *arg, const char *lines, size_t len, bool once);
	/**
	 * Appends to *ret the lines with numbers above *at, in the order in which they were
	 * appended, each preceded by '=' if this server appended it, else by '+'. Sets *at to the
	 * last number.
	 */
	int (*read)(void *arg, uint64_t *at, struct buffer *ret);
	/** Removes those of these lines that are older than a day. */
	int (*forget)(void *arg, const char *lines, size_t len);

	/* If several servers use the store at once: what they list of each other's sessions. */
	/**
	 * On the loop, does not block: the name under which this server owns sessions; borrowed
	 * until it loses its lease.
	 */
	const char *(*owner)(void *arg);
	/**
	 * Publishes sessions of that owner: lines of "ID OBJECT", OBJECT being JSON in one line.
	 */
	int (*show)(void *arg, const char *owner, const char *lines, size_t len);
	/**
	 * Like read(), appends what all servers have published after *at: lines of "ID NUMBER
	 * OBJECT", NUMBER being session_log_number(), or of "ID" alone for a deleted session.
	 */
	int (*read_shown)(void *arg, uint64_t *at, struct buffer *ret);
};

#endif
