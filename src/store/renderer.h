/*
 * A thread that makes HTML of markdown, so that the loop does not: of pages that are asked for, and
 * of what has been written, for events.html. Pages and files take turns.
 */
#ifndef HOLDFAST_RENDERER_H
#define HOLDFAST_RENDERER_H

#include "holdfast/event.h"
#include "holdfast/list.h"

#include <stddef.h>

struct store;
struct session_log;

/** Events of a page that are made ready in a format, some at a time. */
struct page_render {
	struct list link;
	struct event **events; /* borrowed until `done` is called */
	size_t count;
	enum event_format format;
	void (*done)(struct page_render *render);
	size_t next; /* the first one that may not be ready */
};

struct renderer *renderer_create(struct store *store);
/** Nothing may be under way. Accepts NULL. */
void renderer_destroy(struct renderer *renderer);
/** `done` follows, in here if nothing has to be rendered. */
void renderer_page(struct renderer *renderer, struct page_render *render);
/** The rest is not rendered; `done` is called all the same, in a later turn. */
void renderer_cancel(struct page_render *render);
/** A log has got longer: its events.html follows in a while. `now`: somebody reads it. */
void renderer_follow(struct renderer *renderer, struct session_log *log, bool now);
/** The log goes. */
void renderer_forget(struct session_log *log);

#endif
