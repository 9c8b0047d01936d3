/* What the files of the store share about blobs. */
#ifndef HOLDFAST_STORE_BLOBS_H
#define HOLDFAST_STORE_BLOBS_H

#include "holdfast/blobs.h"

#include <stdatomic.h>
#include <uv.h>

/* The name of a blob's file: with what hides it behind the blob's own, ".thoughts" or ".tools". */
#define BLOB_FILE_SIZE 80
/* What a blob takes of a limit: whole blocks, so that small ones are not too many. */
#define BLOB_BLOCK ((uint64_t)4096)

struct metadata;
struct prune;

struct blobs {
	struct hash *rooms; /* struct blob_room, by the ids of sessions that have some */
	uint64_t used; /* bytes, in all */
	uint64_t reserved; /* the same, for those that are being written */
	uint64_t uploads; /* so far: they have numbers */
	uint64_t kept; /* bytes that have been added since the start */
	atomic_bool is_closing; /* for the thread pool */
	uv_mutex_t names; /* held while a blob is put in its place, or taken away */
};

/** Where a blob belongs; for any thread. */
struct blob_place {
	const char *id;
	uint64_t epoch;
	char file[BLOB_FILE_SIZE];
};

/* blobs.c */
void blobs_init(struct blobs *blobs);
void blobs_finish(struct blobs *blobs);
/** What a blob of this size takes. */
uint64_t blob_room_for(uint64_t size);
/** So much of a session was there at the start, or (less than 0) has been pruned. */
void blobs_add(struct store *store, const char *id, int64_t bytes);
/** The session goes. */
void blobs_forget(struct store *store, const char *id);

/* blob_files.c: the embedded engine's; see engine.h */
int blob_file_write(
	struct store *store, uint64_t number, const char *bytes, size_t len, bool is_first);
int blob_file_keep(
	struct store *store, uint64_t number, const struct blob_place *place, bool *ret_is_new);
void blob_file_drop(struct store *store, uint64_t number);
int blob_file_open(struct store *store, const struct blob_place *place);
/** At the start: what was being written is taken away, and what there is, measured in time. */
void blob_files_begin(struct store *store);
/** Takes the blobs of a session's folder away, whose path is `name`. */
void blob_files_remove(int dir_fd, const char *name);

/* blob_sweep.c */
/**
 * Takes away the blobs of a session that only pruned events speak of, and returns how much room they had. For
 * after prune_rewrite(), when that is on disk; `folder` is the session's. Thread pool.
 */
uint64_t blob_sweep(
	struct blobs *blobs, int folder, const struct prune *prune, const struct metadata *meta);

#endif
