#ifndef HOLDFAST_OBSERVER_INTERNAL_H
#define HOLDFAST_OBSERVER_INTERNAL_H

#include "holdfast/observer.h"

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
	const struct encoder *encoder;
	void *reader; /* belongs to the socket */
	bool has_previews; /* of a mirror: its viewers want previews */
	const char *role;
	char *name; /* NULL: none */
	bool watches_presence;
	uint64_t presence_seen; /* the version that it was last sent */
	int64_t presence_due_ms; /* no presence is sent before this time */

	bool is_live; /* its load has reached the end, and it gets events as they are committed */
	uint64_t cursor; /* the last seq sent */
	uint64_t skip_delta_seq; /* a delta of this event was left out, and so are later ones */

	bool state_due; /* the state has changed, or the observer has become live */
	bool live_due; /* it has become live, and has not been told */
	bool about_due; /* of a mirror: something has changed without an event */

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
 * Whether to send the observer a provisional output now: it is live, wants such outputs (DELTAS_NONE:
 * all do), and its socket takes it. If not, the output is left out.
 */
bool observer_takes(struct observer *observer, enum deltas deltas, uint64_t seq);
/** Sends a frame at once. Takes over the reference; NULL: nothing. */
void observer_write(struct observer *observer, struct frame *frame);
/** Sends the state to a live observer, at once or when its socket takes it. */
void observer_tell_state(struct observer *observer);
/** Makes a frame of an error; NULL: the observer gets none. */
struct frame *observer_error_frame(const struct observer *observer, const struct error_notice *in);
/** Describes the session as it is now, without what is of a single client. */
struct connected_frame channel_now(const struct channel *channel);
/** Updates the channel's counts for an observer that has become live, or has ceased to be. */
void channel_count_live(struct observer *observer);
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

/* shared.c */
/** Fills in what the observer's next frame depends on, but for from, to and hides. */
static inline void shared_begin(const struct observer *observer, struct frame_key *ret)
{
	const struct encoder_places *places = observer->encoder->places;
	ret->encoder = observer->encoder;
	ret->max_seq = observer->channel->max_seq;
	ret->format = observer->format;
	ret->is_shared = !places || places->get(observer->reader, ret->place);
}
/**
 * Finds a frame with this key; the observer is then at the place behind it. Returns NULL if there is
 * none. Borrowed, until the next frame is kept.
 */
struct frame *shared_find(struct observer *observer, const struct frame_key *key);
/**
 * Finds the next events of an observer without looking at them, if a frame has been made for another
 * one from the same position (`key->from`) that sees the same. Fills in the rest of `key`. Otherwise
 * like shared_find().
 */
struct frame *shared_find_next(struct observer *observer, struct frame_key *key);
/** Keeps a frame that was just made for the observer, if others can use it: adds a reference. */
void shared_keep(struct observer *observer, const struct frame_key *key, struct frame *frame);
/** Drops all frames. */
void shared_drop(struct channel *channel);
/**
 * Finds or makes the observer's frame of an output that is no event. `hides` are the HIDE_ bits of
 * the observer that matter for it. Returns one reference, the caller's; NULL: it gets nothing.
 */
struct frame *shared_make(struct observer *observer, uint64_t output, unsigned hides,
	struct frame *(*make)(const struct observer *observer, const void *in), const void *in);

#endif
