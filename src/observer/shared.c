/*
 * Frames that observers share: the newest ones of this tick. Observers of one encoder that are due
 * the same output get one frame. Some encoders keep something for each observer; then the frame is
 * only for observers at the same place, who are brought to the place behind it.
 */
#include "observer_internal.h"

#include <stdlib.h>
#include <string.h>

static inline bool is_at(const struct cached_frame *shared, const struct frame_key *key)
{
	const struct encoder_places *places = key->encoder->places;
	return shared->key.encoder == key->encoder && shared->key.max_seq == key->max_seq &&
	       shared->key.format == key->format &&
	       (!places || memcmp(shared->key.place, key->place, places->size) == 0);
}

static inline struct frame *give(struct observer *o, const struct cached_frame *shared)
{
	if (shared->kept) {
		o->encoder->places->follow(o->reader, shared->kept);
	}
	return shared->frame;
}

/** The entry that was added `age` entries before the newest one: that one fits most often. */
static const struct cached_frame *entry(const struct channel *channel, size_t age)
{
	return channel->shared[(channel->shared_next - 1 - age) % SHARED_FRAMES];
}

struct frame *shared_find(struct observer *o, const struct frame_key *key)
{
	for (size_t i = 0; i < SHARED_FRAMES && key->is_shared; i++) {
		const struct cached_frame *shared = entry(o->channel, i);
		if (shared && shared->key.from == key->from && shared->key.to == key->to &&
			shared->key.hides == key->hides && is_at(shared, key)) {
			return give(o, shared);
		}
	}
	return NULL;
}

struct frame *shared_find_next(struct observer *o, struct frame_key *key)
{
	for (size_t i = 0; i < SHARED_FRAMES && key->is_shared; i++) {
		const struct cached_frame *shared = entry(o->channel, i);
		if (shared && shared->key.from == key->from && shared->hide == o->hide &&
			is_at(shared, key)) {
			key->to = shared->key.to;
			key->hides = shared->key.hides;
			return give(o, shared);
		}
	}
	return NULL;
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
