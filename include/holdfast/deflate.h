/*
 * Compression of what clients get and send: messages of a WebSocket (permessage-deflate, RFC 7692)
 * and bodies over HTTP (gzip, RFC 1952), by zlib. Each message is compressed by itself, so that one
 * that goes to many observers is compressed once. Not thread-safe; no system calls.
 */
#ifndef HOLDFAST_DEFLATE_H
#define HOLDFAST_DEFLATE_H

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is shorter is sent as it is: it would hardly become shorter. */
#define DEFLATE_MIN 1024

/* What is agreed on in the answer to a handshake that offers it. */
#define DEFLATE_ACCEPTED \
	"permessage-deflate; server_no_context_takeover; client_no_context_takeover"

/** zlib's memory, about 300 KiB after the first use of everything. */
struct deflater;

struct deflater *deflater_create(void);
/** One that takes several times as long for a fifth less: not for the loop. */
struct deflater *deflater_create_small(void);
/** Accepts NULL. */
void deflater_destroy(struct deflater *deflater);

/**
 * Whether one of the extensions that a client offers (the value of Sec-WebSocket-Extensions) is
 * DEFLATE_ACCEPTED. A client that wants our window to be smaller than 32 KiB gets no compression.
 */
bool deflate_is_offered(const char *offers, size_t len);

/** Appends the text as the payload of a compressed message. */
void deflate_message(struct deflater *deflater, const char *text, size_t len, struct buffer *out);
/**
 * Appends what a compressed message says. -EMSGSIZE: that is more than `max` bytes; -EPROTO: it is
 * nothing that deflate makes. `out` has a part of it then.
 */
int inflate_message(
	struct deflater *deflater, const char *bytes, size_t len, size_t max, struct buffer *out);

/** Appends the text as a gzip file. */
void deflate_gzip(struct deflater *deflater, const char *text, size_t len, struct buffer *out);

/*
 * A gzip stream that is put together from pieces, each of which is packed once for all streams that
 * it is part of: GZIP_HEAD, pieces (or stored blocks), and an end that is counted along.
 */
#define GZIP_HEAD      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
#define GZIP_HEAD_SIZE 10

/** What a piece of text adds to the end of its streams. */
struct gzip_piece {
	uint32_t crc;
	uint32_t len;
	uint64_t step; /* of zlib: how the sum of what is before it changes */
};

struct gzip_piece gzip_measure(const char *text, size_t len);
/** Appends the text as whole blocks of deflate, none of them the last one. */
void deflate_piece(struct deflater *deflater, const char *text, size_t len, struct buffer *out);

/** What has been sent of a stream; all zero at its beginning. */
struct gzip_end {
	uint32_t crc;
	uint32_t len; /* modulo 2^32 */
};

void gzip_end_add(struct gzip_end *end, const struct gzip_piece *piece);
void gzip_end_append(const struct gzip_end *end, struct buffer *out);

#endif
