#include "shared_frames.h"

#include <assert.h>
#include <string.h>

static void drop(struct shared_frame *shared)
{
	if (!shared->key.frame) {
		return;
	}
	frame_unref((struct frame *)shared->key.frame);
	frame_unref(shared->stream);
	buffer_finish(&shared->text);
	if (shared->after) {
		shared->free_after(shared->after);
	}
	*shared = (struct shared_frame){0};
}

struct shared_frame *shared_frames_find(struct shared_frames *frames, const struct shared_key *key)
{
	for (size_t i = 0; i < SHARED_FRAMES; i++) {
		struct shared_frame *shared = &frames->all[i];
		if (shared->key.frame == key->frame && shared->key.door == key->door &&
			shared->key.place_len == key->place_len &&
			memcmp(shared->key.place, key->place, key->place_len) == 0) {
			return shared;
		}
	}
	return NULL;
}

struct shared_frame *shared_frames_keep(struct shared_frames *frames, const struct shared_key *key,
	struct buffer *text, void *after, void (*free_after)(void *after))
{
	struct shared_frame *shared = &frames->all[frames->next++ % SHARED_FRAMES];
	assert(key->frame);
	assert(key->place_len <= SHARED_PLACE_MAX);
	drop(shared);
	shared->key = *key;
	frame_ref((struct frame *)key->frame); /* so that its address is no other frame's */
	shared->text = *text;
	*text = (struct buffer){0};
	shared->after = after;
	shared->free_after = free_after;
	return shared;
}

void shared_frames_drop(struct shared_frames *frames)
{
	for (size_t i = 0; i < SHARED_FRAMES; i++) {
		drop(&frames->all[i]);
	}
}
