#include "observer_internal.h"

void tap_count(struct observer *tap)
{
	struct channel *channel = tap->channel;
	size_t change = tap->is_live ? 1 : (size_t)-1;
	channel->taps += change;
	channel->delta_observers[DELTAS_HTML] += tap->has_previews ? change : 0;
}

void observer_want_previews(struct observer *tap, bool wanted)
{
	struct channel *channel = tap->channel;
	if (tap->is_dismissed) {
		return;
	}
	if (tap->has_previews != wanted) {
		tap->has_previews = wanted;
		channel->delta_observers[DELTAS_HTML] += wanted ? 1 : (size_t)-1;
	}
	if (wanted && channel->joined) {
		channel->joined(channel->joined_arg);
	}
}

void channel_tell_about(struct channel *channel)
{
	if (!channel->taps) {
		return;
	}
	list_for_each_safe(link, tmp, &channel->observers) {
		struct observer *tap = list_entry(link, struct observer, link);
		if (tap->is_tap) {
			tap->about_due = true;
			observer_pump(tap);
		}
	}
}

void tap_offer(struct channel *channel, enum deltas deltas, uint64_t seq, struct frame *frame)
{
	list_for_each_safe(link, tmp, &channel->observers) {
		struct observer *tap = list_entry(link, struct observer, link);
		if (tap->is_tap) {
			observer_offer(tap, deltas, seq, frame);
		}
	}
	frame_unref(frame);
}

void tap_write(struct observer *tap, struct frame *frame)
{
	tap->ops->write(tap->socket, frame);
	frame_unref(frame);
}

/* --- frames --- */

static struct connected_frame about(const struct channel *channel)
{
	struct connected_frame ret = {
		.labels.title = "",
		.epoch = session_log_epoch(channel->log),
		.max_seq = channel->max_seq,
		.status = channel->status,
		.last_prompt_id = channel->last_prompt_id,
		.last_prompt_seq = channel->last_prompt_seq,
		.agent_state = *channel->agent_state,
		.first_seq = session_log_first_seq(channel->log),
	};
	if (channel->get_labels) {
		channel->get_labels(channel->log, &ret.labels);
	}
	return ret;
}

struct frame *tap_welcome(const struct channel *channel)
{
	const struct connected_frame now = about(channel);
	struct open_part text = {0};
	struct open_part html = {0};
	if (channel->open_seq > channel->max_seq) {
		text = (struct open_part){.seq = channel->open_seq,
			.type = channel->open_type,
			.text = channel->open_text.data,
			.len = channel->open_text.len};
		html.text = channel->open_html.data;
		html.len = channel->open_html.len;
	}
	return mirror_welcome(&now, session_log_number(channel->log), &text, &html);
}

struct frame *tap_events(const struct channel *channel, struct event **events, size_t count)
{
	const struct connected_frame now = about(channel);
	return mirror_events(&now, events, count);
}

struct frame *tap_state(const struct channel *channel)
{
	const struct connected_frame now = about(channel);
	return mirror_state(&now);
}

struct frame *tap_about(const struct channel *channel)
{
	const struct connected_frame now = about(channel);
	return mirror_about(&now);
}
