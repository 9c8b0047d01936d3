/* Frames as events of a stream, positions, and streams that are packed in pieces. */
#include "holdfast/deflate.h"
#include "doors/durable_streams/ds.h"
#include "holdfast/sse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

static bool reads(const char *text, struct sse_position *ret)
{
	return sse_position_read(text, strlen(text), ret);
}

static void positions_are_ids_and_numbers_and_nothing_else(void **state)
{
	struct sse_position at;
	assert_true(reads("0123456789abcdef-42", &at));
	assert_true(at.has_epoch);
	assert_int_equal(at.epoch, 0x0123456789abcdef);
	assert_int_equal(at.seq, 42);
	assert_true(reads("ffffffffffffffff-9007199254740991", &at));
	assert_true(at.seq == 9007199254740991);
	assert_true(reads("0", &at));
	assert_false(at.has_epoch);
	assert_int_equal(at.seq, 0);
	static const char *const wrong[] = {"", "-", "-1", "+1", " 1", "1 ", "x", "1x",
		"0123456789abcdef", "0123456789abcdef-", "0123456789abcdeF-1",
		"0123456789abcdef--1", "0123456789abcde-1", "00123456789abcdef-1",
		"9007199254740992", "00000000000000001", "0123456789abcdef-9007199254740992",
		"0123456789abcdef-1\n", "0123456789abcdef 1"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_false(reads(wrong[i], &at));
	}
	assert_false(sse_position_read("1\0", 2, &at));
}

static void assert_text(struct frame *frame, const char *wanted)
{
	assert_int_equal(frame_len(frame), strlen(wanted));
	assert_memory_equal(frame_text(frame), wanted, strlen(wanted));
}

static void a_frame_is_one_event_and_made_once(void **state)
{
	static const char data[] = "{\"a\":\n\r1}";
	struct frame *frame = frame_make("state", data, sizeof(data) - 1);
	assert_text(sse_frame(frame), "event: state\ndata: {\"a\":  1}\n\n");
	assert_ptr_equal(sse_frame(frame), sse_frame(frame));
	assert_ptr_equal(sse_frame(sse_frame(frame)), sse_frame(frame));
	frame_unref(frame);
	frame = frame_error(ERROR_token_expired, "it has", NULL, NULL);
	assert_text(sse_frame(frame),
		"event: ended\ndata: {\"code\":\"token_expired\",\"message\":\"it has\"}\n\n");
	frame_unref(frame);
}

static void only_what_has_the_form_of_a_frame_is_split(void **state)
{
	struct frame_parts parts;
	static const char good[] = "{\"type\":\"state\",\"data\":{}}";
	assert_true(frame_split(good, sizeof(good) - 1, &parts));
	assert_true(parts.type_len == 5 && memcmp(parts.type, "state", 5) == 0);
	assert_true(parts.data_len == 2 && memcmp(parts.data, "{}", 2) == 0);
	for (size_t len = 0; len < sizeof(good) - 2; len++) {
		assert_false(frame_split(good, len, &parts));
	}
	static const char *const wrong[] = {"", "x", "{\"type\":\"state", "{\"type\":\"state\"}",
		"{\"type\":\"state\",\"data\":}", "{\"type\": \"state\",\"data\":{}}",
		"{\"type\":\"state\",\"data\":{}]"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_false(frame_split(wrong[i], strlen(wrong[i]), &parts));
		struct frame *frame = frame_of_text(wrong[i], strlen(wrong[i]));
		assert_text(sse_frame(frame), "event: \ndata: \n\n");
		frame_unref(frame);
	}
}

static struct event *make_event(uint64_t seq, const char *type, const char *data)
{
	struct event_view view = {.seq = seq,
		.type = event_type_of(type, strlen(type)),
		.type_name = type,
		.type_len = strlen(type),
		.ts = 7,
		.data = data,
		.data_len = strlen(data)};
	return event_create(&view);
}

static void events_have_their_ids_types_and_json(void **state)
{
	struct event *events[] = {make_event(1, "turn_end", "{}"),
		make_event(2, "x-own", "{\"type\":\"z\"}"), make_event(3, "tool_call", "{}")};
	const struct connected_frame now = {.epoch = 0x1f, .max_seq = 3};
	struct frame *frame = sse_encoder.events(
		NULL, &(struct live_events){events, 3, FORMAT_MARKDOWN, HIDE_TOOLS, &now});
	assert_text(frame,
		"id: 000000000000001f-1\nevent: turn_end\n"
		"data: {\"seq\":1,\"type\":\"turn_end\",\"ts\":7,\"data\":{}}\n\n"
		"id: 000000000000001f-2\nevent: x-own\n"
		"data: {\"seq\":2,\"type\":\"x-own\",\"ts\":7,\"data\":{\"type\":\"z\"}}\n\n"
		"id: 000000000000001f-3\nevent: tool_call\n"
		"data: {\"seq\":3,\"type\":\"tool_call\",\"ts\":7,\"redacted\":true,\"data\":{}}\n\n");
	frame_unref(frame);
	struct loaded_frame page = {.reset = "pruned",
		.epoch = 0x1f,
		.first_kept_seq = 1,
		.max_seq = 3,
		.events = events,
		.count = 1,
		.is_newest = true,
		.from = 1,
		.open = {.seq = 4, .type = EVENT_AGENT_MESSAGE, .text = "a\nb", .len = 3}};
	frame = sse_encoder.page(NULL, &page);
	assert_text(frame,
		"event: reset\ndata: {\"reason\":\"pruned\",\"epoch\":\"000000000000001f\",\"first_seq\":1,\"max_seq\":3}\n\n"
		"id: 000000000000001f-0\n\n"
		"id: 000000000000001f-1\nevent: turn_end\n"
		"data: {\"seq\":1,\"type\":\"turn_end\",\"ts\":7,\"data\":{}}\n\n"
		"event: delta\ndata: {\"seq\":4,\"type\":\"agent_message\",\"offset\":0,\"text\":\"a\\nb\"}\n\n");
	frame_unref(frame);
	frame = sse_encoder.live(NULL, &now);
	assert_text(frame, "event: live\ndata: {\"epoch\":\"000000000000001f\",\"max_seq\":3}\n\n");
	frame_unref(frame);
	for (size_t i = 0; i < 3; i++) {
		event_unref(events[i]);
	}
}

/** What a gzip file says. */
static void unpack(const struct buffer *packed, struct buffer *out)
{
	z_stream z = {0};
	assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
	z.next_in = (unsigned char *)packed->data;
	z.avail_in = (unsigned)packed->len;
	int r = Z_OK;
	while (r == Z_OK) {
		buffer_reserve(out, 65536);
		z.next_out = (unsigned char *)out->data + out->len;
		z.avail_out = 65536;
		r = inflate(&z, Z_NO_FLUSH);
		out->len += 65536 - z.avail_out;
	}
	assert_int_equal(r, Z_STREAM_END); /* its sum and its size are right */
	assert_int_equal(z.avail_in, 0);
	inflateEnd(&z);
}

static struct frame *make_sized(size_t len, unsigned seed)
{
	struct buffer data = {0};
	buffer_append_char(&data, '"');
	for (size_t i = 2; i < len; i++) { /* seed 0 can be packed, others can hardly */
		seed = seed ? seed * 1103515245 + 12345 : 0;
		buffer_append_char(&data, (char)('a' + (seed >> 16) % 26));
	}
	buffer_append_char(&data, '"');
	struct frame *frame = frame_make("x", data.data, data.len);
	buffer_finish(&data);
	return frame;
}

static void pieces_of_every_size_make_whole_gzip_files(void **state)
{
	static const size_t sizes[] = {2, 100, 999, 1000, 1024, 5000, 65500, 65520, 65536, 300000};
	struct deflater *deflater = deflater_create();
	struct frame *frames[2 * sizeof(sizes) / sizeof(sizes[0])];
	size_t count = sizeof(frames) / sizeof(frames[0]);
	for (size_t i = 0; i < count; i++) {
		frames[i] = make_sized(sizes[i / 2], i % 2 ? 7 + (unsigned)i : 0);
	}
	for (size_t start = 0; start < count; start++) { /* each is part of many streams */
		struct buffer packed = {0};
		struct buffer wanted = {0};
		struct buffer text = {0};
		struct gzip_end end = {0};
		buffer_append(&packed, GZIP_HEAD, GZIP_HEAD_SIZE);
		for (size_t i = 0; i < start; i++) {
			struct frame *frame = sse_frame(frames[(start + i * 7) % count]);
			const struct buffer *bytes = sse_packed(frame, deflater);
			gzip_end_add(&end, &frame->piece);
			/* Some decoders hand out nothing before a flush ends. */
			assert_memory_equal(bytes->data + bytes->len - 4, "\0\0\xff\xff", 4);
			buffer_append(
				&packed, bytes->data + FRAME_HEADROOM, bytes->len - FRAME_HEADROOM);
			buffer_append(&wanted, frame_text(frame), frame_len(frame));
		}
		gzip_end_append(&end, &packed);
		unpack(&packed, &text);
		assert_int_equal(text.len, wanted.len);
		assert_true(!text.len || memcmp(text.data, wanted.data, text.len) == 0);
		buffer_finish(&packed);
		buffer_finish(&wanted);
		buffer_finish(&text);
	}
	for (size_t i = 0; i < count; i++) {
		frame_unref(frames[i]);
	}
	deflater_destroy(deflater);
}

static void offsets_and_cursors(void **state)
{
	static const char *const wrong[] = {"", "0", "-2", "NOW",
		"000000000000001f_000000000000000x", "000000000000001F_0000000000000001",
		"000000000000001f_9007199254740992", "000000000000001f-0000000000000001",
		"000000000000001f_00000000000000001"};
	struct ds_offset at;
	char text[DS_OFFSET_SIZE];
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_false(ds_offset_read(wrong[i], strlen(wrong[i]), &at));
	}
	ds_offset_write(text, 0x1f, 42);
	assert_string_equal(text, "000000000000001f_0000000000000042");
	assert_true(ds_offset_read(text, strlen(text), &at));
	assert_true(at.kind == DS_AT && at.epoch == 0x1f && at.seq == 42);
	int64_t now = 1728432000000 + 20000 * 1000 + 7;
	assert_int_equal(ds_cursor(now, 0), 1000);
	assert_int_equal(ds_cursor(now, 1005), 1005);
	assert_int_equal(ds_cursor(0, 0), 0);
	assert_int_equal(ds_cursor_behind("999", now, 5), 0);
	assert_int_equal(ds_cursor_behind("1000", now, 5), 1006);
	assert_int_equal(ds_cursor_behind("1000x", now, 5), 0);
	assert_int_equal(ds_cursor_behind("9999999999999999", now, 5), 0);
}

static void events_of_durable_streams(void **state)
{
	struct event *events[] = {
		make_event(1, "turn_end", "{}"), make_event(2, "tool_call", "{}")};
	struct buffer text = {0};
	ds_append_data(&text, events, 2, FORMAT_MARKDOWN, HIDE_TOOLS);
	assert_string_equal(buffer_cstr(&text),
		"event: data\ndata: [{\"seq\":1,\"type\":\"turn_end\",\"ts\":7,\"data\":{}},"
		"{\"seq\":2,\"type\":\"tool_call\",\"ts\":7,\"redacted\":true,\"data\":{}}]\n\n");
	buffer_clear(&text);
	ds_append_events(&text, events, 1, FORMAT_MARKDOWN, HIDE_TOOLS);
	assert_string_equal(
		buffer_cstr(&text), "[{\"seq\":1,\"type\":\"turn_end\",\"ts\":7,\"data\":{}}]");
	buffer_clear(&text);
	ds_append_control(&text, 0x1f, 2, 7, true);
	assert_string_equal(buffer_cstr(&text),
		"event: control\ndata: {\"streamNextOffset\":\"000000000000001f_0000000000000002\",\"streamCursor\":\"7\",\"upToDate\":true}\n\n");
	buffer_finish(&text);
	for (size_t i = 0; i < 2; i++) {
		event_unref(events[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(positions_are_ids_and_numbers_and_nothing_else),
		cmocka_unit_test(a_frame_is_one_event_and_made_once),
		cmocka_unit_test(only_what_has_the_form_of_a_frame_is_split),
		cmocka_unit_test(events_have_their_ids_types_and_json),
		cmocka_unit_test(offsets_and_cursors),
		cmocka_unit_test(events_of_durable_streams),
		cmocka_unit_test(pieces_of_every_size_make_whole_gzip_files),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
