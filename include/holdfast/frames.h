/*
 * Builds the frames sent to clients (proto/protocol.md): one JSON text each, made once and shared
 * by reference count. Together with requests.h the only place that knows JSON field names. Pure.
 */
#ifndef HOLDFAST_FRAMES_H
#define HOLDFAST_FRAMES_H

#include "holdfast/agent_state.h"
#include "holdfast/buffer.h"
#include "holdfast/deflate.h"
#include "holdfast/error_codes.h"
#include "holdfast/event.h"
#include "holdfast/prompt_queue.h"

#include <stdbool.h>
#include <stdint.h>

struct error_detail;

/** Room before the text, where the socket layer puts its own header. */
#define FRAME_HEADROOM 32

struct frame {
	unsigned refs;
	struct buffer buf; /* FRAME_HEADROOM bytes, then the text */
	struct buffer deflated; /* likewise with the compressed text; see frame_deflated() */
	bool was_deflated;
	size_t type_len; /* of the frame's type, if it was made here; 0: not known */
	bool is_sse; /* made for server-sent events (sse.h); its text is not JSON */
	struct gzip_piece piece; /* of such a frame, once packed (sse_packed()) */
	struct frame *sse; /* the same frame for a stream; NULL: not made yet */
};

static inline const char *frame_text(const struct frame *frame)
{
	return frame->buf.data + FRAME_HEADROOM;
}

static inline size_t frame_len(const struct frame *frame)
{
	return frame->buf.len - FRAME_HEADROOM;
}

/** Takes another reference, and returns `frame`. */
struct frame *frame_ref(struct frame *frame);
/** Accepts NULL. */
void frame_unref(struct frame *frame);
/**
 * Returns the frame with its text compressed (deflate.h), which is done once; NULL if that would
 * not make it shorter. Valid as long as the frame.
 */
const struct buffer *frame_deflated(struct frame *frame, struct deflater *deflater);

/**
 * Makes `{"type": type, "data": data}`; data is a JSON text. Like all functions below, returns one
 * reference, the caller's.
 */
struct frame *frame_make(const char *type, const char *data, size_t len);
/** Makes a frame of a text that already is one. */
struct frame *frame_of_text(const char *text, size_t len);

/** The parts of `{"type":"…","data":…}`, the form of all frames for clients. Borrowed. */
struct frame_parts {
	const char *type;
	size_t type_len;
	const char *data;
	size_t data_len;
};
/**
 * Finds the parts of a frame that another node has made, without reading the data. Returns false if
 * it has another form.
 */
bool frame_split(const char *text, size_t len, struct frame_parts *ret);
/** Returns the parts of a frame for clients; all empty if another node sent something else. */
struct frame_parts frame_parts(const struct frame *frame);
/** Appends `,"hide":[…]`, or nothing if nothing is hidden. */
void frames_append_hide(struct buffer *out, unsigned hide);

/**
 * The state of a session as frames report it; strings are borrowed. A token that hides tools does
 * not learn that a question waits: to it the status is "running" or "idle".
 */
struct session_status {
	bool is_prompting; /* a turn is running */
	bool is_running; /* its agent process is alive */
	size_t queue_length; /* number of waiting prompts */
	const struct prompt_queue *queue; /* these prompts */
	const char *queue_text; /* the queue as JSON, from another node; NULL: use `queue` */
	const char *status; /* "idle", "running" or "waiting" */
	size_t questions; /* that are open */
	const char *waiting_for; /* request id of the newest of them; NULL: none, or too long */
	const char *usage; /* JSON object, or NULL */
};

/** A session's title and the labels set by people; the title is borrowed. */
struct session_labels {
	const char *title;
	bool archived;
	bool pinned;
};

/**
 * Text of the event that is still open: as far as it was sent, for observers with deltas, or what it
 * has grown by. Plain text, or HTML if `is_html`.
 */
struct open_part {
	uint64_t seq; /* 0: none */
	enum event_type type;
	size_t offset; /* where it begins in the event's text; 0 for HTML */
	const char *text;
	size_t len;
	bool is_html;
};

/** A session as it is now, and for `connected` the client. */
struct connected_frame {
	const char *session_id;
	struct session_labels labels;
	const char *client_id;
	const char *role;
	int64_t expires_ms; /* 0: never */
	unsigned hide; /* kinds that its token hides (hide.h) */
	uint64_t epoch;
	uint64_t max_seq;
	struct session_status status;
	const char *last_prompt_id; /* NULL: none */
	uint64_t last_prompt_seq;
	struct agent_state agent_state;
	uint64_t first_seq; /* of the log */
	uint64_t log; /* the log's number in the store */
	/* For `connected`: the open event. */
	struct open_part text;
	struct open_part html;
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
	bool is_newest; /* the load has this page alone, with the newest events */
	uint64_t from; /* the first seq that was asked for */
	struct open_part open;
};

struct frame *frame_connected(const struct connected_frame *in);
struct frame *frame_events_loaded(const struct loaded_frame *in);
/** Appends only the data object, for REST. */
void frames_append_loaded(struct buffer *out, const struct loaded_frame *in);
struct frame *frame_events(struct event **events, size_t count, enum event_format format,
	unsigned hide, uint64_t max_seq, bool is_prompting);
struct frame *frame_delta(
	uint64_t seq, enum event_type type, size_t offset, const char *text, size_t len);
struct frame *frame_preview(uint64_t seq, enum event_type type, const char *html, size_t len);
/**
 * Appends only the data object of an `activity` frame. `data` is a JSON object describing the held
 * input, NULL if that is hidden.
 */
void frames_append_activity(struct buffer *out, uint64_t seq, const char *type, size_t type_len,
	const char *data, size_t len);
struct frame *frame_state(const struct session_status *status, unsigned hide);
/**
 * `client_time` is the client's JSON number verbatim, or NULL; epoch 0 omits the members about a
 * session.
 */
struct frame *frame_keepalive_ack(const char *client_time, int64_t server_time, uint64_t max_seq,
	uint64_t epoch, const struct session_status *status, unsigned hide);
/** `seq` 0 means that the prompt is queued. */
struct frame *frame_prompt_received(const char *prompt_id, uint64_t seq, bool duplicate);
/** A prompt was sent again after it had been removed from the queue. */
struct frame *frame_prompt_was_removed(const char *prompt_id);
/**
 * Answers list_prompts: only the prompt at index `at`, or all of them if `at` is not below the
 * queue's length; see prompt_queue_append_list() for `max_bytes`.
 */
struct frame *frame_prompts(const struct prompt_queue *queue, size_t at, size_t max_bytes);
struct frame *frame_prompt_edited(const char *prompt_id);
struct frame *frame_prompt_removed(const char *prompt_id, bool duplicate);
/** The server is stopping; clients can reconnect after this time. */
struct frame *frame_draining(int64_t retry_after_ms);
struct frame *frame_session_gone(const char *session_id, const char *reason);
/** `request` is the type of the refused frame; it and `detail` can be NULL. */
struct frame *frame_error(enum error_code code, const char *message, const char *request,
	const struct error_detail *detail);
/** Appends only the data object, which is also the `error` member of HTTP responses. */
void frames_append_error(struct buffer *out, enum error_code code, const char *message,
	const char *request, const struct error_detail *detail);

/** A session object (proto/protocol.md#rest). */
struct session_object {
	const char *id;
	struct session_labels labels;
	/* Its agent and directory; NULL: the defaults. */
	const char *agent;
	const char *cwd;
	uint64_t epoch;
	uint64_t first_seq;
	uint64_t max_seq;
	int64_t created_at;
	int64_t updated_at;
	const char *status;
	size_t questions; /* that are open */
	const char *waiting_for; /* request id of the newest of them; NULL: none, or too long */
	bool is_prompting;
	struct agent_state agent_state;
};

void frames_append_session(struct buffer *out, const struct session_object *session, unsigned hide);

/** Result of appending one input event: its seq (0: null). */
struct append_ack {
	uint64_t seq;
	bool duplicate;
};

/** How many messages of a snapshot were already known, and how many were added. */
struct snapshot_counts {
	size_t known;
	size_t added;
};

/**
 * The result of an append, as an object for POST and as the `appended` frame: acks, epoch, max_seq,
 * and for a snapshot its counts (else NULL). `ref` is JSON text or NULL.
 */
void frames_append_acks(struct buffer *out, const struct append_ack *acks, size_t count,
	const struct snapshot_counts *counts, uint64_t epoch, uint64_t max_seq);
struct frame *frame_appended(const char *ref, const struct append_ack *acks, size_t count,
	const struct snapshot_counts *counts, uint64_t epoch, uint64_t max_seq);

#endif
