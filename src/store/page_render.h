/* Pages that were read are made ready in the format they are asked for. */
#ifndef HOLDFAST_PAGE_RENDER_H
#define HOLDFAST_PAGE_RENDER_H

#include "holdfast/event.h"
#include "holdfast/list.h"

#include <stddef.h>

struct store;

/** Events of a page that are made ready in a format, a few in each turn of the loop. */
struct page_render {
	struct list link;
	struct event **events; /* borrowed until `done` is called */
	size_t count;
	enum event_format format;
	void (*done)(struct page_render *render);
	size_t next; /* the first one that is not ready */
};

void page_render_init(struct store *store);
/** Nothing may be under way. */
void page_render_finish(struct store *store);
void page_render_start(struct store *store, struct page_render *render);
/** The rest is not rendered; `done` is called all the same, in the next turn. */
void page_render_cancel(struct page_render *render);

#endif
