/*
 * Limits the memory kept for peers that do not read, over all connections. When it is used up, the
 * connections that have made no progress for longest are cut off, so that readers do not pay for
 * them. They get no error, which would have to wait behind the rest; clients reconnect and resume.
 */
#include "server/net_internal.h"

/** Bytes kept for this connection alone. */
static size_t kept_for(const struct conn *conn)
{
	if (conn->is_dead) {
		return 0;
	}
	size_t size = conn->sock.kept;
	if (conn->ws) {
		size += conn->ws->gathered.len + conn->ws->outbox_size;
	}
	if (conn->ws && conn->ws->observer) {
		size += observer_kept(conn->ws->observer);
	}
	return conn->ops && conn->ops->kept ? size + conn->ops->kept(conn) : size;
}

static void count(struct conn *conn)
{
	struct server *server = conn->server;
	size_t size = kept_for(conn);
	server->sending += size;
	server->sending -= conn->sending_counted;
	conn->sending_counted = size;
	if (!size) {
		list_remove(&conn->behind_link);
	} else if (list_empty(&conn->behind_link)) {
		conn->behind_taken = sock_taken(&conn->sock);
		list_append(&server->behind, &conn->behind_link);
	}
}

static void cut_off(struct conn *conn)
{
	metrics_limit(conn->server->metrics, LIMIT_send_size);
	conn_kill(conn);
	count(conn);
}

/** Whether it has taken something since the last check; if so, moves it to the end of the list. */
static bool has_taken(struct conn *conn)
{
	uint64_t before = conn->behind_taken;
	conn->behind_taken = sock_taken(&conn->sock);
	if (conn->behind_taken == before) {
		return false;
	}
	list_remove(&conn->behind_link);
	list_append(&conn->server->behind, &conn->behind_link);
	return true;
}

/** The connection with most bytes kept, for when all make progress. */
static struct conn *find_furthest(struct server *server)
{
	struct conn *furthest = NULL;
	list_for_each(link, &server->behind) {
		struct conn *conn = list_entry(link, struct conn, behind_link);
		if (!furthest || conn->sending_counted > furthest->sending_counted) {
			furthest = conn;
		}
	}
	return furthest;
}

/** Frees a little more than needed, so that this does not run for every message. */
static void make_room(struct server *server)
{
	size_t most = server->limits->send_size - server->limits->send_size / 16;
	struct list rest;
	list_init(&rest);
	list_move_all(&rest, &server->behind);
	while (server->sending > most && !list_empty(&rest)) {
		struct conn *conn = list_entry(rest.next, struct conn, behind_link);
		if (!has_taken(conn)) {
			cut_off(conn);
		}
	}
	list_move_all(&rest, &server->behind);
	list_move_all(&server->behind, &rest);
	while (server->sending > most && !list_empty(&server->behind)) {
		cut_off(find_furthest(server));
	}
}

void sending_count(struct conn *conn)
{
	count(conn);
	if (conn->server->sending > conn->server->limits->send_size) {
		make_room(conn->server);
	}
}

void sending_forget(struct conn *conn)
{
	conn->is_dead = true;
	count(conn);
}
