/*
 * Left-out sessions, which could not be read when the server started: their files are not changed,
 * and reading them is retried at growing intervals. The journal keeps their records.
 */
#include "store_internal.h"

#include "holdfast/loop.h"

#include <stdlib.h>
#include <string.h>

/* The longest pause between two attempts (ms). */
#define RETRY_MAX 60000

static void handle_timer(uv_timer_t *timer);

void left_out_init(struct store *store)
{
	store->left_out = hash_create();
	store->left_out_ms = store->limits->journal_retry_ms;
	store->left_out_timer = loop_timer(store->loop, store);
}

void left_out_forget(struct store *store)
{
	hash_destroy_all(store->left_out);
}

void left_out_finish(struct store *store)
{
	loop_close(store->left_out_timer);
	left_out_forget(store);
}

void left_out_add(struct store *store, const char *id)
{
	free(hash_put(store->left_out, id, strlen(id), xstrdup(id)));
}

void left_out_remove(struct store *store, const char *id)
{
	free(hash_remove(store->left_out, id, strlen(id)));
}

bool left_out_has(const struct store *store, const char *id, size_t len)
{
	return hash_get(store->left_out, id, len) != NULL;
}

bool store_keeps_segments(const struct store *store)
{
	return store->has_leftover || store->repair || hash_count(store->left_out) > 0;
}

void left_out_try_later(struct store *store)
{
	if (hash_count(store->left_out) && server_may(store->life, MAY_TAKE)) {
		uv_timer_start(
			store->left_out_timer, handle_timer, (uint64_t)store->left_out_ms, 0);
		store->left_out_ms *= 2;
		store->left_out_ms =
			store->left_out_ms < RETRY_MAX ? store->left_out_ms : RETRY_MAX;
	}
}

static void look(void *id, void *arg)
{
	look_back_for(arg, id);
}

static void handle_timer(uv_timer_t *timer)
{
	struct store *store = timer->data;
	if (server_may(store->life, MAY_TAKE)) {
		hash_each(store->left_out, look, store);
	}
}
