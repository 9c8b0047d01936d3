/* A data directory as one side of a migration (store_moving.h). */
#ifndef HOLDFAST_MIGRATE_FILES_H
#define HOLDFAST_MIGRATE_FILES_H

#include "holdfast/store_moving.h"

/*
 * Return 0, or a negative errno and *ret_why (caller frees). Close *ret_side in any case. `facts`
 * is borrowed until then.
 */
/** migrate_files.c: the old side. -EBUSY: a server uses it; -EAGAIN: it has to be recovered first. */
int moving_files_open(const char *dir, const struct store_facts *facts,
	struct moving_side *ret_side, char **ret_why);
/**
 * migrate_files_write.c: the new side. Creates the directory under a temporary name, or goes on
 * with one of an earlier try. complete() renames it to `dir`, which is borrowed.
 */
int moving_made_open(const char *dir, const struct store_facts *facts, struct moving_side *ret_side,
	char **ret_why);

#endif
