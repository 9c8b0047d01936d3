/*
 * Copies a data directory while its server runs: sessions up to what their metadata.json says is
 * certain, and the journal, which has the rest; likewise raw streams. Opened, the copy is the store
 * at one moment between the beginning and the end of copying; it has everything that was durable
 * before.
 */
#ifndef HOLDFAST_STORE_COPY_H
#define HOLDFAST_STORE_COPY_H

#include "holdfast/store_files.h"

/* A file of this name marks a directory as a backup, which no server opens. */
#define STORE_BACKUP_MARK "backup.json"

struct store_copy {
	int to_fd; /* an empty directory for the copy */
	int before_fd; /* an earlier copy, to link unchanged files from if possible; -1: none */
	void (*progress)(void *owner, uint64_t bytes); /* `bytes` more of store_check_size() */
	void *owner;
	/* Set by store_copy(). */
	uint64_t sessions;
	uint64_t linked; /* sessions linked from the earlier copy */
	uint64_t bytes; /* written */
	uint64_t left_out; /* images and files that are links or the like; each was logged */
};

/**
 * Makes the copy, without syncing it. Blocks. Returns 0, or a negative errno with *ret_why (caller
 * frees): -EAGAIN if the server dropped journal segments faster than they could be copied.
 */
int store_copy(const struct store_files *files, struct store_copy *copy, char **ret_why);

#endif
