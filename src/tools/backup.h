/* What backup and restore share. */
#ifndef HOLDFAST_BACKUP_H
#define HOLDFAST_BACKUP_H

#include "holdfast/store_copy.h"

#include <stdbool.h>

/** Names of backups: 2026-11-23T13-33-07Z, and with -2, -3, … behind it if there is one already. */
bool backup_name_is_valid(const char *name);
/** The names in a directory of backups, sorted, so that the newest is the last. Caller frees. */
int backup_list(const char *dir, char ***ret_names, size_t *ret_count);
void backup_list_free(char **names, size_t count);
/** Removes a directory with all that is in it. Returns 0 or a negative errno. */
int backup_remove_tree(const char *path);
/** Copies a data directory with progress; says what is wrong. */
int backup_copy(const char *from, const char *to, const char *before, struct store_copy *ret);
/** Puts all that was written to a directory on disk. Says what is wrong. */
int backup_sync(const char *dir);

#endif
