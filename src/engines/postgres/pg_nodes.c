/*
 * The lease of this server: a row of holdfast_node that names its holder, which is also the owner
 * of the server's sessions, and the time when it expires. Sessions whose owner has no valid lease
 * are free, and any node may take them. Clocks only decide when a node tries that; the fences
 * decide who can write.
 *
 * A server alone refuses to start beside others, and keeps its sessions while the database is down.
 * A node that could not renew its lease in time lets go of all its sessions, before another node
 * can take them. Then it goes on under a new name as owner, which owns no sessions.
 *
 * The lease has a thread and a connection of its own, so that a renewal never has to wait for
 * sessions that are taken over, or for their observers, who read them again on the thread pool. The
 * loop starts each renewal, so a server whose loop hangs loses its lease.
 */
#include "pg_nodes.h"

#include "holdfast/beneath.h"
#include "holdfast/diag.h"
#include "holdfast/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define NAME_LEN 16
/* Most sessions that a node takes in one round, so that the others can take some, too. */
#define ROUND_MOST 64

static const char enter_sql[] =
	"INSERT INTO holdfast_node (name, holder, address, lease_until)"
	" SELECT $1, $2, $3, now() + $4 * interval '1 ms' WHERE NOT EXISTS (SELECT FROM holdfast_node AS o"
	" WHERE o.name <> $1 AND o.lease_until > now() AND ($3 = '' OR o.address = ''))"
	" ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, address = excluded.address,"
	" lease_until = excluded.lease_until RETURNING 1::bigint";

static const char renew_sql[] =
	"UPDATE holdfast_node SET lease_until = greatest(lease_until, now() + $3 * interval '1 ms')"
	" WHERE name = $1 AND holder = $2 RETURNING 1::bigint";

/** Time in ms on a clock that is never set, and that goes on while the machine is suspended. */
static int64_t now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void pg_make_name(char ret[PG_OWNER_SIZE])
{
	uint64_t number = 0;
	if (getrandom(&number, sizeof(number), 0) != sizeof(number)) {
		abort(); /* it never fails for so few bytes */
	}
	snprintf(ret, PG_OWNER_SIZE, "%016llx", (unsigned long long)number);
}

static void keep_lease(void *arg);
static void lease_kept(void *arg);
static void begin_round(struct pg *pg);

void pg_nodes_init(struct pg *pg, const struct store_place *place)
{
	const char *address = place->node_address;
	struct pg_nodes *nodes = xcalloc(1, sizeof(*nodes));
	nodes->address = address ? xstrdup(address) : NULL;
	nodes->lease_told = place->lease_end;
	nodes->name_fd = -1;
	nodes->timer = loop_timer(pg->store->loop, pg);
	nodes->keeper = worker_create(pg->store->loop, keep_lease, lease_kept, pg);
	nodes->seeks = hash_create();
	pg_make_name(nodes->owner);
	pg->nodes = nodes;
}

void pg_nodes_finish(struct pg *pg)
{
	struct pg_nodes *nodes = pg->nodes;
	loop_close(nodes->timer);
	worker_destroy(nodes->keeper);
	pg_disconnect(&nodes->conn);
	if (nodes->name_fd >= 0) {
		close(nodes->name_fd);
	}
	hash_destroy(nodes->seeks);
	free(nodes->unsure);
	free(nodes->address);
	free(nodes);
}

static int save_name(int fd, char name[PG_OWNER_SIZE])
{
	pg_make_name(name);
	int r = ftruncate(fd, 0) < 0 ? -errno : disk_write_all(fd, name, NAME_LEN);
	return r < 0 ? r : fsync(fd) < 0 ? -errno : 0;
}

/**
 * The name outlives the process, so a server that is restarted after a crash replaces its own lease
 * and need not wait for its end. The lock keeps out a second server with the same directory.
 */
int pg_nodes_name(struct pg *pg, const char *dir, char **ret_why)
{
	struct pg_nodes *nodes = pg->nodes;
	char *path = xprintf("%s/node", dir);
	ssize_t len;
	int r = 0;
	nodes->name_fd = open_plain_path(path, O_RDWR | O_CREAT, 0600);
	if (nodes->name_fd < 0 || (len = pread(nodes->name_fd, nodes->name, NAME_LEN, 0)) < 0) {
		r = -errno;
		*ret_why = xprintf("%s: %s", path, file_error(-r));
	} else if (flock(nodes->name_fd, LOCK_EX | LOCK_NB) < 0) {
		r = -EBUSY;
		*ret_why = xprintf(
			"%s is in use by another holdfast; stop that one, or give this one another --data directory",
			path);
	} else if (len < NAME_LEN || strspn(nodes->name, "0123456789abcdef") < NAME_LEN) {
		r = save_name(nodes->name_fd, nodes->name);
	}
	free(path);
	return r;
}

const char *pg_owner(const struct pg *pg)
{
	return pg->nodes->owner;
}

const unsigned char *pg_node_key(const struct store *store)
{
	const struct pg_nodes *nodes = pg_of(store)->nodes;
	return nodes->address ? nodes->key : NULL;
}

/* --- sessions that may have been taken --- */

static void remove_unsure(struct pg_nodes *nodes, int64_t sid)
{
	for (size_t i = 0; i < nodes->unsure_count; i++) {
		if (nodes->unsure[i] == sid) {
			nodes->unsure[i--] = nodes->unsure[--nodes->unsure_count];
		}
	}
}

void pg_nodes_doubt(struct pg_nodes *nodes, int64_t sid)
{
	remove_unsure(nodes, sid);
	nodes->unsure = xrealloc(nodes->unsure, (nodes->unsure_count + 1) * sizeof(int64_t));
	nodes->unsure[nodes->unsure_count++] = sid;
}

void pg_nodes_add_unsure(struct pg_nodes *nodes, const struct pg_taken *taken)
{
	for (int row = 0; row < PQntuples(taken->sessions); row++) {
		pg_nodes_doubt(nodes, pg_get_bigint(taken->sessions, row, 0));
	}
}

int64_t *pg_nodes_copy_unsure(const struct pg_nodes *nodes, size_t *ret_count)
{
	size_t size = nodes->unsure_count * sizeof(int64_t);
	int64_t *copy = xmalloc(size + 1);
	memcpy(copy, size ? (const void *)nodes->unsure : "", size);
	*ret_count = nodes->unsure_count;
	return copy;
}

bool pg_nodes_is(const struct pg_nodes *nodes, const char *owner)
{
	return strcmp(nodes->owner, owner) == 0;
}

bool pg_nodes_has_lease(const struct pg *pg)
{
	const struct pg_nodes *nodes = pg->nodes;
	return !nodes->address || !nodes->is_in || now_ms() <= atomic_load(&nodes->lease_end_ms);
}

bool pg_nodes_may_take(const struct pg *pg)
{
	const struct pg_nodes *nodes = pg->nodes;
	bool has_lease =
		!nodes->address || (nodes->is_in && now_ms() <= atomic_load(&nodes->lease_end_ms));
	return has_lease && server_may(pg->store->life, MAY_TAKE);
}

int pg_nodes_land(struct pg *pg, const char *owner, int status, struct pg_taken *taken)
{
	struct pg_nodes *nodes = pg->nodes;
	if (!pg_nodes_is(nodes, owner)) {
		status = status < 0 ? status : -EAGAIN; /* they become free with the old lease */
	} else if (status == -EINPROGRESS ||
		   (status == 0 && (!pg_nodes_may_take(pg) || !pg_place_fits(pg, taken)))) {
		pg_nodes_add_unsure(nodes, taken);
		status = -EAGAIN;
	} else if (status == 0) {
		for (int row = 0; row < PQntuples(taken->sessions); row++) {
			remove_unsure(nodes, pg_get_bigint(taken->sessions, row, 0));
		}
		pg_adopt(pg, taken);
	}
	pg_taken_finish(taken);
	return status;
}

/* --- statements --- */

static int64_t lease_ms(const struct pg *pg)
{
	return pg->store->limits->node_lease_ms;
}

/** The result of a statement about the lease: -EBUSY if another server prevents it. */
static int judge(PGresult *rows)
{
	int r = !rows ? -EIO : PQntuples(rows) ? 0 : -EBUSY;
	PQclear(rows);
	return r;
}

static const char is_moving_sql[] =
	"SELECT CASE WHEN pg_try_advisory_xact_lock_shared(" PG_MOVING_LOCK
	") AND NOT EXISTS (SELECT FROM holdfast_moving) THEN 0::bigint ELSE 1::bigint END";

/** Returns -ECANCELED if a migration is under way, or has been interrupted. */
static int look_for_migration(struct pg_conn *conn, char **ret_why)
{
	PGresult *rows = pg_run(conn, is_moving_sql, NULL, ret_why);
	int r = !rows ? -EIO : pg_get_bigint(rows, 0, 0) ? -ECANCELED : 0;
	PQclear(rows);
	if (r == -ECANCELED && ret_why) {
		*ret_why = xstrdup(
			"a migration is running there, or was interrupted: wait, or run holdfast migrate again");
	}
	return r;
}

static int enter(struct pg *pg, struct pg_conn *conn, const char *owner, char **ret_why)
{
	const struct pg_nodes *nodes = pg->nodes;
	const char *address = nodes->address ? nodes->address : "";
	struct pg_params params = {0};
	pg_add_text(&params, nodes->name, strlen(nodes->name));
	pg_add_text(&params, owner, strlen(owner));
	pg_add_text(&params, address, strlen(address));
	pg_add_bigint(&params, lease_ms(pg));
	int r = pg_begin_alone(conn, ret_why);
	r = r < 0 ? r : look_for_migration(conn, ret_why);
	r = r < 0 ? r : judge(pg_run(conn, enter_sql, &params, ret_why));
	r = r == -EIO && !pg_is_alive(conn) ? r : pg_end_alone(conn, r, r < 0 ? NULL : ret_why);
	pg_params_finish(&params);
	return r;
}

/** Reads the key that all nodes share; the first node creates it. */
static int read_key(struct pg *pg, char **ret_why)
{
	struct pg_params params = {0};
	unsigned char key[NODE_KEY_SIZE];
	if (getrandom(key, sizeof(key), 0) != sizeof(key)) {
		abort(); /* it never fails for so few bytes */
	}
	pg_add_bytea(&params, key, sizeof(key));
	PGresult *made = pg_run(&pg->conn,
		"INSERT INTO holdfast_secret (name, bytes) VALUES ('node', $1) ON CONFLICT DO NOTHING",
		&params, ret_why);
	pg_params_finish(&params);
	PGresult *rows =
		!made ? NULL
		      : pg_run(&pg->conn, "SELECT bytes FROM holdfast_secret WHERE name = 'node'",
				NULL, ret_why);
	bool is_there = PQntuples(rows) == 1 && PQgetlength(rows, 0, 0) == NODE_KEY_SIZE;
	if (is_there) {
		memcpy(pg->nodes->key, PQgetvalue(rows, 0, 0), NODE_KEY_SIZE);
	}
	PQclear(made);
	PQclear(rows);
	return is_there ? 0 : -EIO;
}

/* --- entering and leaving --- */

/**
 * Notes a lease that was requested at `asked_ms`. The node lets go after four fifths of it, well
 * before others can take its sessions. On any thread.
 */
static void note_lease(struct pg *pg, int64_t asked_ms)
{
	int64_t end_ms = asked_ms + lease_ms(pg) - lease_ms(pg) / 5;
	atomic_store(&pg->nodes->lease_end_ms, end_ms);
	if (pg->nodes->lease_told) {
		atomic_store(pg->nodes->lease_told, end_ms);
	}
}

static char *say_busy(const struct pg *pg)
{
	return xprintf(
		"another holdfast uses it%s; stop that one, or, if it has died, try again in %lld seconds",
		pg->nodes->address ? " alone, without --node-listen" : "",
		(long long)(lease_ms(pg) + 999) / 1000);
}

int pg_nodes_enter(struct pg *pg, char **ret_why)
{
	struct pg_taken taken = {0};
	const struct pg_wish all = {.owner = pg->nodes->owner, .most = INT32_MAX};
	int64_t asked_ms = now_ms();
	int r = enter(pg, &pg->conn, pg->nodes->owner, ret_why);
	if (r == -EBUSY) {
		free(*ret_why);
		*ret_why = say_busy(pg);
	}
	r = r < 0 ? r : pg_place_check(pg, &pg->conn, ret_why);
	pg_place_begin(pg);
	r = r < 0 || !pg->nodes->address ? r : read_key(pg, ret_why);
	r = r < 0 ? r : pg_take(&pg->conn, &all, &taken, ret_why);
	if (r == 0) {
		pg_adopt(pg, &taken);
	}
	pg_taken_finish(&taken);
	if (r < 0) {
		pg_nodes_leave(pg); /* so that nobody has to wait for its end */
	} else {
		pg->nodes->is_in = true;
		note_lease(pg, asked_ms);
	}
	return r;
}

void pg_nodes_leave(struct pg *pg)
{
	struct pg_params params = {0};
	uv_timer_stop(pg->nodes->timer);
	pg_add_text(&params, pg->nodes->owner, strlen(pg->nodes->owner));
	if (pg_is_alive(&pg->conn)) {
		PQclear(pg_run(
			&pg->conn, "DELETE FROM holdfast_node WHERE holder = $1", &params, NULL));
	}
	pg_params_finish(&params);
}

/** Lets go of all sessions, and takes a new name as owner. */
static void let_go(struct pg *pg, const char *why)
{
	struct pg_nodes *nodes = pg->nodes;
	struct store *store = pg->store;
	diag(DIAG_ERROR, "%s: this node lets go of its %zu sessions", why,
		store_count_sessions(store));
	nodes->is_in = false;
	nodes->unsure_count = 0;
	pg_make_name(nodes->owner);
	while (!list_empty(&store->logs)) {
		store_fenced(list_entry(store->logs.next, struct session_log, link));
	}
	aside_forget_all(store);
}

/* --- the lease --- */

/** Connects if necessary; returns whether it is connected. On the lease's thread. */
static bool reach(struct pg *pg)
{
	struct pg_conn *conn = &pg->nodes->conn;
	if (pg_is_alive(conn)) {
		return true;
	}
	pg_disconnect(conn);
	return pg_connect(conn, pg->address, PG_WRITABLE, NULL) == 0;
}

/**
 * Renews the lease, on its thread. The caller notes the new end without waiting for the loop, which
 * may be busy. If the loop has let go of the sessions meanwhile, that end has no effect.
 */
static int renew(struct pg *pg, int64_t *ret_asked_ms)
{
	struct pg_nodes *nodes = pg->nodes;
	struct pg_params params = {0};
	int r = -EIO;
	pg_add_text(&params, nodes->name, strlen(nodes->name));
	pg_add_text(&params, nodes->kept.owner, strlen(nodes->kept.owner));
	pg_add_bigint(&params, lease_ms(pg));
	/* The connection may have been broken for a while: try once more on a new one. */
	for (int tries = 0; tries < 2 && r == -EIO; tries++) {
		if (!reach(pg)) {
			break;
		}
		*ret_asked_ms = now_ms();
		r = judge(pg_run(&nodes->conn, renew_sql, &params, NULL));
	}
	pg_params_finish(&params);
	return r;
}

void pg_say_unusable(const char *why)
{
	diag(DIAG_ERROR, "the database cannot be used: %s; inputs wait until it can",
		why ? why : "it does not answer");
}

/**
 * Checks whether the database is an older copy, and logs it once if so. A server that has nothing
 * to write notices it here. On any thread.
 */
static int check_place(struct pg *pg, struct pg_conn *conn)
{
	char *why = NULL;
	int r = pg_place_check(pg, conn, &why);
	if (r == 0) {
		atomic_store(&pg->nodes->is_older, false);
	} else if (r == -ESTALE && !atomic_exchange(&pg->nodes->is_older, true)) {
		pg_say_unusable(why);
	}
	free(why);
	return r;
}

/** Takes the lease anew, unless the database is an older copy. */
static int enter_again(struct pg *pg, int64_t *ret_asked_ms)
{
	struct pg_nodes *nodes = pg->nodes;
	if (!reach(pg)) {
		return -EIO;
	}
	int r = check_place(pg, &nodes->conn);
	*ret_asked_ms = now_ms();
	return r < 0 ? r : enter(pg, &nodes->conn, nodes->kept.owner, NULL);
}

static void keep_lease(void *arg)
{
	struct pg *pg = arg;
	struct pg_lease *kept = &pg->nodes->kept;
	if (!kept->is_in) {
		kept->status = enter_again(pg, &kept->asked_ms);
		return;
	}
	kept->status = renew(pg, &kept->asked_ms);
	if (kept->status == 0) {
		note_lease(pg, kept->asked_ms);
	}
}

static void lease_kept(void *arg)
{
	struct pg *pg = arg;
	struct pg_nodes *nodes = pg->nodes;
	const struct pg_lease *kept = &nodes->kept;
	pg->store->jobs--;
	nodes->is_keeping = false;
	if (!pg_nodes_is(nodes, kept->owner) || !server_may(pg->store->life, MAY_LEASE)) {
		return;
	}
	if (kept->status == 0 && !kept->is_in) {
		nodes->is_in = true;
		note_lease(pg, kept->asked_ms);
		begin_round(pg);
	} else if (kept->status == -EBUSY && !nodes->address) {
		diag(DIAG_ERROR, "another holdfast has taken over this database");
	} else if (kept->status == -EBUSY && kept->is_in) {
		let_go(pg, "another server has the name of this node, so DIR/node was copied");
		pg_make_name(nodes->name);
	}
}

static void begin_keeping(struct pg *pg)
{
	struct pg_nodes *nodes = pg->nodes;
	nodes->kept = (struct pg_lease){.is_in = nodes->is_in, .status = -EIO};
	strcpy(nodes->kept.owner, nodes->owner);
	nodes->is_keeping = true;
	pg->store->jobs++;
	worker_start(nodes->keeper);
}

/* --- rounds: taking over free sessions --- */

struct pg_round {
	uv_work_t work;
	struct pg *pg;
	char owner[PG_OWNER_SIZE];
	bool may_take;
	int64_t *unsure;
	size_t unsure_count;
	int status;
	struct pg_taken taken;
};

static void round_work(uv_work_t *work)
{
	struct pg_round *round = work->data;
	struct pg *pg = round->pg;
	struct pg_conn conn;
	round->status = -EAGAIN;
	if (!pg_reader_take(pg, &conn)) {
		return;
	}
	if (check_place(pg, &conn) == 0 && round->may_take &&
		server_may(pg->store->life, MAY_TAKE)) {
		const struct pg_wish wish = {.owner = round->owner,
			.most = ROUND_MOST,
			.again = round->unsure,
			.again_count = round->unsure_count};
		round->status = pg_take(&conn, &wish, &round->taken, NULL);
	}
	pg_reader_give(pg, &conn);
}

static void round_done(uv_work_t *work, int status)
{
	struct pg_round *round = work->data;
	struct pg *pg = round->pg;
	int count = PQntuples(round->taken.sessions);
	pg->store->jobs--;
	pg->nodes->is_taking = false;
	pg_place_start_over(pg);
	int r = pg_nodes_land(pg, round->owner, round->status, &round->taken);
	if (r == 0 && count) {
		diag(DIAG_INFO, "took over %d sessions that no node had", count);
	}
	if (r == 0 && count == ROUND_MOST) {
		begin_round(pg); /* there may be more */
	}
	free(round->unsure);
	free(round);
}

static void begin_round(struct pg *pg)
{
	struct pg_nodes *nodes = pg->nodes;
	if (nodes->is_taking) {
		return;
	}
	struct pg_round *round = xcalloc(1, sizeof(*round));
	round->work.data = round;
	round->pg = pg;
	round->may_take = nodes->address && pg_nodes_may_take(pg);
	strcpy(round->owner, nodes->owner);
	round->unsure = pg_nodes_copy_unsure(nodes, &round->unsure_count);
	nodes->is_taking = true;
	pg->store->jobs++;
	uv_queue_work(pg->store->loop, &round->work, round_work, round_done);
}

static void handle_timer(uv_timer_t *timer)
{
	struct pg *pg = timer->data;
	struct pg_nodes *nodes = pg->nodes;
	if (!server_may(pg->store->life, MAY_LEASE)) {
		return;
	}
	if (!pg_nodes_has_lease(pg)) {
		let_go(pg, "the lease could not be renewed in time");
	}
	if (!nodes->is_keeping) {
		begin_keeping(pg);
	}
	if (nodes->is_in) {
		begin_round(pg);
	}
}

void pg_nodes_begin(struct pg *pg)
{
	int64_t ms = lease_ms(pg) / (pg->nodes->address ? 10 : 3);
	uv_timer_start(pg->nodes->timer, handle_timer, (uint64_t)ms, (uint64_t)ms);
}
