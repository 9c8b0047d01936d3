#ifndef HOLDFAST_OBSERVER_INTERNAL_H
#define HOLDFAST_OBSERVER_INTERNAL_H

#include "holdfast/observer.h"

#include "tap.h"

/** A load_events that is being answered. */
struct load {
	struct load_plan plan;
	size_t limit;
	bool follow;
	bool gaps;
};

struct observer {
	struct list link; /* channel.observers; self once the channel is gone */
	struct channel *channel;
	const struct observer_socket_ops *ops;
	void *socket;
	char *client_id;
	char *sub;
	enum event_format format;
	enum deltas deltas;
	unsigned hide;
	bool is_sse;
	bool is_ds;
	bool is_tap;
	bool has_previews; /* of a tap: somebody there wants them */
	const char *role;
	char *name; /* NULL: it has said none */
	bool watches_presence;
	uint64_t presence_seen; /* the version that it was told last */
	int64_t presence_due_ms; /* it is not told before */

	bool is_live; /* its load has reached the end: it gets what is committed from now on */
	uint64_t cursor; /* the last seq sent */
	uint64_t skip_delta_seq; /* a delta of this event was left out: so are the rest */

	bool state_due; /* the state has changed, or it has become live */
	bool live_due; /* of a stream: it has become live, and has not been told */
	bool about_due; /* of a tap: something has changed without an event */

	bool is_loading; /* a load_events is being answered */
	struct load load;
	bool is_interrupted; /* a page of older events came in between: `interrupted` goes on after
				it */
	struct load interrupted;
	struct log_read *read; /* a cold read under way */
	struct turn turn; /* for the next page of the load, which is work */
	struct event **page; /* what it brought, while the socket takes nothing */
	size_t page_count;

	struct frame **outbox; /* answers that wait for the socket (a ring of limits->outbox_frames,
				  made on first use) */
	size_t outbox_head;
	size_t outbox_count;
	size_t outbox_size; /* bytes of what is in it */
	bool is_dismissed; /* told to go: nothing more is sent */
};

/**
 * Takes a provisional frame if the observer is live, wants it (DELTAS_NONE: all do) and its socket is
 * free.
 */
void observer_offer(
	struct observer *observer, enum deltas deltas, uint64_t seq, struct frame *frame);
/** Sends the state, if the observer is live: at once, or when its socket takes it. */
void observer_tell_state(struct observer *observer);
/** Lent: `state` as it is now, made once for all that see the same of it. */
struct frame *channel_state_frame(struct channel *channel, unsigned hide);
/** What waits in the outbox goes to nobody. */
void outbox_drop(struct observer *observer);
/** Sends the first that waits there. */
void outbox_step(struct observer *observer);
/** Sends a last frame and closes. */
void observer_dismiss(
	struct observer *observer, struct frame *frame, unsigned code, const char *reason);

/** Somebody has come or gone, or is called something else now. */
void channel_presence_changed(struct channel *channel);
/** The end of the channel, or of an observer. */
void channel_presence_finish(struct channel *channel);
void observer_presence_finish(struct observer *observer);

/** What a frame of live events is made of: those that are due the same share it. */
struct frame_key {
	uint64_t from;
	uint64_t to;
	enum event_format format;
	unsigned hides;
	unsigned
		style; /* 0: for a WebSocket, 1: for a stream, 2: for one of Durable Streams, 3: for a node */
};

struct frame *channel_find_frame(const struct channel *channel, const struct frame_key *key);
/**
 * The next frame of an observer of whom `key` says where it is (`from`), its format and style, and who must not
 * see `hide`, if that has been made for another one like it: then nobody looks at the events again. `key` is
 * filled in.
 */
struct frame *channel_find_next(
	const struct channel *channel, struct frame_key *key, unsigned hide);
/** `hide`: what the observer must not see for whom it was made. */
void channel_keep_frame(
	struct channel *channel, const struct frame_key *key, unsigned hide, struct frame *frame);

#endif
