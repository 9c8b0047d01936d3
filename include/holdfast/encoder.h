/*
 * Encoders: who makes bytes of what an observer is sent (observer.h). The observer gives typed
 * values; an encoder makes of them the frames of one kind of client, and nobody reads these frames
 * again. One table for each kind: `websocket_encoder` here, `sse_encoder` in sse.h, the others
 * are in the files of those who read them.
 */
#ifndef HOLDFAST_ENCODER_H
#define HOLDFAST_ENCODER_H

#include "holdfast/error_codes.h"
#include "holdfast/frames.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Most bytes of a place, see struct encoder_places. */
#define ENCODER_PLACE_MAX 72

/** Events that were just committed; they follow each other in the log. */
struct live_events {
	struct event **events;
	size_t count; /* at least one */
	enum event_format format;
	unsigned hide; /* HIDE_ bits: what of the events the observer may not see */
	const struct connected_frame *now; /* the session */
};

/** Notice of an input that is held behind the open block; the event `seq` will follow from it. */
struct activity {
	uint64_t seq;
	unsigned hides; /* HIDE_ bits any of which hides the notice from a token */
	const char *shown; /* JSON objects: the notice, and what is left of it if it is hidden */
	size_t shown_len;
	const char *redacted; /* NULL: then nothing is shown */
	size_t redacted_len;
};

/** An error; `request` (the type of the frame that was refused) and `detail` can be NULL. */
struct error_notice {
	enum error_code code;
	const char *message;
	const char *request;
	const struct error_detail *detail;
};

/**
 * For encoders that keep something for each observer, its `reader`: then the frames of two observers
 * of the same session are equal only if both readers are at the same place. A place is bytes
 * without padding. Equal places give equal frames for the same values, and equal places afterwards.
 */
struct encoder_places {
	size_t size; /* of a place, at most ENCODER_PLACE_MAX */
	/** Writes the reader's place. Returns false if its next frame is its own. */
	bool (*get)(void *reader, void *ret_place);
	/**
	 * Called after a frame was made: returns what follow() needs to bring other readers from the
	 * same place to where this one is now, or NULL if the frame turned out to be its own. NULL:
	 * making a frame changes nothing.
	 */
	void *(*keep)(const void *reader);
	/** Brings the reader to where another one was when keep() returned `kept`. */
	void (*follow)(void *reader, const void *kept);
	void (*free_kept)(void *kept);
};

/**
 * The functions return one reference, the caller's, or NULL if nothing is sent. A function that is
 * NULL never sends anything. A frame may be empty: its socket is given it like any other. `reader`
 * belongs to the observer's creator (struct observer_config), and is NULL where nothing is kept.
 */
struct encoder {
	/*
	 * Its client sends nothing: the limit of a load is only for the newest page, and a load that
	 * fails ends the observer.
	 */
	bool is_one_way;
	/*
	 * Its client shows the session to viewers of its own (observer/mirrors.c): it is live at once,
	 * nothing is hidden from it, and it is nobody in presence. It needs FORMAT_MARKDOWN,
	 * DELTAS_TEXT and about().
	 */
	bool is_mirror;
	/*
	 * How an observer is closed whose position is no longer in the log. 0: it is not, but is sent
	 * the newest page, with a reset.
	 */
	unsigned lost_code;
	const char *lost_reason;
	const struct encoder_places *places; /* NULL: nothing is kept */

	/** Sent first. */
	struct frame *(*connected)(void *reader, const struct connected_frame *in);
	/** One page of a load. */
	struct frame *(*page)(void *reader, const struct loaded_frame *in);
	struct frame *(*events)(void *reader, const struct live_events *in);
	/** The observer has been sent all events that there are. WebSockets learn it from the page. */
	struct frame *(*live)(void *reader, const struct connected_frame *now);
	/** Text that the open event has grown by. */
	struct frame *(*delta)(void *reader, const struct open_part *in);
	/** The open event as HTML, from its beginning. */
	struct frame *(*preview)(void *reader, const struct open_part *in);
	struct frame *(*activity)(void *reader, const struct activity *in, unsigned hide);
	/** The status has changed, or the observer has become live. */
	struct frame *(*state)(void *reader, const struct connected_frame *now, unsigned hide);
	/** Something has changed without an event, such as the title. */
	struct frame *(*about)(void *reader, const struct connected_frame *now);
	/** Who is here; `data` is a JSON object. */
	struct frame *(*presence)(void *reader, const char *data, size_t len);
	struct frame *(*error)(void *reader, const struct error_notice *in);
	/** The session was deleted. */
	struct frame *(*gone)(void *reader, const char *session_id, const char *reason);
};

/** The frames of proto/protocol.md. */
extern const struct encoder websocket_encoder;

#endif
