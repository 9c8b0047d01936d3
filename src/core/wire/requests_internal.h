/*
 * Shared by requests.c, request_append.c, request_content.c, request_presence.c and their callers
 * in this room.
 */
#ifndef HOLDFAST_REQUESTS_INTERNAL_H
#define HOLDFAST_REQUESTS_INTERNAL_H

#include "holdfast/requests.h"

#define NO_FRAME "a frame is {\"type\": string, \"data\": object}; this one is not"

/**
 * Parses the frame of an append, the most frequent one, without a tree. Returns 1 if it is one, 0
 * if it is another frame or not JSON, -EINVAL if it is refused.
 */
int request_parse_append(const char *text, size_t len, const struct limits *limits,
	struct request *ret, struct refusal *refusal);
/**
 * Checks the producer's reference for an append and copies its JSON text to `out`; "" if `ref` is
 * NULL.
 */
int request_take_ref(const struct json_span *ref, char out[160], struct refusal *refusal);
/** Parses the data of `presence`, whose member names are already checked. */
int request_parse_presence(const json_t *data, struct request *ret, struct refusal *refusal);

/* request_content.c */
/** Checks the images and files of a prompt (there may be none) and sets ret->prompt.content. */
int request_take_content(const json_t *data, const struct limits *limits, struct request *ret,
	struct refusal *refusal);

#endif
