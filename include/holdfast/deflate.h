/*
 * Compression of data from and to clients with zlib: WebSocket messages (permessage-deflate, RFC
 * 7692) and HTTP bodies (gzip, RFC 1952). Each message is compressed independently, so a message
 * for many observers is compressed once. Not thread-safe; no system calls.
 */
#ifndef HOLDFAST_DEFLATE_H
#define HOLDFAST_DEFLATE_H

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Shorter texts are sent uncompressed; they would hardly shrink. */
#define DEFLATE_MIN 1024

/** zlib's state; about 300 KiB after each kind of use. */
struct deflater;

/** Owned by the caller. */
struct deflater *deflater_create(void);
/**
 * Like deflater_create(), but at a level that takes several times as long for a fifth less output;
 * not for the loop.
 */
struct deflater *deflater_create_small(void);
/** Accepts NULL. */
void deflater_destroy(struct deflater *deflater);

/**
 * Returns the answer to a client's offers (the value of Sec-WebSocket-Extensions), static text: to the
 * first of them that we accept, without context takeover on either side. NULL if there is none: a
 * client that wants our window smaller than 32 KiB gets no compression, and an offer with a parameter
 * that is unknown, repeated or has a bad value is declined (RFC 7692, section 5.1).
 * server_max_window_bits=15 is repeated in the answer, as section 7.1.2.1 demands.
 */
const char *deflate_answer(const char *offers, size_t len);

/** Appends the text as the payload of a compressed message. */
void deflate_message(struct deflater *deflater, const char *text, size_t len, struct buffer *out);
/**
 * Appends the decompressed message. Returns 0; -EMSGSIZE if it is longer than `max` bytes, -EPROTO
 * if the input is malformed; `out` then has a part of it.
 */
int inflate_message(
	struct deflater *deflater, const char *bytes, size_t len, size_t max, struct buffer *out);

/** Appends the text as a gzip file. */
void deflate_gzip(struct deflater *deflater, const char *text, size_t len, struct buffer *out);

/*
 * A gzip stream assembled from pieces, each compressed once for all streams that contain it:
 * GZIP_HEAD, the pieces (or stored blocks), then a trailer computed along the way.
 */
#define GZIP_HEAD      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
#define GZIP_HEAD_SIZE 10

/** What a piece contributes to the trailer of its streams. */
struct gzip_piece {
	uint32_t crc;
	uint32_t len;
	uint64_t step; /* from crc32_combine_gen(): advances a CRC over `len` bytes */
};

struct gzip_piece gzip_measure(const char *text, size_t len);
/** Appends the text as complete deflate blocks, none of them marked final. */
void deflate_piece(struct deflater *deflater, const char *text, size_t len, struct buffer *out);

/** The trailer of a stream so far. Zero-initialise it at the stream's beginning. */
struct gzip_end {
	uint32_t crc;
	uint32_t len; /* modulo 2^32 */
};

void gzip_end_add(struct gzip_end *end, const struct gzip_piece *piece);
void gzip_end_append(const struct gzip_end *end, struct buffer *out);

#endif
