/*
 * Limits on connections: in all, per client address, per session, and half open ones, whose peers
 * have not sent a request or token yet.
 */
#include "server/http_internal.h"

#include <stdlib.h>
#include <string.h>

/** A client's address (address_household()) and how many connections it has. */
struct household {
	struct address address;
	size_t connections;
};

/* --- per address --- */

static struct household *find(const struct server *server, const struct address *address)
{
	return hash_get(server->households, (const char *)address->bytes, sizeof(address->bytes));
}

static bool is_full(const struct server *server, const struct household *household)
{
	return household && household->connections >= server->limits->address_connections;
}

bool room_for_connection(struct server *server, int fd, const struct listen_kind *kind)
{
	struct address peer = peer_address(fd);
	struct address address = address_household(&peer);
	enum limit reached = LIMIT_NONE;
	if (server->conn_count + server->link_count >= server->conn_max) {
		reached = LIMIT_connections;
	} else if (!client_is_proxy(server, kind, &peer) &&
		   is_full(server, find(server, &address))) {
		reached = LIMIT_address_connections;
	}
	if (reached != LIMIT_NONE) {
		metrics_refused(server->metrics, limit_code(reached), reached);
	}
	return reached == LIMIT_NONE;
}

static void leave(struct conn *conn)
{
	struct household *household = conn->household;
	conn->household = NULL;
	if (household && --household->connections == 0) {
		hash_remove(conn->server->households, (const char *)household->address.bytes,
			sizeof(household->address.bytes));
		free(household);
	}
}

/** Counts the connection for its client's address. */
static void join(struct conn *conn)
{
	struct household *household = find(conn->server, &conn->client);
	if (!household) {
		household = xcalloc(1, sizeof(*household));
		household->address = conn->client;
		hash_put(conn->server->households, (const char *)household->address.bytes,
			sizeof(household->address.bytes), household);
	}
	household->connections++;
	conn->household = household;
}

void room_take(struct conn *conn)
{
	conn->client = address_household(&conn->peer);
	if (!client_is_proxy(conn->server, &conn->kind, &conn->peer)) {
		join(conn);
	}
	conn->server->conn_count++;
	room_note_half_open(conn);
}

bool room_for_client(struct conn *conn)
{
	struct household *household = find(conn->server, &conn->client);
	if (conn->household && household == conn->household) {
		return true;
	}
	if (is_full(conn->server, household)) {
		return false;
	}
	leave(conn);
	join(conn);
	return true;
}

void room_give_back(struct conn *conn)
{
	room_note_known(conn);
	conn->server->conn_count--;
	leave(conn);
}

/* --- half open --- */

/**
 * Beyond the limit the oldest half-open connection is closed: an honest client sends its request at
 * once.
 */
void room_note_half_open(struct conn *conn)
{
	struct server *server = conn->server;
	list_append(&server->half_open, &conn->half_open_link);
	if (++server->half_open_count <= server->limits->half_open) {
		return;
	}
	struct conn *oldest = list_entry(server->half_open.next, struct conn, half_open_link);
	static const char message[] = "too many connections have not sent a request or token";
	room_note_known(oldest);
	if (oldest->ws) {
		struct refusal refusal = {0};
		refuse_limit(&refusal, LIMIT_half_open, message);
		conn_send_refusal(oldest, &refusal);
		conn_close_refused(oldest, refusal.code);
	} else {
		http_end_unfinished(oldest, LIMIT_half_open, message);
	}
}

void room_note_known(struct conn *conn)
{
	if (!list_empty(&conn->half_open_link)) {
		list_remove(&conn->half_open_link);
		conn->server->half_open_count--;
	}
}

/* --- per session --- */

bool room_in_session(const struct server *server, const struct session *session)
{
	return session_count_holds(session) < server->limits->session_connections;
}

bool ws_room_in_session(struct conn *conn, const struct session *session)
{
	struct refusal refusal = {0};
	if (room_in_session(conn->server, session)) {
		return true;
	}
	refuse_limit(&refusal, LIMIT_session_connections,
		"too many connections are about this session; try again later");
	conn_send_refusal(conn, &refusal);
	conn_close_refused(conn, refusal.code);
	return false;
}
