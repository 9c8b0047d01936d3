/*
 * Delivers the messages of a hook. Sessions with new events wait in one list, ordered by when they
 * are due, from which a few senders take them. A sender looks for the next event that causes a
 * message, in memory or on disk, sends the message, and puts the session back if more events
 * follow. If a delivery fails, the session is due again after a pause; its later messages wait
 * behind that one.
 */
#include "webhook_internal.h"

#include "holdfast/diag.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Events that are searched at a time. */
#define LOOK_EVENTS 256
/* Events without a message after which the cursor is written to the file. */
#define STORE_EVERY 1000
/* Fewest attempts before a message that is too old is given up. */
#define ATTEMPTS_MIN      8
#define RETRY_AFTER_MAX_S 3600

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

/** Frees the sender. The session goes back into the list if more is to be done. */
static void release(struct sender *sender, int64_t pause_ms)
{
	struct track *track = sender->track;
	struct hook *hook = sender->hook;
	sender->track = NULL;
	track->is_busy = false;
	count_behind(hook, -1);
	if (track->is_gone) {
		free_track(track);
	} else if (track->seq < track->head || pause_ms) {
		put_in(track, hook_now_ms(hook) + pause_ms);
	}
}

static int64_t pause_ms(const struct track *track)
{
	const struct limits *limits = track->hook->webhooks->config.limits;
	unsigned doubled = track->attempts - 1 < 30 ? track->attempts - 1 : 30;
	int64_t pause = limits->webhook_retry_ms << doubled;
	return pause < limits->webhook_retry_max_ms ? pause : limits->webhook_retry_max_ms;
}

/** Describes a failure, without the path of the URL, which may be a secret. */
static void describe(const struct sender *sender, char ret[160])
{
	int result = sender->result;
	if (result < 0) {
		snprintf(ret, 160, "%s",
			result == -EACCES
				? "the host has no allowed address (see --webhook-address)"
				: strerror(-result));
	} else {
		snprintf(ret, 160, "answer %d", result);
	}
}

static void tell_failed(struct sender *sender)
{
	char why[160];
	describe(sender, why);
	set_failing(sender->track, why);
}

static void tell_given_up(const struct sender *sender)
{
	char why[160];
	describe(sender, why);
	diag(DIAG_WARN, "the webhook at %s is not told of %s in session %s, event %llu: %s",
		sender->hook->url.host, webhook_kind_name(sender->kind), sender->track->session,
		(unsigned long long)sender->seq, why);
}

static bool is_given_up(const struct sender *sender)
{
	const struct webhooks_config *config = &sender->hook->webhooks->config;
	int64_t age = clock_now_ms(config->clock) - sender->ts;
	return sender->result == 410 ||
	       (age > config->limits->webhook_keep_ms && sender->track->attempts >= ATTEMPTS_MIN);
}

static void go_on(struct sender *sender)
{
	struct track *track = sender->track;
	track->attempts = 0;
	set_failing(track, NULL);
	track->seq = sender->seq;
	if (!track->is_gone) {
		store(track);
	}
	release(sender, 0);
}

static void take_result(struct sender *sender)
{
	struct hook *hook = sender->hook;
	struct metrics *metrics = hook->webhooks->config.metrics;
	int64_t wanted = sender->retry_s < RETRY_AFTER_MAX_S ? sender->retry_s : RETRY_AFTER_MAX_S;
	if (sender->result >= 200 && sender->result < 300) {
		metrics_add(metrics, METRIC_WEBHOOKS_SENT, 1);
		go_on(sender);
	} else if (is_given_up(sender)) {
		metrics_add(metrics, METRIC_WEBHOOKS_GIVEN_UP, 1);
		tell_given_up(sender);
		go_on(sender);
	} else {
		metrics_add(metrics, METRIC_WEBHOOKS_RETRIED, 1);
		tell_failed(sender);
		if (wanted) {
			hook->not_before_ms = hook_now_ms(hook) + 1000 * wanted;
		}
		release(sender, pause_ms(sender->track));
	}
}

static void end_worker(struct sender *sender)
{
	if (sender->worker) {
		worker_destroy(sender->worker);
		sender->worker = NULL;
	}
}

static void handle_done(void *arg)
{
	struct sender *sender = arg;
	if (!server_may(sender->hook->webhooks->config.life, MAY_TELL)) {
		sender->track->is_busy = false;
		if (sender->track->is_gone) {
			free_track(sender->track);
		}
		sender->track = NULL;
		end_worker(sender);
		return;
	}
	take_result(sender);
	hook_send_due(sender->hook);
}

/* --- on a sender's thread --- */

static void handle_run(void *arg)
{
	struct sender *sender = arg;
	const struct hook *hook = sender->hook;
	sender->result = post_send(&(struct post){.addresses = hook->addresses,
					   .address_count = hook->address_count,
					   .tls = hook->webhooks->tls,
					   .url = &hook->url,
					   .headers = buffer_cstr(&sender->headers),
					   .body = &sender->body,
					   .timeout_ms = hook->webhooks->config.limits->webhook_ms,
					   .stop_fd = hook->webhooks->stop_fd},
		sender->now_s, &sender->retry_s);
}

/* --- searching the log --- */

static void begin_post(struct sender *sender)
{
	struct track *track = sender->track;
	char id[WEBHOOK_ID_SIZE];
	const struct webhooks *webhooks = sender->hook->webhooks;
	webhook_make_id(track->session, track->epoch, sender->seq, id);
	buffer_clear(&sender->headers);
	buffer_clear(&sender->body);
	webhook_append_body(&sender->body, &(struct webhook_facts){.session = track->session,
						   .epoch = track->epoch,
						   .seq = sender->seq,
						   .kind = sender->kind,
						   .ts = sender->ts});
	sender->now_s = clock_now_ms(webhooks->config.clock) / 1000;
	webhook_append_headers(
		&sender->headers, &webhooks->secrets, id, sender->now_s, &sender->body);
	track->attempts++;
	worker_start(sender->worker);
}

/**
 * Advances over events, whose references it takes, to one that causes a message. False if none
 * does.
 */
static bool take_events(struct sender *sender, struct event **events, size_t count)
{
	struct track *track = sender->track;
	bool found = false;
	for (size_t i = 0; i < count; i++) {
		enum webhook_kind kind = found ? WEBHOOK_NONE : webhook_kind_of(events[i]);
		if (kind != WEBHOOK_NONE) {
			struct event_view view;
			event_get_view(events[i], &view);
			found = true;
			sender->seq = view.seq;
			sender->kind = kind;
			sender->ts = view.ts;
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
	struct hook *hook = sender->hook;
	sender->read = NULL;
	session_drop(sender->session);
	sender->session = NULL;
	sender->was_cold = true;
	if (status < 0) {
		sender->track->attempts++;
		release(sender, pause_ms(sender->track));
	} else if (take_events(sender, events, count)) {
		begin_post(sender);
	} else {
		look(sender);
	}
	hook_send_due(hook);
}

/** Searches the next events. Returns true if they were in memory, and none causes a message. */
static bool look_once(struct sender *sender, struct session *session)
{
	struct track *track = sender->track;
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
		bool found = take_events(sender, events, count);
		if (found) {
			begin_post(sender);
		}
		return !found;
	}
	sender->read = session_log_read(log, &page, handle_read, sender);
	if (!sender->read) {
		track->attempts++;
		release(sender, pause_ms(track));
		return false;
	}
	sender->session = session;
	session_hold(session);
	return false;
}

/** The session cannot be read for now, or no longer exists. */
static void look_later(struct sender *sender)
{
	struct track *track = sender->track;
	struct hook *hook = sender->hook;
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
	struct track *track = sender->track;
	struct session *session = session_table_get(
		sender->hook->webhooks->config.sessions, track->session, strlen(track->session));
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
	if (track->seq - track->stored >= STORE_EVERY || sender->was_cold) {
		store(track);
	}
	release(sender, 0);
}

/* --- hooks --- */

static struct sender *find_sender(struct hook *hook)
{
	for (size_t i = 0; i < HOOK_SENDERS; i++) {
		if (!hook->senders[i].track) {
			return &hook->senders[i];
		}
	}
	return NULL;
}

static void handle_timer(uv_timer_t *timer)
{
	hook_send_due(timer->data);
}

void hook_send_due(struct hook *hook)
{
	struct sender *sender;
	while (!list_empty(&hook->due) && server_may(hook->webhooks->config.life, MAY_TELL) &&
		(sender = find_sender(hook))) {
		struct track *track = list_entry(hook->due.next, struct track, link);
		int64_t due =
			track->due_ms > hook->not_before_ms ? track->due_ms : hook->not_before_ms;
		int64_t wait = due - hook_now_ms(hook);
		if (wait > 0) {
			uv_timer_start(&hook->timer, handle_timer, (uint64_t)wait, 0);
			break;
		}
		take_out(track);
		count_behind(hook, 1);
		track->is_busy = true;
		sender->track = track;
		sender->was_cold = false;
		look(sender);
	}
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

/** Cancels a sender's read of a session that has been deleted. */
static void abandon(struct sender *sender)
{
	if (sender->read) {
		log_read_cancel(sender->read);
		sender->read = NULL;
		sender->session = NULL;
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
	for (size_t i = 0; i < HOOK_SENDERS; i++) {
		if (hook->senders[i].track == track) {
			abandon(&hook->senders[i]);
		}
	}
}

void hook_init(struct hook *hook, struct webhooks *webhooks)
{
	hook->webhooks = webhooks;
	hook->tracks = hash_create();
	list_init(&hook->due);
	uv_timer_init(webhooks->config.loop, &hook->timer);
	hook->timer.data = hook;
	for (size_t i = 0; i < HOOK_SENDERS; i++) {
		struct sender *sender = &hook->senders[i];
		sender->hook = hook;
		sender->worker =
			worker_create(webhooks->config.loop, handle_run, handle_done, sender);
	}
}

void hook_stop(struct hook *hook)
{
	uv_close((uv_handle_t *)&hook->timer, NULL);
	for (size_t i = 0; i < HOOK_SENDERS; i++) {
		struct sender *sender = &hook->senders[i];
		if (sender->read) {
			log_read_cancel(sender->read);
			session_drop(sender->session);
			sender->read = NULL;
			sender->session = NULL;
			sender->track->is_busy = false;
			sender->track = NULL;
		}
		if (!sender->track) {
			end_worker(sender);
		}
	}
}

static void free_value(void *value, void *arg)
{
	free_track(value);
}

void hook_finish(struct hook *hook)
{
	for (size_t i = 0; i < HOOK_SENDERS; i++) {
		buffer_finish(&hook->senders[i].headers);
		buffer_finish(&hook->senders[i].body);
	}
	hash_each(hook->tracks, free_value, NULL);
	hash_destroy(hook->tracks);
	free(hook->addresses);
	free(hook);
}
