/*
 * Blobs: the images and files of a session (proto/protocol.md#images-and-files), each named by the
 * SHA-256 of its bytes. A blob is there once it is on disk as a whole, and goes with its session.
 * All functions run on the loop's thread; what blocks is done on the thread pool.
 */
#ifndef HOLDFAST_BLOBS_H
#define HOLDFAST_BLOBS_H

#include "holdfast/buffer.h"
#include "holdfast/limits.h"

#include <stdbool.h>
#include <stdint.h>

struct session_log;
struct store;

/* 64 hexadecimal digits and a NUL. */
#define BLOB_NAME_SIZE 65

struct blob {
	char name[BLOB_NAME_SIZE];
	uint64_t size;
	const char *mime_type; /* what its bytes are; static */
};

bool blob_name_is_valid(const char *text);

/* So many bytes decide what a blob is. */
#define BLOB_HEAD_SIZE 4096
/** What a file with these first bytes is. Nobody else is asked: the answer is the same for all. */
const char *blob_type(const char *head, size_t len);
/** Whether a browser may show that by itself: nothing in it can be a program. */
bool blob_type_is_safe(const char *mime_type);

/* --- writing --- */

struct blob_upload;
/** Called once for each write; the upload may be ended in it. */
typedef void blob_written(void *arg, int status);

/** A blob of this session, which a token that hides one of these (hide.h) does not get. */
struct blob_upload *blob_upload_begin(
	struct session_log *log, unsigned hide, blob_written *written, void *arg);
/**
 * Takes the bytes, and writes them; the next write may follow when written() has been called. After
 * the last one the blob is durable: with status 0, or a negative errno (-ENOENT: the session is
 * gone). If a limit does not allow so many bytes, returns which, and has done nothing.
 */
enum limit blob_upload_write(struct blob_upload *upload, struct buffer *bytes, bool is_last);
/** After the last write. */
const struct blob *blob_upload_result(const struct blob_upload *upload);
/** At any time: what is not there as a whole is taken away. Accepts NULL. */
void blob_upload_end(struct blob_upload *upload);

/* --- reading --- */

struct blob_opening;
/** `fd` is the caller's, open for reading; or a negative errno: -ENOENT if there is none. */
typedef void blob_opened(void *arg, int fd, const struct blob *blob);

/** Opens a blob for a token that hides these. */
struct blob_opening *blob_open(
	struct session_log *log, const char *name, unsigned hide, blob_opened *opened, void *arg);
/** Nobody waits for it any more. */
void blob_open_cancel(struct blob_opening *opening);

#endif
