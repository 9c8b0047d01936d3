/*
 * Messages between two nodes on a `holdfast-node.v1` WebSocket (proto/nodes.md), by which one node
 * follows a session that the other owns, on behalf of all its viewers there. A message is a
 * WebSocket text: a line of JSON, its head, followed by the parts whose lengths the head lists.
 * Pure.
 */
#ifndef HOLDFAST_MIRROR_H
#define HOLDFAST_MIRROR_H

#include "holdfast/encoder.h"

#include <jansson.h>

/* The subprotocol. */
#define MIRROR_PROTOCOL "holdfast-node.v1"
/*
 * Most bytes of a message's head. It has the session's title, of at most 64 KiB (limits.h), each
 * byte of which can be an escape of six.
 */
#define MIRROR_HEAD_MAX ((size_t)448 * 1024)
/* Most parts of a message. */
#define MIRROR_PARTS 4

enum mirror_type {
	/* Sent by the owner of the session. */
	MIRROR_WELCOME, /* full state; parts: usage, queue, open text, its HTML */
	MIRROR_EVENTS, /* one part: lines of events.jsonl */
	MIRROR_ABOUT, /* a change without an event */
	MIRROR_STATE, /* parts: usage, queue */
	MIRROR_DELTA, /* parts: the text */
	MIRROR_PREVIEW, /* parts: the HTML */
	MIRROR_ACTIVITY, /* parts: the frame, and its redacted form (can be empty) */
	MIRROR_ANSWER, /* to one viewer; part: the frame */
	MIRROR_DISMISS, /* closes one viewer */
	MIRROR_REACHED, /* answers MIRROR_REACH: events up to here had been sent */
	/* Sent by the follower. */
	MIRROR_VIEWER, /* a new viewer, or new rights of one */
	MIRROR_REQUEST, /* from a viewer; part: its frame */
	MIRROR_LEAVE, /* a viewer has gone */
	MIRROR_PREVIEWS, /* whether to send HTML of the open event */
	MIRROR_REACH, /* asks how far the session is, for all viewers up to this number */
	MIRROR_TYPES,
};

struct mirror_part {
	const char *text;
	size_t len;
};

/** A parsed message. It borrows from the text, and from itself until mirror_finish(). */
struct mirror_message {
	enum mirror_type type;
	uint64_t viewer; /* number of the viewer concerned */
	const char *client_id; /* of MIRROR_VIEWER */
	const char *identity; /* of MIRROR_VIEWER: who it is (node_identity.h) */
	unsigned code; /* of MIRROR_DISMISS: the close code */
	const char *reason; /* of MIRROR_DISMISS */
	bool wanted; /* of MIRROR_PREVIEWS */
	uint64_t seq; /* of the open event; of MIRROR_REACHED: of the newest event */
	enum event_type event; /* of the open event */
	size_t offset; /* of MIRROR_DELTA: offset of the text */
	unsigned hides; /* of MIRROR_ACTIVITY: the HIDE_ bits that hide it */
	/*
	 * Of MIRROR_WELCOME, MIRROR_EVENTS, MIRROR_ABOUT and MIRROR_STATE: the current state of the
	 * session, except usage and queue, which are in parts. Strings are borrowed.
	 */
	struct connected_frame about;
	uint64_t log; /* of MIRROR_WELCOME: id of the log in the shared store */
	uint64_t events; /* of MIRROR_EVENTS: number of events */
	struct mirror_part parts[MIRROR_PARTS];
	size_t part_count;
	size_t read; /* bytes of the first part consumed by mirror_next_event() */
	json_t *head;
};

/**
 * Parses a message. Returns 0, or -EBADMSG if it is malformed or lacks a member of its type; then
 * do not call mirror_finish().
 */
int mirror_read(const char *text, size_t len, struct mirror_message *ret);
void mirror_finish(struct mirror_message *message);
/**
 * Returns the next event of MIRROR_EVENTS: 1 with a reference in *ret_event; 0 at the end; -EBADMSG
 * if a line is damaged or the number of events is wrong.
 */
int mirror_next_event(struct mirror_message *message, struct event **ret_event);

/**
 * The owner's messages about the session. Of `connected`, which is MIRROR_WELCOME, the client_id,
 * role, expires_ms and hide are not sent.
 */
extern const struct encoder mirror_encoder;

/* Make the owner's other messages. One reference, the caller's. */
struct frame *mirror_answer(uint64_t viewer, const struct frame *frame);
struct frame *mirror_dismiss(uint64_t viewer, unsigned code, const char *reason);
struct frame *mirror_reached(uint64_t viewer, uint64_t seq);

/* Append the follower's messages. */
void mirror_append_viewer(
	struct buffer *out, uint64_t viewer, const char *client_id, const char *identity);
void mirror_append_request(struct buffer *out, uint64_t viewer, const char *text, size_t len);
void mirror_append_leave(struct buffer *out, uint64_t viewer);
void mirror_append_previews(struct buffer *out, bool wanted);
void mirror_append_reach(struct buffer *out, uint64_t viewer);

#endif
