#include "renderer.h"

#include "html_file.h"
#include "store_internal.h"

#include "holdfast/loop.h"
#include "holdfast/worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Events of a page that are rendered at a time. */
#define SLICE 64
/* The most events with HTML in memory that are handed over for a portion of a file. */
#define READY_MOST 1024
/* How long after an append the events are rendered (ms), so that small appends share a portion. */
#define FOLLOW_MS 200
/* The thread's priority: lower than the loop's, as only readers of HTML wait for it. */
#define NICENESS 5

struct renderer {
	struct store *store;
	struct worker *worker;
	uv_timer_t *timer;
	struct list pages; /* struct page_render: a queue */
	struct list due; /* session_log.html_link: a queue */
	bool is_busy; /* the thread is at work */
	bool is_telling; /* inside done() of a page */
	bool is_due; /* the delay before files are brought up to date is over */
	bool had_page; /* the last piece of work was of a page */
	bool is_nice; /* the thread has set its priority */
	/*
	 * The current piece of work: a slice of a page, or, if `page` is NULL, a portion of a file.
	 */
	struct page_render *page;
	struct event *slice[SLICE];
	struct buffer made[SLICE];
	size_t count;
	struct html_place place;
	struct html_portion portion;
	struct html_ready *ready;
	int status;
};

static void go_on(struct renderer *renderer);

/* --- on the thread --- */

static void run(void *arg)
{
	struct renderer *renderer = arg;
	if (!renderer->is_nice) {
		/* On Linux this sets the priority of the calling thread only. */
		(void)!setpriority(PRIO_PROCESS, 0, NICENESS);
		renderer->is_nice = true;
	}
	if (!renderer->page) {
		renderer->status = html_file_add(&renderer->place, &renderer->portion);
		return;
	}
	for (size_t i = 0; i < renderer->count; i++) {
		event_render(renderer->slice[i], renderer->page->format, &renderer->made[i]);
	}
}

/* --- pages, on the loop --- */

/** Takes the next slice of a page; false if nothing is left to be rendered. */
static bool take_slice(struct renderer *renderer, struct page_render *page)
{
	renderer->count = 0;
	while (page->next < page->count && renderer->count < SLICE) {
		struct event *event = page->events[page->next++];
		if (event_needs_rendering(event, page->format)) {
			renderer->slice[renderer->count++] = event;
		}
	}
	return renderer->count;
}

/**
 * Takes the next page that needs rendering; those that do not are completed. False: no such page.
 */
static bool begin_page(struct renderer *renderer)
{
	while (!list_empty(&renderer->pages)) {
		struct page_render *page =
			list_entry(renderer->pages.next, struct page_render, link);
		list_remove(&page->link);
		if (take_slice(renderer, page)) {
			renderer->page = page;
			return true;
		}
		renderer->store->jobs--;
		renderer->is_telling = true;
		page->done(page);
		renderer->is_telling = false;
	}
	return false;
}

static void end_page(struct renderer *renderer)
{
	struct page_render *page = renderer->page;
	for (size_t i = 0; i < renderer->count; i++) {
		event_give(renderer->slice[i], page->format, &renderer->made[i]);
	}
	metrics_add(renderer->store->metrics, METRIC_EVENTS_RENDERED, renderer->count);
	renderer->page = NULL;
	list_append(&renderer->pages, &page->link);
}

void renderer_page(struct renderer *renderer, struct page_render *page)
{
	renderer->store->jobs++;
	list_append(&renderer->pages, &page->link);
	go_on(renderer);
}

void renderer_cancel(struct page_render *page)
{
	page->next = page->count;
}

/* --- files, on the loop --- */

/** Collects HTML that was rendered for observers, so that it is not rendered again. */
static void take_ready(struct renderer *renderer, struct session_log *log)
{
	struct html_portion *portion = &renderer->portion;
	uint64_t from = session_log_hot_first(log);
	struct log_page page = {.from = log->html_next > from ? log->html_next : from,
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
	renderer->ready = xcalloc(count, sizeof(*renderer->ready));
	portion->ready = renderer->ready;
	for (size_t i = 0; i < count; i++) {
		struct event *event = hot[i];
		if (!event->json[FORMAT_HTML]) {
			event_unref(event);
			continue;
		}
		renderer->ready[portion->ready_count++] = (struct html_ready){.seq = event->seq,
			.event = event,
			.json = event->json[FORMAT_HTML],
			.len = event->json_len[FORMAT_HTML]};
	}
}

/** Takes the next due log. Skips those whose folder is missing or being pruned until they grow. */
static struct session_log *take_due(struct renderer *renderer)
{
	struct session_log *log = NULL;
	while (!log && !list_empty(&renderer->due)) {
		log = list_entry(renderer->due.next, struct session_log, html_link);
		list_remove(&log->html_link);
		log = log->lacks_folder || log->is_frozen ? NULL : log;
	}
	return log;
}

static bool begin_file(struct renderer *renderer)
{
	bool may = renderer->is_due && server_may(renderer->store->life, MAY_KEEP_UP) &&
		   !store_is_full(renderer->store);
	struct session_log *log = may ? take_due(renderer) : NULL;
	if (!log) {
		return false;
	}
	renderer->place = (struct html_place){.sessions_fd = renderer->store->sessions_fd,
		.id = xstrdup(log->id),
		.epoch = log->epoch,
		.base_seq = log->base_seq};
	renderer->portion = (struct html_portion){.log_size = log->written};
	take_ready(renderer, log);
	return true;
}

static void end_file(struct renderer *renderer)
{
	struct html_portion *portion = &renderer->portion;
	struct session_log *log =
		session_log_of(renderer->store, renderer->place.id, renderer->place.epoch);
	for (size_t i = 0; i < portion->ready_count; i++) {
		event_unref(renderer->ready[i].event);
	}
	free(renderer->ready);
	renderer->ready = NULL;
	free((char *)renderer->place.id);
	metrics_add(renderer->store->metrics, METRIC_EVENTS_RENDERED, portion->rendered);
	if (!log || log->html_is_left) {
		return;
	}
	bool is_same = log->base_seq == renderer->place.base_seq;
	if (renderer->status == -ESTALE && !log->html_is_anew) {
		log->html_is_anew = true; /* only once, else it may repeat for ever */
		renderer_follow(renderer, log, true);
	} else if (renderer->status < 0 && is_same) {
		log->html_is_left = true; /* until the next start; pages are rendered meanwhile */
	} else if (renderer->status == 0) {
		log->html_next = portion->next_seq;
		log->html_is_anew = log->html_is_anew && !portion->is_whole;
		if (!portion->is_whole) {
			renderer_follow(renderer, log, true);
		}
	}
}

static void handle_timer(uv_timer_t *timer)
{
	struct renderer *renderer = timer->data;
	renderer->is_due = true;
	go_on(renderer);
}

void renderer_follow(struct renderer *renderer, struct session_log *log, bool now)
{
	if (log->html_is_left || log->is_removed) {
		return;
	}
	if (list_empty(&log->html_link)) {
		list_append(&renderer->due, &log->html_link);
	}
	if (now) {
		renderer->is_due = true;
		go_on(renderer);
	} else if (!renderer->is_due && !uv_is_active((uv_handle_t *)renderer->timer)) {
		uv_timer_start(renderer->timer, handle_timer, FOLLOW_MS, 0);
	}
}

void renderer_forget(struct session_log *log)
{
	list_remove(&log->html_link);
}

/* --- pages and files in turn --- */

static void handle_done(void *arg)
{
	struct renderer *renderer = arg;
	renderer->is_busy = false;
	renderer->had_page = renderer->page != NULL;
	renderer->store->jobs--;
	if (renderer->page) {
		end_page(renderer);
	} else {
		end_file(renderer);
	}
	go_on(renderer);
}

static void go_on(struct renderer *renderer)
{
	if (renderer->is_busy || renderer->is_telling) {
		return;
	}
	bool begun = renderer->had_page && begin_file(renderer);
	if (!begun && !begin_page(renderer) && !begin_file(renderer)) {
		renderer->is_due = renderer->is_due && !list_empty(&renderer->due);
		return;
	}
	renderer->is_busy = true;
	renderer->store->jobs++;
	worker_start(renderer->worker);
}

struct renderer *renderer_create(struct store *store)
{
	struct renderer *renderer = xcalloc(1, sizeof(*renderer));
	renderer->store = store;
	list_init(&renderer->pages);
	list_init(&renderer->due);
	renderer->worker = worker_create(store->loop, run, handle_done, renderer);
	renderer->timer = loop_timer(store->loop, renderer);
	return renderer;
}

void renderer_destroy(struct renderer *renderer)
{
	loop_close(renderer->timer);
	worker_destroy(renderer->worker);
	free(renderer);
}
