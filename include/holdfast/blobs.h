/*
 * Blobs: the images and files of a session (proto/protocol.md#images-and-files), each named by the
 * SHA-256 of its bytes. A blob exists once all of it is durable, and is deleted with its session.
 * All functions run on the loop's thread; blocking work is done on the thread pool.
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
	const char *mime_type; /* from its bytes, see blob_type(); static */
};

bool blob_name_is_valid(const char *text);

/* The number of bytes at the start of a blob that decide its type. */
#define BLOB_HEAD_SIZE 4096
/** The media type of a file that starts with these bytes (static). Nothing else is considered. */
const char *blob_type(const char *head, size_t len);
/** Whether a browser may display this type inline: it cannot contain scripts. */
bool blob_type_is_safe(const char *mime_type);

/* --- writing --- */

struct blob_upload;
/** Called once after each write; it may end the upload. */
typedef void blob_written(void *arg, int status);

/** Begins a blob of this session. Tokens that hide one of `hide` (hide.h) cannot open it. */
struct blob_upload *blob_upload_begin(
	struct session_log *log, unsigned hide, blob_written *written, void *arg);
/**
 * Takes over the bytes and writes them. The next write may follow once written() has been called.
 * Its status is 0 or a negative errno (-ENOENT: the session is gone); 0 after the last write means
 * that the blob is durable. Returns the limit that the bytes would exceed, having done nothing, or
 * LIMIT_NONE.
 */
enum limit blob_upload_write(struct blob_upload *upload, struct buffer *bytes, bool is_last);
/** The blob, after the last write. Borrowed until the upload is ended. */
const struct blob *blob_upload_result(const struct blob_upload *upload);
/** Ends an upload at any time; removes the bytes unless the blob is complete. Accepts NULL. */
void blob_upload_end(struct blob_upload *upload);

/* --- reading --- */

struct blob_opening;
/**
 * `fd` is open for reading, and the callee's; or a negative errno: -ENOENT if no such blob exists,
 * -EBADMSG if it is damaged (its bytes are not those that its name says), which has been logged.
 */
typedef void blob_opened(void *arg, int fd, const struct blob *blob);

/** Opens a blob on behalf of a token that hides `hide`. */
struct blob_opening *blob_open(
	struct session_log *log, const char *name, unsigned hide, blob_opened *opened, void *arg);
/** Cancels an opening: opened() will not be called. */
void blob_open_cancel(struct blob_opening *opening);

#endif
