/*
 * What of a data directory is of an earlier format, and bringing sessions' folders to the newest.
 * Nothing has to be upgraded: a program reads its earlier formats. The journal's segments become
 * new by a start of the store, or offline_open() of the tools. For a directory that no server uses.
 */
#ifndef HOLDFAST_STORE_UPGRADE_H
#define HOLDFAST_STORE_UPGRADE_H

#include "holdfast/store.h"
#include "holdfast/store_files.h"

#include <stdint.h>

/** Something that is not of the newest format. */
struct store_outdated {
	const char *place; /* below the directory */
	const char *what; /* static text: what has this number */
	uint64_t has;
	uint64_t newest; /* `has` is above it if a later program wrote it */
};

typedef void store_outdated_fn(void *owner, const struct store_outdated *found);

/**
 * Tells of each segment and folder. What is damaged is left out: verify tells of it. Blocks; returns 0 or a
 * negative errno.
 */
int store_upgrade_look(const struct store_files *files, snapshot_is_foreign *is_foreign,
	store_outdated_fn *see, void *owner);
/**
 * Writes a session's metadata.json in the newest format, unless it is: the old one or the new one is there
 * at any time, also after a power cut. The journal has been read and is of this program. Blocks; returns 0, or a
 * negative errno with *ret_why (static text).
 */
int store_upgrade_session(const struct store_files *files, const char *id,
	const struct store_facts *facts, const char **ret_why);

#endif
