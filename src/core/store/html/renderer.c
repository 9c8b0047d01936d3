#include "renderer.h"

#include "core/store/store_internal.h"

#include "holdfast/worker.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* Events of a page that are rendered at a time. */
#define SLICE 64
/* The thread's priority: lower than the loop's, as only readers of HTML wait for it. */
#define NICENESS 5

struct renderer {
	struct store *store;
	struct worker *worker;
	const struct renderer_work *work; /* of the engine, or NULL */
	void *work_arg;
	struct list pages; /* struct page_render: a queue */
	bool is_busy; /* the thread is at work */
	bool is_telling; /* inside done() of a page */
	bool had_page; /* the last piece of work was of a page */
	bool is_nice; /* the thread has set its priority */
	/* The current piece of work: a slice of a page, or, if `page` is NULL, the engine's. */
	struct page_render *page;
	struct event *slice[SLICE];
	struct buffer made[SLICE];
	size_t count;
};

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
		renderer->work->run(renderer->work_arg);
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
	renderer_go_on(renderer);
}

void renderer_cancel(struct page_render *page)
{
	page->next = page->count;
}

/* --- pages and the engine's work in turn --- */

void renderer_share(struct renderer *renderer, const struct renderer_work *work, void *arg)
{
	renderer->work = work;
	renderer->work_arg = arg;
}

static bool begin_work(struct renderer *renderer)
{
	return renderer->work && renderer->work->begin(renderer->work_arg);
}

static void handle_done(void *arg)
{
	struct renderer *renderer = arg;
	renderer->is_busy = false;
	renderer->had_page = renderer->page != NULL;
	renderer->store->jobs--;
	if (renderer->page) {
		end_page(renderer);
	} else {
		renderer->work->end(renderer->work_arg);
	}
	renderer_go_on(renderer);
}

void renderer_go_on(struct renderer *renderer)
{
	if (renderer->is_busy || renderer->is_telling) {
		return;
	}
	bool begun = renderer->had_page && begin_work(renderer);
	if (!begun && !begin_page(renderer) && !begin_work(renderer)) {
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
	renderer->worker = worker_create(store->loop, run, handle_done, renderer);
	return renderer;
}

void renderer_destroy(struct renderer *renderer)
{
	worker_destroy(renderer->worker);
	free(renderer);
}
