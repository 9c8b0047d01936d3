/* The encoder of observers' WebSockets: the frames of proto/protocol.md, made by frames.c. */
#include "holdfast/encoder.h"

static struct frame *make_connected(void *reader, const struct connected_frame *in)
{
	return frame_connected(in);
}

static struct frame *make_page(void *reader, const struct loaded_frame *in)
{
	return frame_events_loaded(in);
}

static struct frame *make_events(void *reader, const struct live_events *in)
{
	return frame_events(in->events, in->count, in->format, in->hide, in->now->max_seq,
		in->now->status.is_prompting);
}

static struct frame *make_delta(void *reader, const struct open_part *in)
{
	return frame_delta(in->seq, in->type, in->offset, in->text, in->len);
}

static struct frame *make_preview(void *reader, const struct open_part *in)
{
	return frame_preview(in->seq, in->type, in->text, in->len);
}

static struct frame *make_activity(void *reader, const struct activity *in, unsigned hide)
{
	bool is_hidden = in->hides & hide;
	if (is_hidden && !in->redacted) {
		return NULL;
	}
	return frame_make("activity", is_hidden ? in->redacted : in->shown,
		is_hidden ? in->redacted_len : in->shown_len);
}

static struct frame *make_state(void *reader, const struct connected_frame *now, unsigned hide)
{
	return frame_state(&now->status, hide);
}

static struct frame *make_presence(void *reader, const char *data, size_t len)
{
	return frame_make("presence", data, len);
}

static struct frame *make_error(void *reader, const struct error_notice *in)
{
	return frame_error(in->code, in->message, in->request, in->detail);
}

static struct frame *make_gone(void *reader, const char *session_id, const char *reason)
{
	return frame_session_gone(session_id, reason);
}

const struct encoder websocket_encoder = {
	.connected = make_connected,
	.page = make_page,
	.events = make_events,
	.delta = make_delta,
	.preview = make_preview,
	.activity = make_activity,
	.state = make_state,
	.presence = make_presence,
	.error = make_error,
	.gone = make_gone,
};
