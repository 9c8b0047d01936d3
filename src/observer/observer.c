#include "observer_internal.h"

#include "holdfast/ds.h"
#include "holdfast/sse.h"

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
	if (o->is_tap) {
		tap_count(o);
	} else {
		o->channel->delta_observers[o->deltas] += live ? 1 : (size_t)-1;
	}
}

static void handle_turn(struct turn *turn);

struct observer *observer_create(struct channel *channel, const struct observer_config *config,
	const struct observer_socket_ops *ops, void *socket)
{
	struct observer *o = xcalloc(1, sizeof(*o));
	o->channel = channel;
	o->ops = ops;
	o->socket = socket;
	o->client_id = xstrdup(config->client_id);
	o->sub = xstrdup(config->sub);
	o->hide = config->hide;
	o->role = config->role;
	o->format = config->format;
	o->deltas = config->deltas;
	o->is_sse = config->is_sse;
	o->is_ds = config->is_ds;
	o->is_tap = config->is_tap;
	turn_init(&o->turn, handle_turn);
	list_append(&channel->observers, &o->link);
	if (o->is_tap) {
		/*
		 * The welcome and the cursor are set in one step, so that no event comes in
		 * between.
		 */
		observer_send(o, tap_welcome(channel));
		o->cursor = channel->max_seq;
		set_live(o, true);
		return o;
	}
	channel_presence_changed(channel);
	struct session_labels labels = {.title = ""};
	if (channel->get_labels) {
		channel->get_labels(channel->log, &labels);
	}
	observer_send(o, frame_connected(&(struct connected_frame){
				 .session_id = session_log_id(channel->log),
				 .labels = labels,
				 .client_id = o->client_id,
				 .role = config->role,
				 .expires_ms = config->expires_ms,
				 .hide = config->hide,
				 .epoch = session_log_epoch(channel->log),
				 .max_seq = channel->max_seq,
				 .status = channel->status,
				 .last_prompt_id = channel->last_prompt_id,
				 .last_prompt_seq = channel->last_prompt_seq,
				 .agent_state = *channel->agent_state,
				 .first_seq = session_log_first_seq(channel->log),
			 }));
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
	if (frame && !o->is_tap) {
		o->ops->write(o->socket, frame);
	}
	o->ops->close(o->socket, code, reason);
}

void observer_offer(struct observer *o, enum deltas deltas, uint64_t seq, struct frame *frame)
{
	bool wants = deltas == DELTAS_NONE || deltas == o->deltas ||
		     (deltas == DELTAS_HTML && o->has_previews);
	if (!o->is_live || !wants) {
		return;
	}
	bool takes = !o->outbox_count && o->ops->is_writable(o->socket);
	if (deltas == DELTAS_TEXT && (!takes || o->skip_delta_seq == seq)) {
		/*
		 * A text with a gap is useless: once one delta is left out, all later ones of that
		 * event are.
		 */
		o->skip_delta_seq = seq;
	} else if (takes) {
		o->ops->write(o->socket, frame);
	}
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

static unsigned style_of(const struct observer *o)
{
	return o->is_tap ? 3 : (unsigned)o->is_sse + o->is_ds;
}

static void write_live(struct observer *o, const struct frame_key *key, struct frame *frame)
{
	o->cursor = key->to;
	metrics_add(o->channel->metrics, METRIC_EVENTS_DELIVERED, key->to - key->from + 1);
	o->ops->write(o->socket, frame);
}

static void send_live(struct observer *o, struct event **events, size_t count)
{
	struct channel *ch = o->channel;
	check_order(o, events, count);
	unsigned hides = hidden_among(o, events, count);
	struct frame_key key = {
		events[0]->seq, events[count - 1]->seq, o->format, hides, style_of(o)};
	struct frame *frame = channel_find_frame(ch, &key);
	if (frame) {
		write_live(o, &key, frame);
		return;
	}
	frame = o->is_tap  ? tap_events(ch, events, count)
		: o->is_ds ? ds_events(events, count, o->format, hides)
		: o->is_sse
			? sse_events(events, count, o->format, hides, session_log_epoch(ch->log))
			: frame_events(events, count, o->format, hides, ch->max_seq,
				  ch->status.is_prompting);
	channel_keep_frame(ch, &key, o->hide, frame);
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
	o->live_due = o->is_sse;
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
 * Makes the frame of a page. An event stream that begins with the newest page is told the position
 * before that page, from which a client continues that has seen nothing of it.
 */
static struct frame *page_frame(const struct observer *o, const struct loaded_frame *page)
{
	uint64_t from = o->load.plan.from - 1;
	if (o->is_ds) {
		return ds_events(page->events, page->count, page->format, page->hide);
	}
	return o->is_sse ? sse_loaded(page, o->load.plan.is_newest ? &from : NULL)
			 : frame_events_loaded(page);
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
	if (page.reset && o->is_ds) {
		observer_dismiss(o, NULL, OBSERVER_PRUNED, "the position was pruned");
		return;
	}
	uint64_t last = count ? events[count - 1]->seq : plan->from - 1;
	if (plan->to_end) {
		o->cursor = plan->from - 1;
		check_order(o, events, count);
		o->cursor = last;
		if (last == page.max_seq) {
			page.open = open_part(o);
		}
	}
	struct frame *frame = page_frame(o, &page);
	metrics_add(o->channel->metrics, METRIC_EVENTS_DELIVERED, count);
	o->ops->write(o->socket, frame);
	frame_unref(frame);
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
	} else if (o->is_loading && !o->is_sse) {
		end_load(o);
		struct refusal refusal = {0};
		refuse_events_read(&refusal, o->channel->log);
		metrics_refused(o->channel->metrics, refusal.code, LIMIT_NONE);
		observer_send(o,
			frame_error(refusal.code, refusal.message, "load_events", &refusal.detail));
		observer_pump(o); /* the load that was interrupted, and live events since then */
	} else {
		const char *why =
			storage_text(session_log_storage(o->channel->log), STORAGE_EVENTS);
		struct frame *frame =
			o->is_sse ? frame_error("storage_failed", why, NULL, NULL) : NULL;
		observer_dismiss(o, frame, 1011, "the events cannot be read");
		frame_unref(frame);
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
		now.format = FORMAT_MARKDOWN; /* HTML of new events is made here, once for all */
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

/** The client's position was pruned: begins a load of the newest page, with a reset. */
static void start_anew(struct observer *o)
{
	struct channel *ch = o->channel;
	if (o->is_tap) {
		observer_dismiss(o, NULL, 1001, "the node was too far behind");
		return;
	}
	uint64_t next = o->is_loading ? o->load.plan.from : o->cursor + 1;
	struct load_request load = {
		.from = LOAD_AFTER, .seq = next - 1, .limit = ch->limits->load_default};
	o->load = (struct load){.plan = load_plan_make(&load, session_log_epoch(ch->log),
					session_log_first_seq(ch->log), ch->max_seq),
		.limit = load.limit,
		.gaps = o->load.gaps};
	metrics_add(ch->metrics, METRIC_RESETS_PRUNED, 1);
	o->is_loading = true;
	set_live(o, false);
}

static void step_load(struct observer *o)
{
	struct load_plan *plan = &o->load.plan;
	if (is_behind(o) && plan->to_end && !plan->is_newest) {
		start_anew(o);
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
	struct frame_key key = {.from = o->cursor + 1, .format = o->format, .style = style_of(o)};
	struct frame *frame = channel_find_next(o->channel, &key, o->hide);
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

/** Sends the current state, once however often it has changed since. */
static void step_state(struct observer *o)
{
	o->state_due = false;
	if (o->is_tap) {
		tap_write(o, tap_state(o->channel));
	} else {
		o->ops->write(o->socket, channel_state_frame(o->channel, o->hide));
	}
}

/** Tells an event stream that it is up to date. */
static void step_told_live(struct observer *o)
{
	struct frame *frame = sse_live(session_log_epoch(o->channel->log), o->channel->max_seq);
	o->live_due = false;
	o->ops->write(o->socket, frame);
	frame_unref(frame);
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
	for (int i = 0; i < BURST && has_work(o) && o->ops->is_writable(o->socket); i++) {
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
			o->about_due = false;
			tap_write(o, tap_about(o->channel));
		} else {
			step_told_live(o);
		}
	}
	if (has_work(o)) {
		o->ops->want_writable(o->socket);
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
	if (o->is_sse && !next.plan.is_newest) {
		next.limit = ch->limits->load_max; /* load.limit is only for the newest page */
	}
	load_count(ch->metrics, load, &next.plan);
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
