/*
 * Frames that observers share: the newest ones of this tick. Observers of one encoder that are due
 * the same output get one frame. Some encoders keep something for each observer; then the frame is
 * only for observers at the same place, who are brought to the place behind it.
 */
#include "observer_internal.h"

#include <stdlib.h>
#include <string.h>

/**
 * Finds the newest entry with this key, `is_next`: from its position for the same hide, wherever it
 * ends. `place_size` is that of the encoder's places.
 */
static inline const struct cached_frame *look_up(
	const struct observer *o, const struct frame_key *key, bool is_next, size_t place_size)
{
	const struct channel *channel = o->channel;
	for (size_t i = 1; i <= SHARED_FRAMES; i++) {
		const struct cached_frame *cached =
			channel->shared[(channel->shared_next - i) % SHARED_FRAMES];
		if (cached && cached->key.from == key->from &&
			cached->key.encoder == key->encoder &&
			cached->key.max_seq == key->max_seq && cached->key.format == key->format &&
			(is_next ? cached->hide == o->hide
				 : cached->key.to == key->to && cached->key.hides == key->hides) &&
			(!place_size || memcmp(cached->key.place, key->place, place_size) == 0)) {
			return cached;
		}
	}
	return NULL;
}

/** Likewise, for an observer whose encoder keeps something for it; it is moved behind the frame. */
static const struct cached_frame *look_up_place(
	const struct observer *o, const struct frame_key *key, bool is_next)
{
	const struct encoder_places *places = o->encoder->places;
	const struct cached_frame *cached =
		key->is_shared ? look_up(o, key, is_next, places->size) : NULL;
	if (cached && cached->kept) {
		places->follow(o->reader, cached->kept);
	}
	return cached;
}

struct frame *shared_find(struct observer *o, const struct frame_key *key)
{
	const struct cached_frame *cached =
		o->encoder->places ? look_up_place(o, key, false) : look_up(o, key, false, 0);
	return cached ? cached->frame : NULL;
}

struct frame *shared_find_next(struct observer *o, struct frame_key *key)
{
	const struct cached_frame *cached =
		o->encoder->places ? look_up_place(o, key, true) : look_up(o, key, true, 0);
	if (!cached) {
		return NULL;
	}
	key->to = cached->key.to;
	key->hides = cached->key.hides;
	return cached->frame;
}

static void drop(struct cached_frame *shared)
{
	if (!shared) {
		return;
	}
	if (shared->kept) {
		shared->key.encoder->places->free_kept(shared->kept);
	}
	frame_unref(shared->frame);
	free(shared);
}

void shared_keep(struct observer *o, const struct frame_key *key, struct frame *frame)
{
	const struct encoder_places *places = o->encoder->places;
	void *kept = NULL;
	if (!key->is_shared) {
		return;
	}
	if (places && places->keep && !(kept = places->keep(o->reader))) {
		return;
	}
	struct channel *channel = o->channel;
	struct cached_frame **at = &channel->shared[channel->shared_next++ % SHARED_FRAMES];
	drop(*at);
	*at = xcalloc(1, sizeof(**at));
	(*at)->frame = frame_ref(frame);
	(*at)->hide = o->hide;
	(*at)->kept = kept;
	(*at)->key = *key;
}

void shared_drop(struct channel *channel)
{
	for (size_t i = 0; i < SHARED_FRAMES; i++) {
		drop(channel->shared[i]);
		channel->shared[i] = NULL;
	}
}

struct frame *shared_make(struct observer *o, uint64_t output, unsigned hides,
	struct frame *(*make)(const struct observer *o, const void *in), const void *in)
{
	struct frame_key key;
	shared_begin(o, &key);
	key.from = 0;
	key.to = output;
	key.hides = hides;
	struct frame *frame = shared_find(o, &key);
	if (frame) {
		return frame_ref(frame);
	}
	frame = make(o, in);
	if (frame) {
		shared_keep(o, &key, frame);
	}
	return frame;
}
