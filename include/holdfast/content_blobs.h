/*
 * Images, sounds and files inside the content of agents (proto/protocol.md#images-and-files): large
 * ones leave their event, and a reference stays. Pure.
 */
#ifndef HOLDFAST_CONTENT_BLOBS_H
#define HOLDFAST_CONTENT_BLOBS_H

#include "holdfast/list.h"

#include <jansson.h>
#include <stddef.h>

/* So much of one, as it is written, stays in its event. */
#define CONTENT_INLINE_MAX 4096

/** What left an event. */
struct content_blob {
	struct list link;
	char name[65]; /* SHA-256 of its bytes, in hexadecimal digits */
	unsigned hide; /* what a token hides that does not see the event (hide.h) */
	char *bytes; /* NULL once somebody has taken them */
	size_t len;
};

/**
 * A copy of an event's data (parts of it are shared) in which large blocks are references: {type,
 * blob, size, …}. What is no base64 is left out, and "omitted" says so. Appends what left it to
 * `blobs`, unless that is NULL.
 */
json_t *content_move(const char *type, const json_t *data, struct list *blobs);
/** The blob could not be kept: each block that refers to it says why, and refers to nothing. */
void content_omit(json_t *data, const char *name, const char *why);
void content_blob_free(struct content_blob *blob);

#endif
