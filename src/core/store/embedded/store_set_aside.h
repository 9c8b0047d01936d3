/* Shared by the files that set damaged files aside (store_set_aside.h). */
#ifndef HOLDFAST_STORE_SET_ASIDE_FOLDERS_H
#define HOLDFAST_STORE_SET_ASIDE_FOLDERS_H

#include "holdfast/store_files.h"

struct setting_aside {
	struct store_files files;
	void (*moved)(void *owner, const char *what, const char *to);
	void *owner;
	char **ret_why;
};

/* raw_repair.c */
/** Sets the raw streams of a data directory aside that are damaged. */
int raw_set_aside(const char *dir, const struct setting_aside *to);

#endif
