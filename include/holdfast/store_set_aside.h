/*
 * Moves damaged images and files of sessions to set-aside/, and damaged raw streams to
 * streams/set-aside/ (holdfast repair): nobody gets them anyway, and what is left is whole.
 */
#ifndef HOLDFAST_STORE_SET_ASIDE_H
#define HOLDFAST_STORE_SET_ASIDE_H

#include <stdint.h>

/**
 * Looks through all images and files of a data directory, or of the session `only`, and moves those
 * whose bytes are not what their names say; without `only`, raw streams, too. The caller keeps servers away. `moved` is told of each:
 * what it is, and its new path in the directory. Blocks. Returns 0, or a negative errno and
 * *ret_why (caller frees).
 */
int store_set_aside(const char *dir, const char *only,
	void (*moved)(void *owner, const char *what, const char *to), void *owner, char **ret_why);

#endif
