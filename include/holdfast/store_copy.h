/*
 * A copy of a data directory, made while its server runs: the sessions as their metadata.json has
 * them, and the journal, which has the rest; raw streams in the same way. What is opened from it is the store at one moment
 * between the beginning and the end of the copy; whatever was durable before is in it.
 */
#ifndef HOLDFAST_STORE_COPY_H
#define HOLDFAST_STORE_COPY_H

#include "holdfast/store_files.h"

/* A file with this name says that a directory is a backup: no server opens it. */
#define STORE_BACKUP_MARK "backup.json"

struct store_copy {
	int to_fd; /* a directory for it, empty */
	int before_fd; /* an earlier copy: what is the same there is linked, if it can be; -1: none */
	void (*progress)(void *owner, uint64_t bytes); /* so many more, of store_check_size() */
	void *owner;
	/* What was done. */
	uint64_t sessions;
	uint64_t linked; /* of them, those that were as in the earlier copy */
	uint64_t bytes; /* that were written */
};

/**
 * Makes the copy; it is not synced. Blocks. Returns 0, or a negative errno with *ret_why (caller
 * frees): -EAGAIN if the journal went on faster than it could be copied.
 */
int store_copy(const struct store_files *files, struct store_copy *copy, char **ret_why);

#endif
