/*
 * Moves large images, sounds and files out of the events that contain them, and leaves references
 * (proto/protocol.md#images-and-files). Pure.
 */
#ifndef HOLDFAST_CONTENT_BLOBS_H
#define HOLDFAST_CONTENT_BLOBS_H

#include "holdfast/hash.h"
#include "holdfast/list.h"

#include <jansson.h>
#include <stddef.h>

/* Longest base64 or text, in bytes, that stays inside the event. */
#define CONTENT_INLINE_MAX 4096

/** Bytes moved out of an event. */
struct content_blob {
	struct list link;
	char name[65]; /* SHA-256 of `bytes` in hexadecimal */
	unsigned hide; /* the kinds of events (hide.h) whose hiding hides this, too */
	char *bytes; /* owned; NULL once taken by someone else */
	size_t len;
};

/**
 * Returns a copy of an event's data (unchanged parts are shared) with large blocks replaced by
 * references: {type, blob, size, …}. Data that is not valid base64 is dropped, and the block gets
 * an "omitted" member. Appends a content_blob for each block moved to `blobs`, or discards the
 * bytes if that is NULL.
 */
json_t *content_move(const char *type, const json_t *data, struct list *blobs);
/**
 * Call this when blobs could not be stored: `reasons` maps the name of each to the reason, a
 * string. Every block that refers to one loses the reference and gets "omitted" with the reason.
 */
void content_omit(json_t *data, const struct hash *reasons);
void content_blob_free(struct content_blob *blob);

#endif
