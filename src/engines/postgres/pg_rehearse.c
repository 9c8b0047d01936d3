/*
 * The engine of a store that rehearses what a server would do with a database, for verify: the
 * sessions are taken over by the functions of pg_take.c, one at a time, and nothing is written. So
 * a check refuses exactly what a server that starts refuses.
 */
#include "pg_database.h"

#include <stdlib.h>

static int open_store(struct store *store, const struct store_place *place, char **ret_why)
{
	struct pg_database *database = place->engine_arg;
	struct pg *pg = xcalloc(1, sizeof(*pg));
	store->engine_state = pg;
	store->dir_fd = -1;
	pg->store = store;
	pg->address = database->address;
	pthread_mutex_init(&pg->lock, NULL);
	pg_groups_init(pg);
	store_recovered(store);
	database->rehearsal = pg;
	return 0;
}

static bool close_store(struct store *store)
{
	return true;
}

static int sync_nothing(struct store *store)
{
	return 0;
}

static void free_state(struct store *store)
{
	struct pg *pg = pg_of(store);
	pg_groups_finish(pg);
	pthread_mutex_destroy(&pg->lock);
	free(pg);
}

const struct store_engine pg_rehearsal = {
	.storage = STORAGE_DATABASE,
	.open = open_store,
	.close = close_store,
	.free = free_state,
	.sync = sync_nothing,
	.load_names = pg_load_names,
	.drop = pg_drop,
};

/** The state machine may look names up: those of the moment that the check sees. */
static void lend_connection(struct pg_database *database)
{
	struct pg *pg = database->rehearsal;
	pg->readers[pg->reader_count++] = database->conn;
	database->conn = (struct pg_conn){0};
}

/** If the connection has broken meanwhile, whoever uses it next notices that. */
static void take_connection_back(struct pg_database *database)
{
	struct pg *pg = database->rehearsal;
	if (pg->reader_count) {
		database->conn = pg->readers[--pg->reader_count];
	}
}

static int rehearse(struct pg_database *database, struct pg_taken *taken, const char **ret_why)
{
	struct pg *pg = database->rehearsal;
	lend_connection(database);
	pg->store->opening = true; /* whatever it needs is read at once */
	int r = pg_try(pg, taken, ret_why);
	pg->store->opening = false;
	take_connection_back(database);
	uv_run(pg->store->loop, UV_RUN_NOWAIT); /* frees the session */
	return r;
}

int pg_rehearse(struct pg_database *database, int64_t sid, const char **ret_why)
{
	struct pg_taken taken;
	*ret_why = NULL;
	if (!database->rehearsal) {
		return 0;
	}
	int r = pg_take_look(&database->conn, sid, &taken, NULL);
	r = r < 0 ? r : rehearse(database, &taken, ret_why);
	pg_taken_finish(&taken);
	return r;
}
