/*
 * Moves all sessions of a data directory to a database (`--store`), or back, unchanged: epochs,
 * numbers, names, images and files, and whatever is in progress. All servers on both sides must be
 * stopped; none can start on the new side before the migration is complete.
 *
 *   to a database:   each session is written in one transaction, and then read back and compared; a
 *                    row of holdfast_moving keeps servers away until all sessions are there
 *   to a directory:  it is written as DIR.migrating, and renamed when it is complete
 *
 * So a migration can be killed at any time and run again: sessions that are already there, and the
 * same, are kept. All functions block.
 */
#ifndef HOLDFAST_STORE_MIGRATE_H
#define HOLDFAST_STORE_MIGRATE_H

#include "holdfast/store_moving.h"

#define STORE_MIGRATION_SUFFIX ".migrating"
/* No server opens a directory with this file: its migration is not complete. */
#define STORE_MIGRATION_MARK "migrating"

struct store_migrate_config {
	const char *dir;
	const char *address; /* of the database */
	bool to_database; /* from the directory to the database; false: back */
	const struct store_facts *facts;
	/** `bytes` more, of store_migrate_size(), have been read from the old side. */
	void (*progress)(void *owner, uint64_t bytes);
	/** A session is on the new side and was compared; `is_new`: it was not there before. */
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
 * Opens both sides and locks out servers. Returns 0; -EBUSY if a server uses one of them; -EEXIST
 * if the new side already has other data; -EAGAIN if the old side has to be recovered first (open
 * and close it as a server does); or another negative errno. *ret_why (caller frees) is the reason.
 * Call store_migrate_close() in any case.
 */
int store_migrate_open(
	const struct store_migrate_config *config, struct store_migrate **ret, char **ret_why);
/** Approximate size of the sessions on the old side, in bytes. */
uint64_t store_migrate_size(struct store_migrate *migrate);
/**
 * Moves the sessions, and reads each back. Returns 0; -EAGAIN as above; -EBADMSG if the data that
 * was read back differs, or is damaged on the old side; or another negative errno. *ret_why (caller
 * frees) is the reason.
 */
int store_migrate_run(
	struct store_migrate *migrate, struct store_migrate_counts *ret, char **ret_why);
/** Completes the migration: servers can start on the new side. */
int store_migrate_end(struct store_migrate *migrate, char **ret_why);
/** Accepts NULL. */
void store_migrate_close(struct store_migrate *migrate);
/** The directory of the migration, DIR.migrating while that is being written; lent. */
const char *store_migrate_dir(const struct store_migrate *migrate);

/** The side that is a database; lent. Its `shelf` is what servers have besides sessions. */
const struct moving_side *store_migrate_database(const struct store_migrate *migrate);

#endif
