/*
 * What a database (`--store`) has of sessions, as it is at the moment when it is opened: read
 * without being one of its servers, and without a change. For the tools; servers may be at work
 * there meanwhile. All of it blocks.
 */
#ifndef HOLDFAST_STORE_DATABASE_H
#define HOLDFAST_STORE_DATABASE_H

#include "holdfast/store_check.h"

struct store_database;

/**
 * Opens a database that has sessions. A negative errno if there is none, or its tables are of a
 * version that this program does not read; *ret_why (caller frees) says so.
 */
int store_database_open(const char *address, struct store_database **ret, char **ret_why);
/** Accepts NULL. */
void store_database_close(struct store_database *database);

/**
 * What its metadata says of a session: -ENOENT if there is no such session, -EBADMSG if it is
 * damaged, -EIO; *ret_why (static text) says more. A session that is so new that it has none is one
 * without events. store_metadata_finish() in any case.
 */
int store_database_read_metadata(struct store_database *database, const char *id,
	const struct store_facts *facts, struct store_metadata *ret, const char **ret_why);

/** A line of an event, without its newline; not 0: that is enough. */
typedef int store_database_line(void *arg, const char *line, size_t len);
/** Shows the lines behind a seq, in the order of theirs. 0, what the visitor returned, -ENOENT, or -EIO. */
int store_database_each_line(struct store_database *database, const char *id, uint64_t after,
	store_database_line *visit, void *arg);

/** About how many bytes store_database_check() reads. `session` NULL: of all. */
uint64_t store_database_size(struct store_database *database, const char *session);
/**
 * As store_check(): what a session's rows say fits together, each checksum is right, and events are
 * numbered without a gap.
 */
int store_database_check(struct store_database *database, const char *session,
	const struct store_check_ops *ops, void *owner, struct store_check_counts *counts);

#endif
