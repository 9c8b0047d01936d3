/*
 * Frames to clients (proto/protocol.md): one JSON text each, made once and shared by reference
 * count. Together with requests.h the only place that knows JSON field names. Pure.
 */
#ifndef HOLDFAST_FRAMES_H
#define HOLDFAST_FRAMES_H

#include "holdfast/agent_state.h"
#include "holdfast/buffer.h"
#include "holdfast/deflate.h"
#include "holdfast/event.h"
#include "holdfast/prompt_queue.h"

#include <stdbool.h>
#include <stdint.h>

struct error_detail;

/** Room in front of the text, which the socket layer overwrites with its own header. */
#define FRAME_HEADROOM 32

struct frame {
	unsigned refs;
	struct buffer buf; /* FRAME_HEADROOM bytes, then the text */
	struct buffer
		deflated; /* the same, then the text compressed; empty: see frame_deflated() */
	bool was_deflated;
	bool is_sse; /* it is made for a stream (sse.h), and its text is no JSON */
	bool is_ds; /* and for one of Durable Streams (ds.h) */
	struct gzip_piece piece; /* of such a frame, once it is packed */
	struct frame *sse; /* the same for a stream; NULL: nobody has asked for it */
};

static inline const char *frame_text(const struct frame *frame)
{
	return frame->buf.data + FRAME_HEADROOM;
}

static inline size_t frame_len(const struct frame *frame)
{
	return frame->buf.len - FRAME_HEADROOM;
}

struct frame *frame_ref(struct frame *frame);
/** Accepts NULL. */
void frame_unref(struct frame *frame);
/**
 * The frame with its text compressed (deflate.h), which is done once; NULL if it is too short to
 * become shorter. Lent as long as the frame is.
 */
const struct buffer *frame_deflated(struct frame *frame, struct deflater *deflater);

/**
 * `{"type": type, "data": data}`; data is a JSON text. One reference, the caller's, as of all
 * below.
 */
struct frame *frame_make(const char *type, const char *data, size_t len);
/** A text that is a frame already: of another node. */
struct frame *frame_of_text(const char *text, size_t len);
/** Appends the member `hide`, with a comma in front of it; nothing if nothing is hidden. */
void frames_append_hide(struct buffer *out, unsigned hide);

/**
 * The state of a session that frames repeat; strings are borrowed. A token that hides tools is not told
 * that a question waits: the status is "running" then.
 */
struct session_status {
	bool is_prompting; /* a turn is running */
	bool is_running; /* its agent process is alive */
	size_t queue_length; /* prompts that wait */
	const struct prompt_queue *queue; /* which these are */
	const char *queue_text; /* the same as `state` tells it, of another node; NULL: see queue */
	const char *status; /* "idle", "running" or "waiting" */
	const char *usage; /* JSON object, or NULL */
};

/** What a session is called, and where people have put it; the title is borrowed. */
struct session_labels {
	const char *title;
	bool archived;
	bool pinned;
};

struct connected_frame {
	const char *session_id;
	struct session_labels labels;
	const char *client_id;
	const char *role;
	int64_t expires_ms; /* 0: never */
	unsigned hide; /* what its token does not show (hide.h) */
	uint64_t epoch;
	uint64_t max_seq;
	struct session_status status;
	const char *last_prompt_id; /* NULL: none */
	uint64_t last_prompt_seq;
	struct agent_state agent_state;
	uint64_t first_seq; /* of the log */
};

/** What is open at the end of a load, for observers with deltas: text, or html if that is set. */
struct open_part {
	uint64_t seq; /* 0: nothing */
	enum event_type type;
	const char *text;
	size_t len;
	bool is_html;
};

struct loaded_frame {
	struct event **events;
	size_t count;
	enum event_format format;
	unsigned hide;
	bool has_more;
	bool prepend;
	uint64_t max_seq;
	uint64_t first_kept_seq; /* of the log, for total_count */
	uint64_t epoch;
	bool is_prompting;
	const char *reset; /* "ahead", "epoch", "pruned" or NULL */
	struct open_part open;
};

struct frame *frame_connected(const struct connected_frame *in);
struct frame *frame_events_loaded(const struct loaded_frame *in);
/** Only the data object, for REST; appends to `out`. */
void frames_append_loaded(struct buffer *out, const struct loaded_frame *in);
struct frame *frame_events(struct event **events, size_t count, enum event_format format,
	unsigned hide, uint64_t max_seq, bool is_prompting);
struct frame *frame_delta(
	uint64_t seq, enum event_type type, size_t offset, const char *text, size_t len);
struct frame *frame_preview(uint64_t seq, enum event_type type, const char *html, size_t len);
/** `data` is a JSON object with what may be told of the held input; NULL: nothing may. */
struct frame *frame_activity(
	uint64_t seq, const char *type, size_t type_len, const char *data, size_t len);
struct frame *frame_state(const struct session_status *status, unsigned hide);
/**
 * `client_time` is the client's JSON number as it came, or NULL; epoch 0 leaves out what belongs to
 * a session.
 */
struct frame *frame_keepalive_ack(const char *client_time, int64_t server_time, uint64_t max_seq,
	uint64_t epoch, const struct session_status *status, unsigned hide);
/** seq 0: it waits in the queue. */
struct frame *frame_prompt_received(const char *prompt_id, uint64_t seq, bool duplicate);
/** A prompt that was taken out of the queue was sent again. */
struct frame *frame_prompt_was_removed(const char *prompt_id);
/** Answers list_prompts: the prompt at the place `at` alone, or all if the queue ends before. */
struct frame *frame_prompts(const struct prompt_queue *queue, size_t at, size_t max_bytes);
struct frame *frame_prompt_edited(const char *prompt_id);
struct frame *frame_prompt_removed(const char *prompt_id, bool duplicate);
/** The server stops: the close that follows is for now. */
struct frame *frame_draining(int64_t retry_after_ms);
struct frame *frame_session_gone(const char *session_id, const char *reason);
/** `request` is the type of the refused frame; it and `detail` may be NULL. */
struct frame *frame_error(const char *code, const char *message, const char *request,
	const struct error_detail *detail);
/** Only the data object; `error` of an answer over HTTP is the same. */
void frames_append_error(struct buffer *out, const char *code, const char *message,
	const char *request, const struct error_detail *detail);

/** A session object (proto/protocol.md#rest). */
struct session_object {
	const char *id;
	struct session_labels labels;
	/* Of its agent; NULL: the defaults. */
	const char *agent;
	const char *cwd;
	uint64_t epoch;
	uint64_t first_seq;
	uint64_t max_seq;
	int64_t created_at;
	int64_t updated_at;
	const char *status;
	bool is_prompting;
	struct agent_state agent_state;
};

void frames_append_session(struct buffer *out, const struct session_object *session, unsigned hide);

/** Where a producer's input event is after an append: its seq (0: null). */
struct append_ack {
	uint64_t seq;
	bool duplicate;
};

/** How many messages of a snapshot were there already, and how many were new. */
struct snapshot_counts {
	size_t known;
	size_t added;
};

/**
 * `"acks":[…]` with epoch and max_seq, for POST; and the `appended` frame (ref: JSON text or NULL;
 * counts: NULL but for a snapshot).
 */
void frames_append_acks(struct buffer *out, const struct append_ack *acks, size_t count,
	const struct snapshot_counts *counts, uint64_t epoch, uint64_t max_seq);
struct frame *frame_appended(const char *ref, const struct append_ack *acks, size_t count,
	const struct snapshot_counts *counts, uint64_t epoch, uint64_t max_seq);

#endif
