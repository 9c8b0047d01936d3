/*
 * Left-out sessions, which could not be read when the server started: their files are not changed,
 * and reading them is retried at growing intervals. The journal keeps their records.
 */
#include "embedded.h"

#include "holdfast/loop.h"

#include <stdlib.h>
#include <string.h>

/* The longest pause between two attempts (ms). */
#define RETRY_MAX 60000

static void handle_timer(uv_timer_t *timer);

void left_out_init(struct store *store)
{
	struct embedded_store *emb = embedded_of(store);
	emb->left_out = hash_create();
	emb->left_out_ms = store->limits->journal_retry_ms;
	emb->left_out_timer = loop_timer(store->loop, store);
}

void left_out_forget(struct store *store)
{
	hash_destroy_all(embedded_of(store)->left_out);
}

void left_out_finish(struct store *store)
{
	loop_close(embedded_of(store)->left_out_timer);
	left_out_forget(store);
}

void left_out_add(struct store *store, const char *id)
{
	free(hash_put(embedded_of(store)->left_out, id, strlen(id), xstrdup(id)));
}

void left_out_remove(struct store *store, const char *id)
{
	free(hash_remove(embedded_of(store)->left_out, id, strlen(id)));
}

bool left_out_has(const struct store *store, const char *id, size_t len)
{
	return hash_get(embedded_of(store)->left_out, id, len) != NULL;
}

bool store_keeps_segments(const struct store *store)
{
	const struct embedded_store *emb = embedded_of(store);
	return emb->has_leftover || emb->repair || hash_count(emb->left_out) > 0;
}

void left_out_try_later(struct store *store)
{
	struct embedded_store *emb = embedded_of(store);
	if (hash_count(emb->left_out) && server_may(store->life, MAY_TAKE)) {
		uv_timer_start(emb->left_out_timer, handle_timer, (uint64_t)emb->left_out_ms, 0);
		emb->left_out_ms *= 2;
		emb->left_out_ms = emb->left_out_ms < RETRY_MAX ? emb->left_out_ms : RETRY_MAX;
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
		hash_each(embedded_of(store)->left_out, look, store);
	}
}
