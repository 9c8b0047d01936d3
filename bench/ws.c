#include "ws.h"

#include <errno.h>
#include <string.h>

#define FRAME_MAX (UINT64_C(16) << 20)

/** XOR with the key, eight bytes at a time. */
static void mask(char *bytes, size_t len, const unsigned char key[4])
{
	uint64_t wide;
	unsigned char twice[8];
	memcpy(twice, key, 4);
	memcpy(twice + 4, key, 4);
	memcpy(&wide, twice, 8);
	size_t i = 0;
	for (; i + 8 <= len; i += 8) {
		uint64_t word;
		memcpy(&word, bytes + i, 8);
		word ^= wide;
		memcpy(bytes + i, &word, 8);
	}
	for (; i < len; i++) {
		bytes[i] = (char)(bytes[i] ^ key[i % 4]);
	}
}

static uint64_t read_be(const unsigned char *bytes, size_t count)
{
	uint64_t value = 0;
	for (size_t i = 0; i < count; i++) {
		value = value << 8 | bytes[i];
	}
	return value;
}

int ws_parse(char *bytes, size_t len, struct ws_frame *ret_frame)
{
	const unsigned char *head = (const unsigned char *)bytes;
	if (len < 2) {
		return 0;
	}
	bool is_masked = head[1] & 0x80;
	size_t wide = (head[1] & 0x7f) == 126 ? 2 : (head[1] & 0x7f) == 127 ? 8 : 0;
	size_t head_len = 2 + wide + (is_masked ? 4 : 0);
	if ((head[0] & 0xf0) != 0x80) {
		return -EPROTO;
	}
	if (len < head_len) {
		return 0;
	}
	uint64_t size = wide ? read_be(head + 2, wide) : head[1] & 0x7f;
	if (size > FRAME_MAX) {
		return -EPROTO;
	}
	if (len - head_len < size) {
		return 0;
	}
	*ret_frame = (struct ws_frame){.opcode = head[0] & 0x0f,
		.payload = bytes + head_len,
		.len = (size_t)size,
		.total = head_len + (size_t)size};
	if (is_masked) {
		mask(ret_frame->payload, ret_frame->len, head + 2 + wide);
	}
	return 1;
}

static void append_head(struct buffer *out, unsigned opcode, unsigned mask_bit, size_t len)
{
	buffer_append_char(out, (char)(0x80 | opcode));
	unsigned wide = len < 126 ? 0 : len < 65536 ? 2 : 8;
	unsigned code = wide == 0 ? (unsigned)len : wide == 2 ? 126 : 127;
	buffer_append_char(out, (char)(mask_bit | code));
	for (unsigned i = wide; i > 0; i--) {
		buffer_append_char(out, (char)(len >> (8 * (i - 1))));
	}
}

void ws_append(struct buffer *out, const char *text, size_t len)
{
	append_head(out, WS_TEXT, 0, len);
	buffer_append(out, text, len);
}

void ws_append_masked(struct buffer *out, enum ws_opcode opcode, const char *text, size_t len)
{
	/* Any key will do here: no proxy stands between us and the server that could be fooled. */
	static const unsigned char key[4] = {0x37, 0xfa, 0x21, 0x3d};
	append_head(out, opcode, 0x80, len);
	buffer_append(out, key, 4);
	buffer_append(out, text, len);
	mask(out->data + out->len - len, len, key);
}
