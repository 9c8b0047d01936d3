/*
 * Decodes the chunked transfer encoding of a request's body (RFC 9112, section 7.1) incrementally.
 * Strict: ambiguous input is refused, so that a proxy in front of us cannot see another request
 * than we do. Behind a size there may be blanks (BWS), as many senders pad it, and then an extension or
 * the end of the line, but nothing else. Pure.
 */
#ifndef HOLDFAST_CHUNKED_H
#define HOLDFAST_CHUNKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Most bytes of a size line with its extensions, and of all trailer lines together. */
#define CHUNKED_LINE_MAX    256
#define CHUNKED_TRAILER_MAX 4096

enum chunked_state {
	CHUNKED_SIZE,
	CHUNKED_SIZE_BLANK,
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
	CHUNKED_DONE, /* end of the body */
	CHUNKED_BAD, /* malformed; no way back */
};

/** A decoder. Zero-initialise it at the beginning of a body. */
struct chunked {
	enum chunked_state state;
	uint64_t left; /* bytes left of the chunk */
	unsigned digits; /* digits of its size so far */
	unsigned line; /* bytes of the size line's extensions, or of the trailers, so far */
};

/**
 * Consumes bytes from the front of *at (and *len) until it finds bytes of the body; returns their
 * number and points *ret_bytes to them, inside the input. Returns 0 if the input is used up or the
 * end is reached; `state` is then CHUNKED_DONE, CHUNKED_BAD or something else.
 */
size_t chunked_take(struct chunked *chunked, const char **at, size_t *len, const char **ret_bytes);

#endif
