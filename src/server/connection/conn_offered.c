/* What those who serve a connection may read and set of it (connection.h, websocket.h). */
#include "server/net_internal.h"

struct server *conn_server(const struct conn *conn)
{
	return conn->server;
}

uv_loop_t *conn_loop(const struct conn *conn)
{
	return conn->server->loop;
}

const struct limits *conn_limits(const struct conn *conn)
{
	return conn->server->limits;
}

const struct clock *conn_clock(const struct conn *conn)
{
	return conn->server->clock;
}

const struct server_life *conn_life(const struct conn *conn)
{
	return conn->server->life;
}

struct session_table *conn_sessions(const struct conn *conn)
{
	return conn->server->sessions;
}

struct agent_host *conn_agents(const struct conn *conn)
{
	return conn->server->agents;
}

struct access *conn_access(const struct conn *conn)
{
	return conn->server->access;
}

struct metrics *conn_metrics(const struct conn *conn)
{
	return conn->server->metrics;
}

const struct grant *conn_grant(const struct conn *conn)
{
	return conn->grant;
}

bool conn_is_node(const struct conn *conn)
{
	return conn->kind.is_node;
}

bool conn_is_https(const struct conn *conn)
{
	return conn->is_https;
}

struct session *conn_session(const struct conn *conn)
{
	return conn->session;
}

const char *conn_session_id(const struct conn *conn)
{
	return conn->session_id;
}

void *conn_state(const struct conn *conn)
{
	return conn->state;
}

void conn_set_state(struct conn *conn, void *state)
{
	conn->state = state;
}

bool conn_is_dead(const struct conn *conn)
{
	return conn->is_dead;
}

bool conn_is_closing(const struct conn *conn)
{
	return conn->is_closing;
}

bool conn_is_stream(const struct conn *conn)
{
	return conn->sse != NULL;
}

bool conn_is_parked(const struct conn *conn)
{
	return conn->is_parked;
}

void conn_hold(struct conn *conn)
{
	conn->is_parked = true;
	conn_update_flow(conn);
}

void conn_unhold(struct conn *conn)
{
	conn->is_parked = false;
	conn_resume(conn);
}

void conn_want_writable(struct conn *conn)
{
	sock_want_writable(&conn->sock);
}

bool conn_is_choked(struct conn *conn)
{
	return sock_is_choked(&conn->sock);
}

size_t conn_kept(const struct conn *conn)
{
	return conn->sock.kept;
}

const char *conn_client_id(const struct conn *conn)
{
	return conn->ws->client_id;
}

struct observer *conn_observer(const struct conn *conn)
{
	return conn->ws->observer;
}

void conn_set_observer(struct conn *conn, struct observer *observer)
{
	conn->ws->observer = observer;
}
