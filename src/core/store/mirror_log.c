/*
 * Mirrors: read-only logs of sessions that another node owns. Memory has the newest events, as that
 * node reports them; the rest is read from the store. A mirror is in no table, so operations on all
 * logs of this node leave it alone.
 */
#include "store_internal.h"

#include <errno.h>
#include <string.h>

uint64_t session_log_number(const struct session_log *log)
{
	return store_is_shared(log->store) ? log->store->engine->nodes->number(log) : 0;
}

struct session_log *session_log_mirror(
	struct store *store, const char *id, const struct log_place *place, void *owner)
{
	if (!store_is_shared(store)) {
		return NULL;
	}
	struct session_log *log = pool_take(&store->by_id.pool);
	bool has_room = strlen(id) < sizeof(log->room);
	log->store = store;
	log->id = has_room ? strcpy(log->room, id) : xstrdup(id);
	log->owner = owner;
	log->epoch = place->epoch;
	log->first_seq = log->base_seq = place->first_seq;
	log->last_seq = place->max_seq;
	log->written = UINT64_MAX; /* the store has all events */
	log->is_removed = log->is_mirror = true;
	list_init(&log->link);
	list_init(&log->keys.waits);
	store->engine->nodes->mirror(log, place->number);
	return log;
}

int session_log_mirror_add(struct session_log *mirror, struct event *event)
{
	if (event->seq != mirror->last_seq + 1) {
		return -EBADMSG;
	}
	mirror->last_seq = event->seq;
	session_log_keep(mirror, event);
	session_log_trim(mirror);
	return 0;
}

void session_log_mirror_prune(struct session_log *mirror, uint64_t first_seq)
{
	if (first_seq > mirror->first_seq && first_seq <= mirror->last_seq + 1) {
		mirror->first_seq = first_seq;
		session_log_forget_before(mirror, first_seq);
	}
}

void session_log_mirror_free(struct session_log *mirror)
{
	session_log_free(mirror);
}
