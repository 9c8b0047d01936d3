/* What requests.c, request_append.c and request_presence.c share. */
#ifndef HOLDFAST_REQUESTS_INTERNAL_H
#define HOLDFAST_REQUESTS_INTERNAL_H

#include "holdfast/requests.h"

#define NO_FRAME "a frame is {\"type\": string, \"data\": object}; this one is not"

/**
 * The frame of an append, of which there are many: without a tree. Returns 1 if it is one, 0 if it
 * is another frame or no JSON, -EINVAL if it is refused.
 */
int request_parse_append(const char *text, size_t len, const struct limits *limits,
	struct request *ret, struct refusal *refusal);
/** The producer's own name for an append: JSON text, "" if there is none (`ref` is NULL). */
int request_take_ref(const struct json_span *ref, char out[160], struct refusal *refusal);
/** The data of `presence`, whose members are known to be no others. */
int request_parse_presence(const json_t *data, struct request *ret, struct refusal *refusal);

/* request_content.c */
/** Takes and checks the images and files of a prompt, which may have none. */
int request_take_content(const json_t *data, const struct limits *limits, struct request *ret,
	struct refusal *refusal);

#endif
