/*
 * Pages in another format than the log's. Rendering takes longer than reading, and cmark-gfm is not
 * for several threads (its table of special characters is one for all): it is done on the loop, a
 * few events in a turn, one page after the other.
 */
#include "store_internal.h"

#include "holdfast/loop.h"

/* In one turn of the loop, for all pages: until either is used up. An event is not divided. */
#define TURN_EVENTS 64
#define TURN_NS     2000000
/* Of one page, until the next one has its share. */
#define SHARE_EVENTS 8
#define SHARE_NS     500000

static bool has_time(uint64_t since, uint64_t ns)
{
	return uv_hrtime() - since < ns;
}

/** Returns how many events were rendered. */
static size_t render_share(struct page_render *render)
{
	uint64_t since = uv_hrtime();
	size_t count = 0;
	while (render->next < render->count && count < SHARE_EVENTS && has_time(since, SHARE_NS)) {
		size_t len;
		event_json(render->events[render->next++], render->format, &len);
		count++;
	}
	return count;
}

static void handle_idle(uv_idle_t *idle)
{
	struct store *store = idle->data;
	uint64_t since = uv_hrtime();
	size_t count = 0;
	while (!list_empty(&store->renders) && count < TURN_EVENTS && has_time(since, TURN_NS)) {
		struct page_render *render =
			list_entry(store->renders.next, struct page_render, link);
		list_remove(&render->link);
		count += render_share(render);
		if (render->next < render->count) {
			list_append(&store->renders, &render->link);
		} else {
			store->jobs--;
			render->done(render);
		}
	}
	if (list_empty(&store->renders)) {
		uv_idle_stop(idle);
	}
}

void page_render_init(struct store *store)
{
	list_init(&store->renders);
	store->render_idle = xmalloc(sizeof(*store->render_idle));
	uv_idle_init(store->loop, store->render_idle);
	store->render_idle->data = store;
}

void page_render_finish(struct store *store)
{
	loop_close(store->render_idle);
}

void page_render_start(struct store *store, struct page_render *render)
{
	store->jobs++;
	list_append(&store->renders, &render->link);
	uv_idle_start(store->render_idle, handle_idle);
}

void page_render_cancel(struct page_render *render)
{
	render->next = render->count;
}
