/*
 * Server-sent events (WHATWG HTML, section 9.2): the same frames as events of a stream of text, and
 * positions in a session, which are the ids of its events. Pure.
 */
#ifndef HOLDFAST_SSE_H
#define HOLDFAST_SSE_H

#include "holdfast/frames.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* More bytes than an id has: an epoch, a hyphen, a seq. */
#define SSE_ID_MAX 40

/** Where a client is: it has everything up to this event. */
struct sse_position {
	bool has_epoch;
	uint64_t epoch;
	uint64_t seq; /* at most 2^53 - 1, as everywhere */
};

/** Reads `EPOCH-SEQ` or `SEQ`; false: it is neither. */
bool sse_position_read(const char *text, size_t len, struct sse_position *ret);

/**
 * A frame as it is in a stream: one event, or several. Made once, and lent as long as the frame is.
 * Frames that are made for streams already are given as they are.
 */
struct frame *sse_frame(struct frame *frame);
/** Live events, each with its id. One reference, the caller's, as of all below. */
struct frame *sse_events(struct event **events, size_t count, enum event_format format,
	unsigned hide, uint64_t epoch);
/**
 * A page: what has to be dropped, where the page begins (`begin`: the seq in front of it, told as an
 * id without an event; NULL: it goes on), its events, and the text that is still growing.
 */
struct frame *sse_loaded(const struct loaded_frame *page, const uint64_t *begin);
/** The client has all there is, up to max_seq. */
struct frame *sse_live(uint64_t epoch, uint64_t max_seq);
/** Text that is as a stream has it already. */
struct frame *sse_text(const char *text, size_t len);
/** How long a client waits before it connects again. */
struct frame *sse_retry(int64_t ms);
/** Nothing, so that whoever stands between sees that the connection is alive. */
struct frame *sse_comment(void);

/**
 * The bytes of a frame of a stream inside a gzip stream (GZIP_HEAD in front, gzip_end_append()
 * behind), the same for every receiver: behind FRAME_HEADROOM bytes, as the text is. Packed once, and lent as
 * long as the frame is.
 */
const struct buffer *sse_packed(struct frame *frame, struct deflater *deflater);

#endif
