/*
 * A cache of translated frames, for doors that speak another protocol than ours, such as the AI SDK
 * or Durable Streams: a frame is translated once for all readers that are at the same place, and
 * the result is kept until the tick ends.
 *
 * A door describes the place of each reader as bytes. Two readers with the same bytes translate the
 * same frame to the same text, and are at the same place afterwards. The first one that gets a
 * frame translates it and leaves the text here, with the state from which the others continue.
 */
#ifndef HOLDFAST_SHARED_FRAMES_H
#define HOLDFAST_SHARED_FRAMES_H

#include "holdfast/frames.h"

#include <stddef.h>

/* Frames that are kept: enough for a burst of events and deltas of a few sessions. */
#define SHARED_FRAMES 16
/* Most bytes of a place. */
#define SHARED_PLACE_MAX 128

/** The frame, the door that translates it, and the place of the reader. */
struct shared_key {
	const struct frame *frame;
	const void *door; /* identifies the door: any address of its own */
	unsigned char place[SHARED_PLACE_MAX];
	size_t place_len;
};

struct shared_frame {
	struct shared_key key; /* holds a reference to its frame; NULL: the entry is unused */
	struct buffer text; /* the translation, in the door's own format */
	struct frame *stream; /* the translation as a frame that can be sent; NULL: not made yet */
	void *after; /* the readers' place after the frame; belongs to the door */
	void (*free_after)(void *after);
};

/** Empty if zeroed. */
struct shared_frames {
	struct shared_frame all[SHARED_FRAMES];
	size_t next;
};

/**
 * Returns NULL if the frame has not been translated for this place. The result is valid until
 * shared_frames_drop() or the next shared_frames_keep().
 */
struct shared_frame *shared_frames_find(struct shared_frames *frames, const struct shared_key *key);
/**
 * Adds a translation in place of the oldest one, and takes ownership of `text` and `after`. The
 * result is valid as above.
 */
struct shared_frame *shared_frames_keep(struct shared_frames *frames, const struct shared_key *key,
	struct buffer *text, void *after, void (*free_after)(void *after));
/** Drops all entries, at the end of a tick and of the server. */
void shared_frames_drop(struct shared_frames *frames);

#endif
