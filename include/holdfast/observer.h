/*
 * Observers: clients that watch a session (proto/protocol.md). An observer is essentially a cursor
 * into the session's log; it becomes live when the cursor first reaches the end. Loading and
 * following live are one pump with one way to fetch events, and a slow observer costs no memory for
 * the events it has yet to get.
 *
 * A channel is a session as its observers see it: only what is committed. The session owns it,
 * updates it, and calls the channel_… functions; observers know nothing else of the session.
 *
 * All functions run on the loop's thread.
 */
#ifndef HOLDFAST_OBSERVER_H
#define HOLDFAST_OBSERVER_H

#include "holdfast/encoder.h"
#include "holdfast/limits.h"
#include "holdfast/list.h"
#include "holdfast/metrics.h"
#include "holdfast/refusal.h"
#include "holdfast/requests.h"
#include "holdfast/store.h"
#include "holdfast/turns.h"

struct observer;

enum deltas { DELTAS_NONE, DELTAS_TEXT, DELTAS_HTML };

/** What a frame was made of; observers for which all of it is the same share the frame. */
struct frame_key {
	const struct encoder *encoder;
	uint64_t from; /* the first of the events; 0: another output, and `to` is its number */
	uint64_t to;
	uint64_t max_seq; /* of the channel */
	enum event_format format;
	unsigned hides; /* HIDE_ bits of what was left out */
	bool is_shared; /* false: the frame is the observer's own */
	unsigned char place[ENCODER_PLACE_MAX]; /* as long as encoder->places says */
};

/* Frames that are kept: enough for a burst of events and deltas to observers of all kinds. */
#define SHARED_FRAMES 16

struct cached_frame {
	struct frame *frame;
	unsigned hide; /* HIDE_ bits of the observer that it was made for */
	void *kept; /* see struct encoder_places */
	struct frame_key key;
};

struct channel {
	const struct limits *limits;
	struct metrics *metrics; /* NULL: none; set by the session */
	struct turns *turns; /* of loads; NULL: loads do not take turns; set by the session */
	struct session_log *log;
	uint64_t max_seq; /* the highest seq that may be shown */
	/** Gets the session's title and other labels; may be NULL. */
	void (*get_labels)(const struct session_log *log, struct session_labels *ret);
	const struct agent_state *agent_state; /* as of the log's end; never NULL */
	struct session_status status; /* as of max_seq; strings owned by the session */
	const char *last_prompt_id; /* NULL: none */
	uint64_t last_prompt_seq;
	struct list observers;
	size_t delta_observers[3]; /* number of live observers, by enum deltas */
	size_t mirrors; /* number of live observers with viewers of their own (mirrors.c) */

	/* Presence (presence.c), which is not kept up to date while nobody watches it. */
	size_t presence_watchers;
	uint64_t presence_version; /* grows with each change */
	uint64_t presence_output; /* its number, see `outputs` */
	struct buffer presence[2]; /* its data; empty: not made yet; the second has no names */

	/* The event that is still open, as far as it was sent in deltas and previews. */
	uint64_t open_seq;
	enum event_type open_type;
	struct buffer open_text;
	struct buffer open_html;

	/**
	 * Called when an observer that wants previews has become live, or asks for one; may be
	 * NULL.
	 */
	void (*joined)(void *arg);
	void *joined_arg;

	/* The newest frames of this loop tick (shared.c). */
	struct cached_frame *shared[SHARED_FRAMES]; /* a ring; NULL: unused */
	size_t shared_next;
	uint64_t outputs; /* that were no events, counted: each has a number */
	uint64_t status_output; /* the number of `status` */
};

void channel_init(struct channel *channel, const struct limits *limits, struct session_log *log);
/** No observer may be left. */
void channel_finish(struct channel *channel);
/**
 * Sends events that were just committed (max_seq has grown): those who are live get them now, those
 * who load go on towards them.
 */
void channel_wake(struct channel *channel);
/** Counts the observers that load, or that have not been sent the newest events. */
size_t channel_count_behind(const struct channel *channel);
/** Drops the shared frames, at the end of a loop tick. */
void channel_end_tick(struct channel *channel);
/** Whether some observer cannot see events with these HIDE_ bits (see event_view_hides()). */
bool channel_is_hidden_from_some(const struct channel *channel, unsigned hides);
/** Offers all live observers a provisional notice of a coming event. */
void channel_send_activity(struct channel *channel, const struct activity *activity);
/** Adds text to the open event: sends it as a delta, and keeps it for observers that come later. */
void channel_delta(
	struct channel *channel, uint64_t seq, enum event_type type, const char *text, size_t len);
/** Sends a new rendering of the open event, and keeps it for observers that come later. */
void channel_preview(
	struct channel *channel, uint64_t seq, enum event_type type, const char *html, size_t len);
/** Answers every observer that is this client with an error. */
void channel_send_error(
	struct channel *channel, const struct author *author, const struct error_notice *error);
/** Replaces `status`; its strings must stay valid until the next call. */
void channel_set_status(struct channel *channel, const struct session_status *status);
/** Sends `state` to all live observers. */
void channel_send_state(struct channel *channel);
/** The session was deleted: every observer gets session_gone and is closed with 4404. */
void channel_gone(struct channel *channel, const char *reason);
/** Creating the session failed: every observer gets storage_failed and is closed with 1011. */
void channel_taken_back(struct channel *channel);
/** Another node has taken the session over: every observer is closed with 1001, and reconnects. */
void channel_moved(struct channel *channel);
/** Closes every observer with this code and reason. */
void channel_close(struct channel *channel, unsigned code, const char *reason);
#define SESSION_MOVED "another node has the session now"

/** The socket under an observer. */
struct observer_socket_ops {
	/** Whether a frame written now would be sent at once. */
	bool (*is_writable)(void *socket);
	/** Sends a frame, which is borrowed. */
	void (*write)(void *socket, struct frame *frame);
	/** The session's state, as `state` has it, is new to the observer; NULL: nothing to do. */
	void (*state_changed)(void *socket);
	/** Asks for observer_pump() to be called when is_writable() holds again. */
	void (*want_writable)(void *socket);
	/** Closes once what was written has been sent. The socket then calls observer_destroy(). */
	void (*close)(void *socket, unsigned code, const char *reason);
};

struct observer_config {
	const struct encoder *encoder; /* who makes its frames; outlives the observer */
	void *reader; /* what that keeps for the observer; NULL: nothing */
	enum event_format format;
	enum deltas deltas;
	const char *client_id; /* copied */
	const char *sub; /* subject of the token, copied; "": none */
	const char *role; /* a result of role_name() */
	int64_t expires_ms; /* of the token, for `connected`: ms since 1970; 0: never */
	unsigned hide; /* HIDE_ bits of what is not shown to it, see hide.h */
};

/** Says whether viewers of a mirror want HTML of the open event; if so, asks for it at once. */
void observer_want_previews(struct observer *mirror, bool wanted);
/** Tells all mirrors that something without an event has changed, such as the session's title. */
void channel_tell_about(struct channel *channel);

/**
 * Creates an observer that is neither loading nor live, and sends `connected`. A mirror is live.
 */
struct observer *observer_create(struct channel *channel, const struct observer_config *config,
	const struct observer_socket_ops *ops, void *socket);
/** Changes its role and what is hidden from it, for frames that are sent from now on. */
void observer_set_rights(struct observer *observer, const char *role, unsigned hide);
/** Sets the name under which it appears in presence; NULL: none. */
void observer_set_name(struct observer *observer, const char *name);
/** That name, borrowed, or NULL. */
const char *observer_name(const struct observer *observer);
/** Sets whether it wants to be sent presence. */
void observer_watch_presence(struct observer *observer, bool watches);
/**
 * Sends presence if the observer wants it, it has changed, the socket takes it, and the last one
 * was not sent just before. `now_ms` is of a monotonic clock. To be called regularly.
 */
void observer_tell_presence(struct observer *observer, int64_t now_ms);
/** Accepts NULL. */
void observer_destroy(struct observer *observer);
/**
 * Sends an answer, made by who got the request, or queues it in front of events. Takes over the
 * reference to the frame; NULL: nothing. An observer whose queue is full is closed with 1008.
 */
void observer_send(struct observer *observer, struct frame *frame);
/**
 * Serves `load_events`. A new load replaces the one in progress, except that a page of older events
 * only interrupts a load that leads to the end of the log.
 */
void observer_load(struct observer *observer, const struct load_request *load);
/** About how many bytes it keeps until its socket takes them. */
size_t observer_kept(const struct observer *observer);
/** The seq of the last event that it was sent, or the position where it began. */
uint64_t observer_cursor(const struct observer *observer);
/** Sends what is due, as far as the socket takes it. */
void observer_pump(struct observer *observer);

/** How a load is answered: where it starts, and whether the client has to drop its events. */
struct load_plan {
	uint64_t from; /* first seq to send */
	uint64_t to; /* last seq, for pages that end before the log does */
	const char *reset; /* NULL: none */
	bool prepend;
	bool to_end; /* the load leads to the end of the log, where the observer becomes live */
	bool is_newest; /* one page, of the newest events */
};
/** Counts a load, and its reset, in the metrics. */
void load_count(
	struct metrics *metrics, const struct load_request *load, const struct load_plan *plan);
/** Applies the rules of proto/protocol.md#loading-step-by-step. A pure function. */
struct load_plan load_plan_make(
	const struct load_request *load, uint64_t epoch, uint64_t first_seq, uint64_t max_seq);
/** The range of events of the next page; empty if `to` is before `from`. */
struct log_page load_plan_page(
	const struct load_plan *plan, size_t limit, const struct channel *channel);
/**
 * Fills in what a page says besides its events. Whether more events follow depends on the end of
 * the log now, after the disk read, not on where it was when the load began: so no event is missed.
 */
void load_page_fill(const struct channel *channel, const struct load_plan *plan,
	struct event **events, size_t count, struct loaded_frame *ret_page);
/** Makes a storage_failed for a page that could not be read; names the damaged events, if any. */
void refuse_events_read(struct refusal *refusal, const struct session_log *log);

#endif
