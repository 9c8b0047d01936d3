/* Opens a store with its engine, and closes it: the only file above the seam that names an engine. */
#include "store_internal.h"

#include <stdlib.h>

static void store_free(struct store *store)
{
	list_for_each_safe(link, tmp, &store->logs) {
		session_log_free(list_entry(link, struct session_log, link));
	}
	store->engine->free(store);
	aside_finish(store);
	renderer_destroy(store->renderer);
	log_table_finish(&store->by_id);
	blobs_finish(&store->blobs);
	free(store);
}

int store_open(uv_loop_t *loop, const struct store_place *place, const struct limits *limits,
	const struct store_ops *ops, void *owner, struct store **ret_store, char **ret_why)
{
	struct store *store = xcalloc(1, sizeof(*store));
	*store = (struct store){.loop = loop,
		.life = place->life,
		.limits = limits,
		.ops = ops,
		.owner = owner,
		.engine = place->engine ? place->engine : &store_embedded,
		.takes_older = place->takes_older,
		.aside = hash_create(),
		.opening = true};
	log_table_init(&store->by_id);
	blobs_init(&store->blobs);
	list_init(&store->logs);
	store->renderer = renderer_create(store);
	*ret_why = NULL;
	*ret_store = store;
	int r = store->engine->open(store, place, ret_why);
	store->opening = false;
	if (r < 0) {
		store_free(store);
		*ret_store = NULL;
	}
	return r;
}

bool store_close(struct store *store)
{
	if (!store) {
		return true;
	}
	server_reach(store->life, SERVER_CLOSED);
	bool is_idle = store->engine->close(store);
	if (is_idle) {
		store_free(store);
	}
	return is_idle;
}
