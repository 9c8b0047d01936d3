/* Channels: wake the observers of a session, and send them all what is no event. */
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

void channel_end_tick(struct channel *channel)
{
	shared_drop(channel);
}

struct connected_frame channel_now(const struct channel *channel)
{
	struct connected_frame now = {
		.session_id = session_log_id(channel->log),
		.labels.title = "",
		.epoch = session_log_epoch(channel->log),
		.max_seq = channel->max_seq,
		.status = channel->status,
		.last_prompt_id = channel->last_prompt_id,
		.last_prompt_seq = channel->last_prompt_seq,
		.agent_state = *channel->agent_state,
		.first_seq = session_log_first_seq(channel->log),
		.log = session_log_number(channel->log),
	};
	if (channel->get_labels) {
		channel->get_labels(channel->log, &now.labels);
	}
	return now;
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

/* Make a frame of an output for an observer, see shared_make(). */

static struct frame *make_delta(const struct observer *o, const void *in)
{
	return o->encoder->delta ? o->encoder->delta(o->reader, in) : NULL;
}

static struct frame *make_preview(const struct observer *o, const void *in)
{
	return o->encoder->preview ? o->encoder->preview(o->reader, in) : NULL;
}

static struct frame *make_activity(const struct observer *o, const void *in)
{
	return o->encoder->activity ? o->encoder->activity(o->reader, in, o->hide) : NULL;
}

static struct frame *make_error(const struct observer *o, const void *in)
{
	return observer_error_frame(o, in);
}

static struct frame *make_gone(const struct observer *o, const void *reason)
{
	const char *id = session_log_id(o->channel->log);
	return o->encoder->gone ? o->encoder->gone(o->reader, id, reason) : NULL;
}

struct frame *observer_error_frame(const struct observer *o, const struct error_notice *in)
{
	return o->encoder->error ? o->encoder->error(o->reader, in) : NULL;
}

/** Sends a delta or preview to the observers that take it and can see it. */
static void send_growing(struct channel *channel, enum deltas deltas, const struct open_part *in)
{
	uint64_t output = ++channel->outputs;
	unsigned hides = event_view_hides(&(struct event_view){.type = in->type});
	list_for_each_safe(link, tmp, &channel->observers) {
		struct observer *o = list_entry(link, struct observer, link);
		if (!(o->hide & hides) && observer_takes(o, deltas, in->seq)) {
			observer_write(o, shared_make(o, output, HIDE_NOTHING,
						  in->is_html ? make_preview : make_delta, in));
		}
	}
}

bool channel_is_hidden_from_some(const struct channel *channel, unsigned hides)
{
	list_for_each_safe(link, tmp, &channel->observers) {
		if (list_entry(link, struct observer, link)->hide & hides) {
			return true;
		}
	}
	return channel->mirrors > 0; /* what is hidden from their viewers is not known here */
}

void channel_send_activity(struct channel *channel, const struct activity *activity)
{
	uint64_t output = ++channel->outputs;
	list_for_each_safe(link, tmp, &channel->observers) {
		struct observer *o = list_entry(link, struct observer, link);
		if (observer_takes(o, DELTAS_NONE, activity->seq)) {
			observer_write(o, shared_make(o, output, o->hide & activity->hides,
						  make_activity, activity));
		}
	}
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
		send_growing(channel, DELTAS_TEXT,
			&(struct open_part){.seq = seq,
				.type = type,
				.offset = offset,
				.text = text,
				.len = len});
	}
}

void channel_preview(
	struct channel *channel, uint64_t seq, enum event_type type, const char *html, size_t len)
{
	open_event(channel, seq, type);
	buffer_clear(&channel->open_html);
	buffer_append(&channel->open_html, html, len);
	if (channel->delta_observers[DELTAS_HTML]) {
		send_growing(channel, DELTAS_HTML,
			&(struct open_part){.seq = seq,
				.type = type,
				.text = html,
				.len = len,
				.is_html = true});
	}
}

void channel_send_error(
	struct channel *channel, const struct author *author, const struct error_notice *error)
{
	list_for_each_safe(link, tmp, &channel->observers) {
		struct observer *o = list_entry(link, struct observer, link);
		bool is_its = strcmp(o->client_id, author->client_id) == 0 &&
			      strcmp(o->sub, author->sub) == 0;
		observer_send(o, is_its ? observer_error_frame(o, error) : NULL);
	}
}

void channel_set_status(struct channel *channel, const struct session_status *status)
{
	channel->status = *status;
	channel->status_output = ++channel->outputs;
}

void channel_send_state(struct channel *channel)
{
	list_for_each_safe(link, tmp, &channel->observers) {
		observer_tell_state(list_entry(link, struct observer, link));
	}
}

/** Closes all observers, each after a last frame (`make` NULL: without). */
static void dismiss_all(struct channel *channel, unsigned code, const char *reason,
	struct frame *(*make)(const struct observer *o, const void *in), const void *in)
{
	uint64_t output = ++channel->outputs;
	list_for_each_safe(link, tmp, &channel->observers) {
		struct observer *o = list_entry(link, struct observer, link);
		struct frame *frame = make ? shared_make(o, output, HIDE_NOTHING, make, in) : NULL;
		observer_dismiss(o, frame, code, reason);
		frame_unref(frame);
	}
}

void channel_gone(struct channel *channel, const char *reason)
{
	dismiss_all(channel, 4404, reason, make_gone, reason);
}

void channel_taken_back(struct channel *channel)
{
	const struct error_notice error = {.code = ERROR_storage_failed,
		.message = "the session could not be stored; try again later"};
	dismiss_all(channel, error_code_close(error.code), error_code_text(error.code), make_error,
		&error);
}

void channel_moved(struct channel *channel)
{
	dismiss_all(channel, 1001, SESSION_MOVED, NULL, NULL);
}

void channel_close(struct channel *channel, unsigned code, const char *reason)
{
	dismiss_all(channel, code, reason, NULL, NULL);
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
