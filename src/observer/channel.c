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
	channel_presence_finish(channel);
	buffer_finish(&channel->open_text);
	buffer_finish(&channel->open_html);
}

static void drop_state_frames(struct channel *channel)
{
	for (int i = 0; i < 2; i++) {
		frame_unref(channel->state_frames[i]);
		channel->state_frames[i] = NULL;
	}
}

void channel_end_tick(struct channel *channel)
{
	for (size_t i = 0; i < sizeof(channel->shared) / sizeof(channel->shared[0]); i++) {
		frame_unref(channel->shared[i].frame);
		channel->shared[i].frame = NULL;
	}
	drop_state_frames(channel);
}

struct frame *channel_find_frame(const struct channel *channel, const struct frame_key *key)
{
	for (size_t i = 0; i < sizeof(channel->shared) / sizeof(channel->shared[0]); i++) {
		if (channel->shared[i].frame && channel->shared[i].from == key->from &&
			channel->shared[i].to == key->to &&
			channel->shared[i].format == key->format &&
			channel->shared[i].hides == key->hides &&
			channel->shared[i].style == key->style) {
			return channel->shared[i].frame;
		}
	}
	return NULL;
}

struct frame *channel_find_next(const struct channel *channel, struct frame_key *key, unsigned hide)
{
	for (size_t i = 0; i < sizeof(channel->shared) / sizeof(channel->shared[0]); i++) {
		if (channel->shared[i].frame && channel->shared[i].from == key->from &&
			channel->shared[i].max_seq == channel->max_seq &&
			channel->shared[i].format == key->format &&
			channel->shared[i].hide == hide && channel->shared[i].style == key->style) {
			key->to = channel->shared[i].to;
			key->hides = channel->shared[i].hides;
			return channel->shared[i].frame;
		}
	}
	return NULL;
}

void channel_keep_frame(
	struct channel *channel, const struct frame_key *key, unsigned hide, struct frame *frame)
{
	size_t i = channel->shared_next++ % (sizeof(channel->shared) / sizeof(channel->shared[0]));
	frame_unref(channel->shared[i].frame);
	channel->shared[i].frame = frame_ref(frame);
	channel->shared[i].from = key->from;
	channel->shared[i].to = key->to;
	channel->shared[i].format = key->format;
	channel->shared[i].hides = key->hides;
	channel->shared[i].style = key->style;
	channel->shared[i].hide = hide;
	channel->shared[i].max_seq = channel->max_seq;
}

uint64_t observer_cursor(const struct observer *observer)
{
	return observer->cursor;
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

/**
 * Offers a delta or preview to the observers that can see it, other than taps. Takes over the
 * reference.
 */
static void send_growing(struct channel *channel, enum deltas deltas, uint64_t seq, unsigned hides,
	struct frame *frame)
{
	list_for_each_safe(link, tmp, &channel->observers) {
		struct observer *observer = list_entry(link, struct observer, link);
		if (!observer->is_tap && !(observer->hide & hides)) {
			observer_offer(observer, deltas, seq, frame);
		}
	}
	frame_unref(frame);
}

bool channel_is_hidden_from_some(const struct channel *channel, unsigned hides)
{
	list_for_each_safe(link, tmp, &channel->observers) {
		if (list_entry(link, struct observer, link)->hide & hides) {
			return true;
		}
	}
	return channel->taps > 0; /* what is hidden from viewers at other nodes is not known here */
}

void channel_send_activity(struct channel *channel, uint64_t seq, unsigned hides,
	struct frame *frame, struct frame *redacted)
{
	list_for_each_safe(link, tmp, &channel->observers) {
		struct observer *observer = list_entry(link, struct observer, link);
		struct frame *shown = observer->hide & hides ? redacted : frame;
		if (shown && !observer->is_tap) {
			observer_offer(observer, DELTAS_NONE, seq, shown);
		}
	}
	if (channel->taps) {
		tap_offer(channel, DELTAS_NONE, seq, mirror_activity(seq, hides, frame, redacted));
	}
}

static unsigned type_hides(enum event_type type)
{
	return event_view_hides(&(struct event_view){.type = type});
}

/** Makes `seq` the open event; the text of another one before it is dropped. */
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
		send_growing(channel, DELTAS_TEXT, seq, type_hides(type),
			frame_delta(seq, type, offset, text, len));
	}
	if (channel->taps) {
		tap_offer(channel, DELTAS_TEXT, seq, mirror_delta(seq, type, offset, text, len));
	}
}

void channel_preview(
	struct channel *channel, uint64_t seq, enum event_type type, const char *html, size_t len)
{
	open_event(channel, seq, type);
	buffer_clear(&channel->open_html);
	buffer_append(&channel->open_html, html, len);
	if (channel->delta_observers[DELTAS_HTML]) {
		send_growing(channel, DELTAS_HTML, seq, type_hides(type),
			frame_preview(seq, type, html, len));
	}
	if (channel->taps) {
		tap_offer(channel, DELTAS_HTML, seq, mirror_preview(seq, type, html, len));
	}
}

void channel_answer(struct channel *channel, const struct author *author, struct frame *frame)
{
	list_for_each_safe(link, tmp, &channel->observers) {
		struct observer *observer = list_entry(link, struct observer, link);
		if (!observer->is_tap && strcmp(observer->client_id, author->client_id) == 0 &&
			strcmp(observer->sub, author->sub) == 0) {
			observer_send(observer, frame_ref(frame));
		}
	}
	frame_unref(frame);
}

void channel_set_status(struct channel *channel, const struct session_status *status)
{
	channel->status = *status;
	drop_state_frames(channel);
}

struct frame *channel_state_frame(struct channel *channel, unsigned hide)
{
	struct frame **frame = &channel->state_frames[(hide & HIDE_TOOLS) != 0];
	if (!*frame) {
		*frame = frame_state(&channel->status, hide);
	}
	return *frame;
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
	if (frame) {
		frame_unref(frame);
	}
}

void channel_gone(struct channel *channel, const char *reason)
{
	dismiss_all(
		channel, frame_session_gone(session_log_id(channel->log), reason), 4404, reason);
}

void channel_taken_back(struct channel *channel)
{
	struct frame *frame = frame_error(
		"storage_failed", "the session could not be stored; try again later", NULL, NULL);
	dismiss_all(channel, frame, 1011, "storage_failed");
}

void channel_moved(struct channel *channel)
{
	dismiss_all(channel, NULL, 1001, SESSION_MOVED);
}

void channel_close(struct channel *channel, unsigned code, const char *reason)
{
	dismiss_all(channel, NULL, code, reason);
}

size_t channel_count_behind(const struct channel *channel)
{
	size_t count = 0;
	list_for_each(link, &channel->observers) {
		const struct observer *o = list_entry(link, struct observer, link);
		count += o->is_loading || (o->is_live && o->cursor < channel->max_seq);
	}
	return count;
}
