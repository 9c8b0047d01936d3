/*
 * Reads and writes WebSocket frames (RFC 6455, section 5), as a server, which receives masked
 * frames and sends unmasked ones, and as the client of another node. The only extension is
 * permessage-deflate (deflate.h). Pure.
 */
#ifndef HOLDFAST_WS_FRAME_H
#define HOLDFAST_WS_FRAME_H

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The longest header of a frame sent by a server, the same by a client, and the longest payload of
 * a control frame.
 */
#define WS_HEADER_MAX  10
#define WS_MASKED_MAX  14
#define WS_CONTROL_MAX 125
/* The bit in a frame's first byte that marks its message as compressed (RFC 7692, section 6). */
#define WS_DEFLATED 0x40

enum ws_opcode {
	WS_CONTINUATION = 0,
	WS_TEXT = 1,
	WS_BINARY = 2,
	WS_CLOSE = 8,
	WS_PING = 9,
	WS_PONG = 10,
};

/* Close codes of the RFC and (from 1012) of the IANA registry. */
enum ws_close {
	WS_CLOSE_NORMAL = 1000,
	WS_CLOSE_GOING_AWAY = 1001,
	WS_CLOSE_PROTOCOL_ERROR = 1002,
	WS_CLOSE_NOT_UTF8 = 1007,
	WS_CLOSE_POLICY = 1008,
	WS_CLOSE_TOO_LARGE = 1009,
	WS_CLOSE_TRY_LATER = 1013,
};

/**
 * Reads frames from bytes that arrive in arbitrary pieces. Zero-initialise it at the beginning of a
 * frame.
 */
struct ws_reader {
	uint64_t left; /* bytes left of the frame's payload */
	uint64_t size; /* size of the message so far, including the whole current frame */
	uint8_t header[14];
	uint8_t header_len; /* bytes of `header` received */
	uint8_t message; /* WS_TEXT or WS_BINARY inside a message, else 0 */
	uint8_t mask_at;
	bool in_payload;
	bool may_deflate; /* set by the owner: the extension is in use */
	bool is_client; /* set by the owner: reads frames from a server */
	bool is_deflated; /* the current message is compressed */
};

/** A piece of a frame's payload. */
struct ws_piece {
	enum ws_opcode opcode; /* for data WS_TEXT or WS_BINARY, even in a continuation */
	bool is_first; /* of a message; meaningless for control frames */
	bool is_last; /* of the message, or of the control frame */
	bool is_deflated; /* the message is compressed */
	char *bytes; /* unmasked, in place */
	size_t len;
};

/**
 * Consumes bytes from the front of *at (and *len). Returns 1 with a piece, which can be empty at
 * the end of a frame; 0 when all bytes are used; or the negative close code with which to close the
 * connection: -WS_CLOSE_PROTOCOL_ERROR, or -WS_CLOSE_TOO_LARGE for a message of more than `max`
 * bytes.
 */
int ws_read(struct ws_reader *reader, char **at, size_t *len, size_t max, struct ws_piece *ret);

/** Writes the header of an unfragmented frame. Returns its length, at most WS_HEADER_MAX. */
size_t ws_header(enum ws_opcode opcode, size_t len, unsigned char out[WS_HEADER_MAX]);

/**
 * Appends an unfragmented frame as a client sends it, masked with these four bytes, which must be
 * unpredictable.
 */
void ws_append_masked(struct buffer *out, enum ws_opcode opcode, const char *bytes, size_t len,
	const unsigned char mask[4]);

/**
 * Parses the payload of a close frame. Returns the code, 0 if it has none, or the negative code to
 * answer with if it is malformed.
 */
int ws_close_code(const char *payload, size_t len);

#endif
