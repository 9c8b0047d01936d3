/*
 * The sides of a migration (store_migrate.h): an old one that is read, and a new one that is
 * written. A data directory is one (core/store/embedded), a database another (store_kind.h).
 * All functions block, and return 0 or a negative errno unless noted.
 */
#ifndef HOLDFAST_STORE_MOVING_H
#define HOLDFAST_STORE_MOVING_H

#include "holdfast/event.h"
#include "holdfast/metadata.h"
#include "holdfast/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Receives the data of a session, in this order. */
struct moving_sink {
	/** After moving_settle_metadata(). */
	int (*metadata)(void *arg, const char *id, const struct metadata *meta);
	/** Whole lines of names, which begin at offset `at`. */
	int (*names)(void *arg, uint64_t at, const char *lines, size_t len);
	int (*event)(void *arg, const struct event_view *view, const char *line, size_t len);
	int (*blob)(void *arg, const char *name, const void *bytes, size_t len);
	/** Records from the newest snapshot on; none if the session is at rest. */
	int (*record)(void *arg, const struct record *record);
	void *arg;
};

typedef int moving_secret_fn(void *arg, const char *name, const char *bytes, size_t len);
typedef int moving_line_fn(void *arg, const char *line, size_t len);

/** What a database has besides sessions (shelf.h). Servers keep it in files of a directory. */
struct moving_shelf {
	/** Visit all secrets, in no order. A value other than 0 from `visit` is returned. */
	int (*each_secret)(void *side, moving_secret_fn *visit, void *arg);
	/** The same for all lines, in their order and without newlines. */
	int (*each_line)(void *side, moving_line_fn *visit, void *arg);
	/** Replaces a secret. */
	int (*put_secret)(void *side, const char *name, const char *bytes, size_t len);
	/** Replaces all lines, each of which ends with a newline. */
	int (*put_lines)(void *side, const char *lines, size_t len);
};

/** One side of a migration. */
struct moving_side {
	void *side; /* the functions' argument; NULL: the side was never opened */
	const char *dir; /* the directory, under its name for now; NULL: a database; lent */
	const struct moving_shelf *shelf; /* NULL: a directory */
	/** Accepts a side that could not be opened. */
	void (*close)(void *side);
	/** Lists the ids of its sessions, sorted. The caller frees each and the array. */
	int (*list)(void *side, char ***ret_ids, size_t *ret_count);
	/** Reads a session but for its records. -ENOENT; -EAGAIN: it has to be recovered first. */
	int (*read)(void *side, const char *id, const struct moving_sink *sink);
	int (*read_records)(void *side, const char *id, const struct moving_sink *sink);
	/** Old side: approximate size of its sessions, in bytes. */
	uint64_t (*size)(void *side);

	/* The rest is for the new side only. */
	/** Begins a session, which replaces one with the same id. The sink gets its data. */
	int (*begin)(void *side, const char *id);
	struct moving_sink sink; /* its arg: `side` */
	int (*end)(void *side, const char *id);
	int (*remove)(void *side, const char *id);
	/*
	 * If not NULL, the records of all sessions are written between these two, after all
	 * sessions; else the records of a session are written between its begin() and end().
	 */
	int (*begin_records)(void *side);
	int (*end_records)(void *side);
	/** All is there: servers can start on this side. */
	int (*complete)(void *side);
};

/** Makes the text of the facts, and numbers as if pruned lines had been cut off the files. */
void moving_settle_metadata(struct metadata *meta);

#endif
