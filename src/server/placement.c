#include "placement_internal.h"

#include "server/http_internal.h"

#include <string.h>

/* --- the server --- */

void placement_create(struct server *server, const struct placement_ops *ops)
{
	server->placement = ops ? ops->create(server) : NULL;
}

void placement_destroy(struct server *server)
{
	struct placement *placement = server->placement;
	if (placement) {
		placement->ops->destroy(placement);
		server->placement = NULL;
	}
}

void placement_sweep(struct server *server)
{
	if (server->placement) {
		server->placement->ops->sweep(server->placement);
	}
}

void placement_begin_end_tick(struct server *server)
{
	if (server->placement) {
		server->placement->ops->begin_end_tick(server->placement);
	}
}

void placement_end_tick(struct server *server)
{
	if (server->placement) {
		server->placement->ops->end_tick(server->placement);
	}
}

/* --- requests --- */

static const struct placement_ops *ops_of(const struct conn *conn)
{
	return conn->server->placement ? conn->server->placement->ops : NULL;
}

/* Only a server with a placement has listeners for other nodes (conn.kind.is_node). */

bool placement_admit(struct conn *conn)
{
	return ops_of(conn)->admit(conn);
}

enum denial placement_check_token(struct conn *conn, const char *token)
{
	return ops_of(conn)->check_token(conn, token);
}

size_t placement_head_more(const struct conn *conn)
{
	return conn->kind.is_node ? ops_of(conn)->head_more : 0;
}

bool placement_may_be_elsewhere(const struct conn *conn, const char *id, size_t len)
{
	struct session_table *sessions = conn->server->sessions;
	return conn->server->placement && !session_table_get(sessions, id, len) &&
	       session_table_absence(sessions, id, len) == STORE_PRESENT;
}

bool placement_seek(struct conn *conn)
{
	return ops_of(conn) && ops_of(conn)->seek(conn);
}

bool placement_seek_new(struct conn *conn, const char *id)
{
	return ops_of(conn) && ops_of(conn)->seek_new(conn, id);
}

bool placement_seek_socket(struct conn *conn)
{
	return ops_of(conn) && ops_of(conn)->seek_socket(conn);
}

const struct placement_sockets *placement_sockets(const struct conn *conn)
{
	return ops_of(conn) ? ops_of(conn)->sockets : NULL;
}

/* --- sessions of other nodes that are watched here --- */

struct channel *placement_channel(const struct conn *conn)
{
	return ops_of(conn) ? ops_of(conn)->channel(conn) : NULL;
}

void placement_join(struct conn *conn)
{
	if (ops_of(conn)) {
		ops_of(conn)->join(conn);
	}
}

void placement_leave(struct conn *conn, bool is_known)
{
	if (ops_of(conn)) {
		ops_of(conn)->leave(conn, is_known);
	}
}

const struct conn_ops *placement_stream_ops(const struct conn *conn)
{
	return conn->placed ? ops_of(conn)->stream_ops : NULL;
}
