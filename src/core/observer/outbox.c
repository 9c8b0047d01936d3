/*
 * What an observer's socket is given: the outbox has answers that wait for it, and what is only
 * provisional never waits.
 */
#include "observer_internal.h"

#include <stdlib.h>

void outbox_drop(struct observer *o)
{
	while (o->outbox_count) {
		o->outbox_size -= frame_len(o->outbox[o->outbox_head]);
		frame_unref(o->outbox[o->outbox_head]);
		o->outbox_head = (o->outbox_head + 1) % o->channel->limits->outbox_frames;
		o->outbox_count--;
	}
	free(o->outbox);
	o->outbox = NULL;
}

void observer_send(struct observer *o, struct frame *frame)
{
	if (o->is_dismissed || !frame) {
		frame_unref(frame);
		return;
	}
	if (!o->outbox_count && o->ops->is_writable(o->socket)) {
		o->ops->write(o->socket, frame);
		frame_unref(frame);
		return;
	}
	size_t size = o->channel->limits->outbox_frames;
	bool is_full = o->outbox_count == size ||
		       (o->outbox_count && o->outbox_size > o->channel->limits->outbox_size);
	if (is_full) {
		/* The client sends requests without reading the answers. */
		frame_unref(frame);
		metrics_limit(o->channel->metrics,
			o->outbox_count == size ? LIMIT_outbox_frames : LIMIT_outbox_size);
		observer_dismiss(o, NULL, 1008, "too many requests without reading the answers");
		return;
	}
	if (!o->outbox) {
		o->outbox = xcalloc(size, sizeof(struct frame *));
		o->outbox_head = 0;
	}
	o->outbox_size += frame_len(frame);
	o->outbox[(o->outbox_head + o->outbox_count++) % size] = frame;
	o->ops->want_writable(o->socket);
}

size_t observer_kept(const struct observer *o)
{
	return o->outbox_size + (o->page ? o->channel->limits->page_size : 0);
}

void outbox_step(struct observer *o)
{
	struct frame *frame = o->outbox[o->outbox_head];
	o->outbox_head = (o->outbox_head + 1) % o->channel->limits->outbox_frames;
	o->outbox_count--;
	o->outbox_size -= frame_len(frame);
	o->ops->write(o->socket, frame);
	frame_unref(frame);
	if (!o->outbox_count) {
		outbox_drop(o);
	}
}

/* --- past the outbox --- */

bool observer_takes(struct observer *o, enum deltas deltas, uint64_t seq)
{
	bool wants = deltas == DELTAS_NONE || deltas == o->deltas ||
		     (deltas == DELTAS_HTML && o->has_previews);
	if (!o->is_live || !wants) {
		return false;
	}
	bool takes = !o->outbox_count && o->ops->is_writable(o->socket);
	if (deltas == DELTAS_TEXT && (!takes || o->skip_delta_seq == seq)) {
		/*
		 * A text with a gap is useless: once one delta is left out, all later ones of that
		 * event are.
		 */
		o->skip_delta_seq = seq;
		return false;
	}
	return takes;
}

void observer_write(struct observer *o, struct frame *frame)
{
	if (frame) {
		o->ops->write(o->socket, frame);
		frame_unref(frame);
	}
}
