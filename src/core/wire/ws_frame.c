#include "holdfast/ws_frame.h"

#include "holdfast/utf8.h"

#include <string.h>

/* --- reading --- */

/** Returns the length of the header, which its first two bytes determine. */
static size_t header_size(const uint8_t header[2])
{
	unsigned len = header[1] & 0x7f;
	return 2 + (len == 126 ? 2 : len == 127 ? 8 : 0) + (header[1] & 0x80 ? 4 : 0);
}

static bool is_control(unsigned opcode)
{
	return opcode & 8;
}

/** Whether the first two bytes are a protocol error; checked before more arrives. */
static bool is_wrong(const struct ws_reader *reader)
{
	unsigned opcode = reader->header[0] & 0x0f;
	bool fin = reader->header[0] & 0x80;
	bool begins = opcode == WS_TEXT || opcode == WS_BINARY;
	if (reader->header[0] & 0x70 & (reader->may_deflate && begins ? ~WS_DEFLATED : ~0)) {
		return true; /* reserved bits */
	}
	if (!(reader->header[1] & 0x80) != reader->is_client) {
		return true; /* clients mask, servers do not */
	}
	switch (opcode) {
	case WS_TEXT:
	case WS_BINARY:
		return reader->message != 0;
	case WS_CONTINUATION:
		return reader->message == 0;
	case WS_CLOSE:
	case WS_PING:
	case WS_PONG:
		return !fin || (reader->header[1] & 0x7f) > WS_CONTROL_MAX;
	default:
		return true;
	}
}

static uint64_t big_endian(const uint8_t *bytes, unsigned count)
{
	uint64_t value = 0;
	for (unsigned i = 0; i < count; i++) {
		value = value << 8 | bytes[i];
	}
	return value;
}

/** Starts the payload after a complete header. Returns 0 or a negative close code. */
static int begin_payload(struct ws_reader *reader, size_t max)
{
	unsigned opcode = reader->header[0] & 0x0f;
	unsigned len = reader->header[1] & 0x7f;
	reader->left = len == 126   ? big_endian(reader->header + 2, 2)
		       : len == 127 ? big_endian(reader->header + 2, 8)
				    : len;
	if ((len == 126 && reader->left < 126) || (len == 127 && reader->left < 65536) ||
		reader->left >> 63) {
		return -WS_CLOSE_PROTOCOL_ERROR; /* lengths must have their shortest form */
	}
	if (!is_control(opcode)) {
		if (opcode != WS_CONTINUATION) {
			reader->size = 0;
		}
		if (reader->left > max || reader->size > max - reader->left) {
			return -WS_CLOSE_TOO_LARGE;
		}
		reader->size += reader->left;
	}
	reader->in_payload = true;
	reader->mask_at = 0;
	return 0;
}

/**
 * Consumes bytes of the header. Returns 1 when it is complete, 0 if more is needed, or a negative
 * close code.
 */
static int take_header(struct ws_reader *reader, char **at, size_t *len, size_t max)
{
	while (*len) {
		reader->header[reader->header_len++] = (uint8_t)(*at)[0];
		(*at)++;
		(*len)--;
		if (reader->header_len == 2 && is_wrong(reader)) {
			return -WS_CLOSE_PROTOCOL_ERROR;
		}
		if (reader->header_len >= 2 && reader->header_len == header_size(reader->header)) {
			int r = begin_payload(reader, max);
			return r < 0 ? r : 1;
		}
	}
	return 0;
}

static void unmask(struct ws_reader *reader, char *bytes, size_t len)
{
	const uint8_t *mask = reader->header + reader->header_len - 4;
	uint8_t turned[8];
	for (unsigned i = 0; i < 8; i++) {
		turned[i] = mask[(reader->mask_at + i) & 3];
	}
	uint64_t wide;
	memcpy(&wide, turned, sizeof(wide));
	size_t i = 0;
	for (; i + 8 <= len; i += 8) {
		uint64_t word;
		memcpy(&word, bytes + i, sizeof(word));
		word ^= wide;
		memcpy(bytes + i, &word, sizeof(word));
	}
	for (; i < len; i++) {
		bytes[i] = (char)((uint8_t)bytes[i] ^ turned[i & 7]);
	}
	reader->mask_at = (uint8_t)((reader->mask_at + len) & 3);
}

static void end_frame(struct ws_reader *reader)
{
	reader->in_payload = false;
	reader->header_len = 0;
}

/** Consumes bytes of the payload, which can be empty. */
static void take_payload(struct ws_reader *reader, char **at, size_t *len, struct ws_piece *ret)
{
	unsigned opcode = reader->header[0] & 0x0f;
	bool fin = reader->header[0] & 0x80;
	size_t n = reader->left < *len ? (size_t)reader->left : *len;
	bool is_control_frame = is_control(opcode);
	bool begins = !is_control_frame && opcode != WS_CONTINUATION && !reader->message;
	if (begins) {
		reader->message = (uint8_t)opcode;
		reader->is_deflated = reader->header[0] & WS_DEFLATED;
	}
	if (!reader->is_client) {
		unmask(reader, *at, n);
	}
	reader->left -= n;
	*ret = (struct ws_piece){
		.opcode =
			is_control_frame ? (enum ws_opcode)opcode : (enum ws_opcode)reader->message,
		.is_first = begins,
		.is_last = fin && !reader->left,
		.is_deflated = !is_control_frame && reader->is_deflated,
		.bytes = *at,
		.len = n,
	};
	*at += n;
	*len -= n;
	if (!reader->left) {
		if (ret->is_last && !is_control_frame) {
			reader->message = 0;
		}
		end_frame(reader);
	}
}

int ws_read(struct ws_reader *reader, char **at, size_t *len, size_t max, struct ws_piece *ret)
{
	if (!reader->in_payload) {
		int r = take_header(reader, at, len, max);
		if (r <= 0) {
			return r;
		}
	} else if (!*len) {
		return 0;
	}
	take_payload(reader, at, len, ret);
	return 1;
}

/* --- writing --- */

size_t ws_header(enum ws_opcode opcode, size_t len, unsigned char out[WS_HEADER_MAX])
{
	unsigned wide = len < 126 ? 0 : len < 65536 ? 2 : 8;
	out[0] = (unsigned char)(0x80 | opcode);
	out[1] = (unsigned char)(wide == 0 ? len : wide == 2 ? 126 : 127);
	for (unsigned i = 0; i < wide; i++) {
		out[2 + i] = (unsigned char)((uint64_t)len >> (8 * (wide - 1 - i)));
	}
	return 2 + wide;
}

void ws_append_masked(struct buffer *out, enum ws_opcode opcode, const char *bytes, size_t len,
	const unsigned char mask[4])
{
	unsigned char header[WS_MASKED_MAX];
	size_t n = ws_header(opcode, len, header);
	header[1] |= 0x80;
	memcpy(header + n, mask, 4);
	buffer_reserve(out, n + 4 + len);
	buffer_append(out, header, n + 4);
	buffer_append(out, bytes, len);
	struct ws_reader masker = {.header_len = 4};
	memcpy(masker.header, mask, 4);
	unmask(&masker, out->data + out->len - len, len);
}

/* --- closing --- */

int ws_close_code(const char *payload, size_t len)
{
	if (!len) {
		return 0;
	}
	if (len == 1) {
		return -WS_CLOSE_PROTOCOL_ERROR;
	}
	unsigned code = (unsigned)(uint8_t)payload[0] << 8 | (uint8_t)payload[1];
	bool is_known =
		(code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006) ||
		(code >= 3000 && code <= 4999);
	if (!is_known) {
		return -WS_CLOSE_PROTOCOL_ERROR;
	}
	if (!utf8_is_valid(payload + 2, len - 2)) {
		return -WS_CLOSE_NOT_UTF8;
	}
	return (int)code;
}
