/* The PostgreSQL engine: opening, closing and handing over, and the table of its operations. */
#include "holdfast/beneath.h"
#include "holdfast/store_postgres.h"

#include "pg_database.h"

#include "holdfast/diag.h"
#include "holdfast/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static struct pg *make(struct store *store, const struct store_place *place)
{
	struct pg *pg = xcalloc(1, sizeof(*pg));
	store->engine_state = pg;
	pg->store = store;
	pg->address = xstrdup(place->engine_arg);
	pthread_mutex_init(&pg->lock, NULL);
	pg->writer_fd = -1;
	list_init(&pg->uploads);
	pg_groups_init(pg);
	pg->writer = worker_create(store->loop, handle_work, handle_done, pg);
	pg->retry = loop_timer(store->loop, pg);
	pg_nodes_init(pg, place);
	pg_shelf_init(pg);
	prune_init(store);
	return pg;
}

static int enter(struct pg *pg, char **ret_why)
{
	int r = pg_schema_make(&pg->conn, ret_why);
	return r < 0 ? r : pg_nodes_enter(pg, ret_why);
}

static int open_store(struct store *store, const struct store_place *place, char **ret_why)
{
	struct pg *pg = make(store, place);
	store->dir_fd = open_named(place->dir, O_RDONLY | O_DIRECTORY, 0);
	char *why = NULL;
	int r = pg_nodes_name(pg, place->dir, &why);
	if (r == 0 && !pg_address_check(pg->address, &why)) {
		r = -EINVAL;
	}
	r = r < 0 ? r : pg_wait(pg, place, enter, &why);
	if (r == -ECANCELED && !why) {
		return r;
	}
	if (r < 0) {
		*ret_why = xprintf("cannot use the database: %s", why ? why : strerror(-r));
		free(why);
		return r;
	}
	free(why);
	pg_nodes_begin(pg);
	store_clock_begin(store);
	store_clock_write(store);
	store_recovered(store);
	store->opening = false;
	r = pg_sync(store);
	if (r < 0) {
		*ret_why =
			xprintf("cannot use the database: it refuses to write: %s", strerror(-r));
		pg_nodes_leave(pg);
		return r;
	}
	list_for_each(link, &store->logs) {
		log_keys_tell_missing(list_entry(link, struct session_log, link));
	}
	pg_sweep(pg); /* only now: a store that fails to open is freed at once */
	return 0;
}

static bool has_no_jobs(void *arg)
{
	return !((struct store *)arg)->jobs;
}

/** Saves what is only in memory, so that the next owner need not derive it from the records. */
static void save_all(struct store *store)
{
	list_for_each(link, &store->logs) {
		pg_save(list_entry(link, struct session_log, link));
	}
}

static void hand_over(struct store *store)
{
	struct pg *pg = pg_of(store);
	if (pg_sync(store) == 0) {
		save_all(store);
		if (pg_sync(store) == 0) {
			pg_nodes_leave(pg);
		}
	}
}

/** Gives up all sessions but those that stay. The lease goes on, so nobody takes those. */
static int free_most(struct store *store, bool (*stays)(void *arg, const char *id), void *arg)
{
	struct pg *pg = pg_of(store);
	struct pg_params params = {0};
	pg_add_text(&params, pg_owner(pg), strlen(pg_owner(pg)));
	int sid = pg_add_array(&params, PG_BIGINT_ARRAY);
	list_for_each(link, &store->logs) {
		struct session_log *log = list_entry(link, struct session_log, link);
		if (stays(arg, log->id)) {
			pg_put_bigint(&params, sid, pg_log_of(log)->sid);
		}
	}
	PGresult *rows = pg_run(&pg->conn,
		"UPDATE holdfast_session SET owner = '' WHERE owner = $1 AND sid <> ALL($2)",
		&params, NULL);
	pg_params_finish(&params);
	PQclear(rows);
	return rows ? 0 : -EIO;
}

static void hand_over_most(struct store *store, bool (*stays)(void *arg, const char *id), void *arg)
{
	int r = pg_sync(store);
	if (r == 0) {
		save_all(store);
		r = pg_sync(store);
	}
	if (r < 0 || free_most(store, stays, arg) < 0) {
		return; /* they become free at the end of the lease */
	}
	list_for_each_safe(link, tmp, &store->logs) {
		struct session_log *log = list_entry(link, struct session_log, link);
		if (!stays(arg, log->id)) {
			store_fenced(log);
		}
	}
}

static bool close_store(struct store *store)
{
	struct pg *pg = pg_of(store);
	uv_timer_stop(pg->retry); /* of an earlier failure: no new try begins */
	if (pg_sync(store) == 0) {
		save_all(store);
		pg_sync(store);
	}
	bool is_idle = loop_run_until(store->loop, has_no_jobs, store, store->limits->stop_wait_ms);
	if (is_idle) {
		store_clock_write(store);
		pg_nodes_leave(pg);
	}
	return is_idle;
}

static void free_state(struct store *store)
{
	struct pg *pg = pg_of(store);
	loop_close(pg->retry);
	prune_finish(store);
	worker_destroy(pg->writer);
	pg_groups_finish(pg);
	pg_blobs_finish(pg);
	pg_nodes_finish(pg);
	pg_writer_disconnect(pg);
	while (pg->reader_count) {
		pg_disconnect(&pg->readers[--pg->reader_count]);
	}
	pthread_mutex_destroy(&pg->lock);
	if (store->dir_fd >= 0) {
		close(store->dir_fd);
	}
	free(pg->address);
	free(pg);
}

/* --- other operations --- */

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

static uint64_t get_number(const struct session_log *log)
{
	return (uint64_t)pg_log_of(log)->sid;
}

static void begin_mirror(struct session_log *log, uint64_t number)
{
	pg_log_begin(log, (int64_t)number, false);
}

static bool has_lease(const struct store *store)
{
	return pg_nodes_has_lease(pg_of(store));
}

/** No session is left out for a while: what cannot be asked for is no answer, and not absent. */
static bool is_left_out(const struct store *store, const char *id, size_t len)
{
	return false;
}

static int delete_aside(struct store *store, const struct aside *aside)
{
	struct pg *pg = pg_of(store);
	struct pg_params params = {0};
	pg_add_bigint(&params, aside->number);
	pg_add_bigint(&params, (int64_t)aside->fence);
	PGresult *rows = pg_query(pg,
		"WITH gone AS (DELETE FROM holdfast_session WHERE sid = $1 AND fence = $2 RETURNING sid),"
		" shown AS (UPDATE holdfast_shown AS o SET object = NULL,"
		" n = nextval('holdfast_shown_n'), at = now() FROM gone WHERE o.sid = gone.sid)"
		" INSERT INTO holdfast_garbage (sid) SELECT sid FROM gone RETURNING sid",
		&params);
	int r = !rows ? -EIO : PQntuples(rows) ? 0 : -EAGAIN; /* another server has taken it */
	PQclear(rows);
	pg_params_finish(&params);
	return r;
}

static const struct engine_nodes_ops nodes_ops = {
	.seek = pg_seek,
	.key = pg_node_key,
	.has_lease = has_lease,
	.shelf = pg_shelf,
	.number = get_number,
	.mirror = begin_mirror,
	.hand_over = hand_over,
	.hand_over_most = hand_over_most,
};

static const struct engine_blobs_ops blobs = {
	.write = pg_blob_write,
	.keep = pg_blob_keep,
	.drop = pg_blob_drop,
	.open = pg_blob_open,
};

static const struct store_engine engine = {
	.storage = STORAGE_DATABASE,
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
	.now = store_clock_now,
	.prune = pg_prune,
	.is_left_out = is_left_out,
	.delete_aside = delete_aside,
	.nodes = &nodes_ops,
	.blobs = &blobs,
};

const struct store_kind store_postgres = {
	.name = "PostgreSQL",
	.is_address = pg_is_address,
	.check = pg_address_check,
	.engine = &engine,
	.database = &pg_database_ops,
	.ask = pg_ask,
	.open_side = pg_open_side,
};
