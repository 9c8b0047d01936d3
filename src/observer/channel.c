#include "observer_internal.h"

#include <string.h>

void channel_init(struct channel *channel, const struct limits *limits, struct session_log *log)
{
	*channel = (struct channel){.limits = limits, .log = log};
	channel->status.status = "idle";
	list_init(&channel->observers);
}

void channel_finish(struct channel *channel)
{
	channel_end_tick(channel);
	buffer_finish(&channel->open_text);
	buffer_finish(&channel->open_html);
}

void channel_end_tick(struct channel *channel)
{
	for (size_t i = 0; i < sizeof(channel->shared) / sizeof(channel->shared[0]); i++) {
		frame_unref(channel->shared[i].frame);
		channel->shared[i].frame = NULL;
	}
	frame_unref(channel->state_frame);
	channel->state_frame = NULL;
}

struct frame *channel_find_frame(
	const struct channel *channel, uint64_t from, uint64_t to, enum event_format format)
{
	for (size_t i = 0; i < sizeof(channel->shared) / sizeof(channel->shared[0]); i++) {
		if (channel->shared[i].frame && channel->shared[i].from == from &&
			channel->shared[i].to == to && channel->shared[i].format == format) {
			return channel->shared[i].frame;
		}
	}
	return NULL;
}

void channel_keep_frame(struct channel *channel, uint64_t from, uint64_t to,
	enum event_format format, struct frame *frame)
{
	size_t i = channel->shared_next++ % (sizeof(channel->shared) / sizeof(channel->shared[0]));
	frame_unref(channel->shared[i].frame);
	channel->shared[i].frame = frame_ref(frame);
	channel->shared[i].from = from;
	channel->shared[i].to = to;
	channel->shared[i].format = format;
}

void channel_wake(struct channel *channel)
{
	if (channel->open_seq && channel->open_seq <= channel->max_seq) {
		channel->open_seq = 0;
	}
	list_for_each_safe(link, tmp, &channel->observers) {
		observer_pump(list_entry(link, struct observer, link));
	}
}

void channel_send(struct channel *channel, enum deltas deltas, uint64_t seq, struct frame *frame)
{
	list_for_each_safe(link, tmp, &channel->observers) {
		observer_offer(list_entry(link, struct observer, link), deltas, seq, frame);
	}
}

/** The open event is another one now: what was told of the last one is over. */
static void open_event(struct channel *channel, uint64_t seq, enum event_type type)
{
	if (channel->open_seq != seq) {
		channel->open_seq = seq;
		channel->open_type = type;
		buffer_clear(&channel->open_text);
		buffer_clear(&channel->open_html);
	}
}

void channel_delta(
	struct channel *channel, uint64_t seq, enum event_type type, const char *text, size_t len)
{
	open_event(channel, seq, type);
	size_t offset = channel->open_text.len;
	buffer_append(&channel->open_text, text, len);
	if (channel->delta_observers[DELTAS_TEXT]) {
		struct frame *frame = frame_delta(seq, type, offset, text, len);
		channel_send(channel, DELTAS_TEXT, seq, frame);
		frame_unref(frame);
	}
}

void channel_preview(
	struct channel *channel, uint64_t seq, enum event_type type, const char *html, size_t len)
{
	open_event(channel, seq, type);
	buffer_clear(&channel->open_html);
	buffer_append(&channel->open_html, html, len);
	if (channel->delta_observers[DELTAS_HTML]) {
		struct frame *frame = frame_preview(seq, type, html, len);
		channel_send(channel, DELTAS_HTML, seq, frame);
		frame_unref(frame);
	}
}

void channel_answer(struct channel *channel, const char *client_id, struct frame *frame)
{
	list_for_each_safe(link, tmp, &channel->observers) {
		struct observer *observer = list_entry(link, struct observer, link);
		if (strcmp(observer->client_id, client_id) == 0) {
			observer_send(observer, frame_ref(frame));
		}
	}
	frame_unref(frame);
}

void channel_set_status(struct channel *channel, const struct session_status *status)
{
	channel->status = *status;
	frame_unref(channel->state_frame);
	channel->state_frame = NULL;
}

struct frame *channel_state_frame(struct channel *channel)
{
	if (!channel->state_frame) {
		channel->state_frame = frame_state(&channel->status);
	}
	return channel->state_frame;
}

void channel_send_state(struct channel *channel)
{
	list_for_each_safe(link, tmp, &channel->observers) {
		observer_tell_state(list_entry(link, struct observer, link));
	}
}

static void dismiss_all(
	struct channel *channel, struct frame *frame, unsigned code, const char *reason)
{
	list_for_each_safe(link, tmp, &channel->observers) {
		observer_dismiss(list_entry(link, struct observer, link), frame, code, reason);
	}
	frame_unref(frame);
}

void channel_gone(struct channel *channel, const char *reason)
{
	dismiss_all(
		channel, frame_session_gone(session_log_id(channel->log), reason), 4404, reason);
}

void channel_taken_back(struct channel *channel)
{
	struct frame *frame = frame_error("storage_failed",
		"the session could not be written to the server's disk; try again later", NULL,
		NULL);
	dismiss_all(channel, frame, 1011, "storage_failed");
}
