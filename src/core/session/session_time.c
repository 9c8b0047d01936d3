/*
 * A session's two clocks. The `ts` of its inputs comes from the wall clock, which may be set, but
 * it never falls within a session, not even across restarts. Its timers use the session's own
 * clock, which cannot be set: it runs while the session is in memory, also while the machine is
 * suspended. When the session is restored from the disk, that clock continues at the time of the
 * newest input, so timers continue with their remaining time.
 */
#include "session_internal.h"

#include "holdfast/diag.h"

#include <string.h>
#include <unistd.h>

int64_t session_next_ts(struct session *session)
{
	int64_t now = store_now(session->table->store);
	return now > session->last_ts ? now : session->last_ts;
}

void session_note_ts(struct session *session, int64_t ts)
{
	session->last_ts = ts > session->last_ts ? ts : session->last_ts;
}

int64_t session_time(const struct session *session)
{
	return clock_elapsed_ms(session->table->clock) + session->time_shift;
}

void session_time_resume(struct session *session)
{
	session->time_shift = session->last_ts - clock_elapsed_ms(session->table->clock);
}

/* --- setting of the wall clock, and resuming from suspend --- */

static void rearm(struct session *session, void *arg)
{
	session_rearm(session);
}

void session_table_clock_changed(struct session_table *table)
{
	store_now(table->store);
	session_table_each(table, rearm, NULL);
}

static void handle_watch(uv_poll_t *poll, int status, int events)
{
	struct session_table *table = poll->data;
	clock_watch_take(table->watch_fd);
	session_table_clock_changed(table);
}

void session_watch_clock(struct session_table *table)
{
	table->watch_fd = clock_watch_open();
	if (table->watch_fd < 0) {
		diag(DIAG_DEBUG, "cannot notice when the machine wakes up: %s",
			strerror(-table->watch_fd));
		return;
	}
	table->watch = xmalloc(sizeof(*table->watch));
	table->watch->data = table;
	if (uv_poll_init(table->loop, table->watch, table->watch_fd) == 0) {
		uv_poll_start(table->watch, UV_READABLE, handle_watch);
		uv_unref((uv_handle_t *)table->watch);
		return;
	}
	free(table->watch);
	close(table->watch_fd);
	table->watch = NULL;
}

static void free_watch(uv_handle_t *handle)
{
	free(handle);
}

void session_unwatch_clock(struct session_table *table)
{
	if (table->watch) {
		uv_close((uv_handle_t *)table->watch, free_watch);
		close(table->watch_fd); /* only now: uv_close() has removed it from the poll set */
		table->watch = NULL;
	}
}
