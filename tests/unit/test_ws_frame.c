/* WebSocket frames as a client of another node writes and reads them: a server reads the ones, and writes the others. */
#include "holdfast/ws_frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define MAX ((size_t)1024 * 1024)

static const unsigned char mask[4] = {0x12, 0xfe, 0x00, 0x99};

static char *make_text(size_t len)
{
	char *text = xmalloc(len + 1);
	for (size_t i = 0; i < len; i++) {
		text[i] = (char)('a' + i % 23);
	}
	return text;
}

/** Reads one frame that comes in pieces of `step` bytes; what it says is appended. */
static void read_frame(
	struct ws_reader *reader, const struct buffer *bytes, size_t step, struct buffer *ret)
{
	bool is_last = false;
	for (size_t from = 0; from < bytes->len; from += step) {
		size_t len = bytes->len - from < step ? bytes->len - from : step;
		char *copy = xmalloc(len);
		memcpy(copy, bytes->data + from, len);
		char *at = copy;
		struct ws_piece piece;
		int r;
		while ((r = ws_read(reader, &at, &len, MAX, &piece)) > 0) {
			assert_int_equal(piece.opcode, WS_TEXT);
			buffer_append(ret, piece.bytes, piece.len);
			is_last = piece.is_last;
		}
		assert_int_equal(r, 0);
		free(copy);
	}
	assert_true(is_last);
}

static const size_t sizes[] = {0, 1, 7, 125, 126, 1000, 65535, 65536, 100000};
static const size_t steps[] = {1, 2, 3, 7, 4096, MAX};

static void a_server_reads_what_a_client_masks(void **state)
{
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct buffer frame = {0};
		char *text = make_text(sizes[i]);
		ws_append_masked(&frame, WS_TEXT, text, sizes[i], mask);
		assert_true(frame.data[1] & 0x80);
		assert_true(sizes[i] < 7 || !memmem(frame.data, frame.len, text, 7));
		for (size_t n = 0; n < sizeof(steps) / sizeof(steps[0]); n++) {
			struct ws_reader reader = {0};
			struct buffer got = {0};
			read_frame(&reader, &frame, steps[n], &got);
			assert_int_equal(got.len, sizes[i]);
			assert_true(!got.len || memcmp(got.data, text, got.len) == 0);
			buffer_finish(&got);
		}
		buffer_finish(&frame);
		free(text);
	}
	(void)state;
}

static void a_client_reads_what_a_server_writes(void **state)
{
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct buffer frame = {0};
		unsigned char header[WS_HEADER_MAX];
		char *text = make_text(sizes[i]);
		buffer_append(&frame, header, ws_header(WS_TEXT, sizes[i], header));
		buffer_append(&frame, text, sizes[i]);
		for (size_t n = 0; n < sizeof(steps) / sizeof(steps[0]); n++) {
			struct ws_reader reader = {.is_client = true};
			struct buffer got = {0};
			read_frame(&reader, &frame, steps[n], &got);
			assert_int_equal(got.len, sizes[i]);
			assert_true(!got.len || memcmp(got.data, text, got.len) == 0);
			buffer_finish(&got);
		}
		buffer_finish(&frame);
		free(text);
	}
	(void)state;
}

static int read_first(bool is_client, const char *bytes, size_t len)
{
	char copy[64];
	char *at = copy;
	struct ws_piece piece;
	struct ws_reader reader = {.is_client = is_client};
	memcpy(copy, bytes, len);
	return ws_read(&reader, &at, &len, MAX, &piece);
}

static void neither_takes_the_frames_of_its_own_side(void **state)
{
	static const char plain[] = "\x81\x01x";
	struct buffer masked = {0};
	ws_append_masked(&masked, WS_TEXT, "x", 1, mask);
	assert_int_equal(read_first(false, plain, 3), -WS_CLOSE_PROTOCOL_ERROR);
	assert_int_equal(read_first(true, masked.data, masked.len), -WS_CLOSE_PROTOCOL_ERROR);
	assert_int_equal(read_first(true, plain, 3), 1);
	assert_int_equal(read_first(false, masked.data, masked.len), 1);
	buffer_finish(&masked);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_reads_what_a_client_masks),
		cmocka_unit_test(a_client_reads_what_a_server_writes),
		cmocka_unit_test(neither_takes_the_frames_of_its_own_side),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
