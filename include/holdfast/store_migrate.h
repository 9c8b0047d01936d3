/*
 * All sessions of a data directory become those of a database (`--store`), or back, as they are:
 * epochs, numbers, names, images and files, and what is open. No server may be at work on either
 * side; until it is over, none can start on the new one.
 *
 *   to a database:   each session is one transaction, which has been read back when it counts; a row
 *                    of holdfast_moving keeps servers away until all of it is there
 *   to a directory:  it is made as DIR.migrating, and renamed when it is whole
 *
 * So it may be killed at any time, and begun again: what is there and right is kept. All of it blocks.
 */
#ifndef HOLDFAST_STORE_MIGRATE_H
#define HOLDFAST_STORE_MIGRATE_H

#include "holdfast/store.h"

#define STORE_MIGRATION_SUFFIX ".migrating"
/* A directory with this file is one that a migration makes: no server opens it. */
#define STORE_MIGRATION_MARK "migrating"

struct store_migrate_config {
	const char *dir;
	const char *address; /* of the database */
	bool to_database; /* else from there */
	const struct store_facts *facts;
	/** So many bytes more have been read of the old side, of store_migrate_size(). */
	void (*progress)(void *owner, uint64_t bytes);
	/** A session is there, and what was read back is the same; `is_new`: it was not before. */
	void (*moved)(void *owner, const char *id, uint64_t events, bool is_new);
	void *owner;
};

struct store_migrate_counts {
	uint64_t sessions;
	uint64_t events;
	uint64_t blobs;
	uint64_t kept; /* sessions that were there already */
};

struct store_migrate;

/**
 * Both sides are opened, and kept from servers. -EBUSY: a server is at work on one of them; -EEXIST:
 * the new side has something else; -EAGAIN: the old side is to be opened as a server does it, and
 * closed, first; or another negative errno. *ret_why (caller frees) says more.
 */
int store_migrate_open(
	const struct store_migrate_config *config, struct store_migrate **ret, char **ret_why);
/** About how many bytes the sessions have. */
uint64_t store_migrate_size(struct store_migrate *migrate);
/**
 * Moves the sessions, and reads each back. -EAGAIN: as above; -EBADMSG: what was read back is something else.
 */
int store_migrate_run(
	struct store_migrate *migrate, struct store_migrate_counts *ret, char **ret_why);
/** The new side is whole: servers may start on it. */
int store_migrate_end(struct store_migrate *migrate, char **ret_why);
/** Accepts NULL. */
void store_migrate_close(struct store_migrate *migrate);
/** The directory where files of the new side belong until its end; lent. */
const char *store_migrate_dir(const struct store_migrate *migrate);

/* What servers share beside sessions (shelf.h), of the database. */
/** Secrets by their names, in no order; then the lines, each without its newline, in their order. */
int store_migrate_each_secret(struct store_migrate *migrate,
	int (*visit)(void *arg, const char *name, const char *bytes, size_t len), void *arg);
int store_migrate_each_line(struct store_migrate *migrate,
	int (*visit)(void *arg, const char *line, size_t len), void *arg);
/** What comes in place of all that is there; `lines`: each with its newline. */
int store_migrate_put_secret(
	struct store_migrate *migrate, const char *name, const char *bytes, size_t len);
int store_migrate_put_lines(struct store_migrate *migrate, const char *lines, size_t len);

#endif
