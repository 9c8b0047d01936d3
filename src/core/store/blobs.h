/* Internals of blobs, shared by the files of the store. */
#ifndef HOLDFAST_STORE_BLOBS_H
#define HOLDFAST_STORE_BLOBS_H

#include "holdfast/blobs.h"
#include "holdfast/diag.h"

#include <openssl/types.h>
#include <stdatomic.h>
#include <uv.h>

/* Size of a blob's file name: the blob's name and, if it can be hidden, ".thoughts" or ".tools". */
#define BLOB_FILE_SIZE 80
/* Blobs are charged to the limits in whole blocks, which bounds the number of small ones. */
#define BLOB_BLOCK ((uint64_t)4096)
/* The most bytes of a blob, whatever limit (blob_size) it was made with. */
#define BLOB_FILE_MAX ((size_t)1 << 30)

struct blob_seen;
struct metadata;
struct prune;

struct blobs {
	struct hash *rooms; /* struct blob_room by session id, for sessions that have blobs */
	uint64_t used; /* bytes of all sessions */
	uint64_t reserved; /* the same, for uploads in progress */
	uint64_t uploads; /* the number of the newest upload */
	uint64_t kept; /* bytes added since the start */
	uv_mutex_t names; /* held while a blob's file is moved to its place, or deleted */
	struct blob_seen *seen; /* files that were checked; with `names` held */
	struct diag_limit warned; /* of damaged blobs */
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

/* blob_check.c */
/** Whether `file` is the name of a blob's file: 64 hex digits, and a suffix if it can be hidden. */
bool blob_file_is_valid(const char *file);
/** Writes the name of the bytes that `digest` (SHA-256) has taken; ends the digest. */
void blob_name_of(EVP_MD_CTX *digest, char name[BLOB_NAME_SIZE]);
/**
 * Compare bytes, or all of an open file, with the name `file`. Return 0, -EBADMSG if they are not
 * those that it names, or another negative errno. The file's position stays.
 */
int blob_check_bytes(const char *file, const void *bytes, size_t len);
int blob_check_file(int fd, const char *file);
/** The same, but reads a file only if it is new or has changed since. Any thread. */
int blob_check_opened(struct blobs *blobs, int fd, const char *file);
/** The memory for blob_check_opened(); freed with free(). */
struct blob_seen *blob_seen_create(void);

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
