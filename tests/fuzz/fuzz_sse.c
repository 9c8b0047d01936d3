/*
 * Server-sent events. The first line is a position, as a client sends it: what is read is what was written.
 * What follows is the data of a frame: it arrives as one event, whole, also packed together with
 * others.
 */
#include "fuzz.h"

#include "doors/durable_streams/ds.h"
#include "holdfast/sse.h"

#include <zlib.h>

static void check_position(const char *text, size_t len)
{
	struct sse_position at;
	struct buffer again = {0};
	if (!sse_position_read(text, len, &at)) {
		return;
	}
	fuzz_check(len <= SSE_ID_MAX, "an id is short");
	fuzz_check(at.seq < 1ULL << 53, "a seq is a number of JavaScript's");
	if (at.has_epoch) {
		buffer_append_hex(&again, at.epoch);
		buffer_append_char(&again, '-');
		fuzz_check(
			memcmp(again.data, text, again.len) == 0, "the epoch is what was written");
		text += again.len;
		len -= again.len;
	}
	buffer_clear(&again);
	buffer_append_u64(&again, at.seq);
	while (len > again.len && *text == '0') {
		text++;
		len--;
	}
	fuzz_check(len == again.len && memcmp(again.data, text, len) == 0,
		"the seq is what was written");
	buffer_finish(&again);
}

/** One event, whose data is the frame's, with blanks where lines ended. */
static void check_event(const struct frame *frame, const char *data, size_t len)
{
	static const char head[] = "event: some\ndata: ";
	const char *at = frame_text(frame) + sizeof(head) - 1;
	fuzz_check(frame_len(frame) == sizeof(head) - 1 + len + 2, "nothing is added or left out");
	fuzz_check(memcmp(frame_text(frame), head, sizeof(head) - 1) == 0, "its name is there");
	for (size_t i = 0; i < len; i++) {
		bool is_end = data[i] == '\n' || data[i] == '\r';
		fuzz_check(at[i] == (is_end ? ' ' : data[i]), "the data is as it was");
	}
	fuzz_check(memcmp(at + len, "\n\n", 2) == 0, "it ends");
}

static void check_packed(struct frame *frame, unsigned times)
{
	struct deflater *deflater = deflater_create();
	struct gzip_end end = {0};
	struct buffer packed = {0};
	buffer_append(&packed, GZIP_HEAD, GZIP_HEAD_SIZE);
	for (unsigned i = 0; i < times; i++) {
		const struct buffer *bytes = sse_packed(frame, deflater);
		gzip_end_add(&end, &frame->piece);
		buffer_append(&packed, bytes->data + FRAME_HEADROOM, bytes->len - FRAME_HEADROOM);
	}
	gzip_end_append(&end, &packed);
	size_t len = frame_len(frame) * times;
	unsigned char *text = xmalloc(len + 1);
	z_stream z = {.next_in = (unsigned char *)packed.data,
		.avail_in = (unsigned)packed.len,
		.next_out = text,
		.avail_out = (unsigned)len + 1};
	fuzz_check(inflateInit2(&z, 15 + 16) == Z_OK, "zlib has memory");
	fuzz_check(inflate(&z, Z_FINISH) == Z_STREAM_END && z.avail_out == 1 && !z.avail_in,
		"it is a gzip file of its size");
	for (unsigned i = 0; i < times; i++) {
		fuzz_check(memcmp(text + i * frame_len(frame), frame_text(frame),
				   frame_len(frame)) == 0,
			"which says the same");
	}
	inflateEnd(&z);
	free(text);
	buffer_finish(&packed);
	deflater_destroy(deflater);
}

static void check_offset(const char *text, size_t len)
{
	struct ds_offset at;
	char again[DS_OFFSET_SIZE];
	if (ds_offset_read(text, len, &at) && at.kind == DS_AT) {
		ds_offset_write(again, at.epoch, at.seq);
		fuzz_check(len == strlen(again) && memcmp(text, again, len) == 0,
			"an offset is what was written");
	}
	char *copy = xmalloc(len + 1);
	memcpy(copy, text, len);
	copy[len] = '\0';
	uint64_t least = ds_cursor_behind(copy, 1800000000000, (unsigned)len);
	fuzz_check(!least || least > ds_cursor(1800000000000, 0), "a cursor goes on");
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = size ? (const char *)data : "";
	const char *newline = memchr(text, '\n', size);
	size_t first = newline ? (size_t)(newline - text) : size;
	check_position(text, first);
	check_offset(text, first);
	if (newline) {
		const char *rest = newline + 1;
		size_t len = size - first - 1;
		struct frame *frame = frame_make("some", rest, len);
		check_event(sse_frame(frame), rest, len);
		check_packed(sse_frame(frame), 1 + (unsigned)(size % 3));
		frame_unref(frame);
	}
	return 0;
}
