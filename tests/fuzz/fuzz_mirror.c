/*
 * Messages between nodes of a store. One that is read says what it said, in the bounds of its text, and
 * what it names a session by can be shown to clients.
 */
#include "fuzz.h"

#include "holdfast/mirror.h"

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
	struct frame *frame = mirror_about(&message->about);
	fuzz_check(mirror_read(frame_text(frame), frame_len(frame), &again) == 0,
		"what was read can be written");
	fuzz_check(again.about.epoch == message->about.epoch, "the epoch is what it was");
	fuzz_check(again.about.max_seq == message->about.max_seq, "the head is what it was");
	fuzz_check(strcmp(again.about.labels.title, message->about.labels.title) == 0,
		"the title is what it was");
	mirror_finish(&again);
	frame_unref(frame);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = size ? (const char *)data : "";
	struct mirror_message message;
	if (mirror_read(text, size, &message) < 0) {
		return 0;
	}
	check_parts(&message, text, size);
	if (message.type == MIRROR_EVENTS) {
		check_events(&message);
	}
	if (message.about.labels.title) {
		check_about(&message);
	}
	mirror_finish(&message);
	return 0;
}
