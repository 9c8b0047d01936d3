/* What the two ends of the bench need of WebSocket (RFC 6455): whole frames, no extensions. */
#ifndef BENCH_WS_H
#define BENCH_WS_H

#include "holdfast/buffer.h"

#include <stdbool.h>

/* The key of RFC 6455's own example, and the answer to it: the peer gets by without SHA-1. */
#define WS_KEY    "dGhlIHNhbXBsZSBub25jZQ=="
#define WS_ACCEPT "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

enum ws_opcode { WS_TEXT = 1, WS_CLOSE = 8, WS_PING = 9, WS_PONG = 10 };

struct ws_frame {
	unsigned opcode;
	char *payload; /* inside the bytes it was parsed from, unmasked there */
	size_t len;
	size_t total; /* with the header */
};

/**
 * Parses the frame at the start of `bytes`. Returns 1 if there is a whole one, 0 if it takes more
 * bytes, -EPROTO if it is a fragment, larger than 16 MiB, or nothing that we know.
 */
int ws_parse(char *bytes, size_t len, struct ws_frame *ret_frame);
/** Appends a text frame as a server sends it. */
void ws_append(struct buffer *out, const char *text, size_t len);
/** Appends a frame as a client sends it. */
void ws_append_masked(struct buffer *out, enum ws_opcode opcode, const char *text, size_t len);

#endif
