/*
 * The part of the store above its engine (engine.h): keeps the list of logs, and passes the engine's
 * reports on to the owner.
 */
#include "store_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void store_count(struct store *store, struct metrics *metrics)
{
	store->metrics = metrics;
	metrics_set(metrics, METRIC_STORE_FAILED, store->error != 0);
	metrics_set(metrics, METRIC_SESSIONS_DAMAGED, store->damaged);
}

void store_add_damaged(struct store *store, int count)
{
	store->damaged += (size_t)count;
	metrics_set(store->metrics, METRIC_SESSIONS_DAMAGED, store->damaged);
}

size_t store_count_damaged(const struct store *store)
{
	return store->damaged;
}

bool store_journal_is_damaged(const struct store *store)
{
	return store->journal_is_damaged;
}

int store_sync(struct store *store)
{
	return store->engine->sync(store);
}

struct session_log *store_get_session(const struct store *store, const char *id, size_t len)
{
	return log_table_get(&store->by_id, id, len);
}

size_t store_count_sessions(const struct store *store)
{
	return store->by_id.count;
}

void store_each_session(
	struct store *store, void (*visit)(struct session_log *log, void *arg), void *arg)
{
	list_for_each(link, &store->logs) {
		visit(list_entry(link, struct session_log, link), arg);
	}
}

void session_log_set_owner(struct session_log *log, void *owner)
{
	log->owner = owner;
}

void *session_log_owner(const struct session_log *log)
{
	return log->owner;
}

void session_log_rewind(struct session_log *log)
{
	log->rewind = true;
}

int store_replay(struct session_log *log, const struct record *record)
{
	struct store *store = log->store;
	store->is_replaying = true;
	int r = store->ops->replay(log->owner, record);
	store->is_replaying = false;
	return r;
}

void store_take_snapshots(struct store *store)
{
	store->snapshot_round++;
	store->takes_snapshots = true;
	list_for_each(link, &store->logs) {
		const struct session_log *log = list_entry(link, struct session_log, link);
		if (log->owner) {
			store->ops->snapshot(log->owner);
		}
	}
	store->takes_snapshots = false;
}

void store_recovered(struct store *store)
{
	store->ops->recovered(store->owner);
	store_take_snapshots(store);
}

/* --- groups --- */

void store_kick(struct store *store)
{
	if (server_may(store->life, MAY_WRITE)) {
		store->engine->launch(store);
	}
}

enum storage_kind store_storage(const struct store *store)
{
	return store->engine->storage;
}

bool store_is_failing(const struct store *store)
{
	return store->error != 0;
}

size_t store_backlog(const struct store *store)
{
	return store->engine->backlog(store);
}

uint64_t store_synced_lsn(const struct store *store)
{
	return store->synced_lsn;
}

void store_synced(struct store *store, uint64_t lsn)
{
	bool revived = store->error != 0;
	store->error = 0;
	store->synced_lsn = lsn;
	store->ops->synced(store->owner, lsn);
	metrics_set(store->metrics, METRIC_STORE_FAILED, 0);
	if (revived) {
		store->ops->revived(store->owner);
	}
}

static void begin_rewind(struct store *store)
{
	bool is_wanted = false;
	list_for_each(link, &store->logs) {
		is_wanted = is_wanted || list_entry(link, struct session_log, link)->rewind;
	}
	if (is_wanted && !store->is_rewinding && server_may(store->life, MAY_KEEP_UP)) {
		store->is_rewinding = true;
		store->engine->rewind(store);
	}
}

void store_failed(struct store *store, int error, uint64_t in_doubt_lsn)
{
	bool was_failing = store->error != 0;
	store->error = error;
	metrics_set(store->metrics, METRIC_STORE_FAILED, 1);
	if (!was_failing) {
		store->ops->failed(store->owner, error, in_doubt_lsn);
		begin_rewind(store);
	}
}

int store_try_again(struct store *store)
{
	int r = store->ops->rewind(store->owner);
	if (r < 0) {
		begin_rewind(store);
	}
	return r;
}

void store_rewound(struct store *store, int status)
{
	store->is_rewinding = false;
	if (server_may(store->life, MAY_KEEP_UP)) {
		list_for_each(link, &store->logs) {
			list_entry(link, struct session_log, link)->rewind = false;
		}
		store->ops->rewound(store->owner, status);
	}
}

void store_fenced(struct session_log *log)
{
	/* Callbacks that look the session up again must not find this log. */
	session_log_hide(log);
	log->store->ops->fenced(log, log->store->owner);
	blobs_forget(log->store, log->id);
	session_log_free(log);
}

/* --- sessions --- */

int64_t store_create_session(struct store *store, const char *id, uint64_t epoch,
	int64_t created_at, const char *data, size_t len, struct session_log **ret_log)
{
	struct session_log *log =
		session_log_new(store, id, epoch, created_at, store->ops->facts->create(data, len));
	int64_t lsn = session_log_append(log, RECORD_CREATE, created_at, data, len);
	if (lsn < 0) {
		session_log_free(log);
		return lsn;
	}
	*ret_log = log;
	return lsn;
}

void store_remove_session(struct session_log *log)
{
	blobs_forget(log->store, log->id);
	log->store->engine->remove(log);
}

int64_t store_now(struct store *store)
{
	return store->engine->now(store);
}

bool store_is_shared(const struct store *store)
{
	return store_node_key(store) != NULL;
}

bool store_has_lease(const struct store *store)
{
	return !store_is_shared(store) || store->engine->nodes->has_lease(store);
}

void store_seek(struct store *store, const char *id, struct place_wait *wait)
{
	store->engine->nodes->seek(store, id, wait);
}

void place_wait_cancel(struct place_wait *wait)
{
	if (wait->link.next) {
		list_remove(&wait->link);
	}
}

void store_hand_over_most(struct store *store, bool (*stays)(void *arg, const char *id), void *arg)
{
	if (store_is_shared(store) && store->error == 0) {
		store->engine->nodes->hand_over_most(store, stays, arg);
	}
}

void store_hand_over(struct store *store)
{
	if (store_is_shared(store) && store->error == 0) {
		store->engine->nodes->hand_over(store);
	}
}

const unsigned char *store_node_key(const struct store *store)
{
	const struct engine_nodes_ops *nodes = store->engine->nodes;
	return nodes ? nodes->key(store) : NULL;
}

const struct shelf *store_shelf(struct store *store)
{
	const struct engine_nodes_ops *nodes = store->engine->nodes;
	return nodes ? nodes->shelf(store) : NULL;
}

void store_prune(struct store *store)
{
	store->engine->prune(store);
}

void session_log_save(struct session_log *log)
{
	log->store->engine->save(log);
}

int session_log_change_epoch(
	struct session_log *log, uint64_t epoch, int64_t ts, const struct buffer *snapshot)
{
	return log->store->engine->change_epoch(log, epoch, ts, snapshot);
}
