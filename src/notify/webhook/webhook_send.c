/*
 * Delivers the messages of a hook. Sessions with new events wait in one list, ordered by when they
 * are due, from which senders (sender.h) get them. For a sender, the next event that causes a
 * message is searched in memory or on disk; once the message is sent, the session goes back into
 * the list if more events follow. If a delivery fails, the session is due again after a pause; its later messages wait
 * behind that one.
 */
#include "webhook_internal.h"

#include "holdfast/diag.h"

#include <stdlib.h>
#include <string.h>

/* Events that are searched at a time. */
#define LOOK_EVENTS 256
/* Events without a message after which the cursor is written to the file. */
#define STORE_EVERY 1000
/* Fewest attempts before a message that is too old is given up. */
#define ATTEMPTS_MIN 8

static void look(struct sender *sender);

static int64_t hook_now_ms(const struct hook *hook)
{
	return (int64_t)uv_now(hook->webhooks->config.loop);
}

/* --- list of due sessions --- */

static void count_behind(struct hook *hook, int change)
{
	const struct webhooks *webhooks = hook->webhooks;
	size_t behind = 0;
	hook->behind += (size_t)change;
	for (size_t i = 0; i < webhooks->hook_count; i++) {
		behind += webhooks->hooks[i]->behind;
	}
	metrics_set(webhooks->config.metrics, METRIC_WEBHOOK_BEHIND, behind);
}

/** Puts a session into the list, behind those that are due no later. */
static void put_in(struct track *track, int64_t due_ms)
{
	struct list *at = track->hook->due.prev;
	track->due_ms = due_ms;
	while (at != &track->hook->due && list_entry(at, struct track, link)->due_ms > due_ms) {
		at = at->prev;
	}
	list_append(at->next, &track->link); /* directly behind `at` */
	count_behind(track->hook, 1);
}

static void take_out(struct track *track)
{
	list_remove(&track->link);
	count_behind(track->hook, -1);
}

/**
 * Records whether the session's message fails (`why` NULL: no longer). Logs when the first session
 * of a hook begins to fail, and when the last one has recovered.
 */
static void set_failing(struct track *track, const char *why)
{
	struct hook *hook = track->hook;
	bool had_any = hook->failing > 0;
	bool is_failing = why != NULL;
	hook->failing += (size_t)is_failing - (size_t)track->is_failing;
	track->is_failing = is_failing;
	if (!server_may(hook->webhooks->config.life, MAY_TELL)) {
		return;
	}
	if (is_failing && !had_any) {
		diag(DIAG_WARN, "the webhook at %s failed: %s; it is tried again", hook->url.host,
			why);
	} else if (had_any && !hook->failing) {
		diag(DIAG_INFO, "the webhook at %s has been told everything again", hook->url.host);
	}
}

static void free_track(struct track *track)
{
	set_failing(track, NULL);
	free(track->session);
	free(track);
}

struct track *hook_add_track(struct hook *hook, const char *session)
{
	struct track *track = xcalloc(1, sizeof(*track));
	list_init(&track->link);
	track->hook = hook;
	track->session = xstrdup(session);
	hash_put(hook->tracks, session, strlen(session), track);
	return track;
}

/* --- cursors --- */

static void store(struct track *track)
{
	track->stored = track->seq;
	cursors_note(
		track->hook->webhooks->cursors, &(struct cursor_line){.hook = track->hook->name,
							.session = track->session,
							.epoch = track->epoch,
							.seq = track->seq});
}

/** A log with a new epoch has kept its seqs (holdfast repair), or has fewer events (restore). */
static void take_epoch(struct track *track, uint64_t epoch, uint64_t head)
{
	track->head = head;
	if (track->epoch != epoch) {
		track->epoch = epoch;
		track->seq = track->seq < head ? track->seq : head;
	}
}

/* --- results --- */

static void free_delivery(struct delivery *delivery)
{
	struct track *track = delivery->track;
	track->is_busy = false;
	if (track->is_gone) {
		free_track(track);
	}
	buffer_finish(&delivery->headers);
	buffer_finish(&delivery->body);
	free(delivery);
}

/** Ends a delivery. The session goes back into the list if more is to be done. */
static void end_delivery(struct delivery *delivery, int64_t pause_ms)
{
	struct track *track = delivery->track;
	struct hook *hook = track->hook;
	bool is_gone = track->is_gone;
	count_behind(hook, -1);
	free_delivery(delivery);
	if (!is_gone && (track->seq < track->head || pause_ms)) {
		put_in(track, hook_now_ms(hook) + pause_ms);
	}
}

/** The same for one that has not begun to send: its sender is free again. */
static void release(struct sender *sender, int64_t pause_ms)
{
	struct delivery *delivery = sender->message;
	sender_release(sender);
	end_delivery(delivery, pause_ms);
}

static int64_t pause_ms(const struct track *track)
{
	const struct limits *limits = track->hook->webhooks->config.limits;
	return sender_pause_ms(
		track->attempts, limits->webhook_retry_ms, limits->webhook_retry_max_ms);
}

static void describe(const struct sender *sender, char ret[SENDER_DESCRIPTION_SIZE])
{
	sender_describe(
		sender->result, "the host has no allowed address (see --webhook-address)", ret);
}

static void log_given_up(const struct sender *sender, const struct delivery *delivery)
{
	char why[SENDER_DESCRIPTION_SIZE];
	describe(sender, why);
	diag(DIAG_WARN, "the webhook at %s is not told of %s in session %s, event %llu: %s",
		sender->url.host, webhook_kind_name(delivery->kind), delivery->track->session,
		(unsigned long long)delivery->seq, why);
}

static bool is_given_up(const struct sender *sender, const struct delivery *delivery)
{
	const struct webhooks_config *config = &delivery->track->hook->webhooks->config;
	int64_t age = clock_now_ms(config->clock) - delivery->ts;
	return sender->result == 410 ||
	       (age > config->limits->webhook_keep_ms && delivery->track->attempts >= ATTEMPTS_MIN);
}

/** The message is over, whether it was sent or given up. */
static void go_on(struct delivery *delivery)
{
	struct track *track = delivery->track;
	track->attempts = 0;
	set_failing(track, NULL);
	track->seq = delivery->seq;
	if (!track->is_gone) {
		store(track);
	}
	end_delivery(delivery, 0);
}

static void retry(struct hook *hook, const struct sender *sender, struct delivery *delivery)
{
	char why[SENDER_DESCRIPTION_SIZE];
	int64_t wanted = sender_wanted_ms(sender);
	describe(sender, why);
	set_failing(delivery->track, why);
	if (wanted) {
		hook->not_before_ms = hook_now_ms(hook) + wanted;
	}
	end_delivery(delivery, pause_ms(delivery->track));
}

static void handle_ended(void *owner, const struct sender *sender, void *message)
{
	struct hook *hook = owner;
	struct delivery *delivery = message;
	struct metrics *metrics = hook->webhooks->config.metrics;
	if (!server_may(hook->webhooks->config.life, MAY_TELL)) {
		free_delivery(delivery);
	} else if (sender->result >= 200 && sender->result < 300) {
		metrics_add(metrics, METRIC_WEBHOOKS_SENT, 1);
		go_on(delivery);
	} else if (is_given_up(sender, delivery)) {
		metrics_add(metrics, METRIC_WEBHOOKS_GIVEN_UP, 1);
		log_given_up(sender, delivery);
		go_on(delivery);
	} else {
		metrics_add(metrics, METRIC_WEBHOOKS_RETRIED, 1);
		retry(hook, sender, delivery);
	}
}

/* --- on a sender's thread --- */

static int make(
	void *owner, const struct sender *sender, struct buffer *headers, struct buffer *body)
{
	const struct delivery *delivery = sender->message;
	(void)owner;
	buffer_append(headers, delivery->headers.data, delivery->headers.len);
	buffer_append(body, delivery->body.data, delivery->body.len);
	return 0;
}

/* --- searching the log --- */

/* Made here, and not on the sender's thread: the secrets may be replaced meanwhile. */
static void begin_post(struct sender *sender)
{
	struct delivery *delivery = sender->message;
	struct track *track = delivery->track;
	char id[WEBHOOK_ID_SIZE];
	const struct webhooks *webhooks = track->hook->webhooks;
	webhook_make_id(track->session, track->epoch, delivery->seq, id);
	webhook_append_body(&delivery->body, &(struct webhook_facts){.session = track->session,
						     .epoch = track->epoch,
						     .seq = delivery->seq,
						     .kind = delivery->kind,
						     .ts = delivery->ts});
	sender->url = track->hook->url;
	sender->now_s = clock_now_ms(webhooks->config.clock) / 1000;
	webhook_append_headers(
		&delivery->headers, &webhooks->secrets, id, sender->now_s, &delivery->body);
	track->attempts++;
	sender_start(sender);
}

/**
 * Advances over events, whose references it takes, to one that causes a message. False if none
 * does.
 */
static bool take_events(struct delivery *delivery, struct event **events, size_t count)
{
	struct track *track = delivery->track;
	bool found = false;
	for (size_t i = 0; i < count; i++) {
		enum webhook_kind kind = found ? WEBHOOK_NONE : webhook_kind_of(events[i]);
		if (kind != WEBHOOK_NONE) {
			struct event_view view;
			event_get_view(events[i], &view);
			found = true;
			delivery->seq = view.seq;
			delivery->kind = kind;
			delivery->ts = view.ts;
		} else if (!found) {
			track->seq = events[i]->seq;
		}
		event_unref(events[i]);
	}
	return found;
}

static void handle_read(void *arg, int status, struct event **events, size_t count)
{
	struct sender *sender = arg;
	struct delivery *delivery = sender->message;
	struct track *track = delivery->track;
	struct hook *hook = track->hook;
	delivery->read = NULL;
	session_drop(delivery->session);
	delivery->session = NULL;
	delivery->was_cold = true;
	if (status < 0) {
		track->attempts++;
		release(sender, pause_ms(track));
	} else if (take_events(delivery, events, count)) {
		begin_post(sender);
	} else {
		look(sender);
	}
	hook_send_due(hook);
}

/** Searches the next events. Returns true if they were in memory, and none causes a message. */
static bool look_once(struct sender *sender, struct session *session)
{
	struct delivery *delivery = sender->message;
	struct track *track = delivery->track;
	struct session_log *log = session_channel(session)->log;
	struct event *events[LOOK_EVENTS];
	uint64_t first = session_log_first_seq(log);
	uint64_t left = track->head - track->seq;
	struct log_page page = {.from = track->seq + 1 > first ? track->seq + 1 : first,
		.to = track->seq + (left < LOOK_EVENTS ? left : LOOK_EVENTS),
		.max_bytes = track->hook->webhooks->config.limits->page_size,
		.format = FORMAT_MARKDOWN,
		.gaps = true};
	if (page.to < page.from) {
		track->seq = page.to; /* they have been pruned */
		return true;
	}
	size_t count = session_log_get_hot(log, &page, events);
	if (count) {
		bool found = take_events(delivery, events, count);
		if (found) {
			begin_post(sender);
		}
		return !found;
	}
	delivery->read = session_log_read(log, &page, handle_read, sender);
	if (!delivery->read) {
		track->attempts++;
		release(sender, pause_ms(track));
		return false;
	}
	delivery->session = session;
	session_hold(session);
	return false;
}

/** The session cannot be read for now, or no longer exists. */
static void look_later(struct sender *sender)
{
	struct delivery *delivery = sender->message;
	struct track *track = delivery->track;
	struct hook *hook = track->hook;
	if (session_table_absence(hook->webhooks->config.sessions, track->session,
		    strlen(track->session)) != STORE_PRESENT) {
		track->head = track->seq; /* hook_note_head() is called when it can be read again */
	} else {
		hash_remove(hook->tracks, track->session, strlen(track->session));
		track->is_gone = true;
	}
	release(sender, 0);
}

static void look(struct sender *sender)
{
	const struct delivery *delivery = sender->message;
	struct track *track = delivery->track;
	struct session *session = session_table_get(
		track->hook->webhooks->config.sessions, track->session, strlen(track->session));
	if (!session) {
		look_later(sender);
		return;
	}
	const struct channel *channel = session_channel(session);
	take_epoch(track, session_log_epoch(channel->log), channel->max_seq);
	while (track->seq < track->head) {
		if (!look_once(sender, session)) {
			return;
		}
	}
	if (track->seq - track->stored >= STORE_EVERY || delivery->was_cold) {
		store(track);
	}
	release(sender, 0);
}

/* --- hooks --- */

static int64_t handle_next(void *owner, struct sender *sender)
{
	struct hook *hook = owner;
	if (list_empty(&hook->due)) {
		return -1;
	}
	struct track *track = list_entry(hook->due.next, struct track, link);
	int64_t due = track->due_ms > hook->not_before_ms ? track->due_ms : hook->not_before_ms;
	int64_t wait = due - hook_now_ms(hook);
	if (wait > 0) {
		return wait;
	}
	take_out(track);
	count_behind(hook, 1);
	track->is_busy = true;
	struct delivery *delivery = xcalloc(1, sizeof(*delivery));
	delivery->track = track;
	sender->message = delivery;
	look(sender);
	return 0;
}

static const struct sender_ops hook_sender_ops = {
	.next = handle_next,
	.make = make,
	.ended = handle_ended,
};

void hook_send_due(struct hook *hook)
{
	senders_run(&hook->senders);
}

void hook_note_head(struct hook *hook, const char *session, uint64_t epoch, uint64_t head)
{
	struct track *track = hash_get(hook->tracks, session, strlen(session));
	if (!track) {
		track = hook_add_track(hook, session);
		track->epoch = epoch;
	}
	take_epoch(track, epoch, head);
	if (track->seq < track->head && !track->is_busy && list_empty(&track->link)) {
		put_in(track, hook_now_ms(hook));
	}
}

/** Cancels the read of a session that has been deleted, or, if it is being told, does nothing. */
static void abandon(struct sender *sender)
{
	struct delivery *delivery = sender->message;
	if (delivery->read) {
		log_read_cancel(delivery->read);
		release(sender, 0);
	}
}

void hook_forget(struct hook *hook, const char *session)
{
	struct track *track = hash_remove(hook->tracks, session, strlen(session));
	if (!track) {
		return;
	}
	if (!track->is_busy) {
		if (!list_empty(&track->link)) {
			take_out(track);
		}
		free_track(track);
		return;
	}
	track->is_gone = true;
	for (size_t i = 0; i < SENDERS; i++) {
		struct sender *sender = &hook->senders.sender[i];
		const struct delivery *delivery = sender->message;
		if (delivery && delivery->track == track) {
			abandon(sender);
		}
	}
}

void hook_init(struct hook *hook, struct webhooks *webhooks)
{
	hook->webhooks = webhooks;
	hook->tracks = hash_create();
	list_init(&hook->due);
	senders_init(&hook->senders, &(struct senders_config){.loop = webhooks->config.loop,
					     .life = webhooks->config.life,
					     .ops = &hook_sender_ops,
					     .owner = hook,
					     .addresses = hook->addresses,
					     .address_count = hook->address_count,
					     .tls = webhooks->tls,
					     .timeout_ms = webhooks->config.limits->webhook_ms,
					     .stop_fd = webhooks->stop_fd});
}

void hook_stop(struct hook *hook)
{
	for (size_t i = 0; i < SENDERS; i++) {
		struct sender *sender = &hook->senders.sender[i];
		struct delivery *delivery = sender->message;
		if (delivery && delivery->read) {
			log_read_cancel(delivery->read);
			session_drop(delivery->session);
			sender_release(sender);
			free_delivery(delivery);
		}
	}
	senders_stop(&hook->senders);
}

static void free_value(void *value, void *arg)
{
	free_track(value);
}

void hook_finish(struct hook *hook)
{
	hash_each(hook->tracks, free_value, NULL);
	hash_destroy(hook->tracks);
	free(hook->addresses);
	free(hook);
}
