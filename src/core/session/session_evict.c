/*
 * Eviction: which sessions are in memory. The whole state of an idle session follows from its log,
 * so it can be freed, and restored when it is needed; only the log's few numbers remain in memory.
 */
#include "session_internal.h"

#include <malloc.h>

/* Sessions considered in one tick of the loop. */
#define EVICT_BATCH 64
/* Evictions before freed memory is returned to the system. */
#define TRIM_AFTER 32

void session_note_activity(struct session *session)
{
	struct session_table *table = session->table;
	session->active_at = (int64_t)uv_now(table->loop);
	list_remove(&session->live_link);
	list_append(&table->live, &session->live_link);
}

void session_hold(struct session *session)
{
	session->holds++;
}

void session_drop(struct session *session)
{
	session->holds--;
	session_note_activity(session);
}

size_t session_count_holds(const struct session *session)
{
	return session->holds;
}

static bool is_needed(const struct session *session)
{
	uint64_t synced = store_synced_lsn(session->table->store);
	return session->holds || session->host || session->is_deleted ||
	       !list_empty(&session->channel.observers) || !list_empty(&session->dirty_link) ||
	       !list_empty(&session->touched_link) || !list_empty(&session->waits) ||
	       !list_empty(&session->pending_prompts) || !list_empty(&session->pending_states) ||
	       (uint64_t)session->last_lsn > synced;
}

static void consider(struct session *session)
{
	struct session_log *log = session->log;
	if (is_needed(session) || !session_usage_give_log(session) || !session_is_in_log(session) ||
		session_log_rest(log) < 0) {
		session_note_activity(session);
		return;
	}
	session_log_set_owner(log, NULL);
	session->table->evicted++;
	session_free(session);
}

/** Freed sessions leave holes in the heap, which the allocator keeps unless it is told to trim. */
static void trim_if_due(struct session_table *table)
{
	if (table->evicted >= TRIM_AFTER) {
		table->evicted = 0;
		malloc_trim(0);
	}
}

/** The timer only wakes the loop: session_table_evict() runs at the end of the tick. */
static void handle_timer(uv_timer_t *timer)
{
}

void session_table_evict(struct session_table *table)
{
	int64_t now = (int64_t)uv_now(table->loop);
	int64_t due = INT64_MAX;
	for (size_t i = 0; i < EVICT_BATCH && !list_empty(&table->live); i++) {
		struct session *session = list_entry(table->live.next, struct session, live_link);
		due = session->active_at + table->limits->evict_ms;
		if (due > now) {
			trim_if_due(table);
			break;
		}
		consider(session);
	}
	if (list_empty(&table->live)) {
		trim_if_due(table);
	}
	if (due != INT64_MAX && !uv_is_active((uv_handle_t *)table->evict_timer)) {
		uv_timer_start(
			table->evict_timer, handle_timer, due > now ? (uint64_t)(due - now) : 1, 0);
	}
}
