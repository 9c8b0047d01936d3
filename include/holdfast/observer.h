/*
 * Observers: clients that watch a session (proto/protocol.md). An observer is a cursor into
 * the session's log and nothing more: being live only means that the cursor is at the end.
 * Loading and live are the same code, and one that does not keep up costs an integer.
 *
 * A channel is what the observers of one session see of it: only what is committed. The session
 * owns it, updates it, and calls the channel_… functions; observers never look behind it.
 */
#ifndef HOLDFAST_OBSERVER_H
#define HOLDFAST_OBSERVER_H

#include "holdfast/frames.h"
#include "holdfast/limits.h"
#include "holdfast/list.h"
#include "holdfast/metrics.h"
#include "holdfast/refusal.h"
#include "holdfast/requests.h"
#include "holdfast/store.h"
#include "holdfast/turns.h"

struct observer;

enum deltas { DELTAS_NONE, DELTAS_TEXT, DELTAS_HTML };

struct channel {
	const struct limits *limits;
	struct metrics *metrics; /* NULL: nobody counts; the session sets it, and the next one */
	struct turns *turns; /* of loads; NULL: nobody waits */
	struct session_log *log;
	uint64_t max_seq; /* the highest seq that may be shown */
	/* What it is called. */
	void (*get_labels)(const struct session_log *log, struct session_labels *ret);
	const struct agent_state *agent_state; /* as of the log's end; never NULL */
	struct session_status status; /* as of max_seq; strings owned by the session */
	const char *last_prompt_id; /* NULL: none */
	uint64_t last_prompt_seq;
	struct list observers;
	size_t delta_observers[3]; /* how many live ones want DELTAS_TEXT, DELTAS_HTML */
	size_t taps; /* how many of them are other nodes (tap.h) */

	/* Who is here (presence.c); nothing of it is kept up to date while nobody looks. */
	size_t presence_watchers;
	uint64_t presence_version; /* grows when something of it changes */
	struct frame *presence_frames
		[2]; /* of this version; NULL: not made yet; the second one has no names */

	/* The event that is still open, as far as deltas and previews have told it. */
	uint64_t open_seq;
	enum event_type open_type;
	struct buffer open_text;
	struct buffer open_html;

	/** An observer that wants previews has become live, or asks for one; may be NULL. */
	void (*joined)(void *arg);
	void *joined_arg;

	/* Frames of this loop tick, shared by all observers that are due the same events. */
	struct {
		struct frame *frame;
		uint64_t from;
		uint64_t to;
		enum event_format format;
		unsigned hides; /* what is left out of it */
		unsigned hide; /* what its first observer must not see */
		uint64_t max_seq; /* when it was made */
		unsigned style; /* for a WebSocket, or for which kind of stream */
	} shared[8];
	size_t shared_next;
	/* The same for `status`, NULL: not made yet; the second one for those that see no tools. */
	struct frame *state_frames[2];
};

void channel_init(struct channel *channel, const struct limits *limits, struct session_log *log);
/** There must be no observers left. */
void channel_finish(struct channel *channel);
/** New events are committed (max_seq has grown): every live observer gets them. */
void channel_wake(struct channel *channel);
/** Observers that load, or have not been handed the newest events. */
size_t channel_count_behind(const struct channel *channel);
/** The end of a loop tick: frames made in it are not kept. */
void channel_end_tick(struct channel *channel);
/** Whether there is an observer that does not see such events (event_view_hides()). */
bool channel_is_hidden_from_some(const struct channel *channel, unsigned hides);
/**
 * Offers a notice of what will be the event `seq` to all live observers. Those that do not see such
 * events get `redacted`, and nothing if that is NULL.
 */
void channel_send_activity(struct channel *channel, uint64_t seq, unsigned hides,
	struct frame *frame, struct frame *redacted);
/** More text of the open event: keeps it for those who come later, and sends it as a delta. */
void channel_delta(
	struct channel *channel, uint64_t seq, enum event_type type, const char *text, size_t len);
/** A new rendering of the open event. */
void channel_preview(
	struct channel *channel, uint64_t seq, enum event_type type, const char *html, size_t len);
/** Puts an answer in line for those who are this client (frame: takes the reference). */
void channel_answer(struct channel *channel, const struct author *author, struct frame *frame);
/** `status` is another one now. */
void channel_set_status(struct channel *channel, const struct session_status *status);
/** Sends `state` to everyone live. */
void channel_send_state(struct channel *channel);
/** The session is no more: every observer gets session_gone and is closed. */
void channel_gone(struct channel *channel, const char *reason);
/** Its making failed, perhaps not for good: everyone gets storage_failed, and may come back. */
void channel_taken_back(struct channel *channel);
/** Another node has the session from now on: everyone is closed with 1001, and comes back. */
void channel_moved(struct channel *channel);
/** Nothing more comes, for a reason that only their sockets are told. */
void channel_close(struct channel *channel, unsigned code, const char *reason);
#define SESSION_MOVED "another node has the session now"

/** The socket under an observer; all four are called on the loop. */
struct observer_socket_ops {
	/** Whether a frame written now would leave at once. */
	bool (*is_writable)(void *socket);
	/** Sends a frame, which is borrowed. */
	void (*write)(void *socket, struct frame *frame);
	/** Asks for observer_pump() to be called when is_writable() holds again. */
	void (*want_writable)(void *socket);
	/** Closes, after what was written has left. The socket will call observer_destroy(). */
	void (*close)(void *socket, unsigned code, const char *reason);
};

struct observer_config {
	enum event_format format;
	enum deltas deltas;
	const char *client_id; /* copied, and so is the next one */
	const char *sub; /* whose token it is; "": nobody's */
	const char *role; /* as role_name() has it */
	int64_t expires_ms; /* for `connected`: ms since 1970; 0: never */
	unsigned hide; /* what is not shown to it: see hide.h */
	/*
	 * Its socket is a stream of server-sent events: its events come as such (sse.h), it is told when it
	 * has all there is, and a load that fails is its end.
	 */
	bool is_sse;
	/*
	 * The same, and it reads Durable Streams: its events are those of ds.h, and a position that is of no use is
	 * its end, with OBSERVER_PRUNED.
	 */
	bool is_ds;
	/* It is another node, for all who watch there (tap.h); needs FORMAT_MARKDOWN and DELTAS_TEXT. */
	bool is_tap;
};

#define OBSERVER_PRUNED 4410

/** Of one that is another node: whether somebody there wants HTML of the open event; asks for it now, too. */
void observer_want_previews(struct observer *tap, bool wanted);
/** What a session is called has changed: other nodes are told. */
void channel_tell_about(struct channel *channel);

/** Makes an observer that holds nothing yet, and sends `connected`. */
struct observer *observer_create(struct channel *channel, const struct observer_config *config,
	const struct observer_socket_ops *ops, void *socket);
/** Something else is hidden from it from now on; what it was sent before stays as it is. */
void observer_set_rights(struct observer *observer, const char *role, unsigned hide);
/** What it wants to be called; NULL: nothing. */
void observer_set_name(struct observer *observer, const char *name);
/** The same; borrowed. */
const char *observer_name(const struct observer *observer);
/** Whether it wants to be told who is here. */
void observer_watch_presence(struct observer *observer, bool watches);
/**
 * Tells one that wants it who is here, if that is news to it, if its socket takes it, and if it has not been told
 * just before. `now_ms` is of a clock that only goes forward. To be called now and then.
 */
void observer_tell_presence(struct observer *observer, int64_t now_ms);
/** Accepts NULL. */
void observer_destroy(struct observer *observer);
/** Puts an answer (frame: takes the reference) in line, in front of events. */
void observer_send(struct observer *observer, struct frame *frame);
/**
 * Serves `load_events`. One at a time: a new one takes the place of one under way, but a page of
 * older events comes in between and the load that leads to the end goes on after it.
 */
void observer_load(struct observer *observer, const struct load_request *load);
/** Bytes that it keeps for itself until its socket takes them, about. */
size_t observer_kept(const struct observer *observer);
/** The last seq that it was sent, or where it began. */
uint64_t observer_cursor(const struct observer *observer);
/** Sends what is due and what the socket takes. */
void observer_pump(struct observer *observer);

/**
 * What a load answers at first sight: where it starts, and whether the client has to drop what it
 * has.
 */
struct load_plan {
	uint64_t from; /* first seq to send */
	uint64_t to; /* last seq, for pages that end before the log does */
	const char *reset; /* NULL: none */
	bool prepend;
	bool to_end; /* the load leads to the end of the log: the observer becomes live */
	bool is_newest; /* one page, of the newest events */
};
/** Counts a load that is about to be answered. */
void load_count(
	struct metrics *metrics, const struct load_request *load, const struct load_plan *plan);
/** Pure: the rules of proto/protocol.md#loading-step-by-step. */
struct load_plan load_plan_make(
	const struct load_request *load, uint64_t epoch, uint64_t first_seq, uint64_t max_seq);
/** The events of the next answer; none if `to` is before `from`. */
struct log_page load_plan_page(
	const struct load_plan *plan, size_t limit, const struct channel *channel);
/**
 * What the answer says besides its events: the race check is here. Whether there is more is told by
 * where the log's head is now, after the disk read, and not where it was when the load began.
 */
void load_page_fill(const struct channel *channel, const struct load_plan *plan,
	struct event **events, size_t count, struct loaded_frame *ret_page);
/** storage_failed, for a page of the log that could not be read: which events are damaged, if any. */
void refuse_events_read(struct refusal *refusal, const struct session_log *log);

#endif
