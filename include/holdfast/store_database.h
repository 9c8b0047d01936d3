/*
 * Read-only access to the sessions in a database (`--store`), as they are when it is opened. For
 * the tools: servers can use the database meanwhile. All functions block.
 */
#ifndef HOLDFAST_STORE_DATABASE_H
#define HOLDFAST_STORE_DATABASE_H

#include "holdfast/store_check.h"

/** The first member of what an engine opens. */
struct store_database {
	const struct store_database_ops *ops;
};

/** Visits the line of an event, without its newline. A value other than 0 ends the visit. */
typedef int store_database_line(void *arg, const char *line, size_t len);

struct store_database_ops {
	/** See store_database_open(). */
	int (*open)(const char *address, struct store_database **ret, char **ret_why);
	void (*close)(struct store_database *database);
	/**
	 * Reads the metadata of a session. Returns 0; -ENOENT if the session does not exist;
	 * -EBADMSG if its metadata is damaged; or -EIO. *ret_why (static text) is the reason. A
	 * session so new that it has no metadata is returned as one without events. Call
	 * store_metadata_finish() in any case.
	 */
	int (*read_metadata)(struct store_database *database, const char *id,
		const struct store_facts *facts, struct store_metadata *ret, const char **ret_why);
	/**
	 * Visits the events of a session behind the seq `after`, in order. Returns 0, the visitor's
	 * value if that is not 0, -ENOENT, or -EIO.
	 */
	int (*each_line)(struct store_database *database, const char *id, uint64_t after,
		store_database_line *visit, void *arg);
	/** Approximate number of bytes that check() reads. `session` NULL: all sessions. */
	uint64_t (*size)(struct store_database *database, const char *session);
	/**
	 * Like store_check(): checks that the rows of one session, or (NULL) of all, fit together,
	 * that checksums are right, and that events are numbered without gaps. See `rehearsal`.
	 */
	int (*check)(struct store_database *database, const char *session,
		const struct store_check_ops *ops, void *owner, struct store_check_counts *counts);
	/**
	 * The engine of a store without sessions, which writes nothing: engine_arg is the
	 * store_database, which must be closed after the store. While it is open, check() also
	 * takes each session over as a server does: its metadata, its newest events, and its
	 * records, which the store's owner replays. So the check and a server refuse the same.
	 */
	const struct store_engine *rehearsal;
};

/**
 * Opens a database. Returns 0, or a negative errno and the reason in *ret_why (caller frees): it
 * cannot be reached, has no tables, or has tables of a version that this program cannot read.
 */
int store_database_open(const char *address, struct store_database **ret, char **ret_why);
/** Accepts NULL. */
void store_database_close(struct store_database *database);

#endif
