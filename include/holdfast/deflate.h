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

#endif
