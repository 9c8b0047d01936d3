/* Shared by backup and restore: the names of backups, copying and syncing. */
#ifndef HOLDFAST_BACKUP_H
#define HOLDFAST_BACKUP_H

#include "holdfast/store_copy.h"

#include <stdbool.h>

/** Whether `name` is that of a backup: 2026-11-23T13-33-07Z, or with -2, -3, … appended. */
bool backup_name_is_valid(const char *name);
/**
 * Lists the backups in a directory, oldest first. Returns 0 or a negative errno. Free the names
 * with backup_list_free().
 */
int backup_list(const char *dir, char ***ret_names, size_t *ret_count);
void backup_list_free(char **names, size_t count);
/** Removes a directory and everything in it, if it exists. Returns 0 or a negative errno. */
int backup_remove_tree(const char *path);
/**
 * Copies a data directory and shows the progress. Files that are the same in the backup `before`
 * become links to it; NULL: everything is copied. Returns 0, or a negative errno after reporting
 * the error.
 */
int backup_copy(const char *from, const char *to, const char *before, struct store_copy *ret);
/** Syncs a directory's file system. Returns 0, or a negative errno after reporting the error. */
int backup_sync(const char *dir);

#endif
