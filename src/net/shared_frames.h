/*
 * What a session's frames become at doors that speak another language: made once for all who are at the same
 * place, and lent to the others until the tick ends.
 *
 * A door keeps for each reader where it is, as bytes: two readers with the same bytes make the same text of the
 * same frame, and are at the same place again. The first one that gets a frame makes the text and leaves it
 * here, with what it takes for another one to go on from behind it.
 */
#ifndef HOLDFAST_SHARED_FRAMES_H
#define HOLDFAST_SHARED_FRAMES_H

#include "holdfast/frames.h"

#include <stddef.h>

/* Frames of one tick that are kept: as many as a burst of events and deltas of a few sessions has. */
#define SHARED_FRAMES 16
/* Bytes of a place. */
#define SHARED_PLACE_MAX 128

/** Who asks, and where it is. */
struct shared_key {
	const struct frame *frame;
	const void *door; /* tells doors apart: any address of its own */
	unsigned char place[SHARED_PLACE_MAX];
	size_t place_len;
};

struct shared_frame {
	struct shared_key key; /* its frame has a reference; NULL: nothing is here */
	struct buffer text; /* what the frame becomes; the door's own format */
	struct frame *stream; /* the same as it is sent; NULL: nobody has asked for it */
	void *after; /* where its readers are then; the door's */
	void (*free_after)(void *after);
};

/** Zeroed ones are empty. */
struct shared_frames {
	struct shared_frame all[SHARED_FRAMES];
	size_t next;
};

/** NULL: nobody has made it. Lent until shared_frames_drop() or the next shared_frames_keep(). */
struct shared_frame *shared_frames_find(struct shared_frames *frames, const struct shared_key *key);
/**
 * A place for what has been made: the text is taken over, and `after` with it; one that was here for longest
 * goes. Lent as above.
 */
struct shared_frame *shared_frames_keep(struct shared_frames *frames, const struct shared_key *key,
	struct buffer *text, void *after, void (*free_after)(void *after));
/** The end of a tick, and of the server. */
void shared_frames_drop(struct shared_frames *frames);

#endif
