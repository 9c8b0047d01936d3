#include "html_follow.h"

#include "html_file.h"
#include "core/store/embedded/embedded.h"

#include "holdfast/loop.h"

#include <errno.h>
#include <stdlib.h>

/* The most events with HTML in memory that are handed over for a portion of a file. */
#define READY_MOST 1024
/* How long after an append the events are rendered (ms), so that small appends share a portion. */
#define FOLLOW_MS 200
struct html_follower {
	struct store *store;
	uv_timer_t *timer;
	struct list due; /* struct html_log: a queue */
	bool is_due; /* the delay before files are brought up to date is over */
	/* The current portion. */
	struct html_place place;
	struct html_portion portion;
	struct html_ready *ready;
	int status;
};

/** Collects HTML that was rendered for observers, so that it is not rendered again. */
static void take_ready(struct html_follower *follower, struct session_log *log)
{
	struct embedded_log *own = embedded_log_of(log);
	struct html_portion *portion = &follower->portion;
	uint64_t from = session_log_hot_first(log);
	struct log_page page = {.from = own->html.next > from ? own->html.next : from,
		.to = log->last_seq,
		.max_bytes = SIZE_MAX};
	if (!log->hot_count || page.from > page.to) {
		return;
	}
	if (page.to - page.from >= READY_MOST) {
		page.to = page.from + READY_MOST - 1;
	}
	struct event *hot[READY_MOST];
	size_t count = session_log_get_hot(log, &page, hot);
	follower->ready = xcalloc(count, sizeof(*follower->ready));
	portion->ready = follower->ready;
	for (size_t i = 0; i < count; i++) {
		struct event *event = hot[i];
		if (!event->json[FORMAT_HTML]) {
			event_unref(event);
			continue;
		}
		follower->ready[portion->ready_count++] = (struct html_ready){.seq = event->seq,
			.event = event,
			.json = event->json[FORMAT_HTML],
			.len = event->json_len[FORMAT_HTML]};
	}
}

/** Takes the next due log. Skips those whose folder is missing or being pruned until they grow. */
static struct session_log *take_due(struct html_follower *follower)
{
	struct session_log *log = NULL;
	while (!log && !list_empty(&follower->due)) {
		log = list_entry(follower->due.next, struct embedded_log, html.link)->log;
		list_remove(&embedded_log_of(log)->html.link);
		log = embedded_log_of(log)->lacks_folder || embedded_log_of(log)->is_frozen ? NULL
											    : log;
	}
	return log;
}

static bool begin(void *arg)
{
	struct html_follower *follower = arg;
	bool may = follower->is_due && server_may(follower->store->life, MAY_KEEP_UP) &&
		   !store_is_full(follower->store);
	struct session_log *log = may ? take_due(follower) : NULL;
	if (!log) {
		follower->is_due = follower->is_due && !list_empty(&follower->due);
		return false;
	}
	follower->place =
		(struct html_place){.sessions_fd = embedded_of(follower->store)->sessions_fd,
			.id = xstrdup(log->id),
			.epoch = log->epoch,
			.base_seq = log->base_seq};
	follower->portion = (struct html_portion){.log_size = log->written};
	take_ready(follower, log);
	return true;
}

/** On the renderer's thread. */
static void run(void *arg)
{
	struct html_follower *follower = arg;
	follower->status = html_file_add(&follower->place, &follower->portion);
}

static void handle_timer(uv_timer_t *timer)
{
	struct html_follower *follower = timer->data;
	follower->is_due = true;
	renderer_go_on(follower->store->renderer);
}

void html_follow(struct session_log *log, bool now)
{
	struct embedded_log *own = embedded_log_of(log);
	struct html_follower *follower = embedded_of(log->store)->html;
	if (own->html.is_left || log->is_removed) {
		return;
	}
	if (list_empty(&own->html.link)) {
		list_append(&follower->due, &own->html.link);
	}
	if (now) {
		follower->is_due = true;
		renderer_go_on(follower->store->renderer);
	} else if (!follower->is_due && !uv_is_active((uv_handle_t *)follower->timer)) {
		uv_timer_start(follower->timer, handle_timer, FOLLOW_MS, 0);
	}
}

static void end(void *arg)
{
	struct html_follower *follower = arg;
	struct html_portion *portion = &follower->portion;
	struct session_log *log =
		session_log_of(follower->store, follower->place.id, follower->place.epoch);
	for (size_t i = 0; i < portion->ready_count; i++) {
		event_unref(follower->ready[i].event);
	}
	free(follower->ready);
	follower->ready = NULL;
	free((char *)follower->place.id);
	metrics_add(follower->store->metrics, METRIC_EVENTS_RENDERED, portion->rendered);
	if (!log || embedded_log_of(log)->html.is_left) {
		return;
	}
	bool is_same = log->base_seq == follower->place.base_seq;
	if (follower->status == -ESTALE && !embedded_log_of(log)->html.is_anew) {
		embedded_log_of(log)->html.is_anew =
			true; /* only once, else it may repeat for ever */
		html_follow(log, true);
	} else if (follower->status < 0 && is_same) {
		embedded_log_of(log)->html.is_left =
			true; /* until the next start; pages are rendered meanwhile */
	} else if (follower->status == 0) {
		embedded_log_of(log)->html.next = portion->next_seq;
		embedded_log_of(log)->html.is_anew =
			embedded_log_of(log)->html.is_anew && !portion->is_whole;
		if (!portion->is_whole) {
			html_follow(log, true);
		}
	}
}

static const struct renderer_work files = {.begin = begin, .run = run, .end = end};

struct html_follower *html_follower_create(struct store *store)
{
	struct html_follower *follower = xcalloc(1, sizeof(*follower));
	follower->store = store;
	list_init(&follower->due);
	follower->timer = loop_timer(store->loop, follower);
	renderer_share(store->renderer, &files, follower);
	return follower;
}

void html_follower_destroy(struct html_follower *follower)
{
	loop_close(follower->timer);
	free(follower);
}
