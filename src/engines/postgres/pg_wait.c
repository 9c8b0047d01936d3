/*
 * The start of a server whose database is down, starting, or not promoted yet: it waits. Connecting
 * blocks, for as long as a dead machine does not answer, so it happens on the thread pool, while the
 * loop waits for the signal to stop. That also abandons an attempt that is on its way.
 */
#include "pg.h"
#include "pg_nodes.h"

#include "holdfast/diag.h"
#include "holdfast/loop.h"

#include <errno.h>
#include <stdlib.h>

/* Time between two attempts (ms). */
#define PAUSE_MS 500
/* How often it is logged what the server waits for (ms). */
#define TELL_MS 15000

struct attempt {
	uv_work_t work; /* first */
	struct waiting *waiting; /* NULL: abandoned */
	char *address;
	struct pg_conn conn;
	bool is_done; /* on the loop */
	bool may_come;
	int status;
	char *why;
};

struct waiting {
	struct pg *pg;
	const struct server_life *life;
	struct attempt *attempt; /* on its way, or over */
	uv_timer_t *pause;
	bool is_over;
	uint64_t began_ns;
	uint64_t told_ns; /* 0: not yet */
};

static int64_t ms_since(uint64_t ns)
{
	return (int64_t)((uv_hrtime() - ns) / 1000000);
}

static void free_attempt(struct attempt *attempt)
{
	if (attempt) {
		pg_disconnect(&attempt->conn);
		free(attempt->address);
		free(attempt->why);
		free(attempt);
	}
}

static bool is_late(const struct waiting *waiting)
{
	return ms_since(waiting->began_ns) >= waiting->pg->store->limits->database_wait_ms;
}

static void tell(struct waiting *waiting, const char *why)
{
	int64_t left_ms =
		waiting->pg->store->limits->database_wait_ms - ms_since(waiting->began_ns);
	if (!waiting->told_ns || ms_since(waiting->told_ns) >= TELL_MS) {
		diag(DIAG_WARN, "the database cannot be used yet: %s; waiting for it, up to %lld s",
			why, (long long)(left_ms + 999) / 1000);
		waiting->told_ns = uv_hrtime();
	}
}

static void attempt_work(uv_work_t *work)
{
	struct attempt *attempt = (struct attempt *)work;
	attempt->status = pg_connect(&attempt->conn, attempt->address, PG_WRITABLE, &attempt->why);
	attempt->may_come = attempt->status == -ENOTCONN && pg_may_come(attempt->address);
}

static void handle_pause(uv_timer_t *timer);

static void attempt_done(uv_work_t *work, int status)
{
	struct attempt *attempt = (struct attempt *)work;
	struct waiting *waiting = attempt->waiting;
	if (!waiting) {
		free_attempt(attempt);
		return;
	}
	attempt->is_done = true;
	waiting->is_over = !attempt->may_come || is_late(waiting);
	if (!waiting->is_over) {
		tell(waiting, attempt->why);
		uv_timer_start(waiting->pause, handle_pause, PAUSE_MS, 0);
	}
}

static void begin(struct waiting *waiting)
{
	struct attempt *attempt = xcalloc(1, sizeof(*attempt));
	free_attempt(waiting->attempt);
	attempt->waiting = waiting;
	attempt->address = xstrdup(waiting->pg->address);
	waiting->attempt = attempt;
	waiting->is_over = false;
	uv_queue_work(waiting->pg->store->loop, &attempt->work, attempt_work, attempt_done);
}

static void handle_pause(uv_timer_t *timer)
{
	begin(timer->data);
}

static bool is_over(void *arg)
{
	const struct waiting *waiting = arg;
	return waiting->is_over || !server_may(waiting->life, MAY_TAKE);
}

/** Connects the writer. */
static int connect_writer(struct waiting *waiting, const struct store_place *place, char **ret_why)
{
	begin(waiting);
	place->wait(place->wait_arg, is_over, waiting);
	struct attempt *attempt = waiting->attempt;
	uv_timer_stop(waiting->pause);
	if (!attempt->is_done) { /* its end frees it */
		waiting->attempt = NULL;
		attempt->waiting = NULL;
	}
	if (!server_may(waiting->life, MAY_TAKE)) {
		return -ECANCELED;
	}
	if (attempt->status == 0) {
		pg_writer_use(waiting->pg, &attempt->conn);
		attempt->conn = (struct pg_conn){0};
		return 0;
	}
	*ret_why = attempt->why;
	attempt->why = NULL;
	return attempt->status;
}

static int use_or_wait(struct waiting *waiting, const struct store_place *place,
	int (*use)(struct pg *pg, char **ret_why), char **ret_why)
{
	for (;;) {
		int r = connect_writer(waiting, place, ret_why);
		r = r < 0 ? r : use(waiting->pg, ret_why);
		if (r == 0 && waiting->told_ns) {
			diag(DIAG_INFO, "the database can be used");
		}
		if (r >= 0 || !waiting->pg->conn.conn || pg_is_alive(&waiting->pg->conn) ||
			is_late(waiting)) {
			return r;
		}
		/* It was lost meanwhile. What this owner has taken is free without a lease. */
		tell(waiting, *ret_why ? *ret_why : "the connection was lost");
		free(*ret_why);
		*ret_why = NULL;
		pg_writer_disconnect(waiting->pg);
		pg_make_name(waiting->pg->nodes->owner);
	}
}

int pg_wait(struct pg *pg, const struct store_place *place,
	int (*use)(struct pg *pg, char **ret_why), char **ret_why)
{
	if (!place->wait) {
		int r = pg_writer_connect(pg, ret_why);
		return r < 0 ? r : use(pg, ret_why);
	}
	struct waiting waiting = {.pg = pg,
		.life = place->life,
		.pause = loop_timer(pg->store->loop, NULL),
		.began_ns = uv_hrtime()};
	waiting.pause->data = &waiting;
	uv_ref((uv_handle_t *)waiting.pause); /* the loop must not end meanwhile */
	int r = use_or_wait(&waiting, place, use, ret_why);
	free_attempt(waiting.attempt);
	loop_close(waiting.pause);
	return r;
}
