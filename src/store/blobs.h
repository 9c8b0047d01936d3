/* Internals of blobs, shared by the files of the store. */
#ifndef HOLDFAST_STORE_BLOBS_H
#define HOLDFAST_STORE_BLOBS_H

#include "holdfast/blobs.h"

#include <stdatomic.h>
#include <uv.h>

/* Size of a blob's file name: the blob's name and, if it can be hidden, ".thoughts" or ".tools". */
#define BLOB_FILE_SIZE 80
/* Blobs are charged to the limits in whole blocks, which bounds the number of small ones. */
#define BLOB_BLOCK ((uint64_t)4096)

struct metadata;
struct prune;

struct blobs {
	struct hash *rooms; /* struct blob_room by session id, for sessions that have blobs */
	uint64_t used; /* bytes of all sessions */
	uint64_t reserved; /* the same, for uploads in progress */
	uint64_t uploads; /* the number of the newest upload */
	uint64_t kept; /* bytes added since the start */
	atomic_bool is_closing; /* read by the thread pool */
	uv_mutex_t names; /* held while a blob's file is moved to its place, or deleted */
};

/** The session and file of a blob, for use on any thread. */
struct blob_place {
	const char *id;
	uint64_t epoch;
	char file[BLOB_FILE_SIZE];
};

/* blobs.c */
void blobs_init(struct blobs *blobs);
void blobs_finish(struct blobs *blobs);
/** The bytes that a blob of this size is charged to the limits. */
uint64_t blob_room_for(uint64_t size);
/** Adds a session's blobs that were found at the start, or (negative) subtracts deleted ones. */
void blobs_add(struct store *store, const char *id, int64_t bytes);
/** The session is about to be freed. */
void blobs_forget(struct store *store, const char *id);

/* blob_files.c: the embedded engine's; see engine.h */
int blob_file_write(
	struct store *store, uint64_t number, const char *bytes, size_t len, bool is_first);
int blob_file_keep(
	struct store *store, uint64_t number, const struct blob_place *place, bool *ret_is_new);
void blob_file_drop(struct store *store, uint64_t number);
int blob_file_open(struct store *store, const struct blob_place *place);
/** At the start: removes unfinished uploads, and begins to measure all blobs on the thread pool. */
void blob_files_begin(struct store *store);
/** Deletes the blobs of the session's folder with the path `name`. */
void blob_files_remove(int dir_fd, const char *name);

/* blob_sweep.c */
/**
 * Deletes the blobs of a session that only pruned events mention, and returns the bytes that they
 * were charged. Call it after prune_rewrite(), when that is durable; `folder` is the session's
 * folder. Thread pool.
 */
uint64_t blob_sweep(
	struct blobs *blobs, int folder, const struct prune *prune, const struct metadata *meta);

#endif
