/* Observers: a load, page by page, then live events. observer_pump() sends what is due. */
#include "observer_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Most live events in one frame. */
#define LIVE_BATCH 500
/* Frames written in one go before other observers get their turn. */
#define BURST 4
/* Divides the page size of loads that follow the log: there can be many, and each keeps a page. */
#define FOLLOW_PARTS 8

static void set_live(struct observer *o, bool live)
{
	if (o->is_live == live) {
		return;
	}
	o->is_live = live;
	channel_count_live(o);
}

static void handle_turn(struct turn *turn);

static void send_connected(struct observer *o, int64_t expires_ms)
{
	const struct channel *ch = o->channel;
	struct connected_frame now = channel_now(ch);
	now.client_id = o->client_id;
	now.role = o->role;
	now.expires_ms = expires_ms;
	now.hide = o->hide;
	if (ch->open_seq > ch->max_seq) {
		now.text = (struct open_part){.seq = ch->open_seq,
			.type = ch->open_type,
			.text = ch->open_text.data,
			.len = ch->open_text.len};
		now.html = (struct open_part){.seq = ch->open_seq,
			.type = ch->open_type,
			.text = ch->open_html.data,
			.len = ch->open_html.len,
			.is_html = true};
	}
	observer_send(o, o->encoder->connected ? o->encoder->connected(o->reader, &now) : NULL);
}

struct observer *observer_create(struct channel *channel, const struct observer_config *config,
	const struct observer_socket_ops *ops, void *socket)
{
	struct observer *o = xcalloc(1, sizeof(*o));
	o->channel = channel;
	o->ops = ops;
	o->socket = socket;
	o->encoder = config->encoder;
	o->reader = config->reader;
	o->client_id = xstrdup(config->client_id);
	o->sub = xstrdup(config->sub);
	o->hide = config->hide;
	o->role = config->role;
	o->format = config->format;
	o->deltas = config->deltas;
	turn_init(&o->turn, handle_turn);
	list_append(&channel->observers, &o->link);
	if (!o->encoder->is_mirror) {
		channel_presence_changed(channel);
	}
	send_connected(o, config->expires_ms);
	if (o->encoder->is_mirror) {
		/* In one step with `connected`, so that no event comes in between. */
		o->cursor = channel->max_seq;
		set_live(o, true);
	}
	return o;
}

void observer_set_rights(struct observer *o, const char *role, unsigned hide)
{
	o->role = role;
	o->hide = hide;
	o->presence_seen = 0;
	channel_presence_changed(o->channel);
}

static void unref_all(struct event **events, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		event_unref(events[i]);
	}
}

static void drop_page(struct observer *o)
{
	unref_all(o->page, o->page_count);
	free(o->page);
	o->page = NULL;
	o->page_count = 0;
}

static void stop_loading(struct observer *o)
{
	if (o->read) {
		log_read_cancel(o->read);
		o->read = NULL;
	}
	drop_page(o);
	turn_cancel(&o->turn);
	o->is_loading = false;
}

void observer_destroy(struct observer *o)
{
	if (!o) {
		return;
	}
	if (!o->is_dismissed) {
		set_live(o, false);
		stop_loading(o);
		outbox_drop(o);
		list_remove(&o->link);
		observer_presence_finish(o);
	}
	free(o->name);
	free(o->client_id);
	free(o->sub);
	free(o);
}

/** Closes an observer. It does not use the channel any more, which can then be freed. */
void observer_dismiss(struct observer *o, struct frame *frame, unsigned code, const char *reason)
{
	set_live(o, false);
	stop_loading(o);
	outbox_drop(o);
	list_remove(&o->link);
	observer_presence_finish(o);
	o->is_dismissed = true;
	if (frame) {
		o->ops->write(o->socket, frame);
	}
	o->ops->close(o->socket, code, reason);
}

/* --- events --- */

/** Asserts that the events directly follow the cursor: none is sent twice, none is left out. */
static void check_order(const struct observer *o, struct event **events, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		assert(events[i]->seq == o->cursor + 1 + i);
		assert(events[i]->seq <= o->channel->max_seq);
	}
}

/** Which HIDE_ bits of the observer matter for these events; it is part of the key of the frame. */
static unsigned hidden_among(const struct observer *o, struct event **events, size_t count)
{
	unsigned hides = HIDE_NOTHING;
	for (size_t i = 0; i < count && hides != o->hide; i++) {
		hides |= event_hides(events[i], o->hide);
	}
	return hides;
}

/** `frame` is borrowed; NULL: the events mean nothing to the client. */
static void write_live(struct observer *o, const struct frame_key *key, struct frame *frame)
{
	o->cursor = key->to;
	metrics_add(o->channel->metrics, METRIC_EVENTS_DELIVERED, key->to - key->from + 1);
	if (frame) {
		o->ops->write(o->socket, frame);
	}
}

static void send_live(struct observer *o, struct event **events, size_t count)
{
	struct frame_key key;
	check_order(o, events, count);
	shared_begin(o, &key);
	key.from = events[0]->seq;
	key.to = events[count - 1]->seq;
	key.hides = hidden_among(o, events, count);
	struct frame *frame = shared_find(o, &key);
	if (frame) {
		write_live(o, &key, frame);
		return;
	}
	const struct connected_frame now = channel_now(o->channel);
	const struct live_events live = {events, count, o->format, key.hides, &now};
	frame = o->encoder->events ? o->encoder->events(o->reader, &live) : NULL;
	if (frame) {
		shared_keep(o, &key, frame);
	}
	write_live(o, &key, frame);
	frame_unref(frame);
}

static struct open_part open_part(const struct observer *o)
{
	const struct channel *ch = o->channel;
	const struct buffer *text = o->deltas == DELTAS_HTML ? &ch->open_html : &ch->open_text;
	struct event_view open = {.type = ch->open_type};
	if (o->deltas == DELTAS_NONE || ch->open_seq <= ch->max_seq || !text->len ||
		(event_view_hides(&open) & o->hide)) {
		return (struct open_part){0};
	}
	return (struct open_part){.seq = ch->open_seq,
		.type = ch->open_type,
		.text = text->data,
		.len = text->len,
		.is_html = o->deltas == DELTAS_HTML};
}

/**
 * Switches from loading to live: the load has reached the end of the log. `knows_open`: the
 * observer was sent the text of the open event; if not, later deltas of it are useless and left
 * out.
 */
static void become_live(struct observer *o, bool knows_open)
{
	o->is_loading = false;
	o->skip_delta_seq = knows_open ? 0 : o->channel->open_seq;
	o->state_due = true;
	o->live_due = o->encoder->live != NULL;
	set_live(o, true);
	if (o->deltas == DELTAS_HTML && o->channel->joined) {
		o->channel->joined(o->channel->joined_arg);
	}
}

/** Ends a load, and resumes the one that it interrupted. */
static void end_load(struct observer *o)
{
	o->is_loading = o->is_interrupted;
	if (o->is_interrupted) {
		o->is_interrupted = false;
		o->load = o->interrupted;
	}
}

/**
 * Sends one page of a load. A newest page makes the observer live even if events were committed
 * during its read; these follow as live events.
 */
static void send_page(struct observer *o, struct event **events, size_t count)
{
	struct load_plan *plan = &o->load.plan;
	struct loaded_frame page;
	if (count) {
		plan->from = events[0]->seq; /* a page with a fixed end may begin later */
	}
	load_page_fill(o->channel, plan, events, count, &page);
	page.format = o->format;
	page.hide = o->hide;
	uint64_t last = count ? events[count - 1]->seq : plan->from - 1;
	if (plan->to_end) {
		o->cursor = plan->from - 1;
		check_order(o, events, count);
		o->cursor = last;
		if (last == page.max_seq) {
			page.open = open_part(o);
		}
	}
	struct frame *frame = o->encoder->page ? o->encoder->page(o->reader, &page) : NULL;
	metrics_add(o->channel->metrics, METRIC_EVENTS_DELIVERED, count);
	observer_write(o, frame);
	if (plan->to_end && (plan->is_newest || last == page.max_seq)) {
		become_live(o, last == page.max_seq);
	} else if (plan->to_end && o->load.follow) {
		o->load.plan.from = last + 1;
	} else {
		end_load(o);
	}
}

static void send_batch(struct observer *o, struct event **events, size_t count)
{
	if (o->is_loading) {
		send_page(o, events, count);
	} else {
		send_live(o, events, count);
	}
	unref_all(events, count);
}

static void step_page(struct observer *o)
{
	struct event **events = o->page;
	size_t count = o->page_count;
	o->page = NULL;
	o->page_count = 0;
	send_batch(o, events, count);
	free(events);
}

/** Whether the event that is due next has been pruned meanwhile. */
static bool is_behind(const struct observer *o)
{
	uint64_t next = o->is_loading ? o->load.plan.from : o->cursor + 1;
	return next < session_log_first_seq(o->channel->log);
}

/** Answers a load with an error, or closes the observer: events cannot be read. */
static void handle_unread(struct observer *o)
{
	struct session_log *log = o->channel->log;
	if (o->is_loading && !o->encoder->is_one_way) {
		end_load(o);
		struct refusal refusal = {0};
		refuse_events_read(&refusal, log);
		metrics_refused(o->channel->metrics, refusal.code, LIMIT_NONE);
		observer_send(o, observer_error_frame(
					 o, &(struct error_notice){refusal.code, refusal.message,
						    "load_events", &refusal.detail}));
		observer_pump(o); /* the load that was interrupted, and live events since then */
		return;
	}
	const struct error_notice error = {.code = ERROR_storage_failed,
		.message = storage_text(session_log_storage(log), STORAGE_EVENTS)};
	struct frame *frame = o->encoder->is_one_way ? observer_error_frame(o, &error) : NULL;
	observer_dismiss(o, frame, 1011, "the events cannot be read");
	frame_unref(frame);
}

static void handle_read(void *arg, int status, struct event **events, size_t count)
{
	struct observer *o = arg;
	o->read = NULL;
	if (status == 0) {
		/* If the socket has filled up meanwhile, the page waits for it. */
		o->page = xcalloc(count, sizeof(struct event *));
		o->page_count = count;
		memcpy(o->page, events, count * sizeof(struct event *));
		observer_pump(o);
	} else if (is_behind(o)) {
		observer_pump(o);
	} else {
		handle_unread(o);
	}
}

/** Sends the events of a page, from memory or, if they are not there, after a read. */
static void fetch(struct observer *o, const struct log_page *page)
{
	if (page->to < page->from) {
		send_batch(o, NULL, 0);
		return;
	}
	struct event **hot = xcalloc((size_t)(page->to - page->from + 1), sizeof(struct event *));
	struct log_page now = *page;
	if (!o->is_loading) {
		now.format = FORMAT_MARKDOWN; /* the encoder renders new events, once for all */
	}
	size_t n = session_log_get_hot(o->channel->log, &now, hot);
	if (n) {
		send_batch(o, hot, n);
	}
	free(hot);
	if (n) {
		return;
	}
	o->read = session_log_read(o->channel->log, page, handle_read, o);
	if (!o->read) {
		handle_read(o, -EBADMSG, NULL, 0);
	}
}

/**
 * The client's position was pruned: begins a load of the newest page, with a reset. Returns false if
 * the observer is closed instead.
 */
static bool start_anew(struct observer *o)
{
	struct channel *ch = o->channel;
	metrics_add(ch->metrics, METRIC_RESETS_PRUNED, 1);
	if (o->encoder->lost_code) {
		observer_dismiss(o, NULL, o->encoder->lost_code, o->encoder->lost_reason);
		return false;
	}
	uint64_t next = o->is_loading ? o->load.plan.from : o->cursor + 1;
	struct load_request load = {
		.from = LOAD_AFTER, .seq = next - 1, .limit = ch->limits->load_default};
	o->load = (struct load){.plan = load_plan_make(&load, session_log_epoch(ch->log),
					session_log_first_seq(ch->log), ch->max_seq),
		.limit = load.limit,
		.gaps = o->load.gaps};
	o->is_loading = true;
	set_live(o, false);
	return true;
}

static void step_load(struct observer *o)
{
	struct load_plan *plan = &o->load.plan;
	if (is_behind(o) && plan->to_end && !plan->is_newest) {
		if (!start_anew(o)) {
			return;
		}
	} else if (is_behind(o)) {
		plan->from = session_log_first_seq(o->channel->log); /* a shorter page */
	}
	struct log_page page = load_plan_page(&o->load.plan, o->load.limit, o->channel);
	page.format = o->format;
	page.gaps = o->load.gaps;
	if (o->load.follow) {
		page.max_bytes /= FOLLOW_PARTS;
	}
	fetch(o, &page);
}

static void step_live(struct observer *o)
{
	if (is_behind(o)) {
		start_anew(o);
		return;
	}
	struct frame_key key;
	shared_begin(o, &key);
	key.from = o->cursor + 1;
	struct frame *frame = shared_find_next(o, &key);
	if (frame) {
		write_live(o, &key, frame);
		return;
	}
	uint64_t left = o->channel->max_seq - o->cursor;
	struct log_page page = {.from = o->cursor + 1,
		.to = o->cursor + (left < LIVE_BATCH ? left : LIVE_BATCH),
		.max_bytes = o->channel->limits->page_size,
		.format = o->format,
		.gaps = o->load.gaps};
	fetch(o, &page);
}

static struct frame *make_state(const struct observer *o, const void *in)
{
	const struct connected_frame now = channel_now(o->channel);
	return o->encoder->state ? o->encoder->state(o->reader, &now, o->hide) : NULL;
}

/** Sends the current state, once however often it has changed since. */
static void step_state(struct observer *o)
{
	o->state_due = false;
	observer_write(o,
		shared_make(o, o->channel->status_output, o->hide & HIDE_TOOLS, make_state, NULL));
	if (o->ops->state_changed) {
		o->ops->state_changed(o->socket);
	}
}

/** Tells a mirror what has changed without an event. */
static void step_about(struct observer *o)
{
	const struct connected_frame now = channel_now(o->channel);
	o->about_due = false;
	observer_write(o, o->encoder->about(o->reader, &now));
}

/** Tells a client that it is up to date. */
static void step_told_live(struct observer *o)
{
	const struct connected_frame now = channel_now(o->channel);
	o->live_due = false;
	observer_write(o, o->encoder->live(o->reader, &now));
}

static bool has_work(const struct observer *o)
{
	bool waits = turn_is_waiting(&o->turn);
	bool is_due =
		o->state_due || o->live_due || o->about_due || o->cursor < o->channel->max_seq;
	bool live_work = o->is_live && is_due;
	/*
	 * Live events go ahead while a load waits for its turn, unless a page of it is in memory.
	 */
	bool may_go_on = !o->read && !(waits && o->page);
	return !o->is_dismissed &&
	       (o->outbox_count || (may_go_on && ((o->is_loading && !waits) || live_work)));
}

/** Sends or reads the next page of a load. */
static void load_more(struct observer *o)
{
	if (o->page) {
		step_page(o);
	} else {
		step_load(o);
	}
}

static void handle_turn(struct turn *turn)
{
	struct observer *o = list_entry(turn, struct observer, turn);
	if (o->ops->is_writable(o->socket)) {
		load_more(o);
	}
	if (has_work(o)) {
		o->ops->want_writable(o->socket);
	}
}

static void take_turn(struct observer *o)
{
	struct turns *turns = o->channel->turns;
	if (!turns) {
		load_more(o);
	} else if (!turns_take(turns, &o->turn)) {
		metrics_limit(o->channel->metrics, LIMIT_pages_ms);
	}
}

void observer_pump(struct observer *o)
{
	for (int i = 0; has_work(o); i++) {
		if (i == BURST || !o->ops->is_writable(o->socket)) {
			o->ops->want_writable(o->socket);
			return;
		}
		if (o->outbox_count) {
			outbox_step(o);
		} else if (o->is_loading && !turn_is_waiting(&o->turn)) {
			take_turn(o);
		} else if (o->page) {
			step_page(o);
		} else if (o->cursor < o->channel->max_seq) {
			step_live(o);
		} else if (o->state_due) {
			step_state(o);
		} else if (o->about_due) {
			step_about(o);
		} else {
			step_told_live(o);
		}
	}
}

void observer_tell_state(struct observer *o)
{
	if (o->is_live) {
		o->state_due = true;
		observer_pump(o);
	}
}

void observer_load(struct observer *o, const struct load_request *load)
{
	struct channel *ch = o->channel;
	if (o->is_dismissed) {
		return;
	}
	struct load next = {
		.plan = load_plan_make(load, session_log_epoch(ch->log),
			session_log_first_seq(ch->log), ch->max_seq),
		.limit = load->limit,
		.follow = load->follow,
		.gaps = load->gaps,
	};
	if (o->encoder->is_one_way && !next.plan.is_newest) {
		next.limit = ch->limits->load_max; /* load.limit is only for the newest page */
	}
	load_count(ch->metrics, load, &next.plan);
	if (next.plan.reset && o->encoder->lost_code) {
		observer_dismiss(o, NULL, o->encoder->lost_code, o->encoder->lost_reason);
		return;
	}
	if (next.plan.to_end) {
		o->is_interrupted = false;
	} else if (o->is_loading && o->load.plan.to_end) {
		o->is_interrupted = true;
		o->interrupted = o->load;
	}
	stop_loading(o);
	o->load = next;
	o->is_loading = true;
	if (o->load.plan.to_end) {
		set_live(o, false);
	}
	observer_pump(o);
}
