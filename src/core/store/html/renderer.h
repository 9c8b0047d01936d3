/*
 * A thread that renders HTML, to relieve the loop: for pages that clients request, and what an
 * engine keeps of it (html_follow.h). They take turns.
 */
#ifndef HOLDFAST_RENDERER_H
#define HOLDFAST_RENDERER_H

#include "holdfast/event.h"
#include "holdfast/list.h"

#include <stdbool.h>
#include <stddef.h>

struct store;

/** A page whose events are prepared in a format, some at a time. */
struct page_render {
	struct list link;
	struct event **events; /* borrowed until `done` is called */
	size_t count;
	enum event_format format;
	void (*done)(struct page_render *render);
	size_t next; /* the first event that may not be prepared */
};

struct renderer *renderer_create(struct store *store);
/** No work may be in progress. */
void renderer_destroy(struct renderer *renderer);
/** Prepares a page and calls `done`, inside this call if nothing has to be rendered. */
void renderer_page(struct renderer *renderer, struct page_render *render);
/** Skips the rest of a page; `done` is still called, in a later turn. */
void renderer_cancel(struct page_render *render);

/** Work of an engine on the thread, a piece at a time. */
struct renderer_work {
	bool (*begin)(void *arg); /* takes the next piece; false: there is none */
	void (*run)(void *arg); /* on the thread */
	void (*end)(void *arg);
};
void renderer_share(struct renderer *renderer, const struct renderer_work *work, void *arg);
/** Begins the next piece of work, if there is some and the thread is idle. */
void renderer_go_on(struct renderer *renderer);

#endif
