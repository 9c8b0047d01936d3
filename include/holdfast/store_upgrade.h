/*
 * Finds data of earlier formats in a data directory, and upgrades the folders of sessions. Upgrades
 * are optional, since a program reads its earlier formats. The journal's segments are upgraded by a
 * start of the store, or by offline_open() of the tools. No server may use the directory meanwhile.
 */
#ifndef HOLDFAST_STORE_UPGRADE_H
#define HOLDFAST_STORE_UPGRADE_H

#include "holdfast/store.h"
#include "holdfast/store_files.h"

#include <stdint.h>

/** Something that does not have the newest format. */
struct store_outdated {
	const char *place; /* path below the data directory */
	const char *what; /* static text: what is numbered, such as "format" */
	uint64_t has;
	uint64_t newest; /* less than `has` if a later program wrote it */
};

typedef void store_outdated_fn(void *owner, const struct store_outdated *found);

/**
 * Reports each segment and folder that does not have the newest format. Skips damaged ones, which
 * verify reports. Blocks; returns 0 or a negative errno.
 */
int store_upgrade_look(const struct store_files *files, snapshot_is_foreign *is_foreign,
	store_outdated_fn *see, void *owner);
/**
 * Rewrites a session's metadata.json in the newest format, if it is older. The file is replaced
 * atomically, so that a power failure leaves the old or the new one. The journal must have been
 * read, and have this program's format. Blocks; returns 0, or a negative errno and the reason in
 * *ret_why (static text).
 */
int store_upgrade_session(const struct store_files *files, const char *id,
	const struct store_facts *facts, const char **ret_why);

#endif
