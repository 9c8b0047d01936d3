/*
 * Damaged sessions that are not served. Their ids stay taken until they are repaired (or the rows of
 * a database restored) and the server starts again, or until they are deleted.
 */
#include "store_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void aside_add(struct store *store, const char *id, int64_t number, uint64_t fence)
{
	struct aside *aside = hash_get(store->aside, id, strlen(id));
	if (!aside) {
		aside = xcalloc(1, sizeof(*aside));
		aside->id = xstrdup(id);
		hash_put(store->aside, id, strlen(id), aside);
		store_add_damaged(store, 1);
	}
	aside->number = number;
	aside->fence = fence;
}

static void free_aside(void *value, void *arg)
{
	struct aside *aside = value;
	free(aside->id);
	free(aside);
}

void aside_remove(struct store *store, const char *id)
{
	struct aside *aside = hash_remove(store->aside, id, strlen(id));
	if (aside) {
		free_aside(aside, NULL);
		store_add_damaged(store, -1);
	}
}

void aside_forget_all(struct store *store)
{
	store_add_damaged(store, -(int)hash_count(store->aside));
	hash_each(store->aside, free_aside, NULL);
	hash_destroy(store->aside);
	store->aside = hash_create();
}

void aside_finish(struct store *store)
{
	hash_each(store->aside, free_aside, NULL);
	hash_destroy(store->aside);
}

static void move_one(void *value, void *arg)
{
	const struct aside *aside = value;
	aside_add(arg, aside->id, aside->number, aside->fence);
}

void aside_move_all(struct store *from, struct store *to)
{
	hash_each(from->aside, move_one, to);
}

enum store_absence store_absence(const struct store *store, const char *id, size_t len)
{
	return hash_get(store->aside, id, len)              ? STORE_DAMAGED
	       : store->engine->is_left_out(store, id, len) ? STORE_UNREADABLE
							    : STORE_PRESENT;
}

/* --- deletion --- */

struct deletion {
	uv_work_t work;
	struct store *store;
	struct aside aside;
	struct list waits; /* struct place_wait; at most one */
	int status;
};

static void work(uv_work_t *req)
{
	struct deletion *deletion = req->data;
	deletion->status = deletion->store->engine->delete_aside(deletion->store, &deletion->aside);
}

static void done(uv_work_t *req, int status)
{
	struct deletion *deletion = req->data;
	struct store *store = deletion->store;
	struct aside *aside;
	store->jobs--;
	if (deletion->status == 0) {
		aside_remove(store, deletion->aside.id);
	} else if ((aside = hash_get(
			    store->aside, deletion->aside.id, strlen(deletion->aside.id)))) {
		aside->is_going = false; /* it can be tried again */
	}
	while (!list_empty(&deletion->waits)) {
		struct place_wait *wait = list_entry(deletion->waits.next, struct place_wait, link);
		list_remove(&wait->link);
		wait->done(wait, deletion->status, PLACE_NOWHERE, NULL);
	}
	free(deletion->aside.id);
	free(deletion);
}

int store_delete_damaged(struct store *store, const char *id, struct place_wait *wait)
{
	struct aside *aside = hash_get(store->aside, id, strlen(id));
	if (!aside || aside->is_going || !server_may(store->life, MAY_INPUT)) {
		return aside ? -EBUSY : -ENOENT;
	}
	struct deletion *deletion = xcalloc(1, sizeof(*deletion));
	deletion->store = store;
	deletion->aside = *aside;
	deletion->aside.id = xstrdup(id);
	deletion->work.data = deletion;
	list_init(&deletion->waits);
	list_append(&deletion->waits, &wait->link);
	aside->is_going = true;
	store->jobs++;
	int r = uv_queue_work(store->loop, &deletion->work, work, done);
	assert(r == 0);
	return 0;
}
