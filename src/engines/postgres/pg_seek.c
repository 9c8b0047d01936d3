/* Finds the owner of a session that is not here. If no living node owns it, this node takes it. */
#include "pg_nodes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* How often to look for the owner, since another node can take the session first and lose it. */
#define TRIES 3

static const char find_sql[] =
	"SELECT s.owner, n.address FROM holdfast_session AS s LEFT JOIN holdfast_node AS n"
	" ON n.holder = s.owner AND n.lease_until > now() WHERE s.id = $1";

/** A search, shared by all requests for the same session. */
struct pg_seek {
	uv_work_t work;
	struct pg *pg;
	char *id;
	struct list waits; /* struct place_wait */
	char owner[PG_OWNER_SIZE]; /* this node, when the search began */
	bool may_take;
	int64_t *unsure;
	size_t unsure_count;
	/* Result, from the thread pool. */
	int status;
	enum session_place place;
	char *address;
	struct pg_taken taken;
};

static void find(struct pg_seek *seek)
{
	struct pg_params params = {0};
	pg_add_text(&params, seek->id, strlen(seek->id));
	PGresult *rows = pg_query(seek->pg, find_sql, &params);
	pg_params_finish(&params);
	seek->status = rows ? 0 : -EIO;
	seek->place = PLACE_NOWHERE;
	if (PQntuples(rows)) {
		bool is_ours = strcmp(PQgetvalue(rows, 0, 0), seek->owner) == 0;
		bool is_elsewhere = !is_ours && !PQgetisnull(rows, 0, 1);
		seek->place = is_elsewhere ? PLACE_ELSEWHERE : PLACE_HERE;
		seek->address = is_elsewhere ? xstrdup(PQgetvalue(rows, 0, 1)) : NULL;
	}
	PQclear(rows);
}

static void take(struct pg_seek *seek)
{
	struct pg_conn conn;
	const struct pg_wish wish = {.owner = seek->owner,
		.id = seek->id,
		.most = 1,
		.again = seek->unsure,
		.again_count = seek->unsure_count};
	if (!pg_reader_take(seek->pg, &conn)) {
		seek->status = -EIO;
		return;
	}
	seek->status = pg_take(&conn, &wish, &seek->taken, NULL);
	pg_reader_give(seek->pg, &conn);
}

static void seek_work(uv_work_t *work)
{
	struct pg_seek *seek = work->data;
	for (int tries = 0; tries < TRIES; tries++) {
		find(seek);
		if (seek->status < 0 || seek->place != PLACE_HERE || !seek->may_take ||
			!server_may(seek->pg->store->life, MAY_TAKE)) {
			return;
		}
		pg_taken_finish(&seek->taken);
		take(seek); /* takes nothing if this node has it, or another one was quicker */
		if (seek->status < 0 || PQntuples(seek->taken.sessions)) {
			return;
		}
	}
}

static void end(struct pg_seek *seek)
{
	struct store *store = seek->pg->store;
	size_t len = strlen(seek->id);
	if (store_get_session(store, seek->id, len) ||
		store_absence(store, seek->id, len) != STORE_PRESENT) {
		seek->status = 0;
		seek->place = PLACE_HERE;
	} else if (seek->status == 0 && seek->place == PLACE_HERE) {
		seek->status = -EAGAIN; /* another node was quicker */
	}
	while (!list_empty(&seek->waits)) {
		struct place_wait *wait = list_entry(seek->waits.next, struct place_wait, link);
		list_remove(&wait->link);
		wait->done(wait, seek->status, seek->place, seek->address);
	}
}

static void seek_done(uv_work_t *work, int status)
{
	struct pg_seek *seek = work->data;
	struct pg *pg = seek->pg;
	pg->store->jobs--;
	hash_remove(pg->nodes->seeks, seek->id, strlen(seek->id));
	seek->status = pg_nodes_land(pg, seek->owner, seek->status, &seek->taken);
	end(seek);
	free(seek->address);
	free(seek->unsure);
	free(seek->id);
	free(seek);
}

static struct pg_seek *begin(struct pg *pg, const char *id)
{
	struct pg_seek *seek = xcalloc(1, sizeof(*seek));
	seek->work.data = seek;
	seek->pg = pg;
	seek->id = xstrdup(id);
	list_init(&seek->waits);
	strcpy(seek->owner, pg->nodes->owner);
	seek->may_take = pg_nodes_may_take(pg);
	seek->unsure = pg_nodes_copy_unsure(pg->nodes, &seek->unsure_count);
	hash_put(pg->nodes->seeks, id, strlen(id), seek);
	pg->store->jobs++;
	uv_queue_work(pg->store->loop, &seek->work, seek_work, seek_done);
	return seek;
}

void pg_seek(struct store *store, const char *id, struct place_wait *wait)
{
	struct pg *pg = pg_of(store);
	struct pg_seek *seek = hash_get(pg->nodes->seeks, id, strlen(id));
	seek = seek ? seek : begin(pg, id);
	list_append(&seek->waits, &wait->link);
}
