/*
 * What two nodes say to each other on a `holdfast-node.v1` WebSocket (proto/nodes.md): how a session that
 * one of them has is followed by the other, for all who watch it there. A message is the text of a WebSocket: a
 * line of JSON, its head, and behind it the parts whose lengths the head names. Pure.
 */
#ifndef HOLDFAST_MIRROR_H
#define HOLDFAST_MIRROR_H

#include "holdfast/frames.h"

#include <jansson.h>

/* The subprotocol. */
#define MIRROR_PROTOCOL "holdfast-node.v1"
/* The head of a message has at most so many bytes. */
#define MIRROR_HEAD_MAX ((size_t)64 * 1024)
/* And a message at most so many parts, but for the lines of events. */
#define MIRROR_PARTS 4

enum mirror_type {
	/* From the node that has the session. */
	MIRROR_WELCOME, /* all that is needed to go on from here; parts: usage, queue, open text, its HTML */
	MIRROR_EVENTS, /* parts: the lines of events.jsonl, one behind the other */
	MIRROR_ABOUT, /* what has changed without an event */
	MIRROR_STATE, /* parts: usage, queue */
	MIRROR_DELTA, /* parts: the text */
	MIRROR_PREVIEW, /* parts: the HTML */
	MIRROR_ACTIVITY, /* parts: the frame, and the one for those from whom it is hidden (empty: none) */
	MIRROR_ANSWER, /* to one viewer; parts: the frame */
	MIRROR_DISMISS, /* one viewer is closed */
	MIRROR_REACHED, /* what MIRROR_REACH asks: events up to here had been shown */
	/* From the node that follows it. */
	MIRROR_VIEWER, /* somebody watches, or may do something else now */
	MIRROR_REQUEST, /* of a viewer; parts: its frame */
	MIRROR_LEAVE, /* a viewer has gone */
	MIRROR_PREVIEWS, /* whether HTML of the open event is wanted */
	MIRROR_REACH, /* how far is the session? For all viewers up to this number */
	MIRROR_TYPES,
};

struct mirror_part {
	const char *text;
	size_t len;
};

/** A message that was read. What it points at lives as long as the text does, and until mirror_finish(). */
struct mirror_message {
	enum mirror_type type;
	uint64_t viewer; /* the number of the viewer that it is about */
	const char *client_id; /* of MIRROR_VIEWER */
	const char *identity; /* the same: who it is (node_identity.h) */
	unsigned code; /* of MIRROR_DISMISS: of the close frame */
	const char *reason; /* the same */
	bool wanted; /* of MIRROR_PREVIEWS */
	uint64_t seq; /* of the open event; of MIRROR_REACHED: of the newest one */
	enum event_type event; /* the same */
	size_t offset; /* of MIRROR_DELTA: bytes of the text before it */
	unsigned hides; /* of MIRROR_ACTIVITY: what a token hides that does not see it */
	/*
	 * Of MIRROR_WELCOME, MIRROR_EVENTS, MIRROR_ABOUT and MIRROR_STATE: the session as it is now. Its strings are
	 * borrowed, and usage and queue are in parts.
	 */
	struct connected_frame about;
	uint64_t log; /* of MIRROR_WELCOME: names the log in the store that both nodes have */
	uint64_t events; /* of MIRROR_EVENTS: how many there are */
	struct mirror_part parts[MIRROR_PARTS];
	size_t part_count;
	size_t read; /* bytes of the first part that mirror_next_event() has taken */
	json_t *head;
};

/**
 * Reads a message. -EBADMSG if it is none, or one without what its type has; then there is nothing to
 * finish.
 */
int mirror_read(const char *text, size_t len, struct mirror_message *ret);
void mirror_finish(struct mirror_message *message);
/**
 * The next event of MIRROR_EVENTS, with a reference: 1; 0: there is none left; -EBADMSG: its line is damaged, or
 * there are more or fewer than was said.
 */
int mirror_next_event(struct mirror_message *message, struct event **ret_event);

/* What is sent; one reference, the caller's. Of `about`, client_id, role, expires_ms and hide are not told. */
struct frame *mirror_welcome(const struct connected_frame *about, uint64_t log,
	const struct open_part *text, const struct open_part *html);
struct frame *mirror_events(
	const struct connected_frame *about, struct event **events, size_t count);
struct frame *mirror_about(const struct connected_frame *about);
struct frame *mirror_state(const struct connected_frame *about);
struct frame *mirror_delta(
	uint64_t seq, enum event_type type, size_t offset, const char *text, size_t len);
struct frame *mirror_preview(uint64_t seq, enum event_type type, const char *html, size_t len);
/** `redacted` may be NULL. */
struct frame *mirror_activity(
	uint64_t seq, unsigned hides, const struct frame *frame, const struct frame *redacted);
struct frame *mirror_answer(uint64_t viewer, const struct frame *frame);
struct frame *mirror_dismiss(uint64_t viewer, unsigned code, const char *reason);
struct frame *mirror_reached(uint64_t viewer, uint64_t seq);

void mirror_append_viewer(
	struct buffer *out, uint64_t viewer, const char *client_id, const char *identity);
void mirror_append_request(struct buffer *out, uint64_t viewer, const char *text, size_t len);
void mirror_append_leave(struct buffer *out, uint64_t viewer);
void mirror_append_previews(struct buffer *out, bool wanted);
void mirror_append_reach(struct buffer *out, uint64_t viewer);

#endif
