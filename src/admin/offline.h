/*
 * Opens the sessions of a data directory or database that no server is using, for the commands that
 * change them.
 */
#ifndef HOLDFAST_OFFLINE_H
#define HOLDFAST_OFFLINE_H

#include "holdfast/clock.h"
#include "holdfast/session.h"

#include <uv.h>

struct offline {
	uv_loop_t loop;
	struct clock clock;
	struct server_life life;
	struct session_table *sessions; /* NULL: could not be opened */
	char *own_dir; /* temporary, for files that a node has besides the database; or NULL */
};

/**
 * Opens a directory or a database as the server does when it starts: the journal is recovered.
 * With `repair` (else NULL) damaged sessions are repaired. Returns 0, or a negative errno after
 * reporting the error. Call offline_close() in either case.
 */
int offline_open(struct offline *opened, const char *place, const struct store_repair *repair);
/**
 * Opens a database even if it is an older copy, which offline_open() refuses: all sessions have to
 * get new epochs (proto/store-format.md#sessions-in-postgresql).
 */
int offline_open_older(struct offline *opened, const char *address);
struct store_database;
/** Opens no session, and writes nothing: see store_database_ops.rehearsal. Close the database afterwards. */
int offline_rehearse(struct offline *opened, struct store_database *database);
void offline_close(struct offline *opened);
/**
 * Checks that `dir` is a data directory, since opening another one would make it one. Returns 0, or
 * a negative errno after reporting the error.
 */
int offline_check_dir(const char *dir);

#endif
