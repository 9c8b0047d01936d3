/*
 * Messages between nodes of a store. One that is read says what it said, in the bounds of its text, and
 * what it names a session by can be shown to clients. In a frame it comes as it was sent, and bytes that are
 * taken for frames say the same wherever they are cut.
 */
#include "fuzz.h"

#include "nodes/mirror.h"
#include "holdfast/ws_frame.h"

#define MESSAGE_MAX 1024 /* of any bytes, so that a few are too many */

static void check_parts(const struct mirror_message *message, const char *text, size_t len)
{
	fuzz_check(
		message->part_count <= MIRROR_PARTS, "there are no more parts than there may be");
	for (size_t i = 0; i < message->part_count; i++) {
		const struct mirror_part *part = &message->parts[i];
		fuzz_check(part->text >= text && part->text <= text + len,
			"a part begins in the text");
		fuzz_check(part->len <= (size_t)(text + len - part->text), "and ends in it");
	}
}

static void check_events(struct mirror_message *message)
{
	struct event *event;
	uint64_t count = 0;
	while (mirror_next_event(message, &event) > 0) {
		count++;
		event_unref(event);
	}
	fuzz_check(count <= message->parts[0].len, "each event has a line");
}

/** What is told of a session comes out as it went in. */
static void check_about(const struct mirror_message *message)
{
	struct mirror_message again;
	struct frame *frame = mirror_encoder.about(NULL, &message->about);
	fuzz_check(mirror_read(frame_text(frame), frame_len(frame), &again) == 0,
		"what was read can be written");
	fuzz_check(again.about.epoch == message->about.epoch, "the epoch is what it was");
	fuzz_check(again.about.max_seq == message->about.max_seq, "the head is what it was");
	fuzz_check(strcmp(again.about.labels.title, message->about.labels.title) == 0,
		"the title is what it was");
	mirror_finish(&again);
	frame_unref(frame);
}

/* --- frames --- */

/** Reads some bytes of another node, and notes what they say; false: they end the connection. */
static bool read_piece(struct ws_reader *reader, const char *bytes, size_t len, struct buffer *out)
{
	char *copy = xstrndup(bytes, len);
	char *at = copy;
	struct ws_piece piece;
	int r;
	while ((r = ws_read(reader, &at, &len, MESSAGE_MAX, &piece)) > 0) {
		if (piece.is_first && piece.opcode < WS_CLOSE) {
			buffer_printf(out, "<%d:", (int)piece.opcode);
		}
		fuzz_check(piece.bytes >= copy && piece.bytes + piece.len <= at,
			"it is of what has come");
		buffer_append(out, piece.bytes, piece.len);
		if (piece.is_last) {
			buffer_printf(out, "%d>", (int)piece.opcode);
		}
	}
	if (r < 0) {
		buffer_printf(out, "%d", r);
	}
	free(copy);
	return r == 0;
}

static struct buffer read_frames(const char *bytes, size_t len, size_t cut)
{
	struct ws_reader reader = {.is_client = true};
	struct buffer out = {0};
	if (read_piece(&reader, bytes, cut, &out)) {
		read_piece(&reader, bytes + cut, len - cut, &out);
	}
	return out;
}

static void check_cut(const char *bytes, size_t len, size_t cut)
{
	struct buffer whole = read_frames(bytes, len, 0);
	struct buffer parts = read_frames(bytes, len, cut);
	fuzz_check(whole.len == parts.len &&
			   (!whole.len || memcmp(whole.data, parts.data, whole.len) == 0),
		"frames say the same wherever they are cut");
	buffer_finish(&whole);
	buffer_finish(&parts);
}

static void check_frames(const char *text, size_t len, size_t cut)
{
	struct buffer sent = {0};
	struct buffer want = {0};
	unsigned char header[WS_HEADER_MAX];
	check_cut(text, len, cut);
	buffer_append(&sent, (const char *)header, ws_header(WS_TEXT, len, header));
	size_t head = sent.len;
	buffer_append(&sent, text, len);
	check_cut(sent.data, sent.len, cut);
	struct buffer got = read_frames(sent.data, sent.len, head + cut);
	buffer_append_str(&want, "<1:");
	buffer_append(&want, text, len);
	buffer_append_str(&want, "1>");
	fuzz_check(len > MESSAGE_MAX ||
			   (got.len == want.len && memcmp(got.data, want.data, got.len) == 0),
		"a message comes out of its frame as it went in");
	buffer_finish(&sent);
	buffer_finish(&want);
	buffer_finish(&got);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = fuzz_split(data, size);
	const char *text = in.text;
	struct mirror_message message;
	check_frames(text, in.len, fuzz_take_up_to(&in, in.len));
	if (mirror_read(text, in.len, &message) < 0) {
		return 0;
	}
	check_parts(&message, text, in.len);
	if (message.type == MIRROR_EVENTS) {
		check_events(&message);
	}
	if (message.about.labels.title) {
		check_about(&message);
	}
	mirror_finish(&message);
	return 0;
}
