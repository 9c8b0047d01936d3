/* What servers have beside sessions, in a migration: secrets, tokens, logins and push subscriptions. */
#ifndef HOLDFAST_MIGRATE_ACCESS_H
#define HOLDFAST_MIGRATE_ACCESS_H

#include "holdfast/store_migrate.h"

/** The files of a data directory (access.h) go to the database. A negative errno, and *ret_why. */
int migrate_access_up(struct store_migrate *store, const char *dir, char **ret_why);
/** Back, to files of the directory that is being made. */
int migrate_access_down(struct store_migrate *store, char **ret_why);

#endif
