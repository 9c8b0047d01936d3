/*
 * Server-sent events (WHATWG HTML, section 9.2): the frames of a WebSocket as events of a text
 * stream, whose ids are positions in a session. Pure.
 *
 * Of the ways that section 9.2.5 allows, one is written: lines end with LF, there is no byte order mark, a
 * field is `name: value`, data has one line, an id has no NUL, and `retry` is digits. The recipes in
 * docs/server-sent-events.md rely on it. Nothing here reads such a stream.
 */
#ifndef HOLDFAST_SSE_H
#define HOLDFAST_SSE_H

#include "holdfast/encoder.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Room for an id: an epoch, a hyphen, a seq. */
#define SSE_ID_MAX 40

/*
 * What ends a chunk of HTTP (RFC 9112, section 7.1). It is in memory behind the bytes of each frame
 * for streams, beyond their length, so that a frame and its end are sent in one piece.
 */
#define SSE_CHUNK_END      "\r\n"
#define SSE_CHUNK_END_SIZE 2

/** The position of a client, which has everything up to this event. */
struct sse_position {
	bool has_epoch;
	uint64_t epoch;
	uint64_t seq; /* at most 2^53 - 1, like every seq */
};

/** Parses `EPOCH-SEQ` or `SEQ`. Returns false if it is neither. */
bool sse_position_read(const char *text, size_t len, struct sse_position *ret);

/**
 * Returns a frame in its form for a stream: one event, or several. Made once, and borrowed as long
 * as the frame lives. A frame that was made for streams is returned as it is.
 */
struct frame *sse_frame(struct frame *frame);
/**
 * Text that is already in the form of a stream. Like the two functions below, returns one reference,
 * the caller's.
 */
struct frame *sse_text(const char *text, size_t len);
/** Sets the client's delay before it reconnects. */
struct frame *sse_retry(int64_t ms);
/** A comment, to show proxies that the connection is alive. */
struct frame *sse_comment(void);

/**
 * Its frames are those of a WebSocket as events of the stream, but each event of the session is one
 * of the stream, too, with its position as its id. In front of a newest page is the position before
 * it, as an id without an event: from there a client continues that has seen nothing of the page.
 */
extern const struct encoder sse_encoder;

/**
 * Returns the bytes of a stream's frame as a piece of a gzip stream (after GZIP_HEAD, before
 * gzip_end_append()), the same for every receiver; like the text, they follow FRAME_HEADROOM bytes and
 * have SSE_CHUNK_END behind them. Packed once, and borrowed as long as the frame lives.
 */
const struct buffer *sse_packed(struct frame *frame, struct deflater *deflater);

#endif
