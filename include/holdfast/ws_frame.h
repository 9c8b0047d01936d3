/*
 * WebSocket frames (RFC 6455, section 5), as a server reads and writes them: masked ones come in,
 * unmasked ones go out; and as a client of another node does. One extension may be in use, permessage-deflate (deflate.h). Pure.
 */
#ifndef HOLDFAST_WS_FRAME_H
#define HOLDFAST_WS_FRAME_H

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The longest header of a frame that goes out, and the longest payload of a control frame. */
#define WS_HEADER_MAX  10
#define WS_MASKED_MAX  14 /* the same of a client's */
#define WS_CONTROL_MAX 125
/* The bit of a frame's first byte that says that its message is compressed (RFC 7692, section 6). */
#define WS_DEFLATED 0x40

enum ws_opcode {
	WS_CONTINUATION = 0,
	WS_TEXT = 1,
	WS_BINARY = 2,
	WS_CLOSE = 8,
	WS_PING = 9,
	WS_PONG = 10,
};

/* Close codes of the RFC, and of the IANA registry (1012 and on). */
enum ws_close {
	WS_CLOSE_NORMAL = 1000,
	WS_CLOSE_GOING_AWAY = 1001,
	WS_CLOSE_PROTOCOL_ERROR = 1002,
	WS_CLOSE_NOT_UTF8 = 1007,
	WS_CLOSE_POLICY = 1008,
	WS_CLOSE_TOO_LARGE = 1009,
	WS_CLOSE_TRY_LATER = 1013,
};

/** Reads frames from bytes, however they are cut. Zeroed, it is at the beginning of a frame. */
struct ws_reader {
	uint64_t left; /* of the frame's payload */
	uint64_t size; /* of the message so far, with all of the frame that is being read */
	uint8_t header[14];
	uint8_t header_len; /* bytes of it that have come */
	uint8_t message; /* WS_TEXT or WS_BINARY while a message is unfinished, else 0 */
	uint8_t mask_at;
	bool in_payload;
	bool may_deflate; /* the extension is in use; set by the owner */
	bool is_client; /* it reads what a server sends; set by the owner */
	bool is_deflated; /* the unfinished message is compressed */
};

/** A piece of a frame's payload. */
struct ws_piece {
	enum ws_opcode opcode; /* of data: WS_TEXT or WS_BINARY, also for a continuation */
	bool is_first; /* of a message; of control frames it says nothing */
	bool is_last; /* of the message, or of the control frame */
	bool is_deflated; /* the message is compressed */
	char *bytes; /* unmasked, in place */
	size_t len;
};

/**
 * Takes bytes from the front of `*at`. Returns 1 with a piece (which may be empty: the end of a
 * frame), 0 when all bytes are used, or the negative close code that ends the connection:
 * -WS_CLOSE_PROTOCOL_ERROR, or -WS_CLOSE_TOO_LARGE for a message of more than `max` bytes.
 */
int ws_read(struct ws_reader *reader, char **at, size_t *len, size_t max, struct ws_piece *ret);

/** Writes the header of a whole frame; returns its length, at most WS_HEADER_MAX. */
size_t ws_header(enum ws_opcode opcode, size_t len, unsigned char out[WS_HEADER_MAX]);

/**
 * Appends a whole frame as a client sends it: masked, with these four bytes, which nobody can foresee.
 */
void ws_append_masked(struct buffer *out, enum ws_opcode opcode, const char *bytes, size_t len,
	const unsigned char mask[4]);

/**
 * What the payload of a close frame says: the code, 0 if it names none, or the negative code to
 * answer with because it is wrong.
 */
int ws_close_code(const char *payload, size_t len);

#endif
