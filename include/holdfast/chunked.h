/*
 * The chunked transfer encoding of a request's body (RFC 9112, section 7.1), read piece by piece,
 * wherever the pieces are cut. Strict: what could be read in two ways is refused, so that nobody in
 * front of us can be made to see another request than we do. Pure.
 */
#ifndef HOLDFAST_CHUNKED_H
#define HOLDFAST_CHUNKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A size line with its extensions, and all trailer lines together, have at most so many bytes. */
#define CHUNKED_LINE_MAX    256
#define CHUNKED_TRAILER_MAX 4096

enum chunked_state {
	CHUNKED_SIZE,
	CHUNKED_EXTENSION,
	CHUNKED_SIZE_LF,
	CHUNKED_DATA,
	CHUNKED_DATA_CR,
	CHUNKED_DATA_LF,
	CHUNKED_TRAILER_START,
	CHUNKED_TRAILER_NAME,
	CHUNKED_TRAILER,
	CHUNKED_TRAILER_LF,
	CHUNKED_LAST_LF,
	CHUNKED_DONE, /* the body is whole */
	CHUNKED_BAD, /* it is no such body, and never will be */
};

/** Zeroed, it is at the beginning of a body. */
struct chunked {
	enum chunked_state state;
	uint64_t left; /* of the chunk */
	unsigned digits; /* of its size, so far */
	unsigned line; /* bytes of the size line, or of the trailers, so far */
};

/**
 * Takes bytes from the front of `*at` until it has some of the body's own, and returns how many;
 * `*ret_bytes` points to them, inside of what was given. 0: all that was given is used, or the end
 * (CHUNKED_DONE, CHUNKED_BAD) is reached; the state says which.
 */
size_t chunked_take(struct chunked *chunked, const char **at, size_t *len, const char **ret_bytes);

#endif
