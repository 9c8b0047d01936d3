/*
 * A thread that renders HTML, to relieve the loop: for pages that clients request, and for
 * events.html after events were written. Pages and files take turns.
 */
#ifndef HOLDFAST_RENDERER_H
#define HOLDFAST_RENDERER_H

#include "holdfast/event.h"
#include "holdfast/list.h"

#include <stddef.h>

struct store;
struct session_log;

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
/** A log has grown: brings its events.html up to date, after a delay unless `now`. */
void renderer_follow(struct renderer *renderer, struct session_log *log, bool now);
/** The log is about to be freed. */
void renderer_forget(struct session_log *log);

#endif
