/*
 * Refusals that depend on the session's state are sent only when that state is durable: clients
 * rely on them, and many are final, but if a write fails, the state is rolled back.
 */
#include "server/http_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum storage_kind conn_storage(const struct conn *conn)
{
	return session_table_storage(conn->server->sessions);
}

/** Makes a refusal with storage_failed; `status` is that of a durable_wait. */
static struct refusal failed(const struct conn *conn, int status)
{
	struct refusal refusal = {.detail.is_in_doubt = status == DURABLE_IN_DOUBT};
	refuse_storage(&refusal, conn_storage(conn),
		refusal.detail.is_in_doubt ? STORAGE_IN_DOUBT : STORAGE_WRITE);
	return refusal;
}

void conn_refuse_storage(
	struct conn *conn, const char *request, enum error_about about, const char *id, int status)
{
	struct refusal refusal = failed(conn, status);
	strcpy(refusal.request, request);
	refusal.detail.about = about;
	refusal.detail.id = id;
	conn_send_refusal(conn, &refusal);
}

void http_refuse_failed(struct conn *conn, int status)
{
	struct refusal refusal = failed(conn, status);
	http_refuse_event(conn, &refusal);
}

/** Keeps a refusal until the session's newest input is durable; `answer` sends it then. */
static void keep(struct conn *conn, struct session *session, const struct refusal *refusal,
	void (*answer)(struct conn_wait *wait, int status))
{
	struct conn_wait *wait = conn_wait_create(conn, session, answer);
	wait->is_ordered = refusal->detail.about == ABOUT_APPEND;
	wait->text = refusal->detail.id ? xstrdup(refusal->detail.id) : NULL;
	wait->refusal = xmalloc(sizeof(*refusal));
	*wait->refusal = *refusal;
	wait->refusal->detail.id = wait->text;
}

static void answer_socket(struct conn_wait *wait, int status)
{
	struct conn *conn = wait->conn;
	const struct refusal *refusal = wait->refusal;
	if (!conn->session) {
		return; /* the session was deleted meanwhile, and session_gone has been sent */
	}
	if (status < 0) {
		conn_refuse_storage(
			conn, refusal->request, refusal->detail.about, wait->text, -EIO);
	} else {
		conn_send_refusal(conn, refusal);
	}
}

void conn_refuse_later(struct conn *conn, const struct refusal *refusal)
{
	if (!conn->session || refusal->code == ERROR_storage_failed) {
		conn_send_refusal(conn, refusal);
	} else {
		keep(conn, conn->session, refusal, answer_socket);
	}
}

static void answer_http(struct conn_wait *wait, int status)
{
	if (status < 0) {
		http_refuse_failed(wait->conn, -EIO);
	} else {
		http_refuse_event(wait->conn, wait->refusal);
	}
}

void http_refuse_later(struct conn *conn, struct session *session, const struct refusal *refusal)
{
	if (!session || refusal->code == ERROR_storage_failed) {
		http_refuse_event(conn, refusal);
	} else {
		keep(conn, session, refusal, answer_http);
	}
}
