#ifndef HOLDFAST_OBSERVER_INTERNAL_H
#define HOLDFAST_OBSERVER_INTERNAL_H

#include "holdfast/observer.h"

#include "tap.h"

/** A load that is being answered. */
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
	bool has_previews; /* of a tap: viewers at its node want previews */
	const char *role;
	char *name; /* NULL: none */
	bool watches_presence;
	uint64_t presence_seen; /* the version that it was last sent */
	int64_t presence_due_ms; /* no presence is sent before this time */

	bool is_live; /* its load has reached the end, and it gets events as they are committed */
	uint64_t cursor; /* the last seq sent */
	uint64_t skip_delta_seq; /* a delta of this event was left out, and so are later ones */

	bool state_due; /* the state has changed, or the observer has become live */
	bool live_due; /* of an event stream: it has become live, and has not been told */
	bool about_due; /* of a tap: something has changed without an event */

	bool is_loading; /* `load` is being answered */
	struct load load;
	bool is_interrupted; /* `load` is a page of older events; `interrupted` resumes after it */
	struct load interrupted;
	struct log_read *read; /* a read from disk in progress; NULL: none */
	struct turn turn; /* for the next page of the load */
	struct event **page; /* the result of a read, until the socket takes it; NULL: none */
	size_t page_count;

	struct frame **outbox; /* answers that wait for the socket: a ring of
				  limits->outbox_frames, allocated on first use */
	size_t outbox_head;
	size_t outbox_count;
	size_t outbox_size; /* bytes of the frames in it */
	bool is_dismissed; /* it has been closed, and nothing more is sent */
};

/**
 * Sends a provisional frame if the observer is live, wants such frames (DELTAS_NONE: all do) and
 * its socket takes it now; otherwise the frame is left out. The frame is borrowed.
 */
void observer_offer(
	struct observer *observer, enum deltas deltas, uint64_t seq, struct frame *frame);
/** Sends the state to a live observer, at once or when its socket takes it. */
void observer_tell_state(struct observer *observer);
/** The current `state` frame, borrowed; made once for all observers that see the same of it. */
struct frame *channel_state_frame(struct channel *channel, unsigned hide);
/** Drops all answers in the outbox. */
void outbox_drop(struct observer *observer);
/** Sends the first answer in the outbox. */
void outbox_step(struct observer *observer);
/** Sends a last frame (borrowed; NULL: none) and closes the observer. */
void observer_dismiss(
	struct observer *observer, struct frame *frame, unsigned code, const char *reason);

/** An observer has come or gone, or its name, role or rights have changed. */
void channel_presence_changed(struct channel *channel);
/** Presence at the end of a channel, and of an observer. */
void channel_presence_finish(struct channel *channel);
void observer_presence_finish(struct observer *observer);

/** The key of a frame of live events; observers that are due the same events share the frame. */
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
 * Finds the next frame of an observer without looking at the events, if it has been made for
 * another observer with the same position (`key->from`), format, style and `hide`. Fills in the
 * rest of `key`. Returns NULL if there is none.
 */
struct frame *channel_find_next(
	const struct channel *channel, struct frame_key *key, unsigned hide);
/** Adds a frame, and a reference to it; `hide` is that of the observer that it was made for. */
void channel_keep_frame(
	struct channel *channel, const struct frame_key *key, unsigned hide, struct frame *frame);

#endif
