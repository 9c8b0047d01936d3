/* Migrates what servers have besides sessions: secrets, tokens, logins and push subscriptions. */
#ifndef HOLDFAST_MIGRATE_ACCESS_H
#define HOLDFAST_MIGRATE_ACCESS_H

#include "holdfast/store_moving.h"

/**
 * Copies the files of a data directory (access.h) to the database. Returns 0, or a negative errno
 * with *ret_why (caller frees).
 */
int migrate_access_up(const struct moving_side *database, const char *dir, char **ret_why);
/** Copies them back, to files of the directory that is being made. Returns the same. */
int migrate_access_down(const struct moving_side *database, const char *dir, char **ret_why);

#endif
