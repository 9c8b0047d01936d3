/* The engine for PostgreSQL: opening, closing, and what the others find here. */
#include "holdfast/store_postgres.h"

#include "pg.h"

#include "holdfast/diag.h"
#include "holdfast/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

/*
 * One server works on a database at a time. Its lease says so; whoever comes while it lasts is sent
 * away. The clocks that this goes by decide only when to try: who may write, the fences decide.
 */
#define LEASE_S  "10"
#define RENEW_MS 3000
#define SERVER   "server" /* the one row of holdfast_node */

#define NAME_SIZE 16

static const char lease_sql[] =
	"INSERT INTO holdfast_node AS n (name, lease_until, holder)"
	" VALUES ('" SERVER "', now() + interval '" LEASE_S " seconds', $1)"
	" ON CONFLICT (name) DO UPDATE SET lease_until = excluded.lease_until, holder = excluded.holder"
	" WHERE n.lease_until < now() OR n.holder = excluded.holder RETURNING 1::bigint";

/** -EBUSY if another server has the lease. */
static int judge_lease(PGresult *rows)
{
	int r = !rows ? -EIO : PQntuples(rows) ? 0 : -EBUSY;
	PQclear(rows);
	return r;
}

static int take_lease(struct pg *pg, char **ret_why)
{
	struct pg_params params = {0};
	pg_add_text(&params, pg->node, strlen(pg->node));
	int r = judge_lease(pg_run(&pg->conn, lease_sql, &params, ret_why));
	pg_params_finish(&params);
	if (r == -EBUSY) {
		*ret_why = xstrdup(
			"another holdfast uses it; stop that one, or, if it has died, try again in " LEASE_S
			" seconds");
	}
	return r;
}

struct pg_renewal {
	uv_work_t work;
	struct pg *pg;
	int status;
};

static void renew_work(uv_work_t *work)
{
	struct pg_renewal *renewal = work->data;
	struct pg_params params = {0};
	pg_add_text(&params, renewal->pg->node, strlen(renewal->pg->node));
	renewal->status = judge_lease(pg_query(renewal->pg, lease_sql, &params));
	pg_params_finish(&params);
}

static void renew_done(uv_work_t *work, int status)
{
	struct pg_renewal *renewal = work->data;
	renewal->pg->store->jobs--;
	renewal->pg->is_renewing = false;
	if (renewal->status == -EBUSY) {
		diag(DIAG_ERROR, "another holdfast has taken this database over");
	}
	free(renewal);
}

static void handle_lease(uv_timer_t *timer)
{
	struct pg *pg = timer->data;
	if (pg->is_renewing) {
		return;
	}
	struct pg_renewal *renewal = xcalloc(1, sizeof(*renewal));
	renewal->work.data = renewal;
	renewal->pg = pg;
	pg->is_renewing = true;
	pg->store->jobs++;
	uv_queue_work(pg->store->loop, &renewal->work, renew_work, renew_done);
}

static void give_lease_back(struct pg *pg)
{
	struct pg_params params = {0};
	pg_add_text(&params, pg->node, strlen(pg->node));
	if (pg_is_alive(&pg->conn)) {
		PQclear(pg_run(
			&pg->conn, "DELETE FROM holdfast_node WHERE holder = $1", &params, NULL));
	}
	pg_params_finish(&params);
}

/* --- the writer's thread --- */

static void handle_work(void *arg)
{
	pg_write(arg);
}

static void handle_done(void *arg)
{
	pg_group_land(arg);
}

/* --- opening and closing --- */

static int make_name(int fd, char ret[20])
{
	uint64_t number = 0;
	if (getrandom(&number, sizeof(number), 0) != sizeof(number)) {
		abort(); /* it never fails for so few bytes */
	}
	snprintf(ret, 20, "%016llx", (unsigned long long)number);
	int r = ftruncate(fd, 0) < 0 ? -errno : disk_write_all(fd, ret, NAME_SIZE);
	return r < 0 ? r : fsync(fd) < 0 ? -errno : 0;
}

/**
 * This server's name in the database, from its data directory: one that has died is not in its own
 * way when it comes back. The file is locked against a second server there.
 */
static int take_name(struct pg *pg, const char *dir, char **ret_why)
{
	char *path = xprintf("%s/node", dir);
	ssize_t len;
	int r = 0;
	pg->name_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (pg->name_fd < 0 || (len = pread(pg->name_fd, pg->node, NAME_SIZE, 0)) < 0) {
		r = -errno;
		*ret_why = xprintf("%s: %s", path, strerror(-r));
	} else if (flock(pg->name_fd, LOCK_EX | LOCK_NB) < 0) {
		r = -EBUSY;
		*ret_why = xprintf(
			"%s is in use by another holdfast; stop that one, or give this one another --data directory",
			path);
	} else if (len < NAME_SIZE || strspn(pg->node, "0123456789abcdef") < NAME_SIZE) {
		r = make_name(pg->name_fd, pg->node);
	}
	free(path);
	return r;
}

static struct pg *make(struct store *store, const struct store_place *place)
{
	struct pg *pg = xcalloc(1, sizeof(*pg));
	store->engine_state = pg;
	pg->store = store;
	pg->address = xstrdup(place->engine_arg);
	pg->name_fd = -1;
	pthread_mutex_init(&pg->lock, NULL);
	list_init(&pg->uploads);
	pg_groups_init(pg);
	pg->writer = worker_create(store->loop, handle_work, handle_done, pg);
	pg->retry = loop_timer(store->loop, pg);
	pg->lease = loop_timer(store->loop, pg);
	return pg;
}

static int open_store(struct store *store, const struct store_place *place, char **ret_why)
{
	struct pg *pg = make(store, place);
	store->dir_fd = store->sessions_fd = store->lock_fd = -1;
	char *why = NULL;
	int r = take_name(pg, place->dir, &why);
	if (r == 0 && !store_postgres_check(pg->address, &why)) {
		r = -EINVAL;
	}
	r = r < 0 ? r : pg_connect(&pg->conn, pg->address, &why);
	r = r < 0 ? r : pg_schema_make(&pg->conn, &why);
	r = r < 0 ? r : take_lease(pg, &why);
	r = r < 0 ? r : pg_recover(pg, &why);
	r = r < 0 ? r : pg_blobs_measure(pg, &why);
	if (r < 0) {
		*ret_why = xprintf("cannot use the database: %s", why ? why : strerror(-r));
		free(why);
		return r;
	}
	free(why);
	uv_timer_start(pg->lease, handle_lease, RENEW_MS, RENEW_MS);
	store_recovered(store);
	store->opening = false;
	pg_sweep(pg);
	return pg_sync(store);
}

static bool has_no_jobs(void *arg)
{
	return !((struct store *)arg)->jobs;
}

/** What only memory has of the logs, which the records would tell again. */
static void save_all(struct store *store)
{
	list_for_each(link, &store->logs) {
		pg_save(list_entry(link, struct session_log, link));
	}
}

static bool close_store(struct store *store)
{
	struct pg *pg = pg_of(store);
	atomic_store(&pg->is_stopping, true);
	if (pg_sync(store) == 0) {
		save_all(store);
		pg_sync(store);
	}
	bool is_idle = loop_run_until(store->loop, has_no_jobs, store, store->limits->stop_wait_ms);
	if (is_idle) {
		give_lease_back(pg);
	}
	return is_idle;
}

static void free_state(struct store *store)
{
	struct pg *pg = pg_of(store);
	loop_close(pg->retry);
	loop_close(pg->lease);
	worker_destroy(pg->writer);
	pg_groups_finish(pg);
	pg_blobs_finish(pg);
	if (pg->name_fd >= 0) {
		close(pg->name_fd);
	}
	pg_disconnect(&pg->conn);
	while (pg->reader_count) {
		pg_disconnect(&pg->readers[--pg->reader_count]);
	}
	pthread_mutex_destroy(&pg->lock);
	free(pg->address);
	free(pg);
}

/* --- rarely --- */

static int change_epoch(
	struct session_log *log, uint64_t epoch, int64_t ts, const struct buffer *snapshot)
{
	struct pg *pg = pg_of(log->store);
	struct pg_params params = {0};
	int r = pg_sync(log->store);
	if (r < 0) {
		return r;
	}
	pg_add_bigint(&params, pg_log_of(log)->sid);
	pg_add_bigint(&params, (int64_t)epoch);
	pg_add_bigint(&params, (int64_t)log->fence);
	PGresult *rows = pg_run(&pg->conn,
		"WITH s AS (UPDATE holdfast_session SET epoch = $2"
		" WHERE sid = $1 AND fence = $3 RETURNING sid),"
		" r AS (DELETE FROM holdfast_record USING s WHERE holdfast_record.sid = s.sid)"
		" SELECT sid FROM s",
		&params, NULL);
	r = rows && PQntuples(rows) == 1 ? 0 : -EIO;
	PQclear(rows);
	pg_params_finish(&params);
	if (r < 0) {
		return r;
	}
	log->epoch = epoch;
	log->dirty = true;
	pg_log_of(log)->snapshot = 0;
	pg_log_of(log)->has_records = false;
	if (snapshot) {
		session_log_append(log, RECORD_SNAPSHOT, ts, snapshot->data, snapshot->len);
	}
	pg_save(log);
	return pg_sync(log->store);
}

static int64_t now_ms(struct store *store)
{
	return clock_now_ms(store->ops->clock(store->owner));
}

static void prune(struct store *store)
{
}

/** A session that cannot be read stops the start: see refuse() in pg_open.c. */
static bool is_left_out(const struct store *store, const char *id, size_t len)
{
	return false;
}

const struct store_engine store_postgres = {
	.open = open_store,
	.close = close_store,
	.free = free_state,
	.append = pg_append,
	.part = pg_get_part,
	.launch = pg_launch,
	.sync = pg_sync,
	.backlog = pg_backlog,
	.rewind = pg_rewind,
	.read = pg_read,
	.load_names = pg_load_names,
	.save = pg_save,
	.rest = pg_rest,
	.remove = pg_remove,
	.drop = pg_drop,
	.change_epoch = change_epoch,
	.now = now_ms,
	.prune = prune,
	.is_left_out = is_left_out,
	.blob_write = pg_blob_write,
	.blob_keep = pg_blob_keep,
	.blob_drop = pg_blob_drop,
	.blob_open = pg_blob_open,
};
