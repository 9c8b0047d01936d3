/* The encoders of chats of the AI SDK: what turns (ai_turn.c) make, as frames. */
#include "ai_turn.h"
#include "holdfast/sse.h"

#include <string.h>

/** Makes a frame of chunks. */
typedef struct frame *(*frame_maker)(struct buffer *chunks);

/** As they are. Finishes `chunks`. */
static struct frame *lines_of(struct buffer *chunks)
{
	struct frame *frame = frame_of_text(chunks->data ? chunks->data : "", chunks->len);
	buffer_finish(chunks);
	return frame;
}

/** Each as a server-sent event. Finishes `chunks`. */
static struct frame *stream_of(struct buffer *chunks)
{
	struct buffer text = {0};
	const char *end = chunks->data + chunks->len;
	for (const char *at = chunks->data, *next; at < end; at = next) {
		next = (const char *)memchr(at, '\n', (size_t)(end - at)) + 1;
		buffer_append_str(&text, "data: ");
		buffer_append(&text, at, (size_t)(next - at));
		buffer_append_char(&text, '\n');
	}
	struct frame *frame = sse_text(text.data ? text.data : "", text.len);
	buffer_finish(&text);
	buffer_finish(chunks);
	return frame;
}

/* --- both --- */

static struct frame *take_connected(void *reader, const struct connected_frame *in)
{
	ai_turn_connected(reader, in->epoch);
	return NULL;
}

static struct frame *take_page(void *reader, const struct loaded_frame *in, frame_maker make)
{
	struct buffer chunks = {0};
	ai_turn_page(reader, in, &chunks);
	return make(&chunks);
}

static struct frame *take_events(void *reader, const struct live_events *in, frame_maker make)
{
	struct buffer chunks = {0};
	ai_turn_events(reader, in, &chunks);
	return make(&chunks);
}

static struct frame *take_delta(void *reader, const struct open_part *in, frame_maker make)
{
	struct buffer chunks = {0};
	ai_turn_delta(reader, in, &chunks);
	return make(&chunks);
}

/** The frame is empty; its socket sees that the turn has failed. */
static struct frame *fail(struct ai_turn *turn, const char *why)
{
	struct buffer none = {0};
	ai_turn_fail(turn, why);
	return lines_of(&none);
}

static struct frame *take_error(void *reader, const struct error_notice *in)
{
	return fail(reader, in->message);
}

static struct frame *take_gone(void *reader, const char *session_id, const char *reason)
{
	return fail(reader, "the session has been deleted");
}

static bool get_place(void *reader, void *ret_place)
{
	struct ai_place place;
	if (!ai_turn_place(reader, &place)) {
		return false;
	}
	memcpy(ret_place, &place, sizeof(place));
	return true;
}

static void *keep(const void *reader)
{
	return ai_turn_why(reader) ? NULL : ai_turn_copy(reader);
}

static void follow(void *reader, const void *kept)
{
	ai_turn_follow(reader, kept);
}

static void free_kept(void *kept)
{
	ai_turn_destroy(kept);
}

static const struct encoder_places places = {
	.size = sizeof(struct ai_place),
	.get = get_place,
	.keep = keep,
	.follow = follow,
	.free_kept = free_kept,
};

/* --- on a WebSocket --- */

static struct frame *socket_page(void *reader, const struct loaded_frame *in)
{
	return take_page(reader, in, lines_of);
}

static struct frame *socket_events(void *reader, const struct live_events *in)
{
	return take_events(reader, in, lines_of);
}

static struct frame *socket_delta(void *reader, const struct open_part *in)
{
	return take_delta(reader, in, lines_of);
}

const struct encoder ai_socket_encoder = {
	.places = &places,
	.connected = take_connected,
	.page = socket_page,
	.events = socket_events,
	.delta = socket_delta,
	.error = take_error,
	.gone = take_gone,
};

/* --- on a stream of server-sent events --- */

static struct frame *stream_page(void *reader, const struct loaded_frame *in)
{
	return take_page(reader, in, stream_of);
}

static struct frame *stream_events(void *reader, const struct live_events *in)
{
	return take_events(reader, in, stream_of);
}

static struct frame *stream_delta(void *reader, const struct open_part *in)
{
	return take_delta(reader, in, stream_of);
}

const struct encoder ai_stream_encoder = {
	.places = &places,
	.connected = take_connected,
	.page = stream_page,
	.events = stream_events,
	.delta = stream_delta,
	.error = take_error,
	.gone = take_gone,
};
